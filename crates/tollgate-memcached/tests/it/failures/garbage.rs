//! Answers that are cut off, not valid, or belong to another request are never a decision.

use tollgate::ErrorKind;
use tollgate_memcached::Memcached;

use super::fake::{mark, start};
use crate::client::{fails_by_the_store, limiter, patient, run};

/// The results of a hit and a peek, each as the first on its connection, from a server that always
/// answers with `script`.
async fn ask(script: impl Fn(&str) -> (Vec<u8>, bool) + Send + Sync + 'static) -> [ErrorKind; 2] {
    let url = start(script);
    let (one, other) = (patient(&url[..]).await, patient(&url[..]).await);
    [
        fails_by_the_store(limiter(&one, "5/hour").hit("key").await).kind(),
        fails_by_the_store(limiter(&other, "5/hour").peek("key").await).kind(),
    ]
}

#[test]
fn a_connection_cut_during_a_reply_is_lost() {
    run(async {
        for cut in [&b""[..], b"H", b"VA 30 c5", b"VA 30 c5\r\nabc", b"HD c1 O"] {
            assert_eq!(ask(|_| (cut.to_vec(), true)).await, [ErrorKind::Lost; 2], "{cut:?}");
        }
    });
}

#[test]
fn garbage_is_a_lost_answer() {
    run(async {
        for garbage in [&b"HTTP/1.1 400 Bad Request\r\n"[..], b"\0\0\0\0\r\n", b"VA x\r\n"] {
            assert_eq!(ask(|_| (garbage.to_vec(), false)).await, [ErrorKind::Lost; 2]);
        }
    });
}

#[test]
fn an_answer_to_another_request_is_a_lost_answer() {
    run(async {
        let other = |_: &str| (b"HD c7 O4000000000\r\n".to_vec(), false);
        assert_eq!(ask(other).await, [ErrorKind::Lost; 2]);
    });
}

/// The server answers with the right token, but the answer does not fit the command.
#[test]
fn an_answer_that_does_not_fit_the_command_is_an_error() {
    run(async {
        let stored_without_version =
            |command: &str| (format!("HD {}\r\n", mark(command)).into_bytes(), false);
        assert_eq!(ask(stored_without_version).await, [ErrorKind::Store; 2]);
        let refused =
            |_: &str| (b"CLIENT_ERROR bad command line format\r\nERROR\r\n".to_vec(), false);
        assert_eq!(ask(refused).await, [ErrorKind::Store; 2]);
        let of_a_proxy = |_: &str| (b"SERVER_ERROR backend timeout\r\n".to_vec(), false);
        assert_eq!(ask(of_a_proxy).await, [ErrorKind::Lost; 2]);
        let no_memory =
            |_: &str| (b"SERVER_ERROR out of memory storing object\r\n".to_vec(), false);
        assert_eq!(ask(no_memory).await, [ErrorKind::Unavailable; 2]);
    });
}

#[test]
fn a_random_value_is_an_error_that_names_the_key() {
    run(async {
        let noise = |command: &str| {
            let answer = match command.starts_with("ms ") {
                true => format!("NS {}\r\n", mark(command)),
                false => format!("VA 5 c3 {}\r\nnoise\r\n", mark(command)),
            };
            (answer.into_bytes(), false)
        };
        let store = patient(start(noise)).await;
        let error = fails_by_the_store(limiter(&store, "5/hour").hit("some key").await);
        assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Store, false));
        assert!(error.to_string().contains("some%20key"), "{error}");
    });
}

#[test]
fn a_server_that_is_not_memcached_is_refused() {
    run(async {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                use std::io::Write as _;
                let mut stream = &stream;
                let _ = stream.write_all(b"-ERR unknown command 'stats'\r\n");
            }
        });
        let error = Memcached::connect(format!("memcached://127.0.0.1:{port}")).await.unwrap_err();
        assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Store, false), "{error}");
        assert!(error.to_string().contains("does not speak"), "{error}");
    });
}
