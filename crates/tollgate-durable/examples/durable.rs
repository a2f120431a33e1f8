//! Limits that outlive the program.
//!
//! Run it twice within a minute: the second run continues with the counts of the first, also if the
//! first was killed.
//!
//! ```sh
//! DURABLE_PATH=/tmp/limits cargo run -p tollgate-durable --example durable
//! ```

use tollgate_durable::Durable;

fn main() -> Result<(), tollgate::Error> {
    let path = std::env::var("DURABLE_PATH")
        .unwrap_or_else(|_| std::env::temp_dir().join("tollgate-example").display().to_string());
    let store = Durable::open(path)?;
    let limiter = store.limiter("10/minute fixed-window-per-key")?;

    // Any executor works, because the store needs no runtime.
    tollgate_testkit::block_on(async {
        for request in 1..=6 {
            let decision = limiter.hit("user:42").await?;
            let verdict = if decision.allowed() { "allowed" } else { "denied " };
            print!("request {request}  {verdict}  {:2} of 10 used", decision.used());
            match decision.retry_after() {
                Some(wait) if !wait.is_zero() => println!("; again in {wait:.0?}"),
                _ => println!(),
            }
        }
        Ok::<(), tollgate::Error>(())
    })?;
    store.close()
}
