//! A limit that all processes of a service share.
//!
//! Run it in two terminals against the same server: together they get ten per second.
//!
//! ```sh
//! REDIS_URL=redis://127.0.0.1/ cargo run -p tollgate-redis --example redis
//! ```

use std::time::Duration;

use tollgate::Source;
use tollgate::shared::{OnFailure, Share};
use tollgate_redis::Redis;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), tollgate::Error> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1/".into());
    let store = Redis::connect(url).await?;
    // Two processes: each continues with half of the limit while Redis is away.
    let on_failure = OnFailure::Local(Share::one_of(2)?);
    let limiter = store.limiter("10/second")?.on_failure(on_failure)?;

    for request in 1..=20 {
        let decision = limiter.within(Duration::from_millis(50)).hit("user:42").await?;
        let verdict = if decision.allowed() { "allowed" } else { "denied " };
        let from = match decision.source() {
            Source::Store => "Redis",
            Source::DenialCache => "memory",
            _ => "the local share",
        };
        print!("request {request:2}  {verdict}  {:2} left, says {from}", decision.remaining());
        match decision.retry_after() {
            Some(wait) if !wait.is_zero() => println!("; again in {wait:.0?}"),
            _ => println!(),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
