//! Instructions per hit, counted by valgrind: they do not depend on the load of the machine.

use crate::contenders::{ALL, Contender, HOT, Key, Spec};
use crate::{Outcome, contenders, keys, progress};
use std::process::Command;

/// The hidden subcommand.
pub(crate) const COMMAND: &str = "count";

/// Walks over the 256 hot keys.
const WALKS: usize = 40;

/// Instructions per hit of a hot key, in the order of [`ALL`]; `None` if valgrind cannot be
/// started.
pub(crate) fn count_all() -> Outcome<Option<Vec<f64>>> {
    let hits = (WALKS * keys::hot().len()) as f64;
    let count =
        |spec: &Spec| Ok(collected("counted_walks", &[COMMAND, spec.id])?.map(|all| all / hits));
    ALL.iter().map(count).collect()
}

/// The instructions of a function of this program, run with these arguments under valgrind; `None`
/// if valgrind cannot be started.
pub(crate) fn collected(function: &str, arguments: &[&str]) -> Outcome<Option<f64>> {
    let what = arguments.join(" ");
    if Command::new("valgrind").arg("--version").output().is_err() {
        progress("instructions: skipped, valgrind cannot be started (apt install valgrind)");
        return Ok(None);
    }
    progress(&format!("instructions: {what}"));
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(format!("--toggle-collect=*{function}*"))
        .arg(std::env::current_exe()?)
        .args(arguments)
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let total = said.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok());
    Ok(Some(total.ok_or_else(|| format!("valgrind on {what}: printed no `Collected :`: {said}"))?))
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
