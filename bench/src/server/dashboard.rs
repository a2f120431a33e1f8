//! A dashboard: a stream of events that stays open during a turn.

use crate::Outcome;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread::JoinHandle;

/// Open until it is dropped. It reads as a browser does.
pub(crate) struct Dashboard {
    stream: TcpStream,
    reader: Option<JoinHandle<()>>,
}

impl Dashboard {
    /// Opens the stream, and waits for its first event.
    pub(crate) fn open(admin: SocketAddr) -> Outcome<Dashboard> {
        let mut stream = TcpStream::connect(admin)?;
        write!(stream, "GET /api/v1/stream HTTP/1.1\r\nhost: {admin}\r\n\r\n")?;
        let mut buffer = vec![0; 64 * 1024];
        let count = stream.read(&mut buffer)?;
        let head = String::from_utf8_lossy(&buffer[..count]).into_owned();
        if !head.starts_with("HTTP/1.1 200") {
            return Err(format!("the dashboard's stream answered {head}").into());
        }
        let mut reading = stream.try_clone()?;
        let read = move || while reading.read(&mut buffer).is_ok_and(|count| count > 0) {};
        Ok(Dashboard { stream, reader: Some(std::thread::spawn(read)) })
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
        let _ = self.reader.take().map(JoinHandle::join);
    }
}
