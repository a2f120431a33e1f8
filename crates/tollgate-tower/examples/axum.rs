//! An API with plans: the accounts of customers, with their keys and plans, are in a database, here
//! one in memory. Requests without a known key are limited by address.
//!
//! ```sh
//! cargo run -p tollgate-tower --features axum --example axum
//! ```
//!
//! It serves on a free port, sends itself some requests, prints the responses, and ends.

use std::collections::HashMap;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::routing::get;
use axum::{Extension, Router};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::net::TcpListener;
use tollgate::{Limiter, Memory};
use tollgate_tower::{Around, Caller, Chooser, Decided, Gate, RateLimitLayer};

#[derive(Clone)]
struct Account {
    name: &'static str,
    plan: &'static str,
}

/// The accounts by API key. With a real database, cache the results for a while, also for unknown
/// keys.
#[derive(Clone, Default)]
struct Database {
    accounts: Arc<Mutex<HashMap<Vec<u8>, Account>>>,
}

impl Database {
    async fn account_of(&self, api_key: &[u8]) -> Option<Account> {
        tokio::task::yield_now().await; // a round trip to the database
        let accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        accounts.get(api_key).cloned()
    }

    fn set(&self, api_key: &str, name: &'static str, plan: &'static str) {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        accounts.insert(api_key.into(), Account { name, plan });
    }
}

fn app(database: Database) -> Result<Around<Limiter<Memory>>, Box<dyn Error>> {
    let store = Memory::new();
    // The plans have one name, so an account that upgrades keeps its count.
    let free = store.limiter("3/minute fixed-window-per-key name=api")?;
    let paid = store.limiter("1000/minute fixed-window-per-key name=api")?;

    // An API key from a request is never the key of a limit: an invented one is not found, and its
    // requests count for their address.
    let gate = Gate::from_chooser(Chooser::one(free).unlimited("GET", "/health")?).callers(
        (database, paid),
        |state, head| {
            let api_key = head.line("x-api-key").map(<[u8]>::to_vec);
            async move {
                let (database, paid) = &*state;
                let account = database.account_of(&api_key?).await?;
                let caller = Caller::new(account.name);
                Some(match account.plan {
                    "staff" => caller.unlimited(),
                    "paid" => caller.limiter(paid.clone()),
                    _ => caller,
                })
            }
        },
    );

    let app = Router::new().route("/", get(hello)).route("/health", get(|| async { "well" }));
    Ok(RateLimitLayer::from_gate(gate.problem_json()).tell_handlers().around(app))
}

/// Handlers can see the decision, because the layer was asked to tell them. A request without a
/// limit has none.
async fn hello(decided: Option<Extension<Decided>>) -> String {
    match decided {
        Some(Extension(decided)) => format!("hello, {} requests left", decided.remaining()),
        None => "hello, no limit".to_owned(),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let database = Database::default();
    database.set("key-of-smith", "smith", "free");
    database.set("key-of-acme", "acme", "paid");
    database.set("our-own-key", "ourselves", "staff");

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let server = listener.local_addr()?;
    let app = app(database.clone())?;
    tokio::spawn(async move { axum::serve(listener, app).await });

    for api_key in ["key-of-smith", "key-of-acme", "our-own-key"] {
        for _ in 0..4 {
            show(server, api_key).await?;
        }
    }
    println!("smith buys the paid plan");
    database.set("key-of-smith", "smith", "paid");
    show(server, "key-of-smith").await?;

    println!("somebody invents keys");
    for number in 1..=4 {
        show(server, &format!("invented-{number}")).await?;
    }
    Ok(())
}

async fn show(server: SocketAddr, api_key: &str) -> Result<(), Box<dyn Error>> {
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let request = Request::get(format!("http://{server}/")).header("x-api-key", api_key);
    let response = client.request(request.body(Empty::new())?).await?;
    let (head, body) = response.into_parts();
    let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    print!("{api_key:>12}  {}", head.status);
    for name in ["ratelimit", "retry-after"] {
        if let Some(value) = header(name) {
            print!("  {name}: {value}");
        }
    }
    let body = body.collect().await?.to_bytes();
    println!("  {}", String::from_utf8_lossy(&body));
    Ok(())
}
