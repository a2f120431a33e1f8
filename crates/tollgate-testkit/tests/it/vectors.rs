//! The vectors themselves are well-formed, and the pure functions answer them. The stores replay
//! them in the suite.

use tollgate::Algorithm;
use tollgate_testkit::vectors::{self, Block, EPOCH, Pure, read, replay, show};

/// Every block must hold. Prints all that do not.
fn assert_all_hold(blocks: &[Block], mut run: impl FnMut(&Block) -> Result<(), String>) {
    let failures: Vec<String> = blocks.iter().filter_map(|block| run(block).err()).collect();
    assert!(failures.is_empty(), "{} blocks fail:\n{}", failures.len(), failures.join("\n"));
}

/// The vectors that were written for this project, not recorded from others.
fn our_own() -> Vec<Block> {
    let recorded = |block: &Block| block.place.file.starts_with("recorded/");
    vectors::all().into_iter().filter(|block| !recorded(block)).collect()
}

#[test]
fn pure_functions_answer_as_the_vectors_say() {
    assert_all_hold(&vectors::all(), |block| replay(block, &mut Pure::new(&block.limit)));
}

/// A file that is not listed would never be replayed.
#[test]
fn every_file_is_listed() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors");
    let names = |sub: &str| -> Vec<String> {
        let entries = std::fs::read_dir(folder.join(sub)).unwrap().map(Result::unwrap);
        entries.map(|entry| format!("{sub}{}", entry.file_name().to_string_lossy())).collect()
    };
    let mut found = [names(""), names("recorded/")].concat();
    found.retain(|name| name.ends_with(".txt"));
    found.sort();
    let mut listed = vectors::FILES.map(|(name, _)| name);
    listed.sort_unstable();
    assert_eq!(found, listed);
}

#[test]
fn every_algorithm_has_its_own_file() {
    let blocks = our_own();
    // Vectors are hits on one limit. Neither a concurrency limit nor a ban counts them.
    let counts_hits = |one: &Algorithm| !matches!(one, Algorithm::Concurrent | Algorithm::Ban);
    for algorithm in Algorithm::ALL.into_iter().filter(counts_hits) {
        let file = format!("{}.txt", algorithm.as_str().replace('-', "_"));
        let own: Vec<_> = blocks.iter().filter(|block| block.place.file == file).collect();
        assert!(own.len() > 1, "{file} has {} blocks", own.len());
        assert!(own.iter().all(|block| block.limit.algorithm() == algorithm), "{file}");
    }
}

#[test]
fn every_step_of_our_own_vectors_gives_all_fields() {
    for step in our_own().iter().flat_map(|block| &block.steps) {
        let fields = step.expected;
        let all = fields.used.is_some() && fields.left.is_some() && fields.reset.is_some();
        assert!(all && fields.retry.is_some() != fields.allowed, "{}", step.place);
    }
}

#[test]
fn a_wrong_expectation_is_reported_with_file_line_expected_and_found() {
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
fn an_invalid_line_is_an_error_with_file_and_line() {
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
        assert_eq!(blocks[0].steps[0].now, EPOCH + span, "{text}");
        assert_eq!(show(span), shown);
    }
}
