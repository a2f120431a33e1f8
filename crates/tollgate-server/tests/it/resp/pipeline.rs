//! Pipelines.

use std::collections::HashMap;
use std::io::Write;

use super::client::command;
use super::here::Here;
use super::{Client, Value};

fn hit(key: &str, limit: u32) -> Vec<u8> {
    let burst = (limit - 1).to_string();
    command(&[b"CL.THROTTLE", key.as_bytes(), burst.as_bytes(), b"1", b"86400"])
}

#[test]
fn a_pipeline_is_answered_in_one_write() {
    let here = Here::start();
    let mut client = Client::connect(here.address);
    for size in [1, 2, 16, 64] {
        let pipeline: Vec<u8> = (0..size).flat_map(|_| command(&[b"PING"])).collect();
        client.send(&pipeline);
        assert_eq!(client.read_once(), b"+PONG\r\n".repeat(size), "{size} in a pipeline");
    }
}

#[test]
fn answers_are_in_order_whatever_the_commands() {
    let here = Here::start();
    let mut client = Client::connect(here.address);
    let all = [
        hit("a", 2),
        b"PING\r\n".to_vec(),
        hit("a", 2),
        command(&[b"HELLO", b"3"]),
        hit("a", 2),
        b"nonsense\r\n".to_vec(),
    ];
    client.send(&all.concat());
    assert_eq!(client.answer().integers()[..3], [0, 2, 1]);
    assert_eq!(client.answer(), Value::Simple("PONG".to_owned()));
    assert_eq!(client.answer().integers()[..3], [0, 2, 0]);
    assert_eq!(client.answer().field("proto").integer(), 3);
    assert_eq!(client.answer().integers()[..3], [1, 2, 0]);
    assert!(client.answer().error().contains("unknown command"));
}

#[test]
fn a_command_may_come_byte_by_byte() {
    let here = Here::start();
    let mut client = Client::connect(here.address);
    for byte in hit("a", 2) {
        client.send(&[byte]);
    }
    assert_eq!(client.answer().integers()[..3], [0, 2, 1]);
}

#[test]
fn a_client_that_sends_everything_before_reading_gets_all_answers() {
    let here = Here::start();
    let mut client = Client::connect(here.address);
    let count = 100_000;
    let pipeline: Vec<u8> = (0..count).flat_map(|_| hit("a", 50_000)).collect();
    client.send(&pipeline);
    let allowed = (0..count).filter(|_| client.answer().integers()[0] == 0).count();
    assert_eq!(allowed, 50_000);
}

#[test]
fn a_client_that_reads_no_answers_makes_the_server_stop_reading() {
    let here = Here::start();
    let client = Client::connect(here.address);
    // Answers of 64 KiB each. When enough of them wait, the server stops reading, and then the
    // socket is full.
    let echo = command(&[b"ECHO", &[b'x'; 64 << 10]]);
    client.stream().set_write_timeout(Some(std::time::Duration::from_secs(1))).unwrap();
    let mut sent = 0_usize;
    while sent < 1 << 30 {
        match (&mut client.stream()).write(&echo) {
            Ok(count) => sent += count,
            Err(_) => break,
        }
    }
    assert!(sent < 1 << 30, "{sent} bytes were taken from a client that reads nothing");
    assert_eq!(Client::connect(here.address).ask("PING"), Value::Simple("PONG".to_owned()));
}

#[test]
fn counts_are_exact_with_many_connections() {
    let here = Here::start();
    let address = here.address;
    let threads = (0..8).map(|_| {
        std::thread::spawn(move || {
            let mut client = Client::connect(address);
            let mut allowed: HashMap<String, usize> = HashMap::new();
            for round in 0..50 {
                let keys: Vec<String> =
                    (0..16).map(|n| format!("key {}", (n + round) % 5)).collect();
                client.send(&keys.iter().flat_map(|key| hit(key, 300)).collect::<Vec<_>>());
                for key in keys {
                    *allowed.entry(key).or_default() +=
                        usize::from(client.answer().integers()[0] == 0);
                }
            }
            allowed
        })
    });
    let mut total: HashMap<String, usize> = HashMap::new();
    for allowed in threads.collect::<Vec<_>>() {
        for (key, count) in allowed.join().unwrap() {
            *total.entry(key).or_default() += count;
        }
    }
    assert_eq!(total.len(), 5);
    assert!(total.values().all(|count| *count == 300), "{total:?}");
}
