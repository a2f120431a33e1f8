//! Shows how a store stays small: with a bound on keys, and cleaning without a thread. Also lists
//! the busiest keys.
//!
//! ```text
//! cargo run --example housekeeping
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate::memory::Expired;
use tollgate::{Limit, ManualClock, Memory, Source, Timestamp};

fn main() -> Result<(), tollgate::Error> {
    let clock = ManualClock::new(Timestamp::from_micros(1_767_225_600_000_000));
    let (keys_forgotten, units_forgotten) =
        (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (keys, units) = (Arc::clone(&keys_forgotten), Arc::clone(&units_forgotten));
    let store = Memory::builder()
        .clock(clock.clone())
        .max_keys(1_000)
        .clean_period(Duration::from_secs(30))
        // Each forgotten key is reported once. Here the last count of each window is added to a
        // sum.
        .before_clean(move |batch| {
            keys.fetch_add(batch.len() as u64, Ordering::Relaxed);
            units.fetch_add(batch.iter().map(Expired::value).sum(), Ordering::Relaxed);
        })
        .build();
    let limiter = store.limiter("100/minute fixed-window".parse::<Limit>()?)?;

    println!("three customers send hits");
    for (customer, hits) in [("alice", 70), ("bob", 20), ("carol", 5)] {
        for _ in 0..hits {
            let _ = limiter.hit(customer);
        }
    }
    for usage in store.busiest(2) {
        println!("  busy: {} with {} of {}", usage.key(), usage.used(), usage.limit());
    }

    println!("\nan attacker sends hits with 5,000 different keys to a store that keeps 1,000");
    let (mut admitted, mut shared) = (0, 0);
    for number in 0..5_000 {
        let decision = limiter.hit(("attacker", number));
        admitted += u32::from(decision.allowed());
        shared += u32::from(decision.source() == Source::Overflow);
    }
    println!("  keys in the store:      {}", store.len());
    println!("  hits on a shared state: {shared} (counter of the store: {})", store.overflowed());
    println!(
        "  admitted:               {admitted} hits: one for each of 997 keys, and 100 on the shared state"
    );
    println!("  units of alice:         {}, as before", limiter.usage("alice"));

    println!("\na minute later all windows have ended");
    clock.advance(Duration::from_secs(60));
    println!("  clean() forgot {} keys", store.clean());
    println!(
        "  before_clean got {} keys with {} units",
        keys_forgotten.load(Ordering::Relaxed),
        units_forgotten.load(Ordering::Relaxed)
    );
    println!("  keys in the store: {}", store.len());

    println!(
        "\nclean() need not be called: hits clean the store in small steps, once in a clean period"
    );
    for number in 0..500 {
        let _ = limiter.hit(number);
    }
    println!("  keys in the store: {}", store.len());
    clock.advance(Duration::from_secs(90));
    for _ in 0..1_000 {
        let _ = limiter.hit("alice");
    }
    println!("  after some hits: {}", store.len());
    Ok(())
}
