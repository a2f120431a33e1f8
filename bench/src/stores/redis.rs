//! Redis compared with INCR.

use super::contenders::{Contender, Hit, Kind, patient, tasks};
use super::scene::Scene;
use super::servers::Servers;
use crate::Outcome;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use tokio::runtime::Runtime;
use tollgate_redis::Redis;

const REDIS: &str = "Redis";

pub(crate) fn contenders(servers: &Servers, runtime: &Runtime) -> Outcome<Vec<Contender>> {
    let url = servers.redis.url();
    let store = runtime.block_on(Redis::builder(&*url).guard(patient()).connect())?;
    let client = redis::Client::open(url)?;
    // The same timeout as tollgate's.
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    let connection = client.get_multiplexed_async_connection_with_config(&config);
    let connection = runtime.block_on(connection)?;
    let mut all = Vec::new();
    for scene in Scene::ALL {
        let mut add = |title, kind, work| {
            all.push(Contender { store: REDIS, title, kind, scene, work });
        };
        add("INCR, same client", Kind::Bare, tasks(scene, Incr(connection.clone())));
        add("tollgate", Kind::Ours, tasks(scene, store.limiter(scene.limit())?));
    }
    Ok(all)
}

struct Incr(MultiplexedConnection);

impl Hit for Incr {
    async fn hit(&self, _number: usize, key: &str) -> Outcome<bool> {
        let count: u64 = self.0.clone().incr(key, 1).await?;
        Ok(count > 0)
    }
}
