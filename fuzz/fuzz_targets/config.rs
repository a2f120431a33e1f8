//! No text makes the parser of configuration files panic or grow without bound, and every error has
//! a place.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_server::config;

fuzz_target!(|text: &str| {
    for name in ["f.toml", "f.yaml"] {
        // In YAML a single carriage return ends a line too.
        let lines = text.split(['\n', '\r']).count() + 1;
        match config::read(text, name) {
            Ok(config) => assert_eq!(config.rules.rows().len(), config.rules.len()),
            Err(problems) => {
                assert!(!problems.0.is_empty());
                for problem in problems.0 {
                    assert!((1..=lines).contains(&problem.line), "{problem} of {lines} lines");
                }
            }
        }
    }
});
