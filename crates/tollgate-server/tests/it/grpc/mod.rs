//! The gRPC port, tested with tonic's client. The server runs in the test's process, so that tests
//! can set rules and options.

mod answers;
mod costs;
mod failures;
mod headers;
mod health;
mod hostile;
mod receipts;
mod reflection;
mod stop;
mod together;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tollgate::Policy;
use tollgate_server::grpc::proto::{
    Code, DescriptorStatus, Entry, RateLimitDescriptor, RateLimitOverride, RateLimitRequest,
    RateLimitResponse, Unit,
};
use tollgate_server::grpc::{self, Options};
use tollgate_server::net::{Drain, Port};
use tollgate_server::rules::{Descriptor, Pattern, Rule, RuleSet, Treatment};
use tollgate_server::service::{Defaults, Service};
use tollgate_stores::Opening;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

/// The domain of most tests.
const DOMAIN: &str = "shop";

/// A server with these rules.
struct Server {
    address: SocketAddr,
    service: Arc<Service>,
    drain: Arc<Drain>,
    serving: JoinHandle<()>,
}

impl Server {
    async fn start(rules: Vec<Descriptor>) -> Server {
        Server::with(rules, Options::default()).await
    }

    async fn with(rules: Vec<Descriptor>, options: Options) -> Server {
        Server::on(Opening::new("memory:"), rules, options).await
    }

    async fn on(store: Opening, rules: Vec<Descriptor>, options: Options) -> Server {
        let domains = [(DOMAIN.to_owned(), rules)].into();
        let rules = RuleSet { domains, ..RuleSet::default() };
        let store = store.lazily().open().await.unwrap();
        let service = Arc::new(Service::new(store, Defaults::default(), &rules).unwrap());
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let port = Port::bind("grpc", any, Duration::from_secs(10)).await.unwrap();
        let address = port.address().unwrap();
        let (drain, draining) = Drain::new();
        let serving = tokio::spawn(grpc::serve(port, Arc::clone(&service), options, draining));
        Server { address, service, drain: Arc::new(drain), serving }
    }

    async fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address)).unwrap();
        endpoint.connect().await.unwrap()
    }

    async fn client(&self) -> Client {
        let asks = tonic::client::Grpc::new(self.channel().await);
        Client { asks, _serves: Arc::clone(&self.drain) }
    }
}

/// A client that sends requests as Envoy does.
struct Client {
    asks: tonic::client::Grpc<Channel>,
    /// The server stops when its drain is dropped.
    _serves: Arc<Drain>,
}

impl Client {
    async fn send(
        &mut self,
        request: Request<RateLimitRequest>,
    ) -> Result<RateLimitResponse, Status> {
        self.asks.ready().await.unwrap();
        let path = PathAndQuery::from_static(
            "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
        );
        let codec = tonic_prost::ProstCodec::default();
        self.asks.unary(request, path, codec).await.map(tonic::Response::into_inner)
    }

    async fn try_ask(
        &mut self,
        descriptors: impl IntoIterator<Item = RateLimitDescriptor>,
    ) -> Result<RateLimitResponse, Status> {
        self.send(Request::new(request(descriptors))).await
    }

    /// The answer. It must be well-formed for every request.
    async fn ask(
        &mut self,
        descriptors: impl IntoIterator<Item = RateLimitDescriptor>,
    ) -> RateLimitResponse {
        let asked: Vec<_> = descriptors.into_iter().collect();
        let answer = self.try_ask(asked.clone()).await.unwrap();
        assert_eq!(answer.statuses.len(), asked.len());
        let over = |code: i32| code == i32::from(Code::OverLimit);
        let any_over = answer.statuses.iter().any(|status| over(status.code));
        assert_eq!(over(answer.overall_code), any_over, "{answer:?}");
        let known = answer.statuses.iter().map(|status| status.code).chain([answer.overall_code]);
        assert!(known.into_iter().all(|code| code != i32::from(Code::Unknown)), "{answer:?}");
        answer
    }

    /// Whether the hit was allowed, and the units left.
    async fn left(&mut self, descriptor: RateLimitDescriptor) -> (bool, u32) {
        let answer = self.ask([descriptor]).await;
        (answer.overall_code == i32::from(Code::Ok), answer.statuses[0].limit_remaining)
    }
}

fn request(descriptors: impl IntoIterator<Item = RateLimitDescriptor>) -> RateLimitRequest {
    RateLimitRequest {
        domain: DOMAIN.to_owned(),
        descriptors: descriptors.into_iter().collect(),
        hits_addend: 0,
    }
}

/// A descriptor of these entries.
fn on<const N: usize>(entries: [(&str, &str); N]) -> RateLimitDescriptor {
    let entry = |(key, value): (&str, &str)| Entry { key: key.into(), value: value.into() };
    RateLimitDescriptor { entries: entries.map(entry).into(), ..RateLimitDescriptor::default() }
}

fn cost(hits: u64, descriptor: RateLimitDescriptor) -> RateLimitDescriptor {
    RateLimitDescriptor { hits_addend: Some(hits), ..descriptor }
}

fn refund(hits: u64, descriptor: RateLimitDescriptor) -> RateLimitDescriptor {
    RateLimitDescriptor { is_negative_hits: true, ..cost(hits, descriptor) }
}

fn overridden(
    requests_per_unit: u32,
    unit: Unit,
    descriptor: RateLimitDescriptor,
) -> RateLimitDescriptor {
    let limit = RateLimitOverride { requests_per_unit, unit: unit.into() };
    RateLimitDescriptor { limit: Some(limit), ..descriptor }
}

/// A rule on every value of a key.
fn each(key: &str, limit: &str) -> Descriptor {
    let policy: Policy = limit.parse().unwrap();
    Descriptor {
        rule: Some(Rule::new(format!("{key} rule"), policy)),
        ..Descriptor::new(key, None)
    }
}

fn treated(key: &str, treatment: Treatment) -> Descriptor {
    let mut descriptor = each(key, "1/day");
    if let Some(rule) = &mut descriptor.rule {
        rule.treatment = treatment;
    }
    descriptor
}

fn shadow(key: &str, limit: &str) -> Descriptor {
    let mut descriptor = each(key, limit);
    if let Some(rule) = &mut descriptor.rule {
        rule.shadow = true;
    }
    descriptor
}

fn pattern(key: &str, value: &str, limit: &str) -> Descriptor {
    Descriptor { value: Some(Pattern::new(value)), ..each(key, limit) }
}

fn code(status: &DescriptorStatus) -> Code {
    Code::try_from(status.code).unwrap()
}

fn codes(answer: &RateLimitResponse) -> Vec<Code> {
    answer.statuses.iter().map(code).collect()
}
