//! One of the three nodes: it sends its share of four times the limit, and prints what was
//! admitted.

use std::error::Error;
use std::io::Write;
use std::time::Duration;

use tollgate::shared::{SharedLimiter, SharedStore};
use tollgate::{Clock, SystemClock};
use tollgate_cluster::Leased;
use tollgate_cluster::bus;
use tollgate_cluster::replicated::Replicated;
use tollgate_redis::Redis;

use super::{LIMIT, NODES};

pub(crate) const MODES: [&str; 2] = ["leased", "replicated"];

/// Hits per hundredth of a second.
const HITS: u64 = 4 * LIMIT / 100 / NODES as u64;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn run(mode: &str, url: &str) -> Result<(), Box<dyn Error>> {
    let limit = format!("{LIMIT}/second fixed-window");
    match mode {
        "leased" => {
            let redis = Redis::builder(url).connect().await?;
            ask(&Leased::builder(redis).nodes(NODES as u32).build().limiter(&limit[..])?).await
        }
        _ => {
            let replica = Replicated::builder(bus::open(url)?).nodes(NODES as u32).start().await?;
            ask(&replica.limiter(&limit[..])?).await
        }
    }
}

async fn ask<S: SharedStore>(limiter: &SharedLimiter<S>) -> Result<(), Box<dyn Error>> {
    let clock = SystemClock::new();
    let mut ticks = tokio::time::interval(Duration::from_millis(10));
    loop {
        ticks.tick().await;
        let mut admitted = 0;
        for _ in 0..HITS {
            // A store that does not answer admits nothing.
            admitted += u64::from(limiter.hit("key").await.is_ok_and(|hit| hit.allowed()));
        }
        writeln!(std::io::stdout(), "{} {admitted}", clock.now().as_micros())?;
    }
}
