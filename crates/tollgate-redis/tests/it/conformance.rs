//! The suite of every store, on Redis.

use tokio::runtime::Runtime;
use tollgate_redis::Redis;
use tollgate_testkit::{Subject, conformance};

use crate::server::Server;

/// One server.
struct Single {
    server: Server,
    runtime: Runtime,
}

impl Single {
    fn start() -> Single {
        Single { server: Server::start(&[]), runtime: runtime() }
    }
}

pub(crate) fn runtime() -> Runtime {
    Runtime::new().unwrap_or_else(|error| panic!("{error}"))
}

impl Subject for Single {
    type Store = Redis;

    fn store(&self) -> Redis {
        let connect = Redis::connect(self.server.url());
        self.runtime.block_on(connect).unwrap_or_else(|error| panic!("{error}"))
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }
}

conformance!(redis, Single::start);
