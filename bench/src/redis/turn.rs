//! One turn of a contender, and callers in flight.

use crate::Outcome;
use quanta::Instant;
use std::future::Future;
use std::time::Duration;

/// The result of a turn.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    pub(crate) hits: f64,
    pub(crate) allowed: f64,
    pub(crate) wall: Duration,
    /// Nanoseconds at each of [`QUANTILES`] and of the longest call; `None` where the contender
    /// does not tell.
    pub(crate) waits: [Option<f64>; QUANTILES.len() + 1],
}

impl Turn {
    /// Hits per second.
    pub(crate) fn rate(&self) -> f64 {
        self.hits / self.wall.as_secs_f64()
    }
}

pub(crate) const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];

/// Callers that hit one call after the other for a while. `hit` gets a number that is different in
/// every call.
pub(crate) async fn drive<F, T>(callers: usize, span: Duration, hit: F) -> Outcome<Turn>
where
    F: Fn(usize) -> T + Clone + Send + 'static,
    T: Future<Output = Outcome<bool>> + Send,
{
    let start = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for caller in 0..callers {
        let hit = hit.clone();
        tasks.spawn(async move {
            let (mut allowed, mut waits) = (0_usize, Vec::new());
            let (mut number, mut before) = (caller, Instant::now());
            // One reading of the clock ends a call and begins the next.
            while before.duration_since(start) < span {
                allowed += usize::from(hit(number).await?);
                let after = Instant::now();
                waits.push(nanos(after.duration_since(before)));
                before = after;
                number += callers;
            }
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>((allowed, waits))
        });
    }
    let (mut allowed, mut waits) = (0, Vec::new());
    while let Some(joined) = tasks.join_next().await {
        let (more_allowed, more_waits) = joined??;
        allowed += more_allowed;
        waits.extend(more_waits);
    }
    let wall = start.elapsed();
    waits.sort_unstable();
    Ok(Turn { hits: waits.len() as f64, allowed: allowed as f64, wall, waits: quantiles(&waits) })
}

fn nanos(span: Duration) -> u32 {
    u32::try_from(span.as_nanos()).unwrap_or(u32::MAX)
}

fn quantiles(sorted: &[u32]) -> [Option<f64>; QUANTILES.len() + 1] {
    let at = |part: f64| {
        let rank = (sorted.len() as f64 * part).ceil() as usize;
        sorted.get(rank.saturating_sub(1)).map(|nanos| f64::from(*nanos))
    };
    let [p50, p99, p999] = QUANTILES.map(|(_, part)| at(part));
    [p50, p99, p999, at(1.0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_durations_of_real_calls() {
        let waits: Vec<u32> = (1..=1000).collect();
        let expected = [500.0, 990.0, 999.0, 1000.0].map(Some);
        assert_eq!(quantiles(&waits), expected);
        assert_eq!(quantiles(&[]), [None; 4]);
    }
}
