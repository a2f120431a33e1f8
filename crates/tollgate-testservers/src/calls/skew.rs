//! Machines whose clocks differ.

use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tollgate::shared::SharedStore;
use tollgate::{Clock, SystemClock, Timestamp};

use super::{LONG, limiter};

/// Hits that each machine sends.
const HITS: u64 = 80;

/// A clock that is ahead of this machine's clock.
#[derive(Debug)]
pub struct Ahead {
    clock: SystemClock,
    by: Duration,
}

impl Ahead {
    /// Makes a clock that is ahead by this much.
    #[must_use]
    pub fn by(by: Duration) -> Ahead {
        Ahead { clock: SystemClock::new(), by }
    }
}

impl Clock for Ahead {
    fn now(&self) -> Timestamp {
        self.clock.now() + self.by
    }
}

/// Hits one key for two seconds from several machines, 40 times a second each, while the clock of
/// one machine is ahead by this much. Together they may admit at most 100 a second, a burst of 20,
/// and once more what the limit gives in the time by which the clock is ahead. At least half of
/// each machine's hits must pass.
///
/// # Panics
/// When that does not hold.
pub async fn clocks_apart<S: SharedStore>(machines: Vec<S>, ahead: Duration) {
    let clock = SystemClock::new();
    let begin = clock.now();
    let hit = |machine: &S| {
        let limiter = limiter(machine, "100/second burst=20");
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval(Duration::from_millis(25));
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut admitted = 0;
            for _ in 0..HITS {
                ticks.tick().await;
                let hit = limiter.within(LONG).hit("key").await;
                admitted += u64::from(hit.unwrap_or_else(|error| panic!("{error}")).allowed());
            }
            admitted
        })
    };
    let tasks: Vec<_> = machines.iter().map(hit).collect();
    let mut admitted = Vec::new();
    for task in tasks {
        admitted.push(task.await.unwrap_or_else(|error| panic!("{error}")));
    }
    let span = clock.now().since(begin) + ahead;
    let most = 20 + span.as_micros().div_ceil(10_000);
    let told =
        format!("{ahead:?} ahead: of {HITS} hits each {admitted:?} passed, of {most} at most");
    assert!(u128::from(admitted.iter().sum::<u64>()) <= most, "{told}");
    assert!(admitted.iter().all(|admitted| admitted * 2 >= HITS), "{told}");
}
