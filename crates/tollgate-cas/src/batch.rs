//! One batch of a queue: all waiting jobs are decided, one after the other, and written in one
//! swap.

use std::hash::BuildHasher;
use std::time::Duration;

use foldhash::fast::RandomState;
use tollgate::algorithm::AnyState;
use tollgate::{Clock, Error, Outcome, Timestamp};

use crate::cache::{CachedCell, MAX_VALUE_BYTES};
use crate::cells::{Cell, Cells, Change, Name, Swap, Swapped};
use crate::job::{CellCall, Job};
use crate::{Inner, value};

/// After this many lost races in a row, pause before the next try.
const RACES_BEFORE_PAUSE: u32 = 3;

const MAX_PAUSE_MILLIS: u64 = 16;

/// How much longer than needed a state lives if the caller gave the time. That time may run slower
/// than the store's clock.
const GIVEN_TIME_MARGIN: Duration = Duration::from_secs(60);

type Answer = Result<Vec<Outcome>, Error>;

/// The result of applying the jobs to copies of the states. Valid only if the swap succeeds.
struct Draft {
    answers: Vec<Answer>,
    /// For each cell: the state to write, if it changed.
    writes: Vec<Option<Write>>,
}

/// A state that differs from the one in the store.
struct Write {
    /// `None` to delete the cell.
    state: Option<AnyState>,
    written: Timestamp,
    value: Vec<u8>,
    keep: Duration,
}

/// Decides all jobs and replies to their callers.
pub(crate) async fn decide<C: Cells>(inner: &Inner<C>, names: &[Name], mut jobs: Vec<Job>) {
    let result = read_and_swap(inner, names, &mut jobs).await;
    match result {
        Ok(answers) => {
            for (job, answer) in jobs.into_iter().zip(answers) {
                let _ = job.reply.send(answer);
            }
        }
        Err(error) => {
            for name in names {
                inner.cache.remove(name);
            }
            for job in jobs {
                let _ = job.reply.send(Err(error.clone()));
            }
        }
    }
}

/// Returns the answers once they are certain: the states they are based on were in the store after
/// the jobs arrived, and all changes have been written.
async fn read_and_swap<C: Cells>(
    inner: &Inner<C>,
    names: &[Name],
    jobs: &mut Vec<Job>,
) -> Result<Vec<Answer>, Error> {
    let mut sure = true;
    let mut cached = |name| {
        let cell = inner.cache.get(name);
        sure &= cell.as_ref().is_some_and(|cell| !cell.contended);
        cell.unwrap_or_else(CachedCell::absent)
    };
    let mut cells: Vec<_> = names.iter().map(&mut cached).collect();
    // Whether `cells` was read from the store for this batch, and the number of lost races.
    let (mut current, mut lost) = (false, 0);
    loop {
        // Callers that are gone already got the error that their hit may have been executed. Skip
        // their jobs.
        jobs.retain(|job| !job.reply.is_closed());
        let sent = inner.process_clock.now();
        let draft = draft(inner, &cells, jobs);
        if draft.writes.iter().all(Option::is_none) {
            if current || jobs.is_empty() {
                inner.update_cache(names, cells);
                return Ok(draft.answers);
            }
            cells = decode(names, jobs, inner.cells.read(names).await?)?;
            current = true;
            continue;
        }
        let found = match inner.cells.swap(&swaps(names, &cells, &draft), sure).await? {
            Swapped::Done(versions) => {
                for ((cell, write), version) in cells.iter_mut().zip(draft.writes).zip(versions) {
                    cell.contended = lost > 0;
                    if let Some(Write { state, written, .. }) = write {
                        *cell = CachedCell { state, written, version, ..*cell };
                    }
                }
                inner.update_cache(names, cells);
                return Ok(draft.answers);
            }
            Swapped::Lost(Some(found)) => found,
            Swapped::Lost(None) => inner.cells.read(names).await?,
        };
        cells = decode(names, jobs, found)?;
        (current, sure, lost) = (true, false, lost + 1);
        let (pause, took) = (pause(lost), inner.process_clock.now().since(sent));
        fail_late(inner, jobs, lost, pause + took);
        if jobs.is_empty() {
            // A caller that polls this worker gets its error only when the worker ends.
            inner.update_cache(names, cells);
            return Ok(Vec::new());
        }
        if !pause.is_zero() {
            inner.runtime.timer(pause).await;
            // On a busy machine the pause may have been longer.
            fail_late(inner, jobs, lost, took);
        }
    }
}

/// After a lost race, fails the jobs whose callers will have left when the answer comes in `wait`.
/// They are certainly not executed. The store answers, so they must not open its breaker.
fn fail_late<C: Cells>(inner: &Inner<C>, jobs: &mut Vec<Job>, lost: u32, wait: Duration) {
    let answered_at = inner.process_clock.now() + wait;
    let is_late = |job: &mut Job| job.deadline.is_some_and(|deadline| deadline < answered_at);
    for job in jobs.extract_if(.., is_late) {
        let error = Error::overloaded(format!(
            "other processes write the same key all the time: {lost} swaps were lost, and the next answer comes after the deadline"
        ));
        let _ = job.reply.send(Err(error));
    }
}

/// Applies all jobs to copies of the states.
fn draft<C: Cells>(inner: &Inner<C>, cells: &[CachedCell<C::Version>], jobs: &[Job]) -> Draft {
    let clock_error = check_clock(inner, cells);
    let clock = inner.clock.now();
    let mut states: Vec<Option<AnyState>> = cells.iter().map(|cell| cell.state.clone()).collect();
    let mut answers = Vec::with_capacity(jobs.len());
    let mut last = None;
    for job in jobs {
        if let (None, Some(error)) = (job.at, &clock_error) {
            answers.push(Err(error.clone()));
            continue;
        }
        let now = job.at.unwrap_or(clock);
        answers.push(Ok(job.apply(&mut states, now)));
        if !job.is_read_only() {
            last = Some((job, now));
        }
    }
    let write = |index: usize, state: Option<AnyState>| {
        if state == cells[index].state {
            return None;
        }
        let (job, written) = last?;
        let Some(state) = state else {
            return Some(Write { state, written, value: Vec::new(), keep: Duration::ZERO });
        };
        let fresh_at = job.calls[index].machine.fresh_at(Some(&state));
        let given_time_margin = if job.at.is_some() { GIVEN_TIME_MARGIN } else { Duration::ZERO };
        let margin = inner.clock.max_skew() + given_time_margin;
        let keep = fresh_at.map_or(Duration::ZERO, |at| at.since(written)) + margin;
        let value = value::write(written, &state);
        Some(Write { state: Some(state), written, value, keep })
    };
    let writes = states.into_iter().enumerate().map(|(index, state)| write(index, state));
    Draft { writes: writes.collect(), answers }
}

/// Lets the fleet clock observe the states. An error if one was written further ahead than
/// `max_skew`.
fn check_clock<C: Cells>(inner: &Inner<C>, cells: &[CachedCell<C::Version>]) -> Option<Error> {
    let latest = cells.iter().map(|cell| cell.written).max()?;
    let ahead = inner.clock.observe(latest).err()?;
    let most = inner.clock.max_skew();
    Some(Error::store(
        format!(
            "a state was written {ahead:?} ahead of this machine's clock, at most {most:?} is allowed: check the clocks"
        ),
        true,
    ))
}

fn swaps<'a, V: Copy>(
    names: &'a [Name],
    cells: &[CachedCell<V>],
    draft: &'a Draft,
) -> Vec<Swap<'a, V>> {
    let swap = |((name, cell), write): ((&'a Name, &CachedCell<V>), &'a Option<Write>)| {
        let change = match write {
            None => Change::Keep,
            Some(Write { state: None, .. }) => Change::Delete,
            Some(Write { value, keep, .. }) => Change::Put { value, keep: *keep },
        };
        Swap { name, expected: cell.version, change }
    };
    names.iter().zip(cells).zip(&draft.writes).map(swap).collect()
}

/// Decodes the states of cells that were read.
fn decode<V>(
    names: &[Name],
    jobs: &[Job],
    cells: Vec<Option<Cell<V>>>,
) -> Result<Vec<CachedCell<V>>, Error> {
    if cells.len() != names.len() {
        let (cells, names) = (cells.len(), names.len());
        return Err(Error::store(format!("{cells} cells instead of {names}"), false));
    }
    let Some(job) = jobs.first() else {
        return Ok(names.iter().map(|_| CachedCell::absent()).collect());
    };
    let decode = |((name, call), cell): ((&Name, &CellCall), Option<Cell<V>>)| {
        let Some(Cell { value, version }) = cell else { return Ok(CachedCell::absent()) };
        let (written, state) = value::read(name, &call.machine, &value)?;
        Ok(CachedCell { state: Some(state), written, version: Some(version), contended: false })
    };
    names.iter().zip(&job.calls).zip(cells).map(decode).collect()
}

/// The pause after `lost` lost races: none at first, then a random one whose upper limit doubles.
fn pause(lost: u32) -> Duration {
    let Some(races) = lost.checked_sub(RACES_BEFORE_PAUSE).filter(|races| *races > 0) else {
        return Duration::ZERO;
    };
    let most = 1000 * MAX_PAUSE_MILLIS.min(1 << races.min(16));
    Duration::from_micros(RandomState::default().hash_one(races) % most)
}

impl<C: Cells> Inner<C> {
    fn update_cache(&self, names: &[Name], cells: Vec<CachedCell<C::Version>>) {
        for (name, cell) in names.iter().zip(cells) {
            let small = || cell.state.as_ref().is_some_and(is_small);
            if cell.version.is_some() && small() {
                self.cache.insert(name, cell);
            } else {
                self.cache.remove(name);
            }
        }
    }
}

fn is_small(state: &AnyState) -> bool {
    match state {
        // Each entry takes a few bytes.
        AnyState::MovingWindow(log) => log.entries().nth(MAX_VALUE_BYTES / 4).is_none(),
        _ => true,
    }
}
