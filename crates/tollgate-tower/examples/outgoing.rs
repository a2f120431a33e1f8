//! A client that stays under its own limit, and obeys a server that asks for less.
//!
//! ```sh
//! cargo run -p tollgate-tower --example outgoing
//! ```
//!
//! The server is in this program too: it admits three requests per second. The client starts with
//! ten per second, and slows down when the server refuses.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Empty;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::net::TcpListener;
use tokio::time::Instant;
use tollgate::Memory;
use tollgate_tower::{Gate, KeyBy, PaceError, PaceLayer, RateLimitLayer};
use tower::{Layer, Service, ServiceExt};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = strict_server().await?;

    let limiter = Memory::new().limiter("10/second burst=1")?;
    let pace = PaceLayer::new(limiter).max_wait(Duration::from_secs(5));
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let mut client = pace.layer(client);

    let start = Instant::now();
    for number in 1..=8 {
        let request = Request::get(&url).body(Empty::new())?;
        let response = client.ready().await?.call(request).await?;
        let after = start.elapsed();
        println!("request {number} was answered {} after {after:.1?}", response.status());
        assert_eq!(response.status(), StatusCode::OK, "who waits as told is not refused");
    }

    // A client that must not wait gets an error immediately, and nothing is sent.
    let mut hasty = pace.max_wait(Duration::ZERO).layer(client);
    let request = Request::get(&url).body(Empty::new())?;
    match hasty.ready().await?.call(request).await {
        Err(PaceError::TooLong(Some(wait))) => println!("not sent: its turn is in {wait:.1?}"),
        other => println!("{:?}", other.map(|response| response.status())),
    }
    Ok(())
}

/// Three per second for all clients together. Its responses say when nothing is left.
async fn strict_server() -> Result<String, Box<dyn Error>> {
    let limiter = Memory::new().limiter("3/second fixed-window-per-key name=strict")?;
    let layer = RateLimitLayer::from_gate(Gate::new(limiter).key(KeyBy::everyone()));
    let app = axum::Router::new().fallback(|| async { "hello" }).layer(layer);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(url)
}
