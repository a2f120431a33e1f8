//! No bytes make a replay with detection panic: plain, gzip or zstd. Neither do times.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_replay::{Candidate, Replay, parse_time};

fuzz_target!(|log: &[u8]| {
    let _ = parse_time(log);
    let Ok(limit) = "2/minute".parse() else { return };
    let mut replay = Replay::new(Vec::new(), vec![Candidate::new(limit)]);
    // Small bounds, so that they are reached.
    replay.max_keys = 3;
    if let Ok(report) = replay.run_on("fuzz", std::io::Cursor::new(log.to_vec()), |_| {}) {
        assert!(report.keys <= 3 && report.first <= report.last);
        let _ = (report.to_text(), report.to_json(), report.to_html());
    }
});
