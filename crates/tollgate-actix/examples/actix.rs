//! A server whose workers share one limit, and a client that asks for more than it may.
//!
//! ```sh
//! cargo run -p tollgate-actix --example actix
//! ```

use std::error::Error;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use actix_web::web::ReqData;
use actix_web::{App, HttpServer, Responder, rt, web};
use tollgate::{Decision, Memory};
use tollgate_actix::{Gate, RateLimit};
use tollgate_http::{Chooser, Settle, SettleBy};

async fn hello(decision: ReqData<Decision>) -> String {
    format!("hello, {} more", decision.remaining())
}

#[actix_web::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // The store is created outside the factory, so that all workers count together.
    let store = Memory::new();
    let limits = Chooser::one(store.limiter("3/minute name=default")?)
        .on("*", "/export", store.limiter("100/hour name=kibibytes")?)?
        .unlimited("GET", "/health")?;
    let gate = Gate::from_chooser(limits)
        .settle(SettleBy::body(|response| {
            // A header says which requests are paid for by their size.
            let by_size = response.line("x-by-size").is_some();
            if by_size { Settle::Cost(response.bytes.div_ceil(1024)) } else { Settle::AsCharged }
        }))
        .problem_json();

    let server = HttpServer::new(move || {
        let export =
            || async { "x".repeat(40 * 1024).customize().insert_header(("x-by-size", "1")) };
        App::new()
            .wrap(RateLimit::from_gate(gate.clone()))
            .route("/", web::get().to(hello))
            .route("/export", web::get().to(export))
            .route("/health", web::get().to(|| async { "fine" }))
    });
    let server = server.workers(2).bind(("127.0.0.1", 0))?;
    let address = server.addrs()[0];
    let server = server.disable_signals().run();
    let handle = server.handle();

    let client = rt::task::spawn_blocking(move || client(address));
    let stop = async move {
        let asked = client.await;
        handle.stop(true).await;
        asked
    };
    let (served, asked) = tokio::join!(server, stop);
    served?;
    Ok(asked??)
}

fn client(to: SocketAddr) -> std::io::Result<()> {
    for path in ["/", "/", "/", "/", "/export", "/export", "/export", "/export", "/health"] {
        let mut stream = TcpStream::connect(to)?;
        write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        println!("GET {path}");
        let told = ["HTTP/1.1", "ratelimit", "retry-after"];
        for line in head.lines().filter(|line| told.iter().any(|start| line.starts_with(start))) {
            println!("    {line}");
        }
        println!("    {}", if body.len() > 300 { "(a long body)" } else { body.trim_end() });
    }
    Ok(())
}
