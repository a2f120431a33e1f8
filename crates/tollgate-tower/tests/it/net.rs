//! Servers and clients for the tests.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::routing::{MethodRouter, any};
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::net::TcpListener;
use tollgate::{ManualClock, Memory, Timestamp};
use tollgate_tower::{Around, Decider};

/// Serves an axum app that knows its peers, until the runtime of the test ends.
pub(crate) async fn serve(app: Router) -> SocketAddr {
    serve_at("127.0.0.1:0", app).await
}

pub(crate) async fn serve_at(address: &str, app: Router) -> SocketAddr {
    let listener = TcpListener::bind(address).await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

/// Serves an axum app with a limit around it.
pub(crate) async fn serve_around<D: Decider>(app: Around<D>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

/// Serves an axum app that does not know its peers.
pub(crate) async fn serve_without_peers(app: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

/// A response that was read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) async fn read<B>(response: http::Response<B>) -> Answer
    where
        B: http_body::Body,
        B::Error: std::fmt::Debug,
    {
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let body = String::from_utf8(body.to_vec()).unwrap();
        Answer { status: head.status, headers: head.headers, body }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The items of a structured field, with name and parameters, read by an independent parser.
    pub(crate) fn items(&self, name: &str) -> Vec<(String, Vec<(String, i64)>)> {
        let lines: Vec<&str> =
            self.headers.get_all(name).iter().map(|line| line.to_str().unwrap()).collect();
        let list: sfv::List = sfv::Parser::new(&lines.join(", ")).parse().unwrap();
        let item = |entry: sfv::ListEntry| {
            let sfv::ListEntry::Item(item) = entry else { panic!("not an item: {entry:?}") };
            let name = item.bare_item.as_string().unwrap().as_str().to_owned();
            let params = item
                .params
                .iter()
                .map(|(key, value)| (key.as_str().to_owned(), value.as_integer().unwrap().into()));
            (name, params.collect())
        };
        list.into_iter().map(item).collect()
    }
}

/// A store whose time stands still, so that headers can be compared to the second.
pub(crate) fn stopped() -> Memory<ManualClock> {
    Memory::builder().clock(ManualClock::new(Timestamp::from_micros(1_700_000_000_000_000))).build()
}

/// Waits for something that another task does soon. Gives up when that task must have died.
pub(crate) async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let wait = async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(20), wait).await.is_ok(), "not yet: {what}");
}

/// A handler that counts its requests.
pub(crate) fn counting(reached: &Arc<AtomicUsize>) -> MethodRouter {
    let reached = Arc::clone(reached);
    any(move || async move {
        reached.fetch_add(1, Ordering::Relaxed);
        "hello"
    })
}

type Inner = Client<HttpConnector, Empty<Bytes>>;

/// A client with its own connections.
#[derive(Clone)]
pub(crate) struct Browser(Inner);

impl Browser {
    pub(crate) fn h1() -> Browser {
        Browser(Client::builder(TokioExecutor::new()).build_http())
    }

    pub(crate) fn h2() -> Browser {
        Browser(Client::builder(TokioExecutor::new()).http2_only(true).build_http())
    }

    pub(crate) async fn get(&self, server: SocketAddr, path: &str) -> Answer {
        self.send(request("GET", server, path, &[])).await
    }

    pub(crate) async fn get_with(
        &self,
        server: SocketAddr,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Answer {
        self.send(request("GET", server, path, headers)).await
    }

    pub(crate) async fn send(&self, request: Request<Empty<Bytes>>) -> Answer {
        Answer::read(self.0.request(request).await.unwrap()).await
    }

    /// A response without its body.
    pub(crate) async fn open(
        &self,
        server: SocketAddr,
        path: &str,
    ) -> http::Response<hyper::body::Incoming> {
        self.try_get(server, path).await.unwrap()
    }

    /// The same, for a request that may fail.
    pub(crate) async fn try_get(
        &self,
        server: SocketAddr,
        path: &str,
    ) -> Result<http::Response<hyper::body::Incoming>, hyper_util::client::legacy::Error> {
        self.0.request(request("GET", server, path, &[])).await
    }

    /// The statuses of this many requests, one after the other.
    pub(crate) async fn statuses(&self, server: SocketAddr, path: &str, count: usize) -> Vec<u16> {
        let mut statuses = Vec::new();
        for _ in 0..count {
            statuses.push(self.get(server, path).await.status.as_u16());
        }
        statuses
    }
}

pub(crate) fn request(
    method: &str,
    server: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
) -> Request<Empty<Bytes>> {
    let uri: Uri = format!("http://{server}{path}").parse().unwrap();
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Empty::new()).unwrap()
}
