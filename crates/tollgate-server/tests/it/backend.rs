//! The backend behind proxies.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

/// A server that answers every request with a hundred bytes, until the test ends.
pub(crate) fn start() -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(&stream));
        }
    });
    address
}

fn answer(mut stream: &TcpStream) {
    // Header values need not be text.
    for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
        // The end of a request. The tests send no bodies.
        if line == b"\r" {
            let body = "x".repeat(100);
            let head = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n";
            if stream.write_all(format!("{head}{body}").as_bytes()).is_err() {
                return;
            }
        }
    }
}
