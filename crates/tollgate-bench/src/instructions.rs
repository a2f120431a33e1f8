//! Instructions per hit, counted by valgrind: the same on a busy machine and on a quiet one.

use crate::contenders::{ALL, Contender, HOT, Key, Spec};
use crate::{Outcome, contenders, keys, progress};
use std::process::Command;

/// The hidden subcommand.
pub(crate) const COMMAND: &str = "count";

/// Walks over the 256 hot keys.
const WALKS: usize = 40;

/// Instructions per hit of a hot key, in the order of [`ALL`]; `None` if valgrind cannot be started.
pub(crate) fn count_all() -> Outcome<Option<Vec<f64>>> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        progress("instructions: skipped, valgrind cannot be started (apt install valgrind)");
        return Ok(None);
    }
    ALL.iter().map(count).collect::<Outcome<Vec<f64>>>().map(Some)
}

fn count(spec: &Spec) -> Outcome<f64> {
    progress(&format!("instructions: {}", spec.title));
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg("--toggle-collect=*counted_walks*")
        .arg(std::env::current_exe()?)
        .args([COMMAND, spec.id])
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let total: f64 = said
        .lines()
        .find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok())
        .ok_or_else(|| format!("valgrind on {}: printed no `Collected :`: {said}", spec.id))?;
    Ok(total / (WALKS * keys::hot().len()) as f64)
}

/// The child's side, under valgrind.
pub(crate) fn run(arguments: &[String]) -> Outcome<()> {
    let [id] = arguments else { return Err(format!("{COMMAND}: needs a contender").into()) };
    let contender = (contenders::find(id)?.build)(&HOT)?;
    let keys = keys::hot();
    contender.walk(&keys);
    let allowed = counted_walks(contender.as_ref(), &keys);
    println!("allowed {allowed}");
    Ok(())
}

/// The function valgrind looks for by name: it counts only in here.
#[inline(never)]
fn counted_walks(contender: &dyn Contender, keys: &[Key]) -> usize {
    (0..WALKS).map(|_| contender.walk(keys)).sum()
}
