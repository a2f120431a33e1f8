//! The figures as lines of text: a screen that fits a terminal, or a plain table.

use tollgate_report::{grouped, percent};

use super::figures::{Count, Figures, Overview, Port, Row, Second, Sort, sorted};
use super::table::{Column, cut, lines, printable};

const HELP: &str = "q quit  h hits  d denied  r rate  n name  Tab table  ↑↓ scroll  Space pause";

/// The lines around the rows: three of the summary, two heads, two that are empty, and the help.
const AROUND: usize = 8;

/// The table that the arrow keys scroll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Focus {
    Rules,
    Keys,
}

/// The choices of the user.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) sort: Sort,
    pub(super) focus: Focus,
    /// The first row that is shown of the rules and of the keys.
    pub(super) first: [usize; 2],
    pub(super) is_paused: bool,
    /// Why the figures are old.
    pub(super) trouble: Option<String>,
}

impl View {
    pub(super) fn new(sort: Sort) -> View {
        View { sort, focus: Focus::Rules, first: [0; 2], is_paused: false, trouble: None }
    }

    /// Moves the rows of the table in focus.
    pub(super) fn scroll(&mut self, rows: isize) {
        let first = &mut self.first[self.focus as usize];
        *first = first.saturating_add_signed(rows);
    }
}

/// How a line is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Bold,
    Dim,
    Reverse,
}

/// A line of the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) style: Style,
    pub(super) text: String,
}

/// The tables of `--once`, as wide as they need to be.
pub(super) fn plain(figures: &Figures, sort: Sort) -> String {
    let summary = summary(&figures.overview);
    let (rules, keys) = (sorted(&figures.rules, sort), sorted(&figures.keys, sort));
    let (rules, keys) =
        (lines(rule_columns(&rules, sort), None), lines(key_columns(&keys, sort), None));
    let blank = [String::new()];
    let all = summary.iter().chain(&blank).chain(&rules).chain(&blank).chain(&keys);
    all.map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// The screen: at most `height` lines of at most `width` columns. Scrolls back a view that went
/// beyond the last row.
pub(super) fn screen(figures: &Figures, view: &mut View, width: usize, height: usize) -> Vec<Line> {
    let [first, second, third] = summary(&figures.overview);
    let state = match (&view.trouble, view.is_paused) {
        (Some(trouble), _) => printable(trouble),
        (None, true) => format!("PAUSED  {third}"),
        (None, false) => third,
    };
    let state_style = if view.trouble.is_some() { Style::Bold } else { Style::Plain };
    let room = height.saturating_sub(AROUND);
    let (rules, keys) = (sorted(&figures.rules, view.sort), sorted(&figures.keys, view.sort));
    let shares = shares([rules.len().max(1), keys.len().max(1)], room);
    let mut screen = vec![
        Line { style: Style::Bold, text: first },
        Line { style: Style::Plain, text: second },
        Line { style: state_style, text: state },
    ];
    for (focus, columns, count) in [
        (Focus::Rules, rule_columns(&rules, view.sort), rules.len()),
        (Focus::Keys, key_columns(&keys, view.sort), keys.len()),
    ] {
        let rows = shares[focus as usize];
        let top = &mut view.first[focus as usize];
        *top = (*top).min(count.saturating_sub(rows));
        let mut lines = lines(columns, Some(width)).into_iter();
        let head = lines.next().unwrap_or_default();
        let style = if view.focus == focus { Style::Reverse } else { Style::Bold };
        screen.push(Line { style: Style::Plain, text: String::new() });
        screen.push(Line { style, text: head });
        let shown = lines.skip(*top).take(rows).chain((count == 0).then(|| "none yet".to_owned()));
        screen.extend(shown.take(rows).map(|text| Line { style: Style::Plain, text }));
    }
    screen.truncate(height.saturating_sub(1));
    screen.resize(height.saturating_sub(1), Line { style: Style::Plain, text: String::new() });
    screen.push(Line { style: Style::Dim, text: HELP.to_owned() });
    screen.truncate(height);
    for line in &mut screen {
        line.text = cut(&line.text, width);
    }
    screen
}

/// How many rows each table gets: half of the room, and what the other does not need.
fn shares(wanted: [usize; 2], room: usize) -> [usize; 2] {
    let half = room / 2;
    let rules = wanted[0].min(half.max(room.saturating_sub(wanted[1])));
    [rules, wanted[1].min(room - rules)]
}

/// The server, the last second, and the ports and the store.
fn summary(overview: &Overview) -> [String; 3] {
    let Overview { version, node, uptime_seconds, second, ports, store } = overview;
    let node = node.as_ref().map(|node| format!("  node {node}")).unwrap_or_default();
    let first =
        format!("tollgate {version}{node}  up {}  store {}", uptime(*uptime_seconds), store.url);
    let Second { allowed, denied, shadowed, exempt, blocked, banned, errors } = second;
    let hits = allowed + denied + shadowed + exempt + blocked + banned;
    let mut parts =
        vec![format!("{} allowed", grouped(*allowed)), format!("{} denied", grouped(*denied))];
    for (count, name) in [
        (shadowed, "shadowed"),
        (exempt, "exempt"),
        (blocked, "blocked"),
        (banned, "banned"),
        (errors, "errors"),
    ] {
        if *count > 0 {
            parts.push(format!("{} {name}", grouped(*count)));
        }
    }
    let second = format!("{} hits in the last second: {}", grouped(hits), parts.join(", "));
    let ports = ports.iter().filter(|port| port.port != "admin").map(port_text);
    let mut third = vec![match store.open_breakers {
        0 => "store ok".to_owned(),
        open => format!("STORE DOWN: {open} of {} breakers open", store.breakers),
    }];
    third.extend(ports);
    [first, second, third.join("  ")].map(|line| printable(&line))
}

/// A port with its connections and the time within which 99 of 100 requests are answered.
fn port_text(port: &Port) -> String {
    let Port { port, connections, requests, p99_us } = port;
    let p99 = match (requests, p99_us) {
        (0, _) => String::new(),
        (_, Some(p99)) => format!(", p99 ≤ {}", latency(*p99)),
        // The dashboard says the same of times beyond the histogram.
        (_, None) => ", p99 > 524 ms".to_owned(),
    };
    format!("{port}: {} open{p99}", grouped(*connections))
}

/// A time of a few microseconds to seconds.
fn latency(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{}.{} ms", micros / 1_000, micros / 100 % 10),
        _ => format!("{}.{} s", micros / 1_000_000, micros / 100_000 % 10),
    }
}

/// A length of time in its two largest units.
fn uptime(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, _, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

fn rule_columns(rows: &[&Row], sort: Sort) -> Vec<Column> {
    let cells = |cell: &dyn Fn(&Row) -> String| rows.iter().map(|row| cell(row)).collect();
    vec![
        Column::text(&head("RULE", sort == Sort::Name), cells(&|row| row.name.clone())),
        Column::number(&head("HITS", sort == Sort::Hits), cells(&|row| total(row.hits))),
        Column::number(&head("PER S", sort == Sort::Rate), cells(&|row| rate(row.hits))),
        Column::number(&head("DENIED", sort == Sort::Denied), cells(&|row| total(row.denied))),
        Column::number("SHARE", cells(&share)),
        Column::number("SHADOWED", cells(&|row| grouped(row.shadowed))),
        Column::text("LIMIT", cells(&|row| row.about.clone())),
    ]
}

fn key_columns(rows: &[&Row], sort: Sort) -> Vec<Column> {
    let cells = |cell: &dyn Fn(&Row) -> String| rows.iter().map(|row| cell(row)).collect();
    vec![
        Column::text(&head("KEY (estimates)", sort == Sort::Name), cells(&|row| row.name.clone())),
        Column::number(&head("HITS", sort == Sort::Hits), cells(&|row| total(row.hits))),
        Column::number(&head("PER S", sort == Sort::Rate), cells(&|row| rate(row.hits))),
        Column::number(&head("DENIED", sort == Sort::Denied), cells(&|row| total(row.denied))),
        Column::number("PER S", cells(&|row| rate(row.denied))),
        Column::text("RULE", cells(&|row| row.about.clone())),
    ]
}

fn head(name: &str, is_order: bool) -> String {
    if is_order { format!("{name}*") } else { name.to_owned() }
}

const UNKNOWN: &str = "-";

fn total(count: Option<Count>) -> String {
    count.map_or_else(|| UNKNOWN.to_owned(), |count| grouped(count.total))
}

/// A rate with a decimal below 100.
fn rate(count: Option<Count>) -> String {
    match count.and_then(|count| count.rate) {
        None => UNKNOWN.to_owned(),
        Some(0) => "0".to_owned(),
        Some(tenths) if tenths < 1_000 => format!("{}.{}", tenths / 10, tenths % 10),
        Some(tenths) => grouped((tenths + 5) / 10),
    }
}

fn share(row: &Row) -> String {
    match (row.denied, row.hits) {
        (Some(denied), Some(hits)) => percent(denied.total, hits.total),
        _ => UNKNOWN.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr as _;

    use super::super::figures::tests::sample;
    use super::*;

    fn figures() -> Figures {
        let before = Figures::new(&sample(0, 100_000, 10), None).unwrap();
        Figures::new(&sample(1_000, 101_234, 15), Some(&before)).unwrap()
    }

    fn texts(screen: &[Line]) -> Vec<&str> {
        screen.iter().map(|line| &line.text[..]).collect()
    }

    #[test]
    fn a_table_has_the_server_the_rules_and_the_keys() {
        let expected = "\
tollgate 0.1.0  node a  up 1 d 2 h  store memory:
43 hits in the last second: 40 allowed, 2 denied, 1 exempt, 3 errors
store ok  http: 12 open, p99 ≤ 1.0 ms  grpc: 0 open

RULE          HITS*  PER S  DENIED   SHARE  SHADOWED  LIMIT
shop api    101,249  1,239      15  0.01 %         0  5/hour; 9/day charge-denied
shop quiet        1      0       0     0 %         0  5/hour; 9/day charge-denied

KEY (estimates)    HITS*  PER S  DENIED  PER S  RULE
alice            101,249  1,239      15    5.0  api
bob                    7      0       -      -  api
eve                    -      -       1      0  api
";
        assert_eq!(plain(&figures(), Sort::Hits), expected);
    }

    #[test]
    fn a_screen_of_80_by_24_has_all_parts() {
        let mut view = View::new(Sort::Denied);
        let screen = screen(&figures(), &mut view, 80, 24);
        let texts = texts(&screen);
        assert_eq!(texts.len(), 24);
        assert!(texts[4].starts_with("RULE") && texts[4].contains("DENIED*"), "{texts:#?}");
        assert_eq!(screen[4].style, Style::Reverse);
        assert!(texts[8].starts_with("KEY (estimates)"), "{texts:#?}");
        assert!(texts[9].starts_with("alice") && texts[10].starts_with("eve"), "{texts:#?}");
        assert_eq!(texts[23], HELP, "it is not cut");
    }

    #[test]
    fn a_screen_never_exceeds_the_terminal() {
        for width in (0..100).step_by(7) {
            for height in 0..30 {
                let mut view = View::new(Sort::Hits);
                let screen = screen(&figures(), &mut view, width, height);
                assert_eq!(screen.len(), height);
                assert!(screen.iter().all(|line| line.text.width() <= width), "{width} {screen:?}");
            }
        }
    }

    #[test]
    fn the_table_in_focus_scrolls_to_its_end_and_no_further() {
        let mut view = View::new(Sort::Hits);
        view.focus = Focus::Keys;
        view.scroll(100);
        // Room for two rules and two of the three keys.
        let screen = screen(&figures(), &mut view, 80, AROUND + 4);
        assert_eq!(view.first, [0, 1]);
        assert!(texts(&screen)[9].starts_with("bob"), "{screen:#?}");
        view.scroll(-5);
        assert_eq!(view.first, [0, 0]);
    }

    #[test]
    fn a_table_takes_the_room_that_the_other_does_not_need() {
        assert_eq!(shares([100, 100], 16), [8, 8]);
        assert_eq!(shares([2, 100], 16), [2, 14]);
        assert_eq!(shares([100, 3], 16), [13, 3]);
        assert_eq!(shares([1, 1], 0), [0, 0]);
    }

    #[test]
    fn errors_are_shown_without_terminal_control_characters() {
        let mut view = View::new(Sort::Hits);
        view.trouble = Some("server \"http://x\": gone\u{1b}[2J".to_owned());
        let screen = screen(&figures(), &mut view, 80, 24);
        assert_eq!(screen[2].text, "server \"http://x\": gone\u{fffd}[2J");
        assert_eq!(screen[2].style, Style::Bold);
    }

    #[test]
    fn times_and_rates_are_short() {
        let all = [5, 65, 3_700, 93_784].map(uptime);
        assert_eq!(all, ["5 s", "1 min 5 s", "1 h 1 min", "1 d 2 h"]);
        let latencies = [64, 1_024, 2_097_152].map(latency);
        assert_eq!(latencies, ["64 µs", "1.0 ms", "2.0 s"]);
        let of = |tenths| rate(Some(Count { total: 1, rate: tenths }));
        assert_eq!(
            [None, Some(0), Some(7), Some(999), Some(12_345)].map(of),
            ["-", "0", "0.7", "99.9", "1,235"]
        );
    }
}
