use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use proptest::prelude::*;

use super::{Counter, EARLY, SPAN, Sources, Speed};

/// Ticks in a microsecond.
const TICKS: u64 = 2_600;
const DAY: u64 = 86_400_000_000;

/// Time sources that the test moves.
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

/// A clock that overestimates the speed of its counter by that many millionths.
fn clock(error: i64) -> Counter<Moved> {
    let sources = Moved::default();
    sources.ticks.store(1 << 44, Ordering::SeqCst);
    sources.os_micros.store(1 << 50, Ordering::SeqCst);
    let ticks = (TICKS * 1_000_000).saturating_add_signed(TICKS as i64 * error);
    Counter::new(sources, Speed::new((((1_u128 << 40) * 1_000_000) / u128::from(ticks)) as u64))
}

impl Counter<Moved> {
    fn pass(&self, ticks: i64, micros: u64) {
        let now = self.sources.ticks().wrapping_add_signed(ticks);
        self.sources.ticks.store(now, Ordering::SeqCst);
        self.sources.os_micros.fetch_add(micros, Ordering::SeqCst);
    }

    /// How far the clock is ahead of the operating system's.
    fn ahead(&self) -> i64 {
        let told = self.micros();
        told.wrapping_sub(self.sources.os_micros()).cast_signed()
    }
}

/// A span between two reads: from zero to years, most of them short.
fn micros() -> impl Strategy<Value = u64> {
    prop_oneof![0..5_u64, 0..2 * SPAN, 0..1_000 * SPAN, 0..1_000 * DAY]
}

proptest! {
    #[test]
    fn the_time_is_right_after_any_idle_time(idle in prop::collection::vec(micros(), 1..50)) {
        let clock = clock(0);
        for micros in idle {
            clock.pass((micros * TICKS) as i64, micros);
            prop_assert!(clock.ahead().abs() <= 1, "{}", clock.ahead());
        }
    }

    #[test]
    fn a_wrong_speed_never_adds_up(
        error in -100_000..100_000_i64,
        idle in prop::collection::vec(micros(), 1..50),
    ) {
        let clock = clock(error);
        let most = error.abs() * SPAN as i64 / 800_000 + 2;
        for micros in idle {
            clock.pass((micros * TICKS) as i64, micros);
            prop_assert!(clock.ahead().abs() <= most, "{}", clock.ahead());
        }
    }

    /// The counter stands still, goes on or restarts during a suspend.
    #[test]
    fn a_counter_that_misbehaves_does_not_shift_the_time(
        steps in prop::collection::vec((any::<i64>(), 0..i64::BITS, micros()), 1..100),
    ) {
        let clock = clock(0);
        let mut latest = clock.micros();
        for (ticks, smaller, micros) in steps {
            clock.pass(ticks >> smaller, micros);
            prop_assert!(clock.ahead() <= SPAN as i64);
            let told = clock.micros();
            prop_assert!(told + SPAN >= latest, "back by {}", latest - told);
            latest = latest.max(told);
            // A millisecond later the time is nearly right again.
            clock.pass((SPAN * TICKS) as i64, SPAN);
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
            clock.pass((ticks >> smaller).saturating_abs() >> 7, micros);
            let told = clock.micros();
            prop_assert!(told >= latest);
            latest = told;
        }
    }

    /// A core whose counter lags gives an earlier time, by no more than it lags.
    #[test]
    fn cores_may_differ_a_little(
        steps in prop::collection::vec((0..SPAN / EARLY - 1, micros()), 1..100),
    ) {
        let clock = clock(0);
        for (lag, micros) in steps {
            clock.pass((micros * TICKS) as i64, micros);
            prop_assert!(clock.ahead().abs() <= 1);
            clock.pass(-((lag * TICKS) as i64), 0);
            prop_assert!(clock.ahead().abs() <= lag as i64 + 1, "{} at {lag}", clock.ahead());
            clock.pass((lag * TICKS) as i64, 0);
        }
    }
}

/// A processor may read its counter before it has read what another thread wrote. That explains the
/// tolerance of two microseconds.
#[test]
fn time_does_not_go_back_between_threads() {
    let clock = super::super::SystemClock::apart();
    let latest = AtomicU64::new(0);
    let run = || {
        for _ in 0..200_000 {
            let before = latest.load(Ordering::SeqCst);
            let told = crate::Clock::now(&clock).as_micros();
            assert!(told + 2 >= before, "{} back", before - told);
            latest.fetch_max(told, Ordering::SeqCst);
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(run)).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
