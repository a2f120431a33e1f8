//! No log makes a parser of any format panic: the first byte chooses the format, one of those with
//! a name or a pattern that the input brings, and the rest is the log.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tollgate_replay::{Candidate, Format, KeyPart, Replay, Zone};

static FORMATS: LazyLock<Vec<Format>> =
    LazyLock::new(|| Format::names().filter_map(|name| Format::named(&name)).collect());

fuzz_target!(|input: (u8, &str, Vec<u8>)| {
    let (choice, pattern, log) = input;
    let format = match FORMATS.get(usize::from(choice)) {
        Some(format) => format.clone(),
        None => match Format::pattern(pattern) {
            Ok(format) => format,
            Err(_) => return,
        },
    };
    let lines = log.split(|byte| *byte == b'\n').count() as u64;
    let Ok(limit) = "2/minute; 5/hour moving-window".parse() else { return };
    let mut replay = Replay::new(Vec::new(), vec![Candidate::new(limit)]);
    replay.format = Some(format);
    replay.reading.key = KeyPart::parse("ip+path+method").unwrap_or_default();
    replay.reading.zone = Zone::parse("+05:30").unwrap_or_default();
    let _ = Zone::parse(pattern);
    if let Ok(report) = replay.run_on("fuzz", std::io::Cursor::new(log), |_| {}) {
        assert!(report.lines.lines <= lines && report.lines.unreadable <= report.lines.lines);
        for candidate in &report.candidates {
            assert!(candidate.early.denied <= candidate.early.requests);
        }
        let _ =
            (report.to_text(), report.to_json(), report.to_html(), report.suggestions_to_text());
    }
});
