//! A limit that all processes of a service share.
//!
//! Run it in two terminals against the same database: together they get ten per second.
//!
//! ```sh
//! POSTGRES_URL=postgres://postgres@127.0.0.1/postgres cargo run -p tollgate-postgres --example postgres
//! ```
//!
//! With the argument `schema` it prints the SQL for a migration instead.

use std::time::Duration;

use tollgate::Source;
use tollgate::shared::{OnFailure, Share};
use tollgate_postgres::{Postgres, Tables};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), tollgate::Error> {
    if std::env::args().nth(1).as_deref() == Some("schema") {
        print!("{}", tollgate_postgres::schema("tollgate", Tables::Unlogged)?);
        return Ok(());
    }
    let url = std::env::var("POSTGRES_URL");
    let url = url.unwrap_or_else(|_| "postgres://postgres@127.0.0.1/postgres".into());
    let store = Postgres::connect(url).await?;
    // Two processes: each continues with half of the limit while the database is away.
    let on_failure = OnFailure::Local(Share::one_of(2)?);
    let limiter = store.limiter("10/second")?.on_failure(on_failure)?;

    for request in 1..=20 {
        let decision = limiter.within(Duration::from_millis(50)).hit("user:42").await?;
        let verdict = if decision.allowed() { "allowed" } else { "denied " };
        let from = match decision.source() {
            Source::Store => "PostgreSQL",
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
