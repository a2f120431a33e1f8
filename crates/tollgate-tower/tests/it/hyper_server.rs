//! The layer around a plain service, served by hyper.

use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tollgate::Memory;
use tollgate_tower::{PeerAddr, RateLimitLayer};
use tower::{Layer, service_fn};

use crate::net::{Browser, stopped};

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::new(Bytes::from_static(b"hello"))))
}

async fn serve(
    layer: RateLimitLayer<tollgate::Limiter<Memory<tollgate::ManualClock>>>,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let limited = layer.layer(service_fn(hello));
    tokio::spawn(async move {
        loop {
            let (stream, peer) = listener.accept().await.unwrap();
            let limited = limited.clone();
            let known = service_fn(move |mut request: Request<Incoming>| {
                request.extensions_mut().insert(PeerAddr(peer));
                tower::ServiceExt::oneshot(limited.clone(), request)
            });
            tokio::spawn(async move {
                let connection = Builder::new(TokioExecutor::new());
                let service = TowerToHyperService::new(known);
                connection.serve_connection(TokioIo::new(stream), service).await
            });
        }
    });
    address
}

#[tokio::test]
async fn hyper_serves_it_over_h1_and_h2() {
    for browser in [Browser::h1(), Browser::h2()] {
        let limiter = stopped().limiter("2/day name=api").unwrap();
        let server = serve(RateLimitLayer::new(limiter.clone())).await;
        assert_eq!(browser.get(server, "/").await.body, "hello");
        assert_eq!(browser.statuses(server, "/", 2).await, [200, 429]);
        assert_eq!(limiter.usage("127.0.0.1"), 2);
        let refused = browser.get(server, "/").await;
        assert_eq!(refused.header("retry-after"), Some("43200"));
        assert_eq!(refused.header("content-length"), Some(&*refused.body.len().to_string()));
    }
}
