//! Servers that are not running, or reject the login.

use tollgate::ErrorKind;
use tollgate_memcached::Memcached;
use tollgate_testservers::free_port;

use crate::client::{LONG, admitted, limiter, patient, run};
use crate::server::Server;

#[test]
fn without_a_server_connect_fails_and_connect_later_waits_for_it() {
    run(async {
        let port = free_port();
        let url = format!("memcached://127.0.0.1:{port}");
        let error = Memcached::connect(&url[..]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        let store = Memcached::builder(url).connect_later().unwrap();
        let limiter = limiter(&store, "1/hour");
        let error = limiter.within(LONG).hit("key").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    });
}

#[test]
fn a_login_is_required_and_accepted() {
    run(async {
        let server = Server::start_with_users("alice:p@ss\n");
        let port = server.port;
        let right = format!("memcached://alice:p%40ss@127.0.0.1:{port}");
        let limiter = limiter(&patient(right).await, "2/hour");
        assert_eq!(admitted(&limiter, "key", 4).await, 2);
        limiter.clear().await.unwrap();
        assert_eq!(admitted(&limiter, "key", 4).await, 2);
        for wrong in [
            format!("memcached://alice:wrong@127.0.0.1:{port}"),
            format!("memcached://127.0.0.1:{port}"),
        ] {
            let error = Memcached::connect(wrong).await.unwrap_err();
            assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Store, false), "{error}");
            assert!(error.to_string().contains("authenticat"), "{error}");
            assert!(!error.to_string().contains("wrong"), "{error}");
        }
    });
}

#[test]
fn a_server_without_versions_is_refused() {
    run(async {
        let server = Server::start(&["-C"]);
        let error = Memcached::connect(server.url()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Store);
        assert!(error.to_string().contains("-C"), "{error}");
    });
}

#[test]
fn a_unix_socket_works() {
    run(async {
        let (_server, socket) = Server::start_with_socket();
        let store = patient(format!("unix://{}", socket.display())).await;
        let limiter = limiter(&store, "3/hour");
        assert_eq!(admitted(&limiter, "key", 5).await, 3);
        limiter.clear().await.unwrap();
        assert_eq!(admitted(&limiter, "key", 5).await, 3);
    });
}
