//! Servers whose memory is full.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tollgate::algorithm::{AnyState, moving_window};
use tollgate::{ErrorKind, Timestamp};
use tollgate_memcached::Memcached;
use tracing::span;

use crate::client::{eventually, fails_by_the_store, key_of, limiter, patient, run};
use crate::server::Server;

/// Stores large items until no more fit.
fn fill(server: &Server) {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    let value = vec![b'x'; 100_000];
    for n in 0..60 {
        stream.write_all(format!("set filler{n} 0 0 {}\r\n", value.len()).as_bytes()).unwrap();
        stream.write_all(&value).unwrap();
        stream.write_all(b"\r\n").unwrap();
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).unwrap();
    }
}

#[test]
fn without_memory_it_is_an_error_and_no_decision() {
    run(async {
        let server = Server::start(&["-M", "-m", "2"]);
        fill(&server);
        let store = patient(server.url()).await;
        let limiter = limiter(&store, "5/hour");
        let mut error = None;
        for n in 0..300_u32 {
            let keys: Vec<_> = (0..100).map(|k| (n, k)).collect();
            error = limiter.hit_each(&keys).await.err();
            if error.is_some() {
                break;
            }
        }
        let error = error.expect("it takes no end of keys");
        assert!(error.to_string().contains("out of memory"), "{error}");
        let error = fails_by_the_store(limiter.hit("one more").await);
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_eq!(limiter.usage("one more").await.unwrap(), 0, "reading needs no memory");
    });
}

/// A server with a lower bound on item sizes crashes, so the test writes a log that is nearly as
/// long as an item can be.
#[test]
fn a_log_that_grows_too_large_is_an_error_and_its_entries_stay() {
    const LIMIT: &str = "1000000/hour moving-window";
    const ITEM: usize = 1 << 20;
    let start = Timestamp::from_micros(1_790_000_000_000_000);
    let after = |n: u64| start + Duration::from_millis(n);
    run(async {
        let server = Server::start(&[]);
        let store = patient(server.url()).await;
        let limiter = limiter(&store, LIMIT);
        let name = key_of(&store, LIMIT, "key");
        // Three bytes for each entry.
        let most = ITEM - 128 - name.len() - 4;
        let logged = (most as u64 - 18) / 3;
        let log =
            moving_window::MovingWindowState::from_entries((0..logged).map(|n| (after(n), 1)));
        let mut value = [&[1], &start.as_micros().to_be_bytes()[..]].concat();
        AnyState::MovingWindow(log).to_bytes(&mut value);
        let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        stream.write_all(format!("ms {name} {} T900\r\n", value.len()).as_bytes()).unwrap();
        stream.write_all(&[&value[..], b"\r\n"].concat()).unwrap();
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).unwrap();
        assert_eq!(line, "HD\r\n");
        let (mut passed, mut error) = (0, None);
        while error.is_none() && passed < 20 {
            match limiter.at(after(logged + passed)).hit("key").await {
                Ok(_) => passed += 1,
                Err(refused) => error = Some(refused),
            }
        }
        let error = error.expect("it grows without end");
        assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Store, false));
        assert!(error.to_string().contains("items up to 1048576; it takes larger ones with -I"));
        let later = limiter.at(after(logged + 20));
        assert_eq!(later.usage("key").await.unwrap(), logged + passed, "it is still there");
        assert!(later.hit("other key").await.unwrap().allowed(), "others are not concerned");
    });
}

/// Counts warnings about evictions.
struct Warnings(&'static AtomicUsize);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        if text.0.contains("evicted") {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

struct Text(String);

impl tracing::field::Visit for Text {
    fn record_debug(&mut self, _: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        self.0.push_str(&format!("{value:?} "));
    }
}

#[test]
fn evictions_of_a_server_are_logged_once() {
    static WARNED: AtomicUsize = AtomicUsize::new(0);
    let mut server = Server::start(&["-m", "2"]);
    fill(&server);
    assert!(server.stat("evictions") > 0, "more was put there than it holds");
    // The runtime uses this thread, so that its log subscriber sees the warnings.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _logged = tracing::subscriber::set_default(Warnings(&WARNED));
    runtime.block_on(async {
        let store = Memcached::connect(server.url()).await.unwrap();
        eventually("a warning", || async { WARNED.load(Ordering::SeqCst) > 0 }).await;
        server.restart();
        fill(&server);
        let limiter = limiter(&store, "5/hour");
        crate::client::answers(&limiter, "key").await;
        assert_eq!(WARNED.load(Ordering::SeqCst), 1);
    });
}
