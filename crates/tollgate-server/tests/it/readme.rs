//! The examples in README give the output that README shows.

use crate::receipts::without_receipts;
use crate::server::Server;
use crate::{http, resp};

const README: &str = include_str!("../../../../README.md");

/// Finds the line of README that calls a program. Returns the arguments in that line, and the lines
/// after it, which show the answer.
fn shown(program: &str) -> (&'static str, Vec<&'static str>) {
    let mut lines = README.lines();
    let call = lines.find_map(|line| line.strip_prefix("$ ")?.strip_prefix(program));
    let answer = lines.take_while(|line| !line.starts_with("```"));
    (call.unwrap_or_else(|| panic!("README does not call {program}")), answer.collect())
}

#[test]
fn curl_gets_the_answer_in_readme() {
    let (path, answer) = shown("curl -X POST 'localhost:8080");
    let server = Server::start(&[]);
    let reply = http::Client::new(server.http).post(path.trim_end_matches('\''), "");
    let answer: Vec<String> = answer.into_iter().map(without_receipts).collect();
    assert_eq!(answer, [without_receipts(reply.body.trim_end())]);
    assert!(answer[0].ends_with("\"receipt\":\"R\"}"), "{answer:?}");
}

#[test]
fn redis_cli_gets_the_answer_in_readme() {
    let (command, answer) = shown("redis-cli -p 6380 ");
    let server = Server::start(&[]);
    let numbers = resp::Client::connect(server.resp).ask(command).integers();
    let printed = (1..).zip(numbers).map(|(place, number)| format!("{place}) (integer) {number}"));
    assert_eq!(answer, printed.collect::<Vec<_>>());
}
