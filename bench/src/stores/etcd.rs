//! etcd compared with a transaction of one comparison, which always holds, and one put.

use super::contenders::{Contender, Hit, Kind, patient, tasks};
use super::scene::Scene;
use super::servers::Servers;
use crate::Outcome;
use http::uri::PathAndQuery;
use prost::Message;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::runtime::Runtime;
use tollgate_etcd::Etcd;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

pub(crate) const ETCD: &str = "etcd";

/// About as long as a state of tollgate.
const VALUE: &[u8] = b"0123456789abcdef01234567";

pub(crate) fn contenders(servers: &Servers, runtime: &Runtime) -> Outcome<Vec<Contender>> {
    let address = format!("127.0.0.1:{}", servers.etcd);
    let store = Etcd::builder(format!("etcd://{address}")).guard(patient()).connect();
    let store = runtime.block_on(store)?;
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?;
    let channel = runtime.block_on(endpoint.connect())?;
    let mut all = Vec::new();
    for scene in Scene::ALL {
        let mut add = |title, kind, work| {
            all.push(Contender { store: ETCD, title, kind, scene, work });
        };
        let subjects = scene.subjects();
        let names = subjects
            .iter()
            .map(|key| Ok((key.clone(), store.key_of("bare", scene.limit(), &**key)?)));
        let names = Arc::new(names.collect::<Outcome<HashMap<_, _>>>()?);
        let bare = Transaction { channel: channel.clone(), names };
        add("transaction, same client", Kind::Bare, tasks(scene, bare));
        add("tollgate", Kind::Ours, tasks(scene, store.limiter(scene.limit())?));
    }
    Ok(all)
}

struct Transaction {
    channel: Channel,
    /// The name of each key in etcd: as long as tollgate's.
    names: Arc<HashMap<String, Vec<u8>>>,
}

impl Hit for Transaction {
    async fn hit(&self, _number: usize, key: &str) -> Outcome<bool> {
        let name = self.names.get(key).ok_or("a key without a name")?;
        let compare = Compare { result: NOT_EQUAL, key: name.clone(), version: -1 };
        let put = Put { key: name.clone(), value: VALUE.to_vec() };
        let request = Txn { compare: vec![compare], success: vec![Op { put: Some(put) }] };
        let mut grpc = Grpc::new(self.channel.clone());
        grpc.ready().await?;
        let path = PathAndQuery::from_static("/etcdserverpb.KV/Txn");
        let codec: ProstCodec<Txn, Answer> = ProstCodec::default();
        let answer = grpc.unary(tonic::Request::new(request), path, codec).await?;
        Ok(answer.into_inner().succeeded)
    }
}

const NOT_EQUAL: i32 = 3;

/// The fields of etcd's messages that are needed here. The target of a comparison is the version by
/// default.
#[derive(Clone, PartialEq, Message)]
struct Compare {
    #[prost(int32, tag = "1")]
    result: i32,
    #[prost(bytes = "vec", tag = "3")]
    key: Vec<u8>,
    #[prost(int64, tag = "4")]
    version: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Put {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct Op {
    #[prost(message, optional, tag = "2")]
    put: Option<Put>,
}

#[derive(Clone, PartialEq, Message)]
struct Txn {
    #[prost(message, repeated, tag = "1")]
    compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    success: Vec<Op>,
}

#[derive(Clone, PartialEq, Message)]
struct Answer {
    #[prost(bool, tag = "2")]
    succeeded: bool,
}
