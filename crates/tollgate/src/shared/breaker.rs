//! The circuit breaker. It stops calls to a store that does not answer, and lets probes through to
//! find out whether the store answers again. It reads no clock: the time is an argument.

use crate::time::Timestamp;

/// The settings of a breaker: when it opens, and how long it stays open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// The breaker opens after this many failures in a row, if `span` microseconds lie between the
    /// first and the last. So a short interruption while many calls are in progress does not open
    /// it.
    pub(crate) failures: u32,
    pub(crate) span: u64,
    /// The time until the first probe, in microseconds. It doubles with every probe that fails.
    pub(crate) pause: u64,
    /// The longest pause, in microseconds.
    pub(crate) longest_pause: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// All calls go to the store. There were `failures` failures in a row, the first of them at
    /// `since`.
    Closed { failures: u32, since: Timestamp },
    /// No call goes to the store before `until`.
    Open { until: Timestamp, pause: u64 },
    /// One call went to the store as a probe at `since`. No other call goes to the store.
    Probing { since: Timestamp, pause: u64 },
}

const CLOSED: State = State::Closed { failures: 0, since: Timestamp::EPOCH };

/// Whether a call may go to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    /// Call the store.
    Ask,
    /// Call the store. The answer decides whether the breaker closes.
    Probe,
    /// Do not call the store before this time.
    Wait(Timestamp),
}

/// The change of the breaker by the result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Nothing,
    Opened,
    Closed,
}

/// The health of a lane (a part of the store that fails as a whole), according to its last calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// It answered the last call, or has not been called yet.
    Answers,
    /// The last call failed. The next call may go to the store.
    Unknown,
    /// The breaker is open: no call may go to the store.
    Open,
}

/// The breaker of one lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Breaker {
    state: State,
}

impl Breaker {
    pub(crate) const fn new() -> Breaker {
        Breaker { state: CLOSED }
    }

    pub(crate) fn enter(&mut self, settings: &Settings, now: Timestamp) -> Permission {
        match self.state {
            State::Closed { .. } => Permission::Ask,
            State::Open { until, .. } if now < until => Permission::Wait(until),
            State::Open { pause, .. } => {
                self.state = State::Probing { since: now, pause };
                Permission::Probe
            }
            // If a probe was abandoned without a result, another one follows.
            State::Probing { since, pause } if now >= since.plus(settings.longest_pause) => {
                self.state = State::Probing { since: now, pause };
                Permission::Probe
            }
            State::Probing { since, pause } => Permission::Wait(since.plus(pause)),
        }
    }

    /// Returns the time until the store is called again, in microseconds. It is at least one.
    pub(crate) fn pause_left(&self, settings: &Settings, now: Timestamp) -> u64 {
        let until = match self.state {
            State::Closed { .. } => now.plus(settings.pause),
            State::Open { until, .. } => until,
            State::Probing { since, pause } => since.plus(pause),
        };
        u64::try_from(until.since(now).as_micros()).unwrap_or(u64::MAX).max(1)
    }

    pub(crate) fn health(&self, now: Timestamp) -> Health {
        match self.state {
            State::Closed { failures: 0, .. } => Health::Answers,
            State::Closed { .. } => Health::Unknown,
            State::Open { until, .. } if now >= until => Health::Unknown,
            State::Open { .. } | State::Probing { .. } => Health::Open,
        }
    }

    /// Records that the store answered, with a decision or with an error.
    pub(crate) fn succeeded(&mut self) -> Turn {
        let was = std::mem::replace(&mut self.state, CLOSED);
        if matches!(was, State::Closed { .. }) { Turn::Nothing } else { Turn::Closed }
    }

    /// Records that the store did not answer. `jitter` is a number of thousandths: it lengthens the
    /// pause by up to a quarter, so that processes do not all probe at the same time.
    pub(crate) fn failed(
        &mut self,
        settings: &Settings,
        now: Timestamp,
        probe: bool,
        jitter: u64,
    ) -> Turn {
        let open = |pause: u64| {
            let pause = pause.min(settings.longest_pause);
            let until = now.plus(pause + pause / 4 * jitter.min(1000) / 1000);
            State::Open { until, pause }
        };
        match self.state {
            State::Closed { failures, since } => {
                let since = if failures == 0 { now } else { since };
                let failures = failures.saturating_add(1);
                if failures < settings.failures || now < since.plus(settings.span) {
                    self.state = State::Closed { failures, since };
                    return Turn::Nothing;
                }
                self.state = open(settings.pause);
                Turn::Opened
            }
            State::Probing { pause, .. } if probe => {
                self.state = open(pause.saturating_mul(2));
                Turn::Nothing
            }
            // The call was sent before the breaker opened, so its failure changes nothing.
            State::Open { .. } | State::Probing { .. } => Turn::Nothing,
        }
    }

    /// Records that the caller of a probe has given up without a result. The next caller may probe.
    pub(crate) fn abandoned(&mut self, now: Timestamp) {
        if let State::Probing { pause, .. } = self.state {
            self.state = State::Open { until: now, pause };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: Settings = Settings { failures: 3, span: 0, pause: 100, longest_pause: 1_000 };

    fn at(micros: u64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    fn opened() -> Breaker {
        let mut breaker = Breaker::new();
        for _ in 0..3 {
            assert_eq!(breaker.enter(&SETTINGS, at(0)), Permission::Ask);
        }
        assert_eq!(breaker.failed(&SETTINGS, at(0), false, 0), Turn::Nothing);
        assert_eq!(breaker.failed(&SETTINGS, at(0), false, 0), Turn::Nothing);
        assert_eq!(breaker.failed(&SETTINGS, at(0), false, 0), Turn::Opened);
        breaker
    }

    #[test]
    fn a_breaker_opens_only_after_failures_in_a_row() {
        let mut breaker = Breaker::new();
        for _ in 0..10 {
            breaker.failed(&SETTINGS, at(0), false, 0);
            breaker.failed(&SETTINGS, at(0), false, 0);
            assert_eq!(breaker.succeeded(), Turn::Nothing);
        }
        assert_eq!(breaker.enter(&SETTINGS, at(0)), Permission::Ask);
        assert_eq!(opened().enter(&SETTINGS, at(99)), Permission::Wait(at(100)));
    }

    #[test]
    fn a_short_interruption_of_many_calls_does_not_open_the_breaker() {
        let settings = Settings { span: 10, ..SETTINGS };
        let mut breaker = Breaker::new();
        for _ in 0..100 {
            assert_eq!(breaker.failed(&settings, at(5), false, 0), Turn::Nothing);
        }
        assert_eq!(breaker.failed(&settings, at(14), false, 0), Turn::Nothing);
        assert_eq!(breaker.failed(&settings, at(15), false, 0), Turn::Opened);
    }

    #[test]
    fn one_probe_is_admitted_when_the_pause_is_over() {
        let mut breaker = opened();
        assert_eq!(breaker.enter(&SETTINGS, at(100)), Permission::Probe);
        assert!(matches!(breaker.enter(&SETTINGS, at(100)), Permission::Wait(_)));
        assert_eq!(breaker.succeeded(), Turn::Closed);
        assert_eq!(breaker.enter(&SETTINGS, at(100)), Permission::Ask);
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let mut breaker = opened();
        let (mut now, mut pauses) = (100, vec![]);
        for _ in 0..6 {
            assert_eq!(breaker.enter(&SETTINGS, at(now)), Permission::Probe);
            breaker.failed(&SETTINGS, at(now), true, 0);
            let Permission::Wait(until) = breaker.enter(&SETTINGS, at(now)) else { panic!("open") };
            pauses.push(until.as_micros() - now);
            now = until.as_micros();
        }
        assert_eq!(pauses, [200, 400, 800, 1_000, 1_000, 1_000]);
    }

    #[test]
    fn jitter_lengthens_a_pause_by_up_to_a_quarter() {
        let mut breaker = opened();
        breaker.enter(&SETTINGS, at(100));
        breaker.failed(&SETTINGS, at(100), true, 1_000);
        assert_eq!(breaker.enter(&SETTINGS, at(100)), Permission::Wait(at(350)));
    }

    #[test]
    fn a_breaker_reports_when_the_store_is_asked_again() {
        let mut breaker = Breaker::new();
        assert_eq!(
            breaker.pause_left(&SETTINGS, at(0)),
            100,
            "a closed breaker reports the first pause"
        );
        breaker = opened();
        assert_eq!(breaker.pause_left(&SETTINGS, at(40)), 60);
        assert_eq!(breaker.enter(&SETTINGS, at(100)), Permission::Probe);
        assert_eq!(breaker.pause_left(&SETTINGS, at(130)), 70);
        breaker.failed(&SETTINGS, at(150), true, 0);
        assert_eq!(
            breaker.pause_left(&SETTINGS, at(150)),
            200,
            "the failed probe doubled the pause"
        );
        assert_eq!(breaker.pause_left(&SETTINGS, at(900)), 1);
    }

    #[test]
    fn an_abandoned_probe_is_followed_by_another_one() {
        let mut breaker = opened();
        assert_eq!(breaker.enter(&SETTINGS, at(100)), Permission::Probe);
        breaker.abandoned(at(150));
        assert_eq!(breaker.enter(&SETTINGS, at(150)), Permission::Probe);
        assert!(matches!(breaker.enter(&SETTINGS, at(200)), Permission::Wait(_)));
        assert_eq!(breaker.enter(&SETTINGS, at(1_150)), Permission::Probe);
    }

    #[test]
    fn failures_of_calls_sent_before_the_breaker_opened_do_not_lengthen_the_pause() {
        let mut breaker = opened();
        breaker.failed(&SETTINGS, at(50), false, 0);
        assert_eq!(breaker.enter(&SETTINGS, at(100)), Permission::Probe);
        breaker.failed(&SETTINGS, at(100), false, 0);
        assert_eq!(breaker.succeeded(), Turn::Closed);
    }
}
