//! Forgetting: what has run out, and what is cleared.

use std::time::Duration;

use tollgate::Error;

use crate::command;
use crate::worker::{WeakWorker, Worker};

/// Rows that are looked at in one statement, so that nobody waits long behind it.
const SLICE: usize = 200;

/// When a part of a slice had run out that is not smaller than this, the next slice follows soon.
const MANY: usize = SLICE / 4;

/// How soon.
const SOON: Duration = Duration::from_millis(10);

/// One slice, unless one was done by anybody less than `every` ago: how many rows went.
async fn slice(
    worker: &Worker,
    schema: &str,
    every: Duration,
    timeout: Duration,
) -> Result<Option<usize>, Error> {
    let sql = format!("SELECT {schema}.clean({SLICE},{})", every.as_micros());
    number(worker.run(sql, timeout).await?)
}

/// Cleans slice by slice, for as long as somebody holds the store.
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

/// Cleans all there is, whoever else is at it; how many rows went.
pub(crate) async fn clean(
    worker: &Worker,
    schema: &str,
    timeout: Duration,
) -> Result<usize, Error> {
    let mut gone = 0;
    // Slices go round: the first one may begin anywhere, and the last one begins at the start
    // again.
    let rows =
        number(worker.run(format!("SELECT count(*) FROM {schema}.counters"), timeout).await?)?;
    for _ in 0..=rows.unwrap_or(0) / SLICE + 1 {
        gone += slice(worker, schema, Duration::ZERO, timeout).await?.unwrap_or(0);
    }
    Ok(gone)
}

/// Forgets all keys that begin so.
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
