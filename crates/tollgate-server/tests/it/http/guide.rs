//! The answers in the guide to the HTTP API are those of the server.

use std::process::Command;

use crate::receipts::without_receipts;
use crate::server::Server;

const GUIDE: &str = include_str!("../../../../../guides/http-api.md");

/// Code blocks of the guide in a language.
fn blocks(language: &str) -> impl Iterator<Item = &'static str> {
    let fence = format!("```{language}\n");
    let blocks: Vec<_> = GUIDE.split(&fence).skip(1).collect();
    blocks.into_iter().map(|rest| rest.split_once("```").unwrap().0)
}

/// The text with 0 for every time and R for every receipt, because both depend on the speed of the
/// machine.
fn without_times(text: &str) -> String {
    let mut text = without_receipts(&text.replace('\r', ""));
    for name in ["\"retry_after\":", "\"reset_after\":", ";t="] {
        let parts: Vec<_> = text.split(name).collect();
        let rest = parts[1..].iter().map(|part| {
            let rest = part.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
            format!("{name}0{rest}")
        });
        let rest: String = rest.collect();
        text = format!("{}{rest}", parts[0]);
    }
    text
}

#[test]
fn every_command_answers_what_the_guide_shows() {
    let server = Server::told(blocks("toml").next().unwrap());
    let mut commands = 0;
    for block in blocks("console") {
        for (command, shown) in block.split("$ ").skip(1).map(|part| part.split_once('\n').unwrap())
        {
            let local = command.replace("127.0.0.1:8080", &server.http.to_string());
            let output = Command::new("sh").args(["-c", &local]).output().unwrap();
            let said = String::from_utf8(output.stdout).unwrap();
            assert_eq!(
                without_times(said.trim_end()),
                without_times(shown.trim_end()),
                "{command}"
            );
            commands += 1;
        }
    }
    assert!(commands > 10, "{commands}");
}
