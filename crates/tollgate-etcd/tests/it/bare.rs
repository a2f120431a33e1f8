//! A bare etcd client for what tests check without the store.

use http::uri::PathAndQuery;
use prost::Message;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

#[derive(Clone, PartialEq, Message)]
struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct KeyValue {
    #[prost(int64, tag = "3")]
    pub(crate) revision: i64,
    #[prost(bytes = "vec", tag = "5")]
    pub(crate) value: Vec<u8>,
    #[prost(int64, tag = "6")]
    pub(crate) lease: i64,
}

#[derive(Clone, PartialEq, Message)]
struct RangeResponse {
    #[prost(message, repeated, tag = "2")]
    kvs: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct LeaseRequest {
    #[prost(int64, tag = "1")]
    id: i64,
}

#[derive(Clone, PartialEq, Message)]
struct LeaseTimeToLiveResponse {
    #[prost(int64, tag = "3")]
    ttl: i64,
}

#[derive(Clone, PartialEq, Message)]
struct LeaseLeasesResponse {
    #[prost(message, repeated, tag = "2")]
    leases: Vec<LeaseRequest>,
}

#[derive(Clone, PartialEq, Message)]
struct Nothing {}

/// A connection of a test.
#[derive(Clone, Debug)]
pub(crate) struct Bare(Channel);

impl Bare {
    /// Connects when it is used. Call it inside a tokio runtime.
    pub(crate) fn to(port: u16) -> Bare {
        let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{port}"));
        Bare(endpoint.unwrap().connect_lazy())
    }

    async fn call<Q, A>(&self, path: &'static str, request: Q) -> A
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut grpc = Grpc::new(self.0.clone());
        grpc.ready().await.unwrap();
        let (request, path) = (tonic::Request::new(request), PathAndQuery::from_static(path));
        let codec: ProstCodec<Q, A> = ProstCodec::default();
        grpc.unary(request, path, codec).await.unwrap_or_else(|e| panic!("{e}")).into_inner()
    }

    pub(crate) async fn read(&self, key: Vec<u8>) -> Option<KeyValue> {
        let answer: RangeResponse = self.call("/etcdserverpb.KV/Range", RangeRequest { key }).await;
        answer.kvs.into_iter().next()
    }

    pub(crate) async fn put(&self, key: Vec<u8>, value: &[u8]) {
        let put = PutRequest { key, value: value.to_vec() };
        let Nothing {} = self.call("/etcdserverpb.KV/Put", put).await;
    }

    /// The remaining seconds of a lease; negative if it has ended.
    pub(crate) async fn seconds_left(&self, id: i64) -> i64 {
        let path = "/etcdserverpb.Lease/LeaseTimeToLive";
        let answer: LeaseTimeToLiveResponse = self.call(path, LeaseRequest { id }).await;
        answer.ttl
    }

    /// All leases.
    pub(crate) async fn leases(&self) -> Vec<i64> {
        let answer: LeaseLeasesResponse =
            self.call("/etcdserverpb.Lease/LeaseLeases", Nothing {}).await;
        answer.leases.into_iter().map(|lease| lease.id).collect()
    }

    /// Ends a lease, with all its keys.
    pub(crate) async fn revoke(&self, id: i64) {
        let Nothing {} = self.call("/etcdserverpb.Lease/LeaseRevoke", LeaseRequest { id }).await;
    }
}
