//! A server that stops answers every command that it has received.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tollgate_testservers::eventually;

use super::client::{Client, command};
use crate::server::Server;

#[test]
fn commands_received_before_the_end_are_answered() {
    let mut server = Server::start(&[]);
    let mut clients: Vec<Client> = (0..20).map(|_| Client::connect(server.resp)).collect();
    let pipeline = command(&[b"CL.THROTTLE", b"key", b"9999", b"1", b"86400"]).repeat(50);
    for client in &mut clients {
        assert_eq!(client.ask("PING").text(), "PONG");
    }
    for client in &mut clients {
        client.send(&pipeline);
    }
    server.process.signal("TERM");
    let mut taken = Vec::new();
    for client in &mut clients {
        for _ in 0..50 {
            let answer = client.try_answer().expect("an answer to what was sent before the end");
            taken.push(10_000 - answer.integers()[2]);
        }
        assert_eq!(client.try_answer(), None);
    }
    taken.sort_unstable();
    assert_eq!(taken, (1..=1_000).collect::<Vec<_>>());
    assert_eq!(server.code(), Some(0));
}

#[test]
fn under_load_every_answer_is_whole_and_every_charge_is_answered() {
    let mut server = Server::start(&[]);
    let answered = Arc::new(AtomicUsize::new(0));
    let address = server.resp;
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let answered = Arc::clone(&answered);
            let mut client = Client::connect(address);
            std::thread::spawn(move || {
                let hit = command(&[b"CL.THROTTLE", b"key", b"99999", b"1", b"86400"]);
                let mut last = 0;
                loop {
                    if std::io::Write::write_all(&mut client.stream(), &hit).is_err() {
                        return last;
                    }
                    let Some(answer) = client.try_answer() else { return last };
                    last = last.max(100_000 - answer.integers()[2]);
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    eventually("there is load", || answered.load(Ordering::Relaxed) > 1_000);
    server.process.signal("TERM");
    let most = threads.into_iter().map(|thread| thread.join().unwrap()).max().unwrap();
    // Each charge got its own number. If the highest equals the number of answers, none was lost.
    assert_eq!(usize::try_from(most).unwrap(), answered.load(Ordering::Relaxed));
    assert_eq!(server.code(), Some(0));
}
