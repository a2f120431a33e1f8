//! A server whose memory is full and that evicts nothing.

use tollgate::{Algorithm, ErrorKind};

use crate::client::{
    LONG, Rules, admitted, answers, connect, eventually, hasty, hasty_guard, in_time, limiter, run,
};
use crate::servers::Server;

fn fill(server: &Server) {
    server.ok(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    server.ok(&["CONFIG", "SET", "maxmemory", "1"]);
}

#[test]
fn a_full_server_gives_errors_and_never_a_decision() {
    run(async {
        let server = Server::start(&[]);
        let store = hasty(server.url()).await;
        let limited = limiter(&store, "3/365 days");
        assert_eq!(admitted(&limited, "key", 1).await, 1);
        fill(&server);
        let error = in_time(limited.within(LONG).hit("new")).await.unwrap_err();
        assert_ne!(error.kind(), ErrorKind::Lost, "{error}");
        assert!(error.is_transient(), "{error}");
        Rules::on(&store).hold_without_the_store("away").await;
        server.ok(&["CONFIG", "SET", "maxmemory", "0"]);
        answers(&limited, "key").await;
        assert_eq!(admitted(&limited, "new", 5).await, 3);
        assert_eq!(admitted(&limited, "key", 5).await, 2);
    });
}

#[test]
fn a_check_detects_a_read_only_server() {
    run(async {
        let server = Server::start(&[]);
        let store = connect(server.url(), hasty_guard().deadline(LONG)).await;
        let limited = limiter(&store, "3/365 days");
        limited.check().await.unwrap();
        fill(&server);
        let error = limited.check().await.unwrap_err();
        assert!(error.to_string().contains("OOM"), "{error}");
        server.ok(&["CONFIG", "SET", "maxmemory", "0"]);
        eventually("there is room again", || async { limited.check().await.is_ok() }).await;
        // A replica without a primary: it answers PING, and rejects every write.
        server.ok(&["REPLICAOF", "127.0.0.1", "1"]);
        let error = limited.check().await.unwrap_err();
        assert!(error.to_string().contains("read only replica"), "{error}");
        server.ok(&["REPLICAOF", "NO", "ONE"]);
        eventually("it is a primary again", || async { limited.check().await.is_ok() }).await;
    });
}

#[test]
fn a_call_that_a_full_server_rejects_is_not_charged_in_part() {
    run(async {
        let server = Server::start(&[]);
        let guard = hasty_guard().deadline(LONG).open_after(1_000_000);
        let store = connect(server.url(), guard).await;
        for algorithm in Algorithm::PERIODIC {
            let texts: [String; 3] =
                std::array::from_fn(|n| format!("{}/365 days {algorithm}", n + 5));
            let policy = store.limiter(&texts.join("; ")[..]).unwrap();
            let limits = texts.each_ref().map(|text| limiter(&store, text));
            assert!(policy.hit("known").await.unwrap().allowed());
            fill(&server);
            for subject in ["known", "new"] {
                let error = policy.hit(subject).await.unwrap_err();
                assert_ne!(error.kind(), ErrorKind::Lost, "{error}");
                assert!(limits[0].hit_each(&[subject, "other"]).await.is_err());
            }
            // It can still report usage.
            for limited in &limits {
                assert_eq!(limited.usage("known").await.unwrap(), 1, "{algorithm}");
                assert_eq!(limited.usage("new").await.unwrap(), 0, "{algorithm}");
                assert_eq!(limited.usage("other").await.unwrap(), 0, "{algorithm}");
            }
            server.ok(&["CONFIG", "SET", "maxmemory", "0"]);
            eventually("there is room again", || async { policy.hit("known").await.is_ok() }).await;
        }
    });
}
