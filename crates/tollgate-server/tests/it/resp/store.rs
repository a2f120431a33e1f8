//! Commands on a remote store.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use tollgate_stores::Opening;
use tollgate_testservers::{Engine, free_port};

use super::client::command;
use super::here::Here;
use super::{Client, Value};

/// A Redis behind a proxy that holds answers back until a number of calls have arrived.
struct Gated {
    _redis: Engine,
    port: u16,
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate {
    wanted: AtomicUsize,
    asked: Mutex<usize>,
    more: Condvar,
}

impl Gate {
    fn pass(&self, bytes: &[u8]) {
        let asked = bytes.windows(7).filter(|window| window == b"EVALSHA").count();
        *self.asked.lock().unwrap() += asked;
        self.more.notify_all();
    }

    fn wait(&self) {
        let asked = self.asked.lock().unwrap();
        let wait = |asked: &mut usize| *asked < self.wanted.load(Ordering::Acquire);
        drop(self.more.wait_timeout_while(asked, Duration::from_secs(5), wait).unwrap());
    }

    /// From now on, nothing is answered until this many more calls have arrived.
    fn want(&self, count: usize) {
        let asked = self.asked.lock().unwrap();
        self.wanted.store(*asked + count, Ordering::Release);
    }
}

impl Gated {
    fn start() -> Gated {
        let redis = Engine::redis(&[]);
        let redis_port = redis.port();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let gate = Arc::new(Gate::default());
        let shared = Arc::clone(&gate);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(("127.0.0.1", redis_port)) else { return };
                let (gate, back) = (Arc::clone(&shared), Arc::clone(&shared));
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                std::thread::spawn(move || pump(from, to, |bytes| gate.pass(bytes)));
                std::thread::spawn(move || pump(server, client, |_| back.wait()));
            }
        });
        Gated { _redis: redis, port, gate }
    }

    fn here(&self) -> Here {
        let url = format!("redis://127.0.0.1:{}/", self.port);
        Here::on(Opening::new(url).deadline(Duration::from_secs(20)))
    }
}

fn pump(mut from: TcpStream, mut to: TcpStream, mut see: impl FnMut(&[u8])) {
    let mut bytes = [0; 65536];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        see(&bytes[..count]);
        if to.write_all(&bytes[..count]).is_err() {
            return;
        }
    }
}

fn hit(key: &str) -> Vec<u8> {
    command(&[b"CL.THROTTLE", key.as_bytes(), b"9", b"1", b"86400"])
}

#[test]
fn the_hits_of_a_pipeline_reach_the_store_together() {
    let redis = Gated::start();
    let here = redis.here();
    let mut client = Client::connect(here.address);
    // The first call loads the script.
    client.send(&hit("warm"));
    client.answer();
    // The store answers no hit before both of its queues have sent their first one.
    redis.gate.want(2);
    let before = *redis.gate.asked.lock().unwrap();
    client.send(&(0..16).flat_map(|n| hit(&format!("key {n}"))).collect::<Vec<_>>());
    for _ in 0..16 {
        assert_eq!(client.answer().integers()[..3], [0, 10, 9]);
    }
    // Each queue sends one hit, and then those that waited meanwhile; how many calls these are
    // depends on the machine. Hits that wait for each other's answers would be 16 calls.
    let calls = *redis.gate.asked.lock().unwrap() - before;
    assert!(calls < 16, "{calls} calls");
}

#[test]
fn commands_on_one_key_keep_their_order() {
    let redis = Gated::start();
    let here = redis.here();
    let mut client = Client::connect(here.address);
    let keys = ["a", "b", "a", "c", "a", "b"];
    let mut pipeline: Vec<u8> = keys.iter().flat_map(|key| hit(key)).collect();
    pipeline.extend(command(&[b"TG.ALL", b"2", b"5/hour", b"a", b"1", b"5/hour", b"b", b"1"]));
    pipeline.extend(b"PING\r\n");
    pipeline.extend(command(&[b"TG.EACH", b"2", b"5/hour", b"a", b"1", b"5/hour", b"b", b"1"]));
    pipeline.extend(command(&[b"TG.USAGE", b"5/hour", b"a"]));
    client.send(&pipeline);
    let left: Vec<i64> = keys.iter().map(|_| client.answer().integers()[2]).collect();
    assert_eq!(left, [9, 9, 8, 9, 7, 8]);
    // Keys of different nodes could not be combined, but here there is only one node.
    assert_eq!(client.answer().field("allowed").integer(), 1);
    assert_eq!(client.answer(), Value::Simple("PONG".to_owned()));
    let Value::Array(each) = client.answer() else { panic!("no array") };
    assert_eq!(each[0].field("used").integer(), 2);
    assert_eq!(client.answer(), Value::Integer(2));
}

#[test]
fn a_store_that_does_not_answer_is_an_error_and_never_a_decision() {
    let url = format!("redis://127.0.0.1:{}/", free_port());
    let here = Here::on(Opening::new(url));
    let mut client = Client::connect(here.address);
    for command in [
        "CL.THROTTLE key 1 1 1",
        "TG.HIT 5/hour key",
        "TG.ALL 1 5/hour key 1",
        "TG.RESET 5/hour key",
    ] {
        let answer = client.ask(command);
        assert!(answer.error().starts_with("STORE "), "{command}: {answer:?}");
    }
}
