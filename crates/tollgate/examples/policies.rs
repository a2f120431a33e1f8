//! Shows several limits on one key, and all-or-nothing hits on several keys.
//!
//! ```text
//! cargo run --example policies
//! ```

use std::time::Duration;

use tollgate::{Decision, Limit, ManualClock, Memory, Outcome, Policy, Timestamp, hit_all};

fn main() -> Result<(), tollgate::Error> {
    let clock = ManualClock::new(Timestamp::from_micros(1_767_225_600_000_000));
    let store = Memory::builder().clock(clock.clone()).build();

    println!("one key, two limits: 3/second and 5/minute");
    let limiter = store.limiter("3/second; 5/minute fixed-window")?;
    for (second, hits) in [(0, 4), (1, 4)] {
        for _ in 0..hits {
            show(second, limiter.policy(), &limiter.hit("alice"));
        }
        clock.advance(Duration::from_secs(1));
    }

    println!("\na denied hit is not charged; the headline is the limit to show");
    let refused = limiter.hit("alice");
    println!(
        "  the limit of {} is used up: {}",
        refused.headline().limit(),
        wait(refused.retry_after())
    );
    println!("  in use: {:?}", used(&limiter.peek("alice")));

    println!("\na refund, because the work failed after it was admitted");
    let decision = limiter.hit("bob");
    println!("  after the hit:    {:?} in use", used(&limiter.peek("bob")));
    let _ = limiter.refund("bob", &decision);
    println!("  after the refund: {:?} in use", used(&limiter.peek("bob")));

    println!("\nseveral keys: a message is charged to its sender and to the room, or to neither");
    let senders = store.limiter(Limit::per_minute(10).name("sender"))?;
    let rooms = store.limiter(Limit::per_minute(2).name("room"))?;
    for sender in ["alice", "bob", "carol"] {
        let both = hit_all(&[senders.item(sender, 1), rooms.item("lobby", 1)])?;
        let [own, room] = both.outcomes() else { unreachable!("two items, two outcomes") };
        if both.allowed() {
            println!("  {sender:<6} sent");
        } else {
            let (own, room) = (yes(own.allowed()), yes(room.allowed()));
            let wait = wait(both.retry_after());
            println!(
                "  {sender:<6} not sent: allowed by the sender's limit: {own}, by the room's: {room}; {wait}"
            );
        }
    }
    println!("  carol was not charged: {} in use", senders.usage("carol"));
    Ok(())
}

fn show(second: u32, policy: &Policy, decision: &Decision) {
    let verdict = if decision.allowed() { "admitted" } else { "refused " };
    let left: Vec<String> = policy
        .limits()
        .iter()
        .zip(decision.outcomes())
        .map(|(limit, outcome)| format!("{} of {limit}", outcome.remaining()))
        .collect();
    println!("  {second} s  {verdict}  left: {}", left.join(", "));
}

fn yes(allowed: bool) -> &'static str {
    if allowed { "yes" } else { "no" }
}

fn wait(retry_after: Option<Duration>) -> String {
    match retry_after {
        Some(Duration::ZERO) => String::new(),
        Some(wait) => format!("try again in {wait:?}"),
        None => "this can never pass".to_owned(),
    }
}

/// Returns the units in use of each limit.
fn used(decision: &Decision) -> Vec<u64> {
    decision.outcomes().iter().map(Outcome::used).collect()
}
