//! An API with plans: what a customer may do stands in a database, here one in memory.
//!
//! ```sh
//! cargo run -p tollgate-tower --features axum --example axum
//! ```
//!
//! It serves on a free port, makes some requests itself, shows what it gets, and ends.

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
use tollgate_tower::{Around, Chooser, Decided, Gate, KeyBy, RateLimitLayer};

/// Which customer has which plan. A real one is asked over a connection; keep what it says for a while.
#[derive(Clone, Default)]
struct Database {
    plans: Arc<Mutex<HashMap<Vec<u8>, &'static str>>>,
}

impl Database {
    async fn plan_of(&self, customer: &[u8]) -> &'static str {
        tokio::task::yield_now().await; // the way to the database and back
        let plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        plans.get(customer).copied().unwrap_or("free")
    }

    fn buy(&self, customer: &str, plan: &'static str) {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        plans.insert(customer.into(), plan);
    }
}

/// The plans, each with its limit. They have one name, so a customer who upgrades keeps what was counted so far.
struct Plans {
    free: Limiter<Memory>,
    paid: Limiter<Memory>,
}

fn app(database: Database) -> Result<Around<Limiter<Memory>>, tollgate::Error> {
    let store = Memory::new();
    let free = store.limiter("3/minute fixed-window-per-key name=api")?;
    let paid = store.limiter("1000/minute fixed-window-per-key name=api")?;
    let plans = Arc::new(Plans { free, paid });

    let by_plan = Chooser::plan(move |head| {
        let customer = head.line("x-api-key").unwrap_or_default().to_vec();
        let (database, plans) = (database.clone(), Arc::clone(&plans));
        async move {
            match database.plan_of(&customer).await {
                "staff" => None, // not limited
                "paid" => Some(plans.paid.clone()),
                _ => Some(plans.free.clone()),
            }
        }
    })
    .on(None, "/health", None);
    // By API key; who has none is limited by address.
    let gate = Gate::choosing(by_plan).key(KeyBy::api_key("x-api-key").or(KeyBy::default()));

    let app = Router::new().route("/", get(hello)).route("/health", get(|| async { "well" }));
    Ok(RateLimitLayer::of(gate.problem_json()).tell_handlers().around(app))
}

/// Handlers can see what was decided, because the layer was asked to tell them; for who is not limited nothing was.
async fn hello(decided: Option<Extension<Decided>>) -> String {
    match decided {
        Some(Extension(decided)) => format!("hello, {} requests left", decided.remaining()),
        None => "hello, no limit".to_owned(),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let database = Database::default();
    database.buy("acme", "paid");
    database.buy("ourselves", "staff");

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let server = listener.local_addr()?;
    let app = app(database.clone())?;
    tokio::spawn(async move { axum::serve(listener, app).await });

    for customer in ["somebody", "acme", "ourselves"] {
        for _ in 0..4 {
            show(server, customer).await?;
        }
    }
    println!("somebody buys the paid plan");
    database.buy("somebody", "paid");
    show(server, "somebody").await
}

async fn show(server: SocketAddr, customer: &str) -> Result<(), Box<dyn Error>> {
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let request = Request::get(format!("http://{server}/")).header("x-api-key", customer);
    let response = client.request(request.body(Empty::new())?).await?;
    let (head, body) = response.into_parts();
    let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    print!("{customer:>9}  {}", head.status);
    for name in ["ratelimit", "retry-after"] {
        if let Some(value) = header(name) {
            print!("  {name}: {value}");
        }
    }
    let body = body.collect().await?.to_bytes();
    println!("  {}", String::from_utf8_lossy(&body));
    Ok(())
}
