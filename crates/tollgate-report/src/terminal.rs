//! Charts in a terminal.

use std::fmt::Write as _;

use crate::timeline::{Axis, Step, Timeline};

/// A bar of at most 40 characters; whatever is not 0 has at least one.
///
/// ```
/// assert_eq!(tollgate_report::bar(1, 2).len(), 20);
/// ```
#[must_use]
pub fn bar(part: u64, most: u64) -> String {
    let length = u128::from(part) * 40;
    "#".repeat(usize::try_from(length.div_ceil(u128::from(most.max(1)))).unwrap_or(40).min(40))
}

const HEIGHT: u64 = 8;

/// Requests over time as columns: `#` for those that were allowed, and `x` on top of them for those
/// that were denied.
///
/// ```
/// use tollgate_report::{Axis, Timeline, columns};
///
/// let mut timeline = Timeline::default();
/// [false, false, true].map(|denied| timeline.count(0, denied));
/// assert!(columns(&timeline, Axis::Elapsed).contains('x'));
/// ```
#[must_use]
pub fn columns(timeline: &Timeline, axis: Axis) -> String {
    // Two steps a column fit a terminal of 80 characters.
    let per_column = if timeline.steps().len() > 60 { 2 } else { 1 };
    let sum = |steps: &[Step]| Step {
        requests: steps.iter().map(|step| step.requests).sum(),
        denied: steps.iter().map(|step| step.denied).sum(),
    };
    let columns: Vec<Step> = timeline.steps().chunks(per_column).map(sum).collect();
    let most = columns.iter().map(|step| step.requests).max().unwrap_or(0).max(1);
    let rows = |count: u64| (u128::from(count) * u128::from(HEIGHT)).div_ceil(u128::from(most));
    let mut out = String::new();
    for row in (1..=u128::from(HEIGHT)).rev() {
        let scale = if row == u128::from(HEIGHT) { crate::grouped(most) } else { String::new() };
        let cells = columns.iter().map(|step| {
            let all = rows(step.requests);
            let denied = rows(step.denied).min(all);
            match row {
                row if row > all => ' ',
                row if row > all - denied => 'x',
                _ => '#',
            }
        });
        let line = format!("  {scale:>12} |{}", cells.collect::<String>());
        let _ = writeln!(out, "{}", line.trim_end());
    }
    let width = per_column as u64 * timeline.width();
    let end = timeline.start() + columns.len() as u64 * width;
    let _ = writeln!(out, "  {:>12} +{}", "0", "-".repeat(columns.len()));
    let _ = writeln!(
        out,
        "  {:>12}  from {} to {}, a column is {}; # allowed, x denied",
        "",
        axis.label(timeline, timeline.start()),
        axis.label(timeline, end),
        crate::span(width),
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_show_denials_on_top() {
        let mut timeline = Timeline::default();
        (0..4).for_each(|n| timeline.count(0, n == 3));
        (0..8).for_each(|_| timeline.count(1_000_000, false));
        let chart = columns(&timeline, Axis::Elapsed);
        let rows: Vec<_> = chart.lines().collect();
        assert_eq!(rows[0], format!("  {:>12} | #", "8"));
        assert_eq!(rows[4], format!("  {:>12} |x#", ""));
        assert_eq!(rows[7], format!("  {:>12} |##", ""));
        assert!(rows[9].contains("from 0 s to 2 seconds"), "{chart}");
    }
}
