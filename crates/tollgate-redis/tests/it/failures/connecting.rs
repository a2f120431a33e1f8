//! Errors of connecting come immediately, are clear, and contain no secrets.

use std::time::Duration;

use tollgate::{Error, ErrorKind};
use tollgate_redis::{Redis, RedisBuilder};

use crate::client::{LONG, Rules, admitted, hasty_guard, in_time, limiter, run};
use crate::servers::{Certificates, Cluster, Server, free_port, start_tls};

const SECRET: &str = "s3cr3t-w0rd";

async fn refused(builder: RedisBuilder) -> Error {
    assert!(!format!("{builder:?}").contains(SECRET), "{builder:?}");
    let error = in_time(builder.connect()).await.map(|_| ()).unwrap_err();
    for text in [error.to_string(), format!("{error:?}")] {
        assert!(!text.contains(SECRET), "{text}");
    }
    error
}

#[test]
fn a_wrong_login_is_a_permanent_error() {
    run(async {
        let server = Server::start_for(
            &["--requirepass", "right"],
            &["--pass", "right", "--no-auth-warning"],
        );
        let at = format!("127.0.0.1:{}", server.port);
        for login in [format!(":{SECRET}@"), format!("bob:{SECRET}@"), String::new()] {
            let error = refused(Redis::builder(format!("redis://{login}{at}/"))).await;
            assert_eq!(error.kind(), ErrorKind::Store, "{error}");
            assert!(!error.is_transient(), "{error}");
            let text = error.to_string().to_lowercase();
            let says = text.contains("auth") || text.contains("password");
            assert!(says, "{error}");
            assert!(login.is_empty() || text.contains(&server.port.to_string()), "{error}");
        }
        // Later calls get the same error, where no caller waited for the connection.
        let url = format!("redis://:{SECRET}@{at}/");
        let store = Redis::builder(url).guard(hasty_guard()).connect_later().unwrap();
        Rules::on(&store).hold_without_the_store("key").await;
        let error = limiter(&store, "1/hour").within(LONG).hit("key").await.unwrap_err();
        assert!(!format!("{error} {error:?} {store:?}").contains(SECRET), "{error}");
        // The right one works.
        let store = Redis::connect(format!("redis://:right@{at}/")).await.unwrap();
        assert_eq!(admitted(&limiter(&store, "1/hour"), "key", 2).await, 1);
    });
}

#[test]
fn errors_of_cluster_and_sentinel_logins_hide_the_password() {
    run(async {
        let cluster = Cluster::start();
        let url = cluster.url().replace("://", &format!("://bob:{SECRET}@"));
        let error = refused(Redis::builder(url)).await;
        assert_eq!(error.kind(), ErrorKind::Store, "{error}");
        let sentinel = format!("redis+sentinel://bob:{SECRET}@127.0.0.1:{}/main", free_port());
        assert_eq!(refused(Redis::builder(sentinel)).await.kind(), ErrorKind::Unavailable);
    });
}

#[test]
fn a_user_without_the_right_to_a_key_gets_an_error() {
    run(async {
        let server = Server::start(&["--user", "bob", "on", ">pass", "~other:*", "+@all"]);
        let url = format!("redis://bob:pass@127.0.0.1:{}/", server.port);
        let store = Redis::connect(url).await.unwrap();
        let error = limiter(&store, "1/hour").within(LONG).hit("key").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Store, "{error}");
        assert!(error.to_string().to_lowercase().contains("noperm"), "{error}");
    });
}

#[test]
fn connecting_to_a_closed_port_fails_immediately() {
    run(async {
        let port = free_port();
        for scheme in ["redis", "rediss", "redis+cluster"] {
            let url = format!("{scheme}://user:{SECRET}@127.0.0.1:{port}");
            let error = refused(Redis::builder(url)).await;
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            assert!(error.to_string().contains(&port.to_string()), "{error}");
        }
        let error = refused(Redis::builder("unix:///nowhere/redis.sock")).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    });
}

#[test]
fn an_unknown_host_is_an_error_in_time() {
    run(async {
        for scheme in ["redis", "rediss", "redis+cluster"] {
            let url = format!("{scheme}://:{SECRET}@no-such-host.invalid:6379");
            let builder = Redis::builder(url).connect_timeout(Duration::from_secs(2));
            let error = refused(builder).await;
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            assert!(error.to_string().contains("no-such-host.invalid"), "{error}");
        }
    });
}

#[test]
fn a_silent_server_is_an_error_in_time() {
    run(async {
        let server = Server::start(&[]);
        server.freeze();
        let timeout = Duration::from_millis(200);
        let error = refused(Redis::builder(server.url()).connect_timeout(timeout)).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        server.thaw();
    });
}

#[test]
fn a_missing_database_is_an_error() {
    run(async {
        let server = Server::start(&[]);
        let error = refused(Redis::builder(format!("{}99", server.url()))).await;
        assert!(
            error.to_string().to_lowercase().contains("99") || error.to_string().contains("DB"),
            "{error}"
        );
    });
}

#[test]
fn errors_of_addresses_name_the_expected_form_and_no_password() {
    run(async {
        for url in [
            "127.0.0.1",
            "http://user:s3cr3t-w0rd@host",
            "redis+sentinel://user:s3cr3t-w0rd@host:1/",
            "redis+cluster://user:s3cr3t-w0rd@/",
            "redis://user:s3cr3t-w0rd@host:port/",
            "redis://user:s3cr3t-w0rd@host/database",
        ] {
            let error = refused(Redis::builder(url)).await;
            assert_eq!(error.kind(), ErrorKind::Request, "{url}: {error}");
            assert!(error.to_string().contains("redis://host:port"), "{url}: {error}");
        }
    });
}

#[test]
fn a_certificate_of_an_unknown_authority_is_refused() {
    run(async {
        let (certificates, others) = (Certificates::new(), Certificates::new());
        let (_server, url) = start_tls(&certificates, true);
        let read =
            |certificates: &Certificates, name| std::fs::read(certificates.file(name)).unwrap();
        let with = |roots: &Certificates| {
            Redis::builder(&url[..]).root_certificates(read(roots, "ca.crt"))
        };
        // A server of another authority, no client certificate, and a certificate that the server
        // does not trust.
        let client = |builder: RedisBuilder, of: &Certificates| {
            builder.client_certificate(read(of, "client.crt"), read(of, "client.key"))
        };
        let system = Redis::builder(&url[..]);
        for builder in [
            client(with(&others), &certificates),
            client(system, &certificates),
            with(&certificates),
            client(with(&certificates), &others),
        ] {
            let error = refused(builder).await;
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        }
        let store = client(with(&certificates), &certificates).connect().await.unwrap();
        assert_eq!(admitted(&limiter(&store, "1/hour"), "key", 2).await, 1);
    });
}

#[test]
fn invalid_certificates_are_an_error() {
    run(async {
        let builder = Redis::builder("rediss://127.0.0.1:1/");
        let error = refused(builder.root_certificates("not a certificate")).await;
        assert_ne!(error.kind(), ErrorKind::Lost, "{error}");
    });
}
