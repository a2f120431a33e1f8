//! A limit that all processes of a service share.
//!
//! Run it in two terminals against the same server: together they get ten per second.
//! `cargo run -p tollgate-redis --example redis -- redis://127.0.0.1/`

use std::time::Duration;

use tollgate::shared::{OnFailure, Share};
use tollgate_redis::Redis;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), tollgate::Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1/".into());
    let store = Redis::connect(url).await?;
    // Two processes: each goes on with its half when Redis is away.
    let on_failure = OnFailure::Local(Share::one_of(2)?);
    let limiter = store.limiter("10/second burst=10")?.on_failure(on_failure)?;

    for request in 1..=20 {
        let decision = limiter.within(Duration::from_millis(50)).hit("user:42").await?;
        println!(
            "request {request:2}: {:7}  {:2} of {} left, from the {:?}{}",
            if decision.allowed() { "allowed" } else { "denied" },
            decision.remaining(),
            decision.limit(),
            decision.source(),
            match decision.retry_after() {
                Some(wait) if !wait.is_zero() => format!(", again in {wait:.0?}"),
                _ => String::new(),
            }
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
