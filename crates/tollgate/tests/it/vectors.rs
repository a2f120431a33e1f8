//! Vectors: the readable timelines under `vectors/`, replayed against the pure functions and against every store.

mod format;
mod replay;

use std::fs;
use std::path::Path;

use format::{Block, read};
use replay::{Kept, Pure, replay};
use tollgate::{Algorithm, Limiter, Memory, Store};

/// All blocks of the files in this folder of `vectors`.
fn blocks_in(folder: &str) -> Vec<Block> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors").join(folder);
    let mut files: Vec<_> = fs::read_dir(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    files.sort();
    let read_file = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = fs::read_to_string(path).expect("a readable file");
        read(&name, &text).unwrap_or_else(|error| panic!("{error}"))
    };
    files.iter().flat_map(read_file).collect()
}

fn all_blocks() -> Vec<Block> {
    [blocks_in(""), blocks_in("recorded")].concat()
}

/// Every block must hold; all that do not are told.
fn assert_all_hold(blocks: &[Block], mut run: impl FnMut(&Block) -> Result<(), String>) {
    let failures: Vec<String> = blocks.iter().filter_map(|block| run(block).err()).collect();
    assert!(failures.is_empty(), "{} blocks fail:\n{}", failures.len(), failures.join("\n"));
}

/// Replays all blocks on one store, each in a namespace of its own. Limits of the algorithms that it `refuses` must be refused; counts may
/// saturate beyond `times` the capacity.
fn assert_store_holds<S: Store>(store: &S, refuses: impl Fn(Algorithm) -> bool, times: u64) {
    assert_all_hold(&all_blocks(), |block| {
        let (place, limit) = (&block.place, &block.limit);
        match Limiter::on(store, &place.to_string(), limit.clone()) {
            Ok(_) if refuses(limit.algorithm()) => Err(format!("{place}: {limit} is not refused")),
            Ok(limiter) => {
                let counts_to = limit.burst().saturating_mul(times);
                replay(block, &mut Kept { limiter, key: "user:42".to_owned(), counts_to })
            }
            Err(_) if refuses(limit.algorithm()) => Ok(()),
            Err(error) => Err(format!("{place}: {error}")),
        }
    });
}

#[test]
fn pure_functions_answer_as_the_vectors_say() {
    assert_all_hold(&all_blocks(), |block| replay(block, &mut Pure::new(&block.limit)));
}

#[test]
fn memory_answers_as_the_vectors_say() {
    assert_store_holds(&Memory::new(), |_| false, u64::MAX);
}

/// Its states are of a fixed size: a log has no place there, and counts are sure to be exact up to sixteen times the capacity.
#[cfg(not(loom))]
#[test]
fn atomic_answers_as_the_vectors_say() {
    let log = |algorithm| algorithm == Algorithm::MovingWindow;
    assert_store_holds(&tollgate::Atomic::new(), log, 16);
}

#[test]
fn every_algorithm_has_its_own_file() {
    let blocks = blocks_in("");
    for algorithm in Algorithm::ALL {
        let file = format!("{}.txt", algorithm.as_str().replace('-', "_"));
        let own: Vec<_> = blocks.iter().filter(|block| block.place.file == file).collect();
        assert!(own.len() > 1, "{file} has {} blocks", own.len());
        assert!(own.iter().all(|block| block.limit.algorithm() == algorithm), "{file}");
    }
}

#[test]
fn every_step_of_our_own_vectors_gives_all_fields() {
    for step in blocks_in("").iter().flat_map(|block| &block.steps) {
        let fields = step.expected;
        let all = fields.used.is_some() && fields.left.is_some() && fields.reset.is_some();
        assert!(all && fields.retry.is_some() != fields.allowed, "{}", step.place);
    }
}

#[test]
fn a_wrong_expectation_is_told_with_file_line_expected_and_found() {
    let text = "limit 2/second burst=3\nat 0s hit 3 -> allow\n# why\nat 0s hit -> deny retry 400ms";
    let blocks = read("some.txt", text).unwrap();
    let error = replay(&blocks[0], &mut Pure::new(&blocks[0].limit)).unwrap_err();
    assert_eq!(
        error,
        "some.txt:4: Hit(1) under 2/second burst=3: expected deny retry 400ms, \
         found deny used 3 left 0 retry 500ms reset 1.5s"
    );
    for wrong in ["allow", "deny used 2", "deny left 1", "deny retry never", "deny reset 1s"] {
        let text = format!("limit 2/second burst=3\nat 0s hit 3 -> allow\nat 0s hit -> {wrong}");
        let blocks = read("some.txt", &text).unwrap();
        let told = replay(&blocks[0], &mut Pure::new(&blocks[0].limit)).unwrap_err();
        assert!(told.contains(&format!("expected {wrong}, found")), "{told}");
    }
}

#[test]
fn a_line_that_is_not_understood_is_told_with_file_and_line() {
    let duration = "expected a duration such as 0s, 100ms, 1.5s, 250us, 2m, 1h or 1d";
    let table = [
        ("at 0s hit -> maybe", r#"found "maybe", expected allow or deny"#.to_owned()),
        ("at 0s hit", r#"found "0s hit", expected -> and an answer"#.to_owned()),
        ("at 0 hit -> allow", format!(r#"found "0", {duration}"#)),
        ("at 1.5ms hit -> allow", format!(r#"found "1.5ms", {duration}"#)),
        ("at 1.0000001s hit -> allow", format!(r#"found "1.0000001s", {duration}"#)),
        ("at s hit -> allow", format!(r#"found "s", {duration}"#)),
        ("at -1s hit -> allow", format!(r#"found "-1s", {duration}"#)),
        (
            "at 99999999999999999d hit -> allow",
            format!(r#"found "99999999999999999d", {duration}"#),
        ),
        ("at 0s take -> allow", r#"found "", expected a number"#.to_owned()),
        ("at 0s hit +1 -> allow", r#"found "+1", expected a number"#.to_owned()),
        ("at 0s hit 1 2 -> allow", r#"found "2", expected ->"#.to_owned()),
        ("at 0s usage 2 -> allow", r#"found "2", expected ->"#.to_owned()),
        ("at 0s usage -> deny", "found deny, expected allow: Usage decides nothing".to_owned()),
        ("at 0s refund @1 -> allow", "found @1, expected one of the 0 steps before".to_owned()),
        ("at 0s hit -> allow used", r#"found "", expected a number"#.to_owned()),
        (
            "at 0s hit -> allow used 1 used 1",
            r#"found "used", expected each field once"#.to_owned(),
        ),
        (
            "at 0s hit -> allow free 1",
            r#"found "free", expected used, left, retry or reset"#.into(),
        ),
        ("limit 0/second", "limit: at 0: quota 0: must be from 1 to 1000000000000".to_owned()),
        (
            "on 0s hit -> allow",
            r#"found "on 0s hit -> allow", expected `limit`, `at` or `#`"#.into(),
        ),
    ];
    for (line, problem) in table {
        let error = read("some.txt", &format!("# head\nlimit 1/second\n{line}\n")).unwrap_err();
        assert_eq!(error, format!("some.txt:3: {problem}"));
    }
    let error = read("some.txt", "at 0s hit -> allow").unwrap_err();
    assert_eq!(error, r#"some.txt:1: found "at 0s hit -> allow", expected a limit before it"#);
}

#[test]
fn durations_are_read_exactly() {
    let table = [
        ("0s", 0, "0s"),
        ("1.5s", 1_500_000, "1.5s"),
        ("0.000001s", 1, "1us"),
        ("100ms", 100_000, "100ms"),
        ("1500us", 1_500, "1500us"),
        ("120s", 120_000_000, "2m"),
        ("25h", 90_000_000_000, "25h"),
        ("31d", 2_678_400_000_000, "31d"),
    ];
    for (text, micros, shown) in table {
        let line = format!("limit 1/second\nat {text} hit -> allow reset {text}");
        let blocks = read("some.txt", &line).unwrap();
        let span = std::time::Duration::from_micros(micros);
        assert_eq!(blocks[0].steps[0].expected.reset, Some(span), "{text}");
        assert_eq!(blocks[0].steps[0].now, format::EPOCH + span, "{text}");
        assert_eq!(format::show(span), shown);
    }
}
