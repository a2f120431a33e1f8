//! The reaction of a client to a denial.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::load::span;
use crate::random::Random;

/// The reaction of a client to a denial.
///
/// ```
/// use tollgate_simulate::Retry;
///
/// assert_eq!("none".parse(), Ok(Retry::None));
/// assert!("backoff base=1s max=1m jitter=none".parse::<Retry>().is_ok());
/// assert!("later".parse::<Retry>().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retry {
    /// It gives up.
    #[default]
    None,
    /// It tries again as soon as it has the answer.
    Immediate,
    /// It waits as long as the header `Retry-After` says, which has whole seconds.
    RetryAfter,
    /// It waits exactly as long as the decision says.
    RetryAfterExact,
    /// It doubles its wait with every attempt.
    Backoff {
        /// The wait after the first attempt.
        base: Duration,
        /// The longest wait.
        max: Duration,
        /// It waits a random time up to that.
        jitter: bool,
    },
}

impl FromStr for Retry {
    type Err = String;

    fn from_str(text: &str) -> Result<Retry, String> {
        let wrong = |why: &str| {
            format!(
                "retry {text:?}: {why}; write none, immediate, retry-after, \"retry-after exact\" or \"backoff base=100ms max=30s jitter=full\""
            )
        };
        let mut words = text.split_whitespace();
        let kind = words.next().unwrap_or_default();
        let rest: Vec<&str> = words.collect();
        match (kind, &rest[..]) {
            ("none", []) => Ok(Retry::None),
            ("immediate", []) => Ok(Retry::Immediate),
            ("retry-after", []) => Ok(Retry::RetryAfter),
            ("retry-after", ["exact"]) => Ok(Retry::RetryAfterExact),
            ("backoff", options) => backoff(options).map_err(|error| wrong(&error)),
            ("", _) => Err(wrong("it is empty")),
            (_, []) => Err(wrong(&format!("{kind:?} is no way to try again"))),
            (_, [option, ..]) => Err(wrong(&format!("{kind} has no option {option:?}"))),
        }
    }
}

fn backoff(options: &[&str]) -> Result<Retry, String> {
    let (mut base, mut max, mut jitter) =
        (Duration::from_millis(100), Duration::from_secs(30), true);
    for option in options {
        match option.split_once('=') {
            Some(("base", value)) => base = span(value)?,
            Some(("max", value)) => max = span(value)?,
            Some(("jitter", "full")) => jitter = true,
            Some(("jitter", "none")) => jitter = false,
            _ => return Err(format!("backoff has no option {option:?}")),
        }
    }
    if base > max {
        return Err("base is above max".to_owned());
    }
    Ok(Retry::Backoff { base, max, jitter })
}

impl fmt::Display for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = |span: Duration| {
            let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
            tollgate_report::span(micros).replace(' ', "")
        };
        match self {
            Retry::None => f.write_str("none"),
            Retry::Immediate => f.write_str("immediate"),
            Retry::RetryAfter => f.write_str("retry-after"),
            Retry::RetryAfterExact => f.write_str("retry-after exact"),
            Retry::Backoff { base, max, jitter } => {
                let jitter = if *jitter { "full" } else { "none" };
                write!(f, "backoff base={} max={} jitter={jitter}", short(*base), short(*max))
            }
        }
    }
}

impl Retry {
    /// How long a client waits after its `attempt`th attempt (from 1) was denied; `None` if it
    /// gives up.
    pub(crate) fn wait(
        self,
        attempt: u32,
        retry_after: Option<Duration>,
        random: &mut Random,
    ) -> Option<Duration> {
        match self {
            Retry::None => None,
            Retry::Immediate => Some(Duration::ZERO),
            Retry::RetryAfter => Some(Duration::from_secs(tollgate::seconds_up(retry_after?))),
            Retry::RetryAfterExact => retry_after,
            Retry::Backoff { base, max, jitter } => {
                let doubled = 1_u32.checked_shl(attempt.saturating_sub(1)).unwrap_or(u32::MAX);
                let wait = base.saturating_mul(doubled).min(max);
                if !jitter {
                    return Some(wait);
                }
                let micros = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX - 1);
                Some(Duration::from_micros(random.below(micros + 1)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_to_retry_has_its_waits() {
        let mut random = Random::new(1, 1, 1);
        let answer = Some(Duration::from_millis(1_200));
        let mut wait = |text: &str, attempt| {
            text.parse::<Retry>()
                .unwrap()
                .wait(attempt, answer, &mut random)
                .map(|wait| wait.as_millis())
        };
        assert_eq!(wait("none", 1), None);
        assert_eq!(wait("immediate", 1), Some(0));
        assert_eq!(wait("retry-after", 1), Some(2_000));
        assert_eq!(wait("retry-after exact", 1), Some(1_200));
        let backoff = "backoff base=1s max=5s jitter=none";
        assert_eq!(
            [1, 2, 3, 4, 99].map(|n| wait(backoff, n)),
            [1_000, 2_000, 4_000, 5_000, 5_000].map(Some)
        );
        assert!((1..20).all(|_| wait("backoff base=1s max=1s", 1) <= Some(1_000)));
    }

    #[test]
    fn errors_of_ways_to_retry_name_what_was_expected() {
        for (text, why) in [
            ("", "it is empty"),
            ("later", "\"later\" is no way"),
            ("immediate now", "no option \"now\""),
            ("backoff base", "no option \"base\""),
            ("backoff base=soon", "such as 500ms"),
            ("backoff base=2m max=1m", "above max"),
        ] {
            let error = text.parse::<Retry>().unwrap_err();
            assert!(error.contains(why) && error.contains("write none"), "{text}: {error}");
        }
        for text in ["none", "immediate", "retry-after", "retry-after exact", "backoff"] {
            let retry: Retry = text.parse().unwrap();
            assert_eq!(retry.to_string().parse(), Ok(retry), "{text}");
        }
    }
}
