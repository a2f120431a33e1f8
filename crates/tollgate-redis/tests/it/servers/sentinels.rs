//! A primary, its replica and three sentinels.

use super::eventually;
use super::server::Server;

#[derive(Debug)]
pub(crate) struct Sentinels {
    /// The first is the primary at the beginning.
    pub(crate) servers: Vec<Server>,
    pub(crate) sentinels: Vec<Server>,
}

/// The sentinels' name of the primary.
pub(crate) const NAME: &str = "main";

impl Sentinels {
    /// Three sentinels: two of them must agree that the primary is gone.
    pub(crate) fn start() -> Sentinels {
        Sentinels::start_with(3, 2)
    }

    pub(crate) fn start_with(sentinels: usize, quorum: usize) -> Sentinels {
        let primary = Server::start(&["--repl-diskless-sync-delay", "0"]);
        let port = primary.port.to_string();
        let replica = Server::start(&["--replicaof", "127.0.0.1", &port]);
        eventually("the replica is up to date", || {
            replica.info("master_link_status").as_deref() == Some("up")
        });
        let config = format!(
            "sentinel monitor {NAME} 127.0.0.1 {port} {quorum}\n\
             sentinel down-after-milliseconds {NAME} 1000\n\
             sentinel failover-timeout {NAME} 5000\n"
        );
        let sentinels: Vec<_> = (0..sentinels).map(|_| Server::start_sentinel(&config)).collect();
        let all = Sentinels { servers: vec![primary, replica], sentinels };
        all.settle();
        all
    }

    /// Waits until all sentinels know the replica and each other.
    fn settle(&self) {
        let (replicas, others) = ("1".to_owned(), (self.sentinels.len() - 1).to_string());
        for sentinel in &self.sentinels {
            eventually("the sentinel knows everybody", || {
                let said = sentinel.cli(&["SENTINEL", "MASTER", NAME]);
                let lines: Vec<&str> = said.lines().collect();
                let value = |name: &str| {
                    lines.chunks(2).find(|pair| pair[0] == name).and_then(|pair| pair.get(1))
                };
                value("num-slaves") == Some(&&replicas[..])
                    && value("num-other-sentinels") == Some(&&others[..])
            });
        }
    }

    pub(crate) fn url(&self) -> String {
        let addresses: Vec<_> = self.sentinels.iter().map(Server::address).collect();
        format!("redis+sentinel://{}/{NAME}", addresses.join(","))
    }

    /// Waits until the replica has everything that the primary has.
    pub(crate) fn replicate(&self) {
        self.servers[1].has_all_of(&self.servers[0]);
    }
}
