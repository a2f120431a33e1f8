//! A fake server that accepts logins like Memcached and then answers as a test wants.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

/// Maps a command to the fake server's answer, and whether the connection is closed after it.
pub(crate) type Script = dyn Fn(&str) -> (Vec<u8>, bool) + Send + Sync;

/// Starts it and returns its address.
pub(crate) fn start(script: impl Fn(&str) -> (Vec<u8>, bool) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script: Arc<Script> = Arc::new(script);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let script = Arc::clone(&script);
            std::thread::spawn(move || serve(&stream, &*script));
        }
    });
    format!("memcached://127.0.0.1:{port}")
}

fn serve(stream: &TcpStream, script: &Script) {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|read| read > 0) {
        let command = line.trim_end().to_owned();
        line.clear();
        if command.starts_with("ms ") {
            let size: usize = command.split(' ').nth(2).unwrap().parse().unwrap();
            reader.read_exact(&mut vec![0; size + 2]).unwrap();
        }
        let (answer, hang_up) = match &command[..] {
            "stats settings" => (b"STAT cas_enabled yes\r\nEND\r\n".to_vec(), false),
            "stats" => (b"END\r\n".to_vec(), false),
            "mn" => (b"MN\r\n".to_vec(), false),
            _ => script(&command),
        };
        let mut out = stream;
        if out.write_all(&answer).is_err() || hang_up {
            let _ = stream.shutdown(std::net::Shutdown::Both);
            return;
        }
    }
}

/// The opaque token of a command.
pub(crate) fn mark(command: &str) -> &str {
    command.split(' ').find(|word| word.starts_with('O')).unwrap_or("O0")
}
