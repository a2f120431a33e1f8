//! Lines from files and standard input, plain, gzip or zstd.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;

/// A longer line is not read as a request: no server writes one, and it would fill the memory.
pub(crate) const LONGEST_LINE: usize = 1 << 20;

const BUFFER: usize = 1 << 18;

/// How much was read so far, for the progress of a replay.
#[derive(Clone, Debug, Default)]
pub struct BytesRead(Arc<AtomicU64>);

impl BytesRead {
    /// Bytes of the files, compressed as they are.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

struct Counting<R> {
    inner: R,
    count: BytesRead,
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.count.0.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// The lines of one log.
pub(crate) struct Lines {
    name: String,
    reader: Box<dyn BufRead>,
    number: u64,
}

/// The next item of a log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Line,
    /// A line longer than [`LONGEST_LINE`], which was skipped.
    TooLong,
    End,
}

impl Lines {
    /// A file, or standard input for `-`.
    pub(crate) fn open(path: &Path, count: &BytesRead) -> Result<Lines, String> {
        let name = path.display().to_string();
        let refuse = |error: io::Error| format!("{name}: {error}");
        let input: Box<dyn Read> = if path == Path::new("-") {
            Box::new(io::stdin())
        } else {
            let file = File::open(path).map_err(refuse)?;
            if file.metadata().map_err(refuse)?.is_dir() {
                return Err(format!("{name}: is a directory; name the files in it"));
            }
            Box::new(file)
        };
        Lines::new(name.clone(), input, count).map_err(refuse)
    }

    /// Reads the first bytes to see whether they are compressed.
    pub(crate) fn new(
        name: String,
        input: impl Read + 'static,
        count: &BytesRead,
    ) -> io::Result<Lines> {
        let counting = Counting { inner: input, count: count.clone() };
        let mut raw = BufReader::with_capacity(BUFFER, counting);
        let reader: Box<dyn BufRead> = match raw.fill_buf()? {
            [0x1f, 0x8b, ..] => {
                Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(raw)))
            }
            [0x28, 0xb5, 0x2f, 0xfd, ..] => {
                let frames = Frames { decoder: None, input: Some(raw) };
                Box::new(BufReader::with_capacity(BUFFER, frames))
            }
            _ => Box::new(raw),
        };
        Ok(Lines { name, reader, number: 0 })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The number of the line that was read last, counted from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Counts lines from 1 again: those read so far are read again from memory.
    pub(crate) fn restart_numbers(&mut self) {
        self.number = 0;
    }

    /// Counts a line that was read again from memory.
    pub(crate) fn count_line(&mut self) {
        self.number += 1;
    }

    /// Reads the next line, without its end.
    pub(crate) fn read(&mut self, line: &mut Vec<u8>) -> io::Result<Next> {
        line.clear();
        self.number += 1;
        let mut too_long = false;
        loop {
            let available = match self.reader.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if available.is_empty() {
                return Ok(match (too_long, line.is_empty()) {
                    (true, _) => Next::TooLong,
                    (false, true) => Next::End,
                    (false, false) => Next::Line,
                });
            }
            let end = memchr::memchr(b'\n', available);
            let part = &available[..end.unwrap_or(available.len())];
            too_long |= line.len() + part.len() > LONGEST_LINE;
            if too_long {
                line.clear();
            } else {
                line.extend_from_slice(part);
            }
            let consumed = end.map_or(available.len(), |end| end + 1);
            self.reader.consume(consumed);
            if end.is_some() {
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                return Ok(if too_long { Next::TooLong } else { Next::Line });
            }
        }
    }
}

/// All frames of a zstd file, one after another.
struct Frames<R: BufRead> {
    decoder: Option<StreamingDecoder<R, ruzstd::decoding::FrameDecoder>>,
    input: Option<R>,
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(mut input) = self.input.take() {
                if input.fill_buf()?.is_empty() {
                    self.input = Some(input);
                    return Ok(0);
                }
                self.decoder = Some(StreamingDecoder::new(input).map_err(io::Error::other)?);
            }
            let Some(decoder) = &mut self.decoder else { return Ok(0) };
            let read = decoder.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            self.input = self.decoder.take().map(StreamingDecoder::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn lines(input: Vec<u8>) -> Vec<Result<String, Next>> {
        let count = BytesRead::default();
        let length = input.len() as u64;
        let mut lines = Lines::new("test".into(), io::Cursor::new(input), &count).unwrap();
        let (mut all, mut line) = (Vec::new(), Vec::new());
        loop {
            match lines.read(&mut line).unwrap() {
                Next::End => break,
                Next::Line => all.push(Ok(String::from_utf8(line.clone()).unwrap())),
                too_long => all.push(Err(too_long)),
            }
        }
        assert_eq!(count.bytes(), length);
        all
    }

    fn gzip(text: &str) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn lines_are_the_same_however_they_are_compressed() {
        let expected = vec![Ok("one".to_owned()), Ok("two".to_owned()), Ok("three".to_owned())];
        assert_eq!(lines(b"one\r\ntwo\nthree".to_vec()), expected);
        assert_eq!(lines([gzip("one\ntwo\n"), gzip("three\n")].concat()), expected);
        let zstd = |text: &str| {
            ruzstd::encoding::compress_to_vec(
                text.as_bytes(),
                ruzstd::encoding::CompressionLevel::Fastest,
            )
        };
        assert_eq!(lines([zstd("one\ntwo\n"), zstd("three\n")].concat()), expected);
        assert_eq!(lines(Vec::new()), []);
    }

    #[test]
    fn an_endless_line_does_not_fill_the_memory() {
        let mut input = vec![b'x'; 2 * LONGEST_LINE];
        input.extend_from_slice(b"\nafter\n");
        assert_eq!(lines(input), [Err(Next::TooLong), Ok("after".to_owned())]);
    }

    #[test]
    fn a_broken_file_is_an_error() {
        let mut broken = gzip(&"some text\n".repeat(100_000));
        broken.truncate(broken.len() / 2);
        let mut lines =
            Lines::new("x".into(), io::Cursor::new(broken), &BytesRead::default()).unwrap();
        let mut line = Vec::new();
        let error = std::iter::from_fn(|| Some(lines.read(&mut line))).find_map(Result::err);
        assert!(error.is_some());
        assert!(Lines::open(Path::new("/"), &BytesRead::default()).is_err());
    }
}
