//! A table that prints itself for people and as Markdown.

use std::fmt::Write;

/// A titled table; the first column is names, the others are figures.
pub(crate) struct Table {
    pub(crate) title: &'static str,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
    /// How to read it.
    pub(crate) note: &'static str,
}

impl Table {
    /// Aligned with spaces.
    pub(crate) fn plain(&self) -> String {
        let mut text = format!("\n{}\n", self.title);
        for row in self.lines() {
            let cells: Vec<String> = row.iter().zip(self.widths()).enumerate().map(pad).collect();
            let _ = writeln!(text, "  {}", cells.join("  ").trim_end());
        }
        if !self.note.is_empty() {
            text.push_str(&wrapped(self.note));
        }
        text
    }

    /// The table as a section of a Markdown page.
    pub(crate) fn markdown(&self) -> String {
        let mut text = format!("## {}\n\n", self.title);
        for (number, row) in self.lines().enumerate() {
            let _ = writeln!(text, "| {} |", row.join(" | "));
            if number == 0 {
                let rule = "| ---: ".repeat(row.len().saturating_sub(1));
                let _ = writeln!(text, "| --- {rule}|");
            }
        }
        if !self.note.is_empty() {
            let _ = write!(text, "\n{}.\n", self.note);
        }
        text
    }

    fn lines(&self) -> impl Iterator<Item = &Vec<String>> {
        std::iter::once(&self.columns).chain(&self.rows)
    }

    fn widths(&self) -> Vec<usize> {
        let width =
            |i: usize| self.lines().filter_map(|row| row.get(i)).map(|c| c.chars().count()).max();
        (0..self.columns.len()).map(|i| width(i).unwrap_or(0)).collect()
    }
}

/// Lines of at most a hundred characters.
fn wrapped(note: &str) -> String {
    let mut text = String::new();
    let mut length = 0;
    for word in note.split_whitespace() {
        let fits = length > 0 && length + word.chars().count() < 100;
        text.push_str(match (fits, length) {
            (true, _) => " ",
            (false, 0) => "  ",
            (false, _) => "\n  ",
        });
        length = word.chars().count() + if fits { length + 1 } else { 2 };
        text.push_str(word);
    }
    text + "\n"
}

/// Names to the left, figures to the right.
fn pad((column, (cell, width)): (usize, (&String, usize))) -> String {
    if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_aligned_and_as_markdown() {
        let cells = |row: [&str; 2]| row.map(str::to_owned).to_vec();
        let table = Table {
            title: "Speed",
            columns: cells(["who", "ns"]),
            rows: vec![cells(["a", "10"]), cells(["long", "7"])],
            note: "lower is better",
        };
        assert_eq!(
            table.plain(),
            "\nSpeed\n  who   ns\n  a     10\n  long   7\n  lower is better\n"
        );
        let markdown = "## Speed\n\n| who | ns |\n| --- | ---: |\n| a | 10 |\n| long | 7 |\n\nlower is better.\n";
        assert_eq!(table.markdown(), markdown);
    }
}
