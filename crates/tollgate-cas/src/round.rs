//! One round at a desk: all that waited is decided, one after the other, and written in one swap.

use std::hash::BuildHasher;
use std::time::Duration;

use foldhash::fast::RandomState;
use tollgate::algorithm::AnyState;
use tollgate::{Decision, Error, Timestamp};

use crate::act::{Job, Part};
use crate::cells::{Cell, Cells, Change, Name, Swap, Swapped};
use crate::memory::{Known, LARGEST};
use crate::{Inner, value};

/// Races that may be lost in a row before the others are let go first for a moment.
const RACES: u32 = 3;

/// The longest such moment, in milliseconds.
const LONGEST_PAUSE: u64 = 16;

/// How much longer than needed a state lives whose time was given: nobody knows how that time goes
/// on.
const GIVEN: Duration = Duration::from_secs(60);

type Answer = Result<Vec<Decision>, Error>;

/// What the jobs make of the states.
struct Draft {
    answers: Vec<Answer>,
    changes: Vec<Option<Fresh>>,
}

/// A state that differs from the one in the store.
struct Fresh {
    state: Option<AnyState>,
    written: Timestamp,
    value: Vec<u8>,
    keep: Duration,
}

/// Decides all jobs and answers them.
pub(crate) async fn round<C: Cells>(inner: &Inner<C>, names: &[Name], mut jobs: Vec<Job>) {
    let result = settle(inner, names, &mut jobs).await;
    match result {
        Ok(answers) => {
            for (job, answer) in jobs.into_iter().zip(answers) {
                let _ = job.answer.send(answer);
            }
        }
        Err(error) => {
            for name in names {
                inner.memory.forget(name);
            }
            for job in jobs {
                let _ = job.answer.send(Err(error.clone()));
            }
        }
    }
}

/// The answers, once they are true: what they are based on was in the store after the jobs came,
/// and what they changed has been written.
async fn settle<C: Cells>(
    inner: &Inner<C>,
    names: &[Name],
    jobs: &mut Vec<Job>,
) -> Result<Vec<Answer>, Error> {
    let mut sure = true;
    let mut recall = |name| {
        let known = inner.memory.recall(name);
        sure &= known.as_ref().is_some_and(|known| !known.contended);
        known.unwrap_or_else(Known::nothing)
    };
    let mut known: Vec<_> = names.iter().map(&mut recall).collect();
    let (mut seen, mut lost) = (false, 0);
    loop {
        // Who has gone was told that it may have been done: it need not be.
        jobs.retain(|job| !job.answer.is_closed());
        let draft = draft(inner, &known, jobs);
        if draft.changes.iter().all(Option::is_none) {
            if seen || jobs.is_empty() {
                inner.remember(names, known);
                return Ok(draft.answers);
            }
            known = understand(names, jobs, inner.cells.read(names).await?)?;
            seen = true;
            continue;
        }
        let cells = match inner.cells.swap(&swaps(names, &known, &draft), sure).await? {
            Swapped::Done(versions) => {
                for ((known, change), version) in known.iter_mut().zip(draft.changes).zip(versions)
                {
                    known.contended = lost > 0;
                    if let Some(Fresh { state, written, .. }) = change {
                        *known = Known { state, written, version, ..*known };
                    }
                }
                inner.remember(names, known);
                return Ok(draft.answers);
            }
            Swapped::Lost(Some(cells)) => cells,
            Swapped::Lost(None) => inner.cells.read(names).await?,
        };
        known = understand(names, jobs, cells)?;
        (seen, sure, lost) = (true, false, lost + 1);
        if lost > RACES {
            inner.sleep(pause(lost - RACES)).await;
        }
    }
}

/// Does all jobs on copies of the states.
fn draft<C: Cells>(inner: &Inner<C>, known: &[Known<C::Version>], jobs: &[Job]) -> Draft {
    let wrong = ahead(inner, known);
    let clock = inner.clock.now();
    let mut states: Vec<Option<AnyState>> = known.iter().map(|known| known.state.clone()).collect();
    let mut answers = Vec::with_capacity(jobs.len());
    let mut last = None;
    for job in jobs {
        if let (None, Some(error)) = (job.at, &wrong) {
            answers.push(Err(error.clone()));
            continue;
        }
        let now = job.at.unwrap_or(clock);
        answers.push(Ok(job.on(&mut states, now)));
        if !job.only_looks() {
            last = Some((job, now));
        }
    }
    let fresh = |index: usize, state: Option<AnyState>| {
        if state == known[index].state {
            return None;
        }
        let (job, written) = last?;
        let Some(state) = state else {
            return Some(Fresh { state, written, value: Vec::new(), keep: Duration::ZERO });
        };
        let fresh_at = job.parts[index].machine.fresh_at(Some(&state));
        let margin = inner.clock.max_skew() + if job.at.is_some() { GIVEN } else { Duration::ZERO };
        let keep = fresh_at.map_or(Duration::ZERO, |at| at.since(written)) + margin;
        let value = value::write(written, &state);
        Some(Fresh { state: Some(state), written, value, keep })
    };
    let changes = states.into_iter().enumerate().map(|(index, state)| fresh(index, state));
    Draft { changes: changes.collect(), answers }
}

/// Learns the time from the states. An error if one was written further ahead than clocks may
/// differ.
fn ahead<C: Cells>(inner: &Inner<C>, known: &[Known<C::Version>]) -> Option<Error> {
    let latest = known.iter().map(|known| known.written).max()?;
    let ahead = inner.clock.read(latest).err()?;
    let most = inner.clock.max_skew();
    Some(Error::store(
        format!(
            "a state was written {ahead:?} ahead of the clock here, {most:?} are allowed: a clock is wrong"
        ),
        true,
    ))
}

fn swaps<'a, V: Copy>(names: &'a [Name], known: &[Known<V>], draft: &'a Draft) -> Vec<Swap<'a, V>> {
    let swap = |((name, known), change): ((&'a Name, &Known<V>), &'a Option<Fresh>)| {
        let change = match change {
            None => Change::Keep,
            Some(Fresh { state: None, .. }) => Change::Delete,
            Some(Fresh { value, keep, .. }) => Change::Put { value, keep: *keep },
        };
        Swap { name, expected: known.version, change }
    };
    names.iter().zip(known).zip(&draft.changes).map(swap).collect()
}

/// The states of cells.
fn understand<V>(
    names: &[Name],
    jobs: &[Job],
    cells: Vec<Option<Cell<V>>>,
) -> Result<Vec<Known<V>>, Error> {
    if cells.len() != names.len() {
        let (cells, names) = (cells.len(), names.len());
        return Err(Error::store(format!("{cells} cells instead of {names}"), false));
    }
    let Some(job) = jobs.first() else {
        return Ok(names.iter().map(|_| Known::nothing()).collect());
    };
    let known = |((name, part), cell): ((&Name, &Part), Option<Cell<V>>)| {
        let Some(Cell { value, version }) = cell else { return Ok(Known::nothing()) };
        let (written, state) = value::read(name, &part.machine, &value)?;
        Ok(Known { state: Some(state), written, version: Some(version), contended: false })
    };
    names.iter().zip(&job.parts).zip(cells).map(known).collect()
}

/// Up to a millisecond after the first race too many, up to twice as long after the next, and so
/// on.
fn pause(races: u32) -> Duration {
    let most = 1000 * LONGEST_PAUSE.min(1 << races.min(16));
    Duration::from_micros(RandomState::default().hash_one(races) % most)
}

impl<C: Cells> Inner<C> {
    /// Whoever polls it need not be on the store's runtime.
    pub(crate) fn sleep(&self, span: Duration) -> tokio::time::Sleep {
        let _on_it = self.runtime.enter();
        tokio::time::sleep(span)
    }

    fn remember(&self, names: &[Name], known: Vec<Known<C::Version>>) {
        for (name, known) in names.iter().zip(known) {
            let small = || known.state.as_ref().is_some_and(is_small);
            if known.version.is_some() && small() {
                self.memory.remember(name, known);
            } else {
                self.memory.forget(name);
            }
        }
    }
}

fn is_small(state: &AnyState) -> bool {
    match state {
        // A few bytes each.
        AnyState::MovingWindow(log) => log.entries().nth(LARGEST / 4).is_none(),
        _ => true,
    }
}
