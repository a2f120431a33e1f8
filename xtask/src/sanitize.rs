//! Tests under the address sanitizer and the thread sanitizer.
//!
//! The address sanitizer replaces the allocator, so it sees a use after free or an overflow in our
//! code and in all generic code built into it, even if std was not built for it. The thread
//! sanitizer has to see every synchronisation: locks, channels and scopes of an uninstrumented std
//! look like races to it. So without the component rust-src it runs only the tests of the lock-free
//! table, whose synchronisation is all our own, and suppresses the known reports about std.

use std::path::Path;

use crate::command::{add_flags, cargo_of, output, run_heard};
use crate::needs;
use crate::outcome::{Outcome, at_most, because, unknown};
use crate::tally::Tally;
use crate::workspace;

pub(crate) fn sanitize(arguments: &[String]) -> Outcome {
    at_most(2, arguments)?;
    let Some(sanitizer) = arguments.first().map(String::as_str) else {
        return because("which sanitizer? address or thread");
    };
    if !["address", "thread"].contains(&sanitizer) {
        return Err(unknown("sanitizer", sanitizer, ["address", "thread"]));
    }
    let version = needs::nightly()?;
    let Some(host) = version.lines().find_map(|line| line.strip_prefix("host: ")) else {
        return because("`rustc -vV` of the nightly toolchain names no host");
    };
    let builds_std = has_rust_src();
    let filter = arguments.get(1).map(String::as_str);
    let filter = filter.or((sanitizer == "thread" && !builds_std).then_some("atomic"));
    println!("{}", coverage(sanitizer, builds_std, filter));

    let mut command = cargo_of("nightly", ["test", "--package", "tollgate", "--all-features"]);
    // With --target the flags do not apply to build scripts and macros.
    command.args(["--lib", "--tests", "--no-fail-fast", "--target", host]);
    command.arg("--target-dir").arg(workspace::target_dir(&format!("sanitize-{sanitizer}")));
    // Debug assertions stay on. Without some optimisation the tests with threads take minutes.
    command.env("CARGO_PROFILE_DEV_OPT_LEVEL", "1");
    let mut flags = format!("-Zsanitizer={sanitizer}");
    if builds_std {
        command.arg("-Zbuild-std");
    } else if sanitizer == "thread" {
        flags.push_str(" -Cunsafe-allow-abi-mismatch=sanitizer");
        let suppressions = workspace::root().join("xtask/thread-sanitizer.supp");
        command.env("TSAN_OPTIONS", format!("suppressions={}", suppressions.display()));
    }
    add_flags(&mut command, "RUSTFLAGS", &flags);
    // Tests run one at a time, so that a report belongs to the test named above it.
    command.args(filter).args(["--", "--test-threads", "1"]);

    let mut tally = Tally::default();
    run_heard(&mut command, |line| tally.hear(line))?;
    println!("\n{tally}");
    if tally.passed() == 0 {
        return because(format!("no test has `{}` in its name", filter.unwrap_or_default()));
    }
    tally.verdict(false)
}

fn coverage(sanitizer: &str, builds_std: bool, filter: Option<&str>) -> String {
    let std = match (builds_std, sanitizer) {
        (true, _) => "std is built with it too",
        (false, "address") => {
            "std itself is not instrumented, its generic code and the allocator are"
        }
        (false, _) => {
            "std is not instrumented (`rustup component add rust-src --toolchain nightly` would allow it), \
             so only code that synchronises by its own atomics can be judged"
        }
    };
    let tests = match filter {
        Some(filter) => format!("the tests of tollgate with `{filter}` in their name"),
        None => "all unit and integration tests of tollgate".to_owned(),
    };
    format!("{sanitizer} sanitizer over {tests}; {std}")
}

fn has_rust_src() -> bool {
    let sysroot = output("rustup", &["run", "nightly", "rustc", "--print", "sysroot"]);
    sysroot.is_some_and(|path| Path::new(path.trim()).join("lib/rustlib/src/rust/library").is_dir())
}
