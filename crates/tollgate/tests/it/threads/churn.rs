//! Checks of hits while another thread cleans as fast as it can, and keys expire all the time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tollgate::{Algorithm, Limit, Limiter, ManualClock};

use super::{Checked, expect_equal, on_threads};
use crate::stores::{START, Settings, Subject, limiter, supported};

const HITTERS: usize = 2;

/// The state that the hitting threads and the cleaning thread share.
#[derive(Default)]
struct Traffic {
    hits: AtomicU64,
    ended: AtomicUsize,
    cleaned: AtomicUsize,
}

impl Traffic {
    /// Numbers the hits of all threads, until there have been enough hits and enough cleanings.
    fn numbers(&self, enough: u64) -> impl Iterator<Item = u64> {
        std::iter::from_fn(move || {
            let n = self.hits.fetch_add(1, Ordering::Relaxed);
            let cleaned = self.cleaned.load(Ordering::Relaxed);
            (n < enough || cleaned < 200 && n < 20 * enough).then_some(n)
        })
    }
}

/// Runs `hit` on some threads, while another thread calls `clean` until they have ended.
fn while_cleaning<T: Send>(
    hit: impl Fn(usize, &Traffic) -> T + Sync,
    clean: impl Fn() + Sync,
) -> Vec<T> {
    let traffic = Traffic::default();
    let results = on_threads(HITTERS + 1, |index| {
        if index == HITTERS {
            while traffic.ended.load(Ordering::Acquire) < HITTERS {
                clean();
                traffic.cleaned.fetch_add(1, Ordering::Relaxed);
                std::thread::yield_now();
            }
            return None;
        }
        let result = hit(index, &traffic);
        traffic.ended.fetch_add(1, Ordering::AcqRel);
        Some(result)
    });
    results.into_iter().flatten().collect()
}

/// Returns settings with a manual clock, and a function with which the cleaning thread moves it by
/// a third of a millisecond.
pub(super) fn with_manual_clock() -> (Settings, impl Fn() + Sync) {
    let clock = ManualClock::new(START);
    let settings = Settings::new(clock.clone());
    (settings, move || clock.advance(Duration::from_micros(333)))
}

/// Keys of limits with a long period lose no hit, although the keys of other limits are forgotten
/// all the time.
pub(super) fn no_hit_is_lost_while_a_thread_cleans<S: Subject>() -> Checked {
    const KEYS: u64 = 4;
    const HITS: u64 = 40_000;
    let (settings, advance) = with_manual_clock();
    let settings = Settings { clean_period: Duration::from_millis(2), ..settings };
    let store = S::build(settings);
    let kinds = ["fixed-window-per-key", "elastic-window", "fixed-window-per-key name=wide"];
    let long = kinds.map(|kind| limiter(&store, &format!("250/90 days {kind}")));
    let short = ["1/millisecond", "1/millisecond fixed-window-per-key", "1/2 ms token-bucket"]
        .map(|text| limiter(&store, text));
    let counted = while_cleaning(
        |own, traffic| {
            let mut counted = BTreeMap::new();
            for n in traffic.numbers(HITS) {
                // All threads use the same key for some hits. After 1,000 hits they use new keys,
                // which are then added during a cleaning.
                let at = (n / 64 % 3) as usize;
                let key = n / 16 % KEYS + n / 1_000 * KEYS;
                if long[at].hit(key).allowed() {
                    *counted.entry((at, key)).or_insert(0_u64) += 1;
                }
                let _ = short[at].hit((own, n % 500));
            }
            counted
        },
        || {
            advance();
            store.sweep();
        },
    );
    let mut total = BTreeMap::new();
    for (place, count) in counted.into_iter().flatten() {
        *total.entry(place).or_insert(0) += count;
    }
    for ((at, key), count) in total {
        let what = format!("{} of key {key}: used", long[at].limits()[0]);
        expect_equal(&what, long[at].usage(key), count)?;
    }
    Ok(())
}

/// A window admits at most the limit, and windows of one key do not overlap, even if a thread
/// cleans at any time. The cleaning thread calls `advance`.
pub(super) fn windows_admit_at_most_the_limit<S: Subject>(
    settings: Settings,
    period_ms: u64,
    advance: impl Fn() + Sync,
) -> Checked {
    const QUOTA: u64 = 2;
    const KEYS: u64 = 8;
    const HITS: u64 = 40_000;
    let clock = settings.clock.clone();
    let store = S::build(Settings { clean_period: Duration::from_millis(1), ..settings });
    let period = Duration::from_millis(period_ms);
    let on = |algorithm| {
        let limit = Limit::new(QUOTA, period).algorithm(algorithm);
        supported(Limiter::new(&store, "", limit))
    };
    let (Some(aligned), Some(own), Some(bucket)) =
        (on(Algorithm::FixedWindow), on(Algorithm::FixedWindowPerKey), on(Algorithm::Gcra))
    else {
        return Err("every store supports fixed windows and GCRA".to_owned());
    };
    let began = clock.now();
    let results = while_cleaning(
        |_, traffic| {
            let (mut windows, mut passed) =
                ([BTreeMap::new(), BTreeMap::new()], [0; KEYS as usize]);
            for n in traffic.numbers(HITS) {
                let key = n / 4 % KEYS;
                // The mark identifies the charged window.
                for (limited, windows) in [&aligned, &own].into_iter().zip(&mut windows) {
                    let hit = limited.hit(key);
                    if hit.allowed() {
                        *windows.entry((key, hit.headline().receipt().mark)).or_insert(0) += 1;
                    }
                }
                passed[key as usize] += u64::from(bucket.hit(key).allowed());
            }
            (windows, passed)
        },
        || {
            advance();
            store.sweep();
        },
    );
    let micros = u64::try_from(period.as_micros()).unwrap_or(u64::MAX);
    let elapsed = u64::try_from(clock.now().since(began).as_micros()).unwrap_or(u64::MAX);
    for (at, least_apart) in [(0, 1), (1, micros)] {
        let mut total: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        for (place, count) in results.iter().flat_map(|(windows, _)| &windows[at]) {
            *total.entry(*place).or_insert(0) += count;
        }
        for ((key, window), count) in &total {
            if *count > QUOTA {
                return Err(format!("{count} admitted in window {window} of key {key}"));
            }
        }
        let marks: Vec<_> = total.keys().collect();
        for pair in marks.windows(2) {
            let ((key, earlier), (next_key, later)) = (pair[0], pair[1]);
            if key == next_key && later - earlier < least_apart {
                return Err(format!("windows {earlier} and {later} of key {key} overlap"));
            }
        }
    }
    for key in 0..KEYS as usize {
        let passed: u64 = results.iter().map(|(_, passed)| passed[key]).sum();
        let bound = QUOTA + QUOTA * elapsed / micros;
        if passed > bound {
            return Err(format!("GCRA: {passed} admitted where {bound} is the bound"));
        }
    }
    Ok(())
}
