use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use proptest::prelude::*;

use super::{Counter, EARLY, SPAN, Sources, Speed};

/// The ticks of the counter in a microsecond.
const TICKS: u64 = 2_600;
const DAY: u64 = 86_400_000_000;

/// Time sources that a test sets.
#[derive(Default)]
struct Moved {
    ticks: AtomicU64,
    os_micros: AtomicU64,
}

impl Sources for Moved {
    fn ticks(&self) -> u64 {
        self.ticks.load(Ordering::SeqCst)
    }

    fn os_micros(&self) -> u64 {
        self.os_micros.load(Ordering::SeqCst)
    }
}

/// Returns a clock that overestimates the speed of its counter by this many millionths.
fn clock(error: i64) -> Counter<Moved> {
    let sources = Moved::default();
    sources.ticks.store(1 << 44, Ordering::SeqCst);
    sources.os_micros.store(1 << 50, Ordering::SeqCst);
    let ticks = (TICKS * 1_000_000).saturating_add_signed(TICKS as i64 * error);
    Counter::new(sources, Speed::new((((1_u128 << 40) * 1_000_000) / u128::from(ticks)) as u64))
}

impl Counter<Moved> {
    fn advance(&self, ticks: i64, micros: u64) {
        let now = self.sources.ticks().wrapping_add_signed(ticks);
        self.sources.ticks.store(now, Ordering::SeqCst);
        self.sources.os_micros.fetch_add(micros, Ordering::SeqCst);
    }

    /// Returns how far the clock is ahead of the operating system's clock, in microseconds.
    fn ahead(&self) -> i64 {
        let time = self.micros();
        time.wrapping_sub(self.sources.os_micros()).cast_signed()
    }
}

/// Generates the time between two readings, in microseconds: from zero to years, mostly short.
fn micros() -> impl Strategy<Value = u64> {
    prop_oneof![0..5_u64, 0..2 * SPAN, 0..1_000 * SPAN, 0..1_000 * DAY]
}

proptest! {
    #[test]
    fn the_time_is_correct_after_any_idle_time(idle in prop::collection::vec(micros(), 1..50)) {
        let clock = clock(0);
        for micros in idle {
            clock.advance((micros * TICKS) as i64, micros);
            prop_assert!(clock.ahead().abs() <= 1, "{}", clock.ahead());
        }
    }

    #[test]
    fn errors_from_a_wrong_speed_do_not_add_up(
        error in -100_000..100_000_i64,
        idle in prop::collection::vec(micros(), 1..50),
    ) {
        let clock = clock(error);
        let most = error.abs() * SPAN as i64 / 800_000 + 2;
        for micros in idle {
            clock.advance((micros * TICKS) as i64, micros);
            prop_assert!(clock.ahead().abs() <= most, "{}", clock.ahead());
        }
    }

    /// While the machine is suspended, a counter may stand still, continue or restart.
    #[test]
    fn a_counter_that_jumps_does_not_shift_the_time_for_long(
        steps in prop::collection::vec((any::<i64>(), 0..i64::BITS, micros()), 1..100),
    ) {
        let clock = clock(0);
        let mut latest = clock.micros();
        for (ticks, smaller, micros) in steps {
            clock.advance(ticks >> smaller, micros);
            prop_assert!(clock.ahead() <= SPAN as i64);
            let time = clock.micros();
            prop_assert!(time + SPAN >= latest, "the time went back by {}", latest - time);
            latest = latest.max(time);
            // A millisecond later the error is at most two spans.
            clock.advance((SPAN * TICKS) as i64, SPAN);
            prop_assert!(clock.ahead().abs() <= 2 * SPAN as i64, "{}", clock.ahead());
        }
    }

    #[test]
    fn a_counter_that_never_goes_back_never_sets_the_time_back(
        steps in prop::collection::vec((any::<i64>(), 1..i64::BITS, micros()), 1..100),
    ) {
        let clock = clock(0);
        let mut latest = clock.micros();
        for (ticks, smaller, micros) in steps {
            clock.advance((ticks >> smaller).saturating_abs() >> 7, micros);
            let time = clock.micros();
            prop_assert!(time >= latest);
            latest = time;
        }
    }

    /// On a core whose counter lags, the time is earlier by no more than the lag.
    #[test]
    fn a_lagging_core_shifts_the_time_by_no_more_than_its_lag(
        steps in prop::collection::vec((0..SPAN / EARLY - 1, micros()), 1..100),
    ) {
        let clock = clock(0);
        for (lag, micros) in steps {
            clock.advance((micros * TICKS) as i64, micros);
            prop_assert!(clock.ahead().abs() <= 1);
            clock.advance(-((lag * TICKS) as i64), 0);
            prop_assert!(clock.ahead().abs() <= lag as i64 + 1, "{} at {lag}", clock.ahead());
            clock.advance((lag * TICKS) as i64, 0);
        }
    }
}

/// The tolerance is two microseconds, because a processor may read its counter before it has read
/// the value that another thread wrote.
#[test]
fn time_does_not_go_back_between_threads() {
    let clock = super::super::SystemClock::apart();
    let latest = AtomicU64::new(0);
    let run = || {
        for _ in 0..200_000 {
            let before = latest.load(Ordering::SeqCst);
            let time = crate::Clock::now(&clock).as_micros();
            assert!(time + 2 >= before, "the time went back by {}", before - time);
            latest.fetch_max(time, Ordering::SeqCst);
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(run)).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
