//! Tables of text: columns as wide as their cells, or as wide as a terminal lets them be.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// A column with its cells.
#[derive(Debug)]
pub(super) struct Column {
    head: String,
    cells: Vec<String>,
    is_number: bool,
}

impl Column {
    pub(super) fn text(head: &str, cells: Vec<String>) -> Column {
        let cells = cells.into_iter().map(|cell| printable(&cell)).collect();
        Column { head: head.to_owned(), cells, is_number: false }
    }

    pub(super) fn number(head: &str, cells: Vec<String>) -> Column {
        Column { head: head.to_owned(), cells, is_number: true }
    }

    fn width(&self) -> usize {
        self.cells.iter().chain([&self.head]).map(|cell| cell.width()).max().unwrap_or(0)
    }
}

/// The lines of a table, the head first. If `width` is given, no line is wider: texts are cut, and
/// the last columns are left out as far as necessary.
pub(super) fn lines(mut columns: Vec<Column>, width: Option<usize>) -> Vec<String> {
    let mut widths: Vec<_> = columns.iter().map(Column::width).collect();
    if let Some(width) = width {
        fit(&columns, &mut widths, width);
        columns.truncate(widths.len());
    }
    let rows = columns.iter().map(|column| column.cells.len()).max().unwrap_or(0);
    let line = |cell: &dyn Fn(&Column) -> String| {
        let cells: Vec<_> = columns
            .iter()
            .zip(&widths)
            .map(|(column, width)| padded(&cell(column), *width, column.is_number))
            .collect();
        cells.join(GAP).trim_end().to_owned()
    };
    let head = line(&|column| column.head.clone());
    let rows =
        (0..rows).map(|row| line(&|column| column.cells.get(row).cloned().unwrap_or_default()));
    [head].into_iter().chain(rows).collect()
}

const GAP: &str = "  ";

/// The narrowest that a text is cut to.
const NARROWEST: usize = 12;

/// Leaves out the last columns if they do not fit even when texts are cut, and then makes the
/// widest text narrower until all fit.
fn fit(columns: &[Column], widths: &mut Vec<usize>, width: usize) {
    let total = |widths: &[usize]| {
        widths.iter().sum::<usize>() + widths.len().saturating_sub(1) * GAP.len()
    };
    let narrowest: Vec<_> = columns
        .iter()
        .zip(&*widths)
        .map(|(column, width)| if column.is_number { *width } else { NARROWEST.min(*width) })
        .collect();
    let fitting = (1..=widths.len()).rev().find(|count| total(&narrowest[..*count]) <= width);
    widths.truncate(fitting.unwrap_or(1));
    while total(widths) > width {
        let texts = (0..widths.len()).filter(|index| !columns[*index].is_number);
        match texts.max_by_key(|index| widths[*index]) {
            Some(index) if widths[index] > 0 => widths[index] -= 1,
            _ => return,
        }
    }
}

fn padded(text: &str, width: usize, is_number: bool) -> String {
    let text = cut(text, width);
    let padding = " ".repeat(width.saturating_sub(text.width()));
    if is_number { padding + &text } else { text + &padding }
}

/// Shortens the text to at most `width` columns of a terminal.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let (mut short, mut used) = (String::new(), 0);
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used + 1 > width {
            break;
        }
        short.push(c);
    }
    if width > 0 {
        short.push('…');
    }
    short
}

/// The text without characters that a terminal obeys or that change the order of others. Clients
/// choose keys, and a key must not be able to write on the screen of an operator.
pub(super) fn printable(text: &str) -> String {
    let is_hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    text.chars().map(|c| if is_hidden(c) { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Vec<Column> {
        vec![
            Column::text("NAME", vec!["a-rather-long-name-of-a-rule".to_owned(), "b".to_owned()]),
            Column::number("HITS", vec!["1,234".to_owned(), "5".to_owned()]),
            Column::text("LIMIT", vec!["100/minute".to_owned(), "1/day".to_owned()]),
        ]
    }

    #[test]
    fn columns_are_as_wide_as_their_cells() {
        let expected = [
            "NAME                           HITS  LIMIT",
            "a-rather-long-name-of-a-rule  1,234  100/minute",
            "b                                 5  1/day",
        ];
        assert_eq!(lines(columns(), None), expected);
    }

    #[test]
    fn texts_are_cut_and_the_last_columns_left_out_to_fit() {
        let expected = [
            "NAME           HITS  LIMIT",
            "a-rather-lo…  1,234  100/minute",
            "b                 5  1/day",
        ];
        assert_eq!(lines(columns(), Some(31)), expected);
        assert_eq!(lines(columns(), Some(25))[1], "a-rather-long-nam…  1,234");
        for width in 0..60 {
            for line in lines(columns(), Some(width)) {
                assert!(line.width() <= width, "{width}: {line:?}");
            }
        }
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(cut("日本語のキー", 5), "日本…");
        assert_eq!(cut("日本語のキー", 12), "日本語のキー");
        assert_eq!(cut("abc", 0), "");
    }

    #[test]
    fn a_key_cannot_command_the_terminal() {
        assert_eq!(
            printable("a\u{1b}[2Jb\n\u{9b}c\u{202e}d"),
            "a\u{fffd}[2Jb\u{fffd}\u{fffd}c\u{fffd}d"
        );
        assert_eq!(printable("größer 日本"), "größer 日本");
    }
}
