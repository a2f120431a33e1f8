//! The command that tollgate really sends, as the server saw it: what redis-benchmark has to send
//! too.

use super::server::Server;
use crate::Outcome;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

/// The words of the next EVALSHA that `act` makes the server see.
pub(crate) fn evalsha(server: &Server, act: impl FnOnce() -> Outcome<()>) -> Outcome<Vec<String>> {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port()))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(b"MONITOR\r\n")?;
    let mut lines = BufReader::new(stream).lines();
    let _ok = lines.next().transpose()?;
    act()?;
    for line in lines {
        if let Some(words) = words(&line?).filter(|words| words[0] == "EVALSHA") {
            return Ok(words);
        }
    }
    Err("MONITOR showed no EVALSHA".into())
}

/// The words of a line of MONITOR: `time [database address] "word" "word" ...`. `None` where one is
/// escaped: nothing that this program sends is.
fn words(line: &str) -> Option<Vec<String>> {
    let (_, quoted) = line.split_once("] \"")?;
    let quoted = quoted.strip_suffix('"')?;
    (!quoted.contains('\\')).then(|| quoted.split("\" \"").map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_monitor_is_taken_apart() {
        let line = "1700000000.5 [0 127.0.0.1:5000] \"EVALSHA\" \"abc\" \"1\" \"k\"";
        assert_eq!(words(line).unwrap(), ["EVALSHA", "abc", "1", "k"]);
        assert_eq!(words("OK"), None);
    }
}
