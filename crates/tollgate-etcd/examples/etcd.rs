//! A limit that all processes of a service share and that no crash forgets.
//!
//! Run it in two terminals against the same cluster: together they get five per minute.
//!
//! ```sh
//! ETCD_URL=etcd://127.0.0.1:2379 cargo run -p tollgate-etcd --example etcd
//! ```

use std::time::Duration;

use tollgate::Source;
use tollgate::shared::OnFailure;
use tollgate_etcd::Etcd;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), tollgate::Error> {
    let url = std::env::var("ETCD_URL").unwrap_or_else(|_| "etcd://127.0.0.1:2379".into());
    let store = Etcd::connect(url).await?;
    // Closed on failure: without a majority of the members, no request passes.
    let limiter = store.limiter("5/minute")?.on_failure(OnFailure::Closed)?;

    for attempt in 1..=8 {
        let decision =
            limiter.within(Duration::from_secs(1)).hit("sign-up from 203.0.113.7").await?;
        let verdict = if decision.allowed() { "allowed" } else { "denied " };
        let from = match decision.source() {
            Source::Store => "etcd",
            Source::DenialCache => "memory",
            _ => "nobody",
        };
        print!("attempt {attempt}  {verdict}  {} left, says {from}", decision.remaining());
        match decision.retry_after() {
            Some(wait) if !wait.is_zero() => println!("; again in {wait:.0?}"),
            _ => println!(),
        }
    }
    Ok(())
}
