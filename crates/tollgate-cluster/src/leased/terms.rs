//! How a limit changes when it is leased, and when an allotment ends.
//!
//! Claim: the hits that all nodes admit, at the times at which they admit them, are hits that the
//! exact limit would have admitted. A node spends a unit at a time `s` between its draw `d` and the
//! end of the allotment. Let `T` be [`Terms::life`], so `d <= s < d + T`, all by the clock of the
//! store.
//!
//! - **Fixed windows, aligned or per key, and calendar windows.** The unit was charged to the
//!   window of `d`, the allotment ends with that window, so `s` lies in it too. The units drawn in a
//!   window are at most the quota. A window per key begins with a draw, as the store counts.
//! - **Sliding window.** The allotment ends with the window of `d`. Spent units are at most the
//!   drawn ones, in this window and in the one before. The estimate of the drawn ones was at most
//!   the quota at the last draw before `s` and only fell since. So the estimate of the spent ones
//!   is at most the quota at `s`.
//! - **Moving window of period W.** Units are drawn from a moving window of `W + T`. Take units
//!   that were spent within `(s - W, s]` and the last draw `d'` among theirs: all were drawn in `(s
//!   - W - T, d']`, and `d' <= s`, so within one window of `W + T` that ends at `d'`. The draw at
//!   `d'` found at most the quota there, itself included.
//! - **GCRA and buckets of burst B and rate r.** Units are drawn from a burst of `B - ceil(rT)`.
//!   Units that were spent within a span `x` were drawn within a span `x + T`: at most `B -
//!   ceil(rT) + r(x + T) <= B + rx`, which is what the exact limit means.
//! - **Elastic windows and limits that charge denied hits** are refused: there each attempt changes
//!   the state, so each has to reach the store.

use std::time::Duration;

use tollgate::algorithm::{Aging, AnyMachine};
use tollgate::{Error, Limit, LimitBuilder, Receipt, Source, Timestamp};

use super::holding::Unspent;
use super::planted::{Fault, planted};

/// A bucket gives up this fraction of its burst, 1 in 10, for the life of an allotment.
const OF_BURST: u64 = 10;

/// A moving window becomes longer by this fraction, 1 in 100, for the life of an allotment.
const OF_WINDOW: u32 = 100;

/// Clocks run fast or slow by less than a thousandth.
const DRIFT: u64 = 1_000;

/// How a limit is leased.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    /// The limit from which allotments are drawn.
    pub(crate) drawn: Limit,
    /// The longest life of an allotment by the store's clock. Zero: nothing can be leased, and the
    /// store decides on every hit.
    pub(crate) life: Duration,
    skew: Duration,
    machine: AnyMachine,
    quota: u64,
    period: Duration,
}

impl Terms {
    /// For allotments that live no longer than `longest`. `skew` is the most by which the clocks of
    /// the store's callers differ.
    pub(crate) fn new(limit: &Limit, longest: Duration, skew: Duration) -> Result<Terms, Error> {
        let refuse = |why: &str| Err(Error::unsupported(limit, why));
        if limit.charge_denied() {
            return refuse(
                "it charges denied hits, so each has to reach the store: use the exact mode",
            );
        }
        let machine = AnyMachine::new(limit);
        let (drawn, life) = match machine.aging() {
            Aging::Attempts => {
                return refuse(
                    "each hit moves the end of an elastic window, so it cannot be leased: use the exact mode",
                );
            }
            Aging::Never => {
                return refuse(
                    "units of an allotment that is lost would be gone from a budget for ever; Memory, durable, Redis and PostgreSQL can hold it",
                );
            }
            Aging::Holds => {
                return refuse(
                    "a concurrency limit needs to know each holder, so it cannot be leased; Memory, durable, Redis and PostgreSQL can hold it",
                );
            }
            Aging::Denials => {
                return refuse(
                    "a ban counts denials, which a lease answers without the store: use the exact mode on a shared store, such as Redis",
                );
            }
            Aging::ClockWindow | Aging::CalendarWindow | Aging::KeyWindow | Aging::FadingWindow => {
                (limit.clone(), longest.min(limit.period()))
            }
            Aging::Log => longer(limit, longest, skew)?,
            Aging::Bucket => smaller(limit, longest, skew)?,
            _ => {
                let algorithm = limit.algorithm();
                return refuse(&format!("there is no proof of how {algorithm} can be leased"));
            }
        };
        let drawn = if planted(Fault::NothingGivenUp) { limit.clone() } else { drawn };
        Ok(Terms { drawn, life, skew, machine, quota: limit.quota(), period: limit.period() })
    }

    /// The end of the allotment of a draw, by the clock that read `sent` before the draw was sent.
    ///
    /// The store counts from a later moment. So this end is not too late, however long the request
    /// took.
    pub(crate) fn end(&self, sent: Timestamp, draw: &Receipt) -> Timestamp {
        let life = match self.machine.window_end(draw.mark) {
            // The store's time is in whole microseconds, so it was up to one later when it counted.
            Some(end) => {
                let open = end.since(draw.at).saturating_sub(self.skew + Duration::from_micros(1));
                self.life.min(open)
            }
            None => self.life,
        };
        let micros = u64::try_from(life.as_micros()).unwrap_or(u64::MAX);
        Timestamp::from_micros(sent.as_micros().saturating_add(micros - micros.div_ceil(DRIFT)))
    }

    /// Whether the store can use these units: less has flowed back since, or their window is still
    /// open.
    pub(crate) fn can_give_back(&self, unspent: &Unspent) -> bool {
        let Unspent { units, draw, now } = *unspent;
        match self.machine.aging() {
            Aging::Bucket => units > self.flows_back(now.since(draw.at)),
            _ => self.machine.window_end(draw.mark).is_none_or(|end| now < end),
        }
    }

    /// The units that flow back to a bucket in this time, rounded down; 0 for windows.
    pub(crate) fn flows_back(&self, span: Duration) -> u64 {
        if !matches!(self.machine.aging(), Aging::Bucket) {
            return 0;
        }
        let units = u128::from(self.quota) * span.as_micros() / self.period.as_micros();
        u64::try_from(units).unwrap_or(u64::MAX)
    }

    /// A number that identifies the draw of a unit, so that the unit can be given back.
    pub(crate) fn mark(&self, draw: &Receipt) -> u64 {
        if self.machine.finds_by_time() { draw.at.as_micros() } else { draw.mark }
    }

    /// The receipt for the store of units that were spent from an allotment.
    pub(crate) fn receipt(&self, receipt: &Receipt) -> Receipt {
        let by_time = self.machine.finds_by_time();
        let at = if by_time { Timestamp::from_micros(receipt.mark) } else { receipt.at };
        Receipt { at, source: Source::Store, ..*receipt }
    }
}

/// A moving window over `period + life`. The period is part of the identity of the counter, so all
/// nodes must have the same.
fn longer(limit: &Limit, longest: Duration, skew: Duration) -> Result<(Limit, Duration), Error> {
    let life = whole_micros(longest.min(limit.period() / OF_WINDOW));
    let builder = Limit::new(limit.quota(), limit.period() + life + skew);
    Ok((named(builder.algorithm(limit.algorithm()), limit)?, life))
}

/// A bucket with its burst less what flows back during the life of an allotment, rounded up.
fn smaller(limit: &Limit, longest: Duration, skew: Duration) -> Result<(Limit, Duration), Error> {
    let (burst, quota) = (limit.burst(), u128::from(limit.quota()));
    let period = limit.period().as_micros();
    let most = u128::from((burst / OF_BURST).max(1));
    let life = (most * period / quota).saturating_sub(skew.as_micros()).min(longest.as_micros());
    if burst == 1 || life == 0 {
        return Ok((limit.clone(), Duration::ZERO));
    }
    let given_up = ((life + skew.as_micros()) * quota).div_ceil(period);
    let burst = burst - u64::try_from(given_up).unwrap_or(burst - 1).min(burst - 1);
    let builder =
        Limit::new(limit.quota(), limit.period()).algorithm(limit.algorithm()).burst(burst);
    let life = Duration::from_micros(u64::try_from(life).unwrap_or(u64::MAX));
    Ok((named(builder, limit)?, life))
}

/// Names the limit, so that its counter does not depend on how much was given up. A limit without a
/// name gets its identity as name.
fn named(builder: LimitBuilder, limit: &Limit) -> Result<Limit, Error> {
    let name = limit.name().map_or_else(|| limit.identity(), str::to_owned);
    Ok(builder.name(name).build()?)
}

fn whole_micros(span: Duration) -> Duration {
    Duration::from_micros(u64::try_from(span.as_micros()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(limit: &str) -> Terms {
        Terms::new(&limit.parse().unwrap(), Duration::from_secs(1), Duration::ZERO).unwrap()
    }

    #[test]
    fn a_bucket_gives_up_what_flows_back_in_the_life_of_an_allotment() {
        for (text, burst, life) in [
            ("1000/second", 900, 100_000),
            ("1000/second token-bucket burst=20", 18, 2_000),
            ("3/second leaky-bucket", 2, 333_333),
            ("7/365 days burst=2", 1, 1_000_000),
            ("1/second", 1, 0),
        ] {
            let terms = terms(text);
            assert_eq!((terms.drawn.burst(), terms.life.as_micros()), (burst, life), "{text}");
        }
    }

    #[test]
    fn a_moving_window_is_longer_by_the_life_of_an_allotment() {
        let terms = terms("10/minute moving-window");
        assert_eq!(
            (terms.drawn.period(), terms.life),
            (Duration::from_millis(60_600), Duration::from_millis(600))
        );
    }

    #[test]
    fn windows_give_up_nothing() {
        for text in
            ["10/minute fixed-window", "10/minute fixed-window-per-key", "10/minute sliding-window"]
        {
            assert_eq!(terms(text).drawn, text.parse().unwrap());
        }
    }

    #[test]
    fn an_allotment_ends_before_its_window_does() {
        let draw = |at, mark| Receipt {
            units: 1,
            at: Timestamp::from_micros(at),
            mark,
            source: Source::Store,
        };
        let sent = Timestamp::from_micros(500);
        let end = |text: &str, receipt| terms(text).end(sent, &receipt).as_micros();
        // One microsecond and a thousandth less than the rest of the window.
        assert_eq!(end("10/minute fixed-window", draw(179_000_000, 2)), 500 + 999_000 - 1);
        assert_eq!(end("10/minute fixed-window", draw(179_990_000, 2)), 500 + 9_999 - 10);
        assert_eq!(end("10/minute sliding-window", draw(69_990_000, 10_000_000)), 500 + 9_999 - 10);
        assert_eq!(end("10/minute fixed-window", draw(179_999_999, 2)), 500);
    }

    #[test]
    fn limits_that_cannot_be_leased_are_refused_with_a_reason() {
        let refused = |text: &str| {
            Terms::new(&text.parse().unwrap(), Duration::from_secs(1), Duration::ZERO)
                .unwrap_err()
                .to_string()
        };
        let elastic = refused("10/minute elastic-window");
        assert!(elastic.contains("elastic window") && elastic.contains("exact"), "{elastic}");
        let charging = refused("10/minute fixed-window charge-denied");
        assert!(charging.contains("denied hits") && charging.contains("exact"), "{charging}");
    }
}
