//! All figures of a run, and the collection of those from child processes.

use crate::child::{self, Job};
use crate::contenders::{ALL, CONTROL, Spec, Sweep};
use crate::scenarios::{self, Scenario, Speed, Speeds};
use crate::tail::TailFigures;
use crate::{Outcome, Size, instructions, progress};

/// Bytes per key.
#[derive(Clone, Copy)]
pub(crate) struct Bytes {
    pub(crate) rss: f64,
    /// `None` without the feature `heap`.
    pub(crate) heap: Option<f64>,
}

/// One sweep of stale keys.
#[derive(Clone, Copy)]
pub(crate) struct Clean {
    pub(crate) millis: f64,
    /// The part of the stale keys that was removed, if the contender counts its keys.
    pub(crate) removed: Option<f64>,
}

/// The results of one contender.
pub(crate) struct Row {
    pub(crate) spec: &'static Spec,
    pub(crate) speeds: Speeds,
    pub(crate) bytes: Option<Bytes>,
    pub(crate) clean: Option<Clean>,
    pub(crate) insert: Option<TailFigures>,
    pub(crate) churn: Option<TailFigures>,
    pub(crate) instructions: Option<f64>,
}

impl Row {
    pub(crate) fn speed(&self, scenario: Scenario) -> Speed {
        self.speeds[scenario as usize]
    }
}

/// All results.
pub(crate) struct Results {
    pub(crate) rows: Vec<Row>,
    /// The tail of a loop that only measures.
    pub(crate) control: TailFigures,
}

impl Results {
    pub(crate) fn measure(size: &Size) -> Outcome<Self> {
        let speeds = scenarios::speeds(size)?;
        let mut rows: Vec<Row> =
            ALL.iter().zip(speeds).map(|(spec, speeds)| fresh(spec, speeds)).collect();
        let mut control = None;
        for round in 1..=size.repeats {
            keep(&mut control, run(Job::Insert, &CONTROL, size, round)?.tail()?, longest);
            for row in rows.iter_mut().filter(|row| row.spec.stores_keys) {
                children(row, size, round)?;
            }
        }
        for (row, count) in rows.iter_mut().zip(instructions::count_all()?.into_iter().flatten()) {
            row.instructions = Some(count);
        }
        Ok(Self { rows, control: control.ok_or("rounds 0: must be at least 1")? })
    }

    pub(crate) fn row(&self, id: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.spec.id == id)
    }
}

fn fresh(spec: &'static Spec, speeds: Speeds) -> Row {
    Row { spec, speeds, bytes: None, clean: None, insert: None, churn: None, instructions: None }
}

/// One more run of each child; the best is kept. A stall of the contender appears in every run, a
/// stall of the machine does not.
fn children(row: &mut Row, size: &Size, round: usize) -> Outcome<()> {
    let spec = row.spec;
    let figures = run(Job::Bytes, spec, size, round)?;
    let bytes = Bytes { rss: figures.get("rss")?, heap: figures.get("heap").ok() };
    keep(&mut row.bytes, bytes, |bytes| bytes.rss);
    keep(&mut row.insert, run(Job::Insert, spec, size, round)?.tail()?, longest);
    if spec.sweep == Sweep::Never {
        return Ok(());
    }
    let figures = run(Job::Clean, spec, size, round)?;
    let clean = Clean { millis: figures.get("millis")?, removed: figures.find("removed") };
    keep(&mut row.clean, clean, |clean| clean.millis);
    keep(&mut row.churn, run(Job::Churn, spec, size, round)?.tail()?, longest);
    Ok(())
}

fn run(job: Job, spec: &Spec, size: &Size, round: usize) -> Outcome<child::Figures> {
    progress(&format!("{}: {}, run {round} of {}", job.name(), spec.title, size.repeats));
    child::start(job, spec, size.keys)
}

fn longest(tail: &TailFigures) -> f64 {
    tail.longest_own
}

/// Keeps the lower of two.
fn keep<T>(best: &mut Option<T>, new: T, figure: impl Fn(&T) -> f64) {
    if best.as_ref().is_none_or(|best| figure(&new) < figure(best)) {
        *best = Some(new);
    }
}
