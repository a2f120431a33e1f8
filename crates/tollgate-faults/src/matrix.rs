//! The stores, their faults, and how much they may admit meanwhile.

use std::time::Duration;

use crate::server::Kind;

/// The limit of every cell: the rate per second, and the burst.
pub(crate) const RATE: u64 = 200;
pub(crate) const BURST: u64 = 100;
pub(crate) const LIMIT: &str = "200/second burst=100";

/// Processes that share the store, each with its own connections.
pub(crate) const NODES: usize = 2;

/// How far the clock of a node is ahead when it is skewed.
pub(crate) const SKEW: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    Redis,
    Postgres,
    Memcached,
    Etcd,
    Durable,
    Leased,
    ReplicatedNats,
    ReplicatedRedis,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// `kill -9`, and a restart with the data that are left.
    Kill,
    /// `SIGSTOP` and `SIGCONT`.
    Stop,
    /// Connections are accepted, but there are no responses.
    BlackHole,
    /// Each packet arrives later.
    Delay,
    /// All connections are reset, also new ones.
    Reset,
    /// Twice as many calls as the store can decide.
    Overload,
    /// The clock of one node is ahead.
    Skew,
    /// The server has reached its memory limit.
    Memory,
    /// The disk is full.
    Disk,
    /// Redis forgets its scripts.
    ScriptFlush,
    /// The table is dropped.
    DropTable,
}

impl Store {
    pub(crate) const ALL: [Store; 8] = [
        Store::Redis,
        Store::Postgres,
        Store::Memcached,
        Store::Etcd,
        Store::Durable,
        Store::Leased,
        Store::ReplicatedNats,
        Store::ReplicatedRedis,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Store::Redis => "redis",
            Store::Postgres => "postgres",
            Store::Memcached => "memcached",
            Store::Etcd => "etcd",
            Store::Durable => "durable",
            Store::Leased => "leased+redis",
            Store::ReplicatedNats => "replicated+nats",
            Store::ReplicatedRedis => "replicated+redis",
        }
    }

    /// The server of the store; the durable store has none.
    pub(crate) fn server(self) -> Option<Kind> {
        match self {
            Store::Redis | Store::Leased | Store::ReplicatedRedis => Some(Kind::Redis),
            Store::Postgres => Some(Kind::Postgres),
            Store::Memcached => Some(Kind::Memcached),
            Store::Etcd => Some(Kind::Etcd),
            Store::ReplicatedNats => Some(Kind::Nats),
            Store::Durable => None,
        }
    }

    pub(crate) fn url(self, port: u16) -> String {
        match self {
            Store::Redis => format!("redis://127.0.0.1:{port}"),
            Store::Postgres => format!("postgres://postgres@127.0.0.1:{port}/postgres"),
            Store::Memcached => format!("memcached://127.0.0.1:{port}"),
            Store::Etcd => format!("etcd://127.0.0.1:{port}"),
            Store::Durable => unreachable!("the durable store has no port"),
            Store::Leased => format!("leased+redis://127.0.0.1:{port}/?lease.nodes={NODES}"),
            Store::ReplicatedNats => {
                format!("replicated+nats://127.0.0.1:{port}?replica.nodes={NODES}")
            }
            Store::ReplicatedRedis => {
                format!("replicated+redis://127.0.0.1:{port}?replica.nodes={NODES}")
            }
        }
    }

    pub(crate) fn is_replicated(self) -> bool {
        matches!(self, Store::ReplicatedNats | Store::ReplicatedRedis)
    }

    /// The faults of a store.
    pub(crate) fn faults(self) -> Vec<Fault> {
        let own: &[Fault] = match self {
            Store::Redis => &[Fault::Overload, Fault::Memory, Fault::ScriptFlush],
            Store::Postgres => &[Fault::Overload, Fault::Disk, Fault::DropTable],
            Store::Memcached => &[Fault::Overload, Fault::Skew],
            Store::Etcd => &[Fault::Overload, Fault::Skew, Fault::Disk],
            Store::Durable => return vec![Fault::Kill, Fault::Disk],
            Store::Leased => &[Fault::Memory, Fault::ScriptFlush],
            Store::ReplicatedNats | Store::ReplicatedRedis => &[],
        };
        let all = [Fault::Kill, Fault::Stop, Fault::BlackHole, Fault::Delay, Fault::Reset];
        [&all, own].concat()
    }

    /// Whether the counts are lost by the fault, by design: Redis and Memcached keep them in memory
    /// here, and PostgreSQL in a table that does not survive a crash.
    fn forgets(self, fault: Fault) -> bool {
        match fault {
            Fault::Kill => {
                matches!(self, Store::Redis | Store::Leased | Store::Memcached | Store::Postgres)
            }
            Fault::DropTable => true,
            // It cannot write its log, and ends.
            Fault::Disk => self == Store::Postgres,
            _ => false,
        }
    }

    /// The most that may be admitted in a span that contains the fault, and the rule for it.
    pub(crate) fn allowed(self, fault: Fault, span: Duration) -> (u64, &'static str) {
        let flows = |span: Duration| {
            u64::try_from(span.as_micros()).unwrap_or(u64::MAX).saturating_mul(RATE) / 1_000_000
        };
        let exact = BURST + flows(span);
        if self.is_replicated() {
            (exact * NODES as u64, "each node alone")
        } else if self.forgets(fault) {
            (exact + BURST, "counts lost once")
        } else if fault == Fault::Skew {
            (exact + flows(SKEW), "clock ahead")
        } else {
            (exact, "the limit")
        }
    }
}

impl Fault {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Fault::Kill => "kill",
            Fault::Stop => "stop",
            Fault::BlackHole => "black-hole",
            Fault::Delay => "delay",
            Fault::Reset => "reset",
            Fault::Overload => "overload",
            Fault::Skew => "skew",
            Fault::Memory => "memory",
            Fault::Disk => "disk",
            Fault::ScriptFlush => "script-flush",
            Fault::DropTable => "drop-table",
        }
    }
}

/// The cells of the quick run: each store once or twice, with faults that need no long wait.
pub(crate) const QUICK: [(Store, Fault); 10] = [
    (Store::Redis, Fault::Kill),
    (Store::Redis, Fault::ScriptFlush),
    (Store::Postgres, Fault::Reset),
    (Store::Memcached, Fault::Kill),
    (Store::Memcached, Fault::Skew),
    (Store::Etcd, Fault::BlackHole),
    (Store::Durable, Fault::Kill),
    (Store::Leased, Fault::Stop),
    (Store::ReplicatedNats, Fault::Kill),
    (Store::ReplicatedRedis, Fault::BlackHole),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_allowed_count_is_the_burst_and_what_flows_back() {
        let allowed = |store: Store, fault| store.allowed(fault, Duration::from_millis(1_500)).0;
        assert_eq!(allowed(Store::Redis, Fault::Stop), 400);
        assert_eq!(allowed(Store::Redis, Fault::Kill), 500);
        assert_eq!(allowed(Store::Etcd, Fault::Kill), 400);
        assert_eq!(allowed(Store::Etcd, Fault::Skew), 800);
        assert_eq!(allowed(Store::ReplicatedNats, Fault::Stop), 800);
    }

    #[test]
    fn quick_cells_are_cells_of_the_matrix_and_leave_out_no_store() {
        assert!(QUICK.iter().all(|(store, fault)| store.faults().contains(fault)));
        assert!(Store::ALL.iter().all(|store| QUICK.iter().any(|(quick, _)| quick == store)));
    }
}
