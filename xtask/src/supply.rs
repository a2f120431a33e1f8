//! Checks the dependencies, and the oldest supported Rust.

use std::fs;

use crate::command::{cargo, cargo_of, output, run};
use crate::needs;
use crate::outcome::{Outcome, at_most, because};
use crate::workspace;

pub(crate) fn deny(arguments: &[String]) -> Outcome {
    at_most(0, arguments)?;
    needs::subcommand("deny")?;
    run(&mut cargo(["deny", "check"]))
}

pub(crate) fn msrv(arguments: &[String]) -> Outcome {
    at_most(0, arguments)?;
    let manifest = fs::read_to_string(workspace::root().join("Cargo.toml")).unwrap_or_default();
    let Some(version) = workspace::rust_version(&manifest) else {
        return because("Cargo.toml of the workspace has no rust-version");
    };
    let installed = output("rustup", &["toolchain", "list"]).unwrap_or_default();
    let packages: Vec<String> = workspace::published_crates()
        .into_iter()
        .flat_map(|package| ["--package".to_owned(), package])
        .collect();
    if let Some(toolchain) = toolchain(&installed, version) {
        println!("building with {toolchain}");
        let mut command = cargo_of(toolchain, ["check", "--all-features", "--target-dir"]);
        return run(command.arg(workspace::target_dir("msrv")).args(packages));
    }
    println!(
        "Rust {version} is not installed (`rustup toolchain install {version}`). Clippy's incompatible_msrv stands in for it: \
         it finds library items newer than {version}, not newer syntax."
    );
    let mut command = cargo(["clippy", "--all-features"]);
    run(command.args(packages).args(["--", "-D", "clippy::incompatible_msrv"]))
}

/// The installed toolchain of this version, whatever its patch number.
fn toolchain<'a>(installed: &'a str, version: &str) -> Option<&'a str> {
    let names = installed.lines().filter_map(|line| line.split_whitespace().next());
    names.into_iter().find(|name| {
        name.strip_prefix(version)
            .is_some_and(|rest| rest.starts_with(['.', '-']) || rest.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn toolchain_is_found_by_its_first_two_numbers() {
        let installed = "stable-x86_64 (active, default)\n1.880-x86_64\n1.88.0-x86_64\n";
        assert_eq!(toolchain(installed, "1.88"), Some("1.88.0-x86_64"));
        assert_eq!(toolchain(installed, "1.90"), None);
    }
}
