//! How a store stays small: a hard bound on keys, cleaning without a thread, and a list of the
//! busiest keys.
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
    let (keys_gone, units_gone) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (keys, units) = (Arc::clone(&keys_gone), Arc::clone(&units_gone));
    let store = Memory::builder()
        .clock(clock.clone())
        .max_keys(1_000)
        .clean_period(Duration::from_secs(30))
        // Each forgotten key is reported once. Here the last count of every window is added to the
        // books.
        .before_clean(move |batch| {
            keys.fetch_add(batch.len() as u64, Ordering::Relaxed);
            units.fetch_add(batch.iter().map(Expired::value).sum(), Ordering::Relaxed);
        })
        .build();
    let limiter = store.limiter("100/minute fixed-window".parse::<Limit>()?)?;

    println!("three customers at work");
    for (customer, hits) in [("alice", 70), ("bob", 20), ("carol", 5)] {
        for _ in 0..hits {
            let _ = limiter.hit(customer);
        }
    }
    for usage in store.busiest(2) {
        println!("  busy: {} with {} of {}", usage.key(), usage.used(), usage.limit());
    }

    println!("\nan attacker with 5,000 made-up keys, and room for 1,000");
    let (mut admitted, mut shared) = (0, 0);
    for number in 0..5_000 {
        let decision = limiter.hit(("attacker", number));
        admitted += u32::from(decision.allowed());
        shared += u32::from(decision.source() == Source::Overflow);
    }
    println!("  keys held:              {}", store.len());
    println!("  hits on a shared state: {shared}, the store counts {}", store.overflowed());
    println!(
        "  admitted:               {admitted}, one for each of 997 keys and 100 on the shared state"
    );
    println!("  alice is where she was: {} used", limiter.usage("alice"));

    println!("\na minute later all windows have ended");
    clock.advance(Duration::from_secs(60));
    println!("  cleaned by hand: {} keys", store.clean());
    println!(
        "  before_clean saw {} keys with {} units",
        keys_gone.load(Ordering::Relaxed),
        units_gone.load(Ordering::Relaxed)
    );
    println!("  keys held now:   {}", store.len());

    println!("\nnobody has to call clean: hits do it in small steps, once in a clean period");
    for number in 0..500 {
        let _ = limiter.hit(number);
    }
    println!("  keys held:       {}", store.len());
    clock.advance(Duration::from_secs(90));
    for _ in 0..1_000 {
        let _ = limiter.hit("alice");
    }
    println!("  after some hits: {}", store.len());
    Ok(())
}
