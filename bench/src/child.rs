//! Measurements that need a separate process: memory, cleaning, tails. The program starts itself,
//! the child prints figures as lines `name value`, and the parent reads them.

use crate::contenders::{
    self, CONTROL, Contender, Key, LIVE, SHORT, SHORT_SWEPT, STALE_AFTER, Spec, Sweep,
};
use crate::measure::{resident, taken};
use crate::tail::{BOUNDS, QUANTILES, Tail, TailFigures};
use crate::{Outcome, keys};
use std::collections::HashMap;
use std::process::Command;

/// The hidden subcommand.
pub(crate) const COMMAND: &str = "child";

/// Work for a child.
#[derive(Clone, Copy)]
pub(crate) enum Job {
    /// Bytes per key.
    Bytes,
    /// One sweep of stale keys, on request.
    Clean,
    /// The longest call while keys are inserted.
    Insert,
    /// The longest call while stale keys are removed and new ones inserted.
    Churn,
}

impl Job {
    const ALL: [(&str, Self); 4] = [
        ("bytes", Self::Bytes),
        ("clean", Self::Clean),
        ("insert", Self::Insert),
        ("churn", Self::Churn),
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Clean => "clean",
            Self::Insert => "insert",
            Self::Churn => "churn",
        }
    }

    fn parse(name: &str) -> Outcome<Self> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        Ok(found.ok_or_else(|| format!("job `{name}`: must be bytes, clean, insert or churn"))?.1)
    }
}

/// Figures by name, as a child prints them.
pub(crate) struct Figures(HashMap<String, f64>);

impl Figures {
    pub(crate) fn get(&self, name: &str) -> Outcome<f64> {
        Ok(*self.0.get(name).ok_or_else(|| format!("the child printed no figure `{name}`"))?)
    }

    /// A figure that some contenders do not have.
    pub(crate) fn find(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }

    pub(crate) fn tail(&self) -> Outcome<TailFigures> {
        Ok(TailFigures {
            quantiles: self.named(QUANTILES)?,
            counts: self.named(BOUNDS)?,
            longest: self.get("longest")?,
            longest_own: self.get("longest-own")?,
            waits: self.get("waits")?,
            keys: self.find("keys"),
        })
    }

    fn named<const N: usize>(&self, names: [(&str, f64); N]) -> Outcome<[f64; N]> {
        let mut figures = [0.0; N];
        for (figure, (name, _)) in figures.iter_mut().zip(names) {
            *figure = self.get(name)?;
        }
        Ok(figures)
    }

    fn parse(text: &str) -> Outcome<Self> {
        let line = |line: &str| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        let figures = text
            .lines()
            .map(|text| line(text).ok_or_else(|| format!("line `{text}`: must be `name number`")));
        Ok(Self(figures.collect::<Result<_, _>>()?))
    }
}

/// Starts a child and waits for its figures.
pub(crate) fn start(job: Job, spec: &Spec, keys: usize) -> Outcome<Figures> {
    let output = Command::new(std::env::current_exe()?)
        .args([COMMAND, job.name(), spec.id, &keys.to_string()])
        .output()?;
    if !output.status.success() {
        let cause = String::from_utf8_lossy(&output.stderr);
        return Err(format!("child {} {}: {}", job.name(), spec.id, cause.trim()).into());
    }
    Figures::parse(&String::from_utf8_lossy(&output.stdout))
}

/// The child's side: `arguments` are job, contender and number of keys.
pub(crate) fn run(arguments: &[String]) -> Outcome<()> {
    let [job, id, count] = arguments else {
        return Err(format!("{COMMAND}: needs job, contender and number of keys").into());
    };
    let spec = contenders::find(id)?;
    let count =
        count.parse().map_err(|_| format!("number of keys `{count}`: must be a whole number"))?;
    match Job::parse(job)? {
        Job::Bytes => bytes(spec, count),
        Job::Clean => clean(spec, count),
        Job::Insert => insert(spec, count),
        Job::Churn => churn(spec, count),
    }
}

fn print(name: &str, figure: f64) {
    println!("{name} {figure}");
}

/// The keys are created one by one, so that only the store's own copies count.
fn bytes(spec: &Spec, count: usize) -> Outcome<()> {
    #[cfg(feature = "heap")]
    crate::heap::count();
    let rss = resident();
    let contender = (spec.build)(&LIVE)?;
    for n in 0..count {
        contender.hit(&keys::key(n));
    }
    print("rss", (resident().saturating_sub(rss)) as f64 / count as f64);
    #[cfg(feature = "heap")]
    print("heap", crate::heap::live() as f64 / count as f64);
    Ok(())
}

/// A contender full of stale keys.
fn stale(contender: &dyn Contender, keys: &[Key]) {
    contender.walk(keys);
    rest();
}

#[expect(clippy::disallowed_methods, reason = "keys must grow old by the time the peers read")]
fn rest() {
    std::thread::sleep(STALE_AFTER);
}

fn clean(spec: &Spec, count: usize) -> Outcome<()> {
    let keys = keys::shuffled(0, count, 1);
    let contender = (spec.build)(&SHORT)?;
    stale(contender.as_ref(), &keys);
    let before = contender.len();
    let ((), taken) = taken(|| contender.clean(&keys));
    print("millis", taken.cpu.as_secs_f64() * 1e3);
    if let (Some(before), Some(after)) = (before, contender.len()) {
        print("removed", before.saturating_sub(after) as f64 / count as f64);
    }
    Ok(())
}

fn insert(spec: &Spec, count: usize) -> Outcome<()> {
    let keys = keys::shuffled(0, count, 1);
    let contender = (spec.build)(&LIVE)?;
    let mut tail = Tail::new();
    // The control has nothing to do. It is repeated so that it is measured for as long as the
    // others.
    for _ in 0..if spec.id == CONTROL.id { 20 } else { 1 } {
        contender.walk_timed(&keys, &mut tail);
    }
    print_tail(&tail.figures(contender.len()));
    Ok(())
}

/// Stale keys are removed while as many new ones are inserted, then the new ones are hit again. A
/// contender that does not sweep by itself is swept by another thread.
fn churn(spec: &Spec, count: usize) -> Outcome<()> {
    let old = keys::shuffled(0, count, 1);
    let new = keys::shuffled(count, count, 2);
    let contender = (spec.build)(&SHORT_SWEPT)?;
    stale(contender.as_ref(), &old);
    let mut tail = Tail::new();
    std::thread::scope(|scope| {
        if spec.sweep == Sweep::OnCall {
            scope.spawn(|| contender.clean(&old));
        }
        for _ in 0..2 {
            contender.walk_timed(&new, &mut tail);
        }
    });
    print_tail(&tail.figures(contender.len()));
    Ok(())
}

fn print_tail(figures: &TailFigures) {
    for ((name, _), figure) in QUANTILES.iter().zip(figures.quantiles) {
        print(name, figure);
    }
    for ((name, _), count) in BOUNDS.iter().zip(figures.counts) {
        print(name, count);
    }
    print("longest", figures.longest);
    print("longest-own", figures.longest_own);
    print("waits", figures.waits);
    if let Some(keys) = figures.keys {
        print("keys", keys);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_by_name_and_a_bad_line_is_named() {
        let figures = Figures::parse("rss 33.5\nheap 32\n").unwrap();
        assert_eq!(figures.find("rss"), Some(33.5));
        assert_eq!(
            figures.get("max").unwrap_err().to_string(),
            "the child printed no figure `max`"
        );
        let error = Figures::parse("rss lots").err().unwrap();
        assert_eq!(error.to_string(), "line `rss lots`: must be `name number`");
    }
}
