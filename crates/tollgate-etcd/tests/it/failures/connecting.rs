//! Errors of connecting come immediately, are clear, and contain no secrets.

use std::time::Duration;

use tollgate::{Error, ErrorKind};
use tollgate_etcd::{Etcd, EtcdBuilder};

use crate::client::{LONG, Rules, admitted, answers, hasty_guard, in_time, limiter, run};
use crate::servers::{Certificates, Member, free_port};

const SECRET: &str = "s3cr3t-w0rd";

async fn refused(builder: EtcdBuilder) -> Error {
    assert!(!format!("{builder:?}").contains(SECRET), "{builder:?}");
    let error = in_time(builder.connect()).await.map(|_| ()).unwrap_err();
    for text in [error.to_string(), format!("{error:?}")] {
        assert!(!text.contains(SECRET), "{text}");
    }
    error
}

#[test]
fn a_wrong_or_missing_login_is_a_permanent_error() {
    run(async {
        let member = Member::start_with_users(&[]);
        member.ctl(&["user", "add", "bob:bob"]);
        let at = member.address();
        for (login, says) in [
            (format!("alice:{SECRET}@"), "authentication failed"),
            (format!("nobody:{SECRET}@"), "authentication failed"),
            (String::new(), "user name is empty"),
            // A user who may log in but not read the keys.
            ("bob:bob@".to_owned(), "permission denied"),
        ] {
            let error = refused(Etcd::builder(format!("etcd://{login}{at}"))).await;
            assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Store, false), "{error}");
            assert!(error.to_string().contains(says), "{error}");
            assert!(error.to_string().contains(&at), "{error}");
        }
        // Later calls get the same error, where no caller waited for the connection.
        let url = format!("etcd://alice:{SECRET}@{at}");
        let store = Etcd::builder(url).guard(hasty_guard()).connect_later().unwrap();
        Rules::on(&store).hold_without_the_store("key").await;
        let error = limiter(&store, "1/hour").within(LONG).hit("key").await.unwrap_err();
        assert!(!format!("{error} {error:?} {store:?}").contains(SECRET), "{error}");
        let error = refused(Etcd::builder(format!("etcd://alice:open%20sesame@{at}")).prefix("x"));
        assert!(error.await.to_string().contains("permission denied"));
    });
}

#[test]
fn an_unneeded_login_is_reported() {
    run(async {
        let member = Member::start(&[]);
        let url = format!("etcd://alice:{SECRET}@{}", member.address());
        let error = refused(Etcd::builder(url)).await;
        assert!(error.to_string().contains("authentication is not enabled"), "{error}");
        assert!(!error.is_transient(), "{error}");
    });
}

#[test]
fn without_a_member_connecting_fails_in_time_and_works_later_by_itself() {
    run(async {
        let (nobody, nobody_too) = (free_port(), free_port());
        let url = format!("etcd://127.0.0.1:{nobody},127.0.0.1:{nobody_too}");
        let error = refused(Etcd::builder(url)).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains(&nobody_too.to_string()), "{error}");

        // A server that accepts connections and never responds.
        let mut member = Member::start(&[]);
        member.freeze();
        let silent = Etcd::builder(member.url()).connect_timeout(Duration::from_millis(300));
        let error = refused(silent).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        member.thaw();

        // The first of two members never answers.
        let url = format!("etcd://127.0.0.1:{nobody},{}", member.address());
        member.kill();
        let store = Etcd::builder(url).guard(hasty_guard()).connect_later().unwrap();
        Rules::on(&store).hold_without_the_store("away").await;
        member.restart();
        let limited = limiter(&store, "3/365 days");
        answers(&limited, "key").await;
        assert_eq!(admitted(&limited, "key", 5).await, 3);
    });
}

#[test]
fn invalid_addresses_are_refused_before_anything_is_sent() {
    run(async {
        for url in [format!("redis://x:{SECRET}@a"), format!("etcd://x:{SECRET}@a?what")] {
            let error = refused(Etcd::builder(url)).await;
            assert_eq!(error.kind(), ErrorKind::Request, "{error}");
        }
    });
    // Connecting without a runtime is an error too.
    let error = Etcd::builder("etcd://a").connect_later().unwrap_err();
    assert!(error.to_string().contains("tokio runtime"), "{error}");
}

#[test]
fn tls_without_mutual_trust_does_not_connect() {
    run(async {
        let (certificates, others) = (Certificates::new(), Certificates::new());
        let member = Member::start_tls(&certificates);
        let read =
            |certificates: &Certificates, name| std::fs::read(certificates.file(name)).unwrap();
        let builder = |url: String| Etcd::builder(url).connect_timeout(Duration::from_millis(500));
        let trusting = |certificates: &Certificates| {
            builder(member.url()).root_certificates(read(certificates, "ca.crt"))
        };
        let showing = |builder: EtcdBuilder, certificates: &Certificates| {
            builder.client_certificate(
                read(certificates, "client.crt"),
                read(certificates, "client.key"),
            )
        };
        for wrong in [
            builder(format!("etcd://{}", member.address())),
            builder(member.url()),
            trusting(&certificates),
            showing(trusting(&others), &certificates),
            showing(trusting(&certificates), &others),
        ] {
            let error = refused(wrong).await;
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        }
        let tls = builder(format!("etcd://{}?tls", member.address())).connect_timeout(LONG);
        let tls = showing(tls.root_certificates(read(&certificates, "ca.crt")), &certificates);
        let store = tls.connect().await.unwrap();
        assert_eq!(admitted(&limiter(&store, "1/hour"), "key", 2).await, 1);
        // An invalid certificate is reported before anything is sent.
        let nonsense = builder(member.url()).root_certificates("nonsense");
        let nonsense = showing(nonsense, &certificates).client_certificate("nonsense", "nonsense");
        let error = refused(nonsense).await;
        assert_eq!(error.kind(), ErrorKind::Request, "{error}");
    });
}
