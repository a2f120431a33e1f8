//! Lists all names on a server with `lru_crawler metadump`.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tollgate::Error;
use tollgate::shared::percent_decoded;

use crate::server::Way;

/// The ways to list items, the better one first: the hash table contains every item. Older servers
/// support only the list by queues.
const WAYS: [&str; 2] = ["hash", "all"];

/// How often a server that is busy with another list is asked again, and the pause.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(50);

/// How long the server may be silent.
const SILENCE: Duration = Duration::from_secs(10);

/// The rest of a list.
pub(crate) struct Listed {
    reader: Box<dyn AsyncRead + Send + Unpin>,
    // The server continues only while the connection is open.
    _writer: Box<dyn AsyncWrite + Send + Unpin>,
    bytes: Vec<u8>,
    start: usize,
    ended: bool,
    server: String,
}

/// Requests the list.
pub(crate) async fn list(way: &Way) -> Result<Listed, Error> {
    let server = way.address.to_string();
    let mut answer = String::new();
    for how in WAYS {
        for _ in 0..TRIES {
            let (reader, mut writer) = way.own_connection().await?;
            let command = format!("lru_crawler metadump {how}\r\n");
            let written = writer.write_all(command.as_bytes()).await;
            written.map_err(|error| Error::unavailable(format!("{server}: {error}")))?;
            let (bytes, server) = (Vec::new(), server.clone());
            let mut listed =
                Listed { reader, _writer: writer, bytes, start: 0, ended: false, server };
            let first = listed.peek().await?;
            if first == b"END" || first.starts_with(b"key=") {
                return Ok(listed);
            }
            answer = first.escape_ascii().to_string();
            if !first.starts_with(b"BUSY") {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
    let busy = answer.starts_with("BUSY");
    Err(Error::store(format!("{server}: cannot list its keys: {answer}"), busy))
}

impl Listed {
    /// The next names with this prefix, at most `most`; none at the end of the list.
    pub(crate) async fn next(&mut self, place: &[u8], most: usize) -> Result<Vec<Vec<u8>>, Error> {
        let mut names = Vec::new();
        while !self.ended && names.len() < most {
            let line = self.line().await?;
            if line == b"END" {
                self.ended = true;
            } else {
                names.extend(name_in(&line).filter(|name| name.starts_with(place)));
            }
        }
        Ok(names)
    }

    /// The next line, without consuming it.
    async fn peek(&mut self) -> Result<Vec<u8>, Error> {
        let start = self.start;
        let line = self.line().await?;
        // No byte was consumed: the line is the first.
        self.start = start;
        Ok(line)
    }

    async fn line(&mut self) -> Result<Vec<u8>, Error> {
        loop {
            if let Some(end) = self.bytes[self.start..].iter().position(|byte| *byte == b'\n') {
                let line = &self.bytes[self.start..self.start + end];
                let line = line.strip_suffix(b"\r").unwrap_or(line).to_vec();
                self.start += end + 1;
                return Ok(line);
            }
            if self.start > 0 {
                self.bytes.drain(..self.start);
                self.start = 0;
            }
            let failed = |why: &str| {
                Error::unavailable(format!(
                    "{}: the list of its keys broke off: {why}",
                    self.server
                ))
            };
            match tokio::time::timeout(SILENCE, self.reader.read_buf(&mut self.bytes)).await {
                Ok(Ok(0)) => return Err(failed("it was closed")),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(failed(&error.to_string())),
                Err(_) => return Err(failed("silence")),
            }
        }
    }
}

/// The name in `key=<escaped> exp=...`.
fn name_in(line: &[u8]) -> Option<Vec<u8>> {
    let name = line.strip_prefix(b"key=")?.split(|byte| *byte == b' ').next()?;
    percent_decoded(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_from_the_list() {
        let line = b"key=tollgate%3A1%3A%7Cx%7Cn exp=1794756864 la=1794756804 cas=3 fetch=yes cls=1 size=62";
        assert_eq!(name_in(line).unwrap(), b"tollgate:1:|x|n");
        assert_eq!(name_in(b"BUSY currently processing crawler request"), None);
    }
}
