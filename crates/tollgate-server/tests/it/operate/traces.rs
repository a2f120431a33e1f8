//! Traces as a collector receives them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::Mutex;

use super::*;

/// Keeps the traces that it receives.
struct Collector {
    address: SocketAddr,
    bodies: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Collector {
    fn start() -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let bodies = Arc::<Mutex<Vec<Vec<u8>>>>::default();
        let taken = Arc::clone(&bodies);
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let taken = Arc::clone(&taken);
                std::thread::spawn(move || take(&socket, &taken));
            }
        });
        Collector { address, bodies }
    }

    fn all(&self) -> Vec<u8> {
        self.bodies.lock().unwrap().concat()
    }
}

/// Answers the requests of one connection.
fn take(mut socket: &std::net::TcpStream, taken: &Mutex<Vec<Vec<u8>>>) {
    let mut reader = BufReader::new(socket);
    loop {
        let (mut length, mut line) = (0, String::new());
        while reader.read_line(&mut line).is_ok_and(|count| count > 2) {
            let lower = line.to_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            line.clear();
        }
        let mut body = vec![0; length];
        if length == 0 || reader.read_exact(&mut body).is_err() {
            return;
        }
        taken.lock().unwrap().push(body);
        let answer =
            "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
        if socket.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn contains(all: &[u8], part: &[u8]) -> bool {
    all.windows(part.len()).any(|window| window == part)
}

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const TRACE_BYTES: [u8; 16] = [
    0x4b, 0xf9, 0x2f, 0x35, 0x77, 0xb3, 0x4d, 0xa6, 0xa3, 0xce, 0x92, 0x9d, 0x0e, 0x0e, 0x47, 0x36,
];

async fn hit_as_part_of_a_trace(server: &Server, sampled: &str) {
    let io = connect(server.http, None).await.unwrap();
    let parent = format!("traceparent: 00-{TRACE}-00f067aa0ba902b7-{sampled}");
    let said = exchange(io, &format!("{HIT}{parent}\r\nconnection: close\r\n\r\n")).await.unwrap();
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
}

#[tokio::test]
async fn requests_are_spans_in_the_trace_of_the_caller() {
    let collector = Collector::start();
    let config = format!("[traces]\nendpoint = 'http://{}'\n", collector.address);
    let mut server = Server::told(&config);
    server.answers(None, None).await;
    assert!(!contains(&collector.all(), &TRACE_BYTES));
    hit_as_part_of_a_trace(&server, "01").await;
    server.process.signal("TERM");
    assert_eq!(server.code(), Some(0));
    let all = collector.all();
    assert!(contains(&all, &TRACE_BYTES), "the trace of the caller");
    assert_eq!(all.windows(7).filter(|window| window == b"/v1/hit").count(), 2);
    for part in ["ShouldRateLimit", "tollgate", "http.response.status_code", "CL.THROTTLE"] {
        assert!(contains(&all, part.as_bytes()), "{part}");
    }
    assert!(!contains(&all, b"somebody"), "a key is nobody else's business");
}

#[tokio::test]
async fn every_command_of_a_pipeline_is_a_span_with_a_known_name() {
    let collector = Collector::start();
    // The store does not answer, so commands wait together.
    let config = format!(
        "[traces]\nendpoint = 'http://{}'\n[store]\nurl = 'redis://127.0.0.1:{}/'\n",
        collector.address,
        free_port()
    );
    let mut server = Server::told(&config);
    let commands = "PING\r\nMADEUP somebody\r\nTG.HIT 5/minute somebody\r\nTG.PEEK 5/minute another\r\nTG.USAGE 5/minute somebody\r\nQUIT\r\n";
    let said = exchange(connect(server.resp, None).await.unwrap(), commands).await.unwrap();
    assert_eq!(said.matches("-STORE ").count(), 3, "{said}");
    server.process.signal("TERM");
    assert_eq!(server.code(), Some(0));
    let all = collector.all();
    for (name, count) in
        [("PING", 1), ("unknown", 1), ("TG.HIT", 1), ("TG.PEEK", 1), ("TG.USAGE", 1), ("QUIT", 1)]
    {
        let found = all.windows(name.len()).filter(|window| *window == name.as_bytes());
        assert_eq!(found.count(), count, "{name}");
    }
    let failed = b"the store did not answer";
    assert_eq!(all.windows(failed.len()).filter(|window| window == failed).count(), 3);
    assert!(!contains(&all, b"somebody") && !contains(&all, b"MADEUP"));
}

#[tokio::test]
async fn only_the_configured_share_is_traced_unless_the_caller_decides() {
    let collector = Collector::start();
    let mut server = Server::with("[traces]\nsample = 0.0\n", &[], |command| {
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}/", collector.address));
    });
    server.answers(None, None).await;
    hit_as_part_of_a_trace(&server, "00").await;
    hit_as_part_of_a_trace(&server, "01").await;
    server.process.signal("TERM");
    assert_eq!(server.code(), Some(0));
    let all = collector.all();
    assert_eq!(all.windows(7).filter(|window| window == b"/v1/hit").count(), 1);
    assert!(!contains(&all, b"ShouldRateLimit"));
}

#[tokio::test]
async fn a_missing_collector_delays_no_request() {
    let config = format!("[traces]\nendpoint = 'http://127.0.0.1:{}'\n", free_port());
    let mut server = Server::told(&config);
    server.answers(None, None).await;
    server.process.signal("TERM");
    assert_eq!(server.code(), Some(0));
}

#[test]
fn an_invalid_collector_address_is_refused() {
    let (code, _, error) = run(&["serve", "--traces", "grpc://127.0.0.1:4317"]);
    assert_eq!(code, Some(2));
    assert!(
        error.contains("grpc://127.0.0.1:4317") && error.contains("expected http://"),
        "{error}"
    );
}
