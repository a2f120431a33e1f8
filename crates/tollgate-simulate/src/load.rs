//! The traffic of one client: when its requests arrive.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use tollgate::Limit;

use crate::random::Random;

/// When the requests of one client arrive.
///
/// ```
/// use tollgate_simulate::Load;
///
/// for text in ["constant 3/second", "poisson 100/minute", "bursts of 20 every 10 seconds", "daily 1/minute peak 1/second"] {
///     assert_eq!(text.parse::<Load>()?.to_string(), text);
/// }
/// assert!("sometimes".parse::<Load>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Requests at equal distances.
    Constant(Rate),
    /// Requests at random times, independent of each other.
    Poisson(Rate),
    /// This many requests at one instant, at equal distances.
    Bursts(u64, Duration),
    /// Requests at random times, with a rate that grows from the first at night to the second one
    /// in the afternoon and falls again.
    Daily(Rate, Rate),
}

/// A number of requests in a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    count: u64,
    period: Duration,
}

impl Rate {
    fn micros(self) -> u64 {
        micros(self.period)
    }

    /// The mean time between two requests, in microseconds.
    fn gap(self) -> u64 {
        (self.micros() / self.count).max(1)
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

impl FromStr for Rate {
    type Err = String;

    /// A rate is written as the quota of a limit: `3/second`, `100 per 2 hours`.
    fn from_str(text: &str) -> Result<Rate, String> {
        let limit: Option<Limit> = text.trim().parse().ok();
        // Only limits without a burst, an algorithm or a name.
        let limit = limit.filter(|limit| {
            Limit::new(limit.quota(), limit.period()).build().is_ok_and(|same| same == *limit)
        });
        let limit = limit.ok_or_else(|| {
            format!("rate {text:?}: expected a count and a time, such as 3/second or 100/minute")
        })?;
        if u128::from(limit.quota()) > limit.period().as_micros() {
            return Err(format!(
                "rate {text:?}: a client makes at most a million requests a second"
            ));
        }
        Ok(Rate { count: limit.quota(), period: limit.period() })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let span = tollgate_report::span(self.micros());
        match span.strip_prefix("1 ") {
            Some(unit) => write!(f, "{}/{unit}", self.count),
            None => write!(f, "{} per {span}", self.count),
        }
    }
}

impl FromStr for Load {
    type Err = String;

    fn from_str(text: &str) -> Result<Load, String> {
        let wrong = |why: &str| {
            format!(
                "load {text:?}: {why}; write \"constant 3/second\", \"poisson 3/second\", \"bursts of 20 every 10s\" or \"daily 1/minute peak 1/second\""
            )
        };
        let (kind, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        let rate = |text: &str| text.parse::<Rate>().map_err(|error| wrong(&error));
        match kind {
            "constant" => Ok(Load::Constant(rate(rest)?)),
            "poisson" => Ok(Load::Poisson(rate(rest)?)),
            "burst" | "bursts" => {
                let rest = rest.trim_start().strip_prefix("of ").unwrap_or(rest);
                let (count, every) = rest
                    .split_once(" every ")
                    .ok_or_else(|| wrong("a burst has a count and a time between bursts"))?;
                let count =
                    count.trim().parse().ok().filter(|count| (1..=1_000_000).contains(count));
                let count = count
                    .ok_or_else(|| wrong("the count of a burst is a number from 1 to 1000000"))?;
                let every = span(every).map_err(|error| wrong(&error))?;
                if u128::from(count) > every.as_micros() {
                    return Err(wrong("a client makes at most a million requests a second"));
                }
                Ok(Load::Bursts(count, every))
            }
            "daily" => {
                let (low, high) = rest
                    .split_once(" peak ")
                    .ok_or_else(|| wrong("a daily curve has a rate at night and a peak"))?;
                let (low, high) = (rate(low)?, rate(high)?);
                if low.gap() < high.gap() {
                    return Err(wrong("the peak is not above the rate at night"));
                }
                Ok(Load::Daily(low, high))
            }
            "" => Err(wrong("it is empty")),
            kind => Err(wrong(&format!("{kind:?} is no kind of load"))),
        }
    }
}

/// A time such as `10s`, `1 minute` or `minute`.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (count, unit) = text.split_at(digits);
    let count = if count.is_empty() { "1" } else { count };
    let limit: Option<Limit> = format!("1 per {count} {}", unit.trim()).parse().ok();
    limit.map(|limit| limit.period()).ok_or_else(|| {
        format!("time {text:?}: expected a number and a unit, such as 500ms, 10s or 1 minute")
    })
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Load::Constant(rate) => write!(f, "constant {rate}"),
            Load::Poisson(rate) => write!(f, "poisson {rate}"),
            Load::Bursts(count, every) => {
                write!(f, "bursts of {count} every {}", tollgate_report::span(micros(*every)))
            }
            Load::Daily(low, high) => write!(f, "daily {low} peak {high}"),
        }
    }
}

const DAY: u64 = 86_400_000_000;

/// The times of the requests of one client, one after another.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals {
    load: Load,
    random: Random,
    /// When the client began, for loads with equal distances.
    phase: u64,
    count: u64,
    now: u64,
}

impl Arrivals {
    pub(crate) fn new(load: Load, mut random: Random) -> Arrivals {
        // Clients do not all begin at the same instant.
        let phase = match load {
            Load::Constant(rate) => random.below(rate.gap()),
            Load::Bursts(_, every) => random.below(micros(every)),
            Load::Poisson(_) | Load::Daily(..) => 0,
        };
        Arrivals { load, random, phase, count: 0, now: 0 }
    }

    /// The next arrival, in microseconds after the begin of the simulation.
    pub(crate) fn next(&mut self) -> u64 {
        let nth = |count: u64, of: u64, period: u64| {
            let at = u128::from(count) * u128::from(period) / u128::from(of);
            u64::try_from(at).unwrap_or(u64::MAX)
        };
        self.count += 1;
        let before = self.count - 1;
        self.now = match self.load {
            Load::Constant(rate) => {
                self.phase.saturating_add(nth(before, rate.count, rate.micros()))
            }
            Load::Bursts(count, every) => {
                self.phase.saturating_add(nth(before / count, 1, micros(every)))
            }
            Load::Poisson(rate) => self.now.saturating_add(self.random.exponential(rate.gap())),
            Load::Daily(low, high) => self.next_of_day(low, high),
        };
        self.now
    }

    /// Candidates come with the rate of the peak, and each is kept with the share that the rate of
    /// its time of day has of the peak.
    fn next_of_day(&mut self, low: Rate, high: Rate) -> u64 {
        const WHOLE: u64 = 1 << 20;
        let mut at = self.now;
        loop {
            at = at.saturating_add(self.random.exponential(high.gap()));
            let least =
                u64::try_from(u128::from(high.gap()) * u128::from(WHOLE) / u128::from(low.gap()))
                    .unwrap_or(WHOLE);
            let share = least + (WHOLE - least) * curve(at % DAY) / 1_000;
            if self.random.below(WHOLE) < share || at == u64::MAX {
                return at;
            }
        }
    }
}

/// The height of the daily curve, from 0 at two at night to 1,000 at two in the afternoon.
#[expect(clippy::float_arithmetic, reason = "traffic is a statistic; no limit depends on it")]
fn curve(time_of_day: u64) -> u64 {
    const LOWEST: u64 = DAY / 12;
    let turn = time_of_day as f64 - LOWEST as f64;
    let angle = turn / DAY as f64 * std::f64::consts::TAU;
    ((1.0 - angle.cos()) / 2.0 * 1_000.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(load: &str, until: u64) -> Vec<u64> {
        let mut arrivals = Arrivals::new(load.parse().unwrap(), Random::new(1, 1, 1));
        std::iter::from_fn(|| Some(arrivals.next())).take_while(|at| *at < until).collect()
    }

    #[test]
    fn loads_have_their_rate() {
        assert_eq!(arrivals("constant 7/second", 10_000_000).len(), 70);
        let poisson = arrivals("poisson 100/second", 100_000_000).len();
        assert!((9_600..10_400).contains(&poisson), "{poisson}");
        let bursts = arrivals("bursts of 20 every 10s", 60_000_000);
        assert_eq!(bursts.len(), 120);
        assert!(
            bursts[..20].iter().all(|at| *at == bursts[0]) && bursts[20] == bursts[0] + 10_000_000
        );
    }

    #[test]
    fn a_day_has_a_quiet_night_and_a_busy_afternoon() {
        let hour = DAY / 24;
        let day = arrivals("daily 1/minute peak 1/second", DAY);
        let within =
            |from: u64| day.iter().filter(|at| (from..from + 1).contains(&(**at / hour))).count();
        let (night, afternoon) = (within(2), within(14));
        assert!(
            (60..200).contains(&night) && (3_200..3_800).contains(&afternoon),
            "{night} {afternoon}"
        );
    }

    #[test]
    fn errors_of_loads_name_what_was_expected() {
        for (text, why) in [
            ("", "it is empty"),
            ("sometimes", "\"sometimes\" is no kind of load"),
            ("poisson", "rate \"\""),
            ("poisson 3", "such as 3/second"),
            ("poisson 3/second burst=5", "such as 3/second"),
            ("bursts of many every 10s", "a number from 1"),
            ("bursts of 10", "a time between bursts"),
            ("bursts of 10 every soon", "such as 500ms"),
            ("constant 2000/millisecond", "at most a million"),
            ("bursts of 2000 every 1ms", "at most a million"),
            ("daily 1/second", "a rate at night and a peak"),
            ("daily 2/second peak 1/second", "not above"),
        ] {
            let error = text.parse::<Load>().unwrap_err();
            assert!(
                error.contains(why) && error.contains("write \"constant 3/second\""),
                "{text}: {error}"
            );
        }
    }

    proptest::proptest! {
        #[test]
        fn arrivals_do_not_go_back(seed: u64, kind in 0_usize..4) {
            let texts = ["constant 3/second", "poisson 3/second", "bursts of 3 every 1s", "daily 1/minute peak 5/second"];
            let mut arrivals = Arrivals::new(texts[kind].parse().unwrap(), Random::new(seed, 0, 0));
            let times: Vec<_> = (0..200).map(|_| arrivals.next()).collect();
            proptest::prop_assert!(times.is_sorted());
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,40}") {
            if let Ok(load) = text.parse::<Load>() {
                proptest::prop_assert_eq!(load.to_string().parse::<Load>(), Ok(load));
            }
        }
    }
}
