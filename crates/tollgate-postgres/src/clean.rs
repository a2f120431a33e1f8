//! Deletes states that have run out, and all keys with a prefix.

use std::time::Duration;

use tollgate::Error;

use crate::command;
use crate::worker::{WeakWorker, Worker};

/// Rows that one statement examines. Other statements wait behind it, so it must be short.
const SLICE: usize = 200;

/// If at least this many rows of a slice had expired, the next slice follows after [`SOON`].
const MANY: usize = SLICE / 4;

const SOON: Duration = Duration::from_millis(10);

/// Cleans one slice, unless any process cleaned one less than `every` ago. Returns the number of
/// deleted rows.
async fn slice(
    worker: &Worker,
    schema: &str,
    every: Duration,
    timeout: Duration,
) -> Result<Option<usize>, Error> {
    let sql = format!("SELECT {schema}.clean({SLICE},{})", every.as_micros());
    number(worker.run(sql, timeout).await?)
}

/// Cleans slice by slice until the store is dropped.
pub(crate) async fn keep_clean(
    worker: WeakWorker,
    schema: String,
    every: Duration,
    timeout: Duration,
) {
    let mut pause = every;
    loop {
        tokio::time::sleep(pause).await;
        let Some(worker) = worker.upgrade() else { return };
        let due = if pause == every { every } else { Duration::ZERO };
        pause = match slice(&worker, &schema, due, timeout).await {
            Ok(Some(gone)) if gone >= MANY => SOON.min(every),
            Ok(_) => every,
            Err(error) => {
                tracing::debug!(%error, "not cleaned");
                every
            }
        };
    }
}

/// Cleans all rows, even if other processes clean too. Returns the number of deleted rows.
pub(crate) async fn clean(
    worker: &Worker,
    schema: &str,
    timeout: Duration,
) -> Result<usize, Error> {
    let mut gone = 0;
    // Slices go round: the first one can begin anywhere, so one more is needed to reach all rows.
    let rows =
        number(worker.run(format!("SELECT count(*) FROM {schema}.counters"), timeout).await?)?;
    for _ in 0..=rows.unwrap_or(0) / SLICE + 1 {
        gone += slice(worker, schema, Duration::ZERO, timeout).await?.unwrap_or(0);
    }
    Ok(gone)
}

/// Deletes all keys with this prefix.
pub(crate) async fn clear(
    worker: &Worker,
    schema: &str,
    prefix: &[u8],
    timeout: Duration,
) -> Result<(), Error> {
    let (start, stop) = (command::bytes(prefix), command::bytes(&crate::key::after(prefix)));
    let sql = format!("SELECT {schema}.clear({start},{stop},{SLICE})");
    while number(worker.run(sql.clone(), timeout).await?)?.unwrap_or(0) == SLICE {}
    Ok(())
}

fn number(value: Option<String>) -> Result<Option<usize>, Error> {
    let parse = |text: String| {
        text.parse().map_err(|_| Error::store(format!("not a number of rows: {text}"), false))
    };
    value.map(parse).transpose()
}
