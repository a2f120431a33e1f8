//! Reads the records of a damaged file page by page, without the tree that leads to them.
//!
//! A redb file consists of pages of 4096 bytes and larger ones that begin at a multiple of that. A
//! leaf page is: the byte 1, a zero byte, the number of pairs (two bytes), the end of each key,
//! the end of each value if values have no fixed size (four bytes each, counted from the start of
//! the page), then all keys and all values. Every number has its lowest byte first.
//!
//! A freed page keeps its bytes until it is used again, so one key may have several records. The
//! last one counts. Each record has a checksum. A record without one (of format 1) cannot be
//! distinguished from damage and is left out.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::path::Path;

use crate::record::Record;

const PAGE: usize = 4096;
const LEAF: u8 = 1;
const HEAD: usize = 4;
const END: usize = 4;
/// A longer page is damaged.
const LONGEST: usize = 64 << 20;

/// The contents of the pages of a file.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    /// Prefixes of counters by their numbers. A number that two prefixes claim is left out.
    pub(crate) limits: HashMap<u32, Vec<u8>>,
    /// Records by their names.
    pub(crate) records: HashMap<Vec<u8>, Vec<u8>>,
}

/// Reads all leaf pages of a file.
pub(crate) fn read(path: &Path) -> io::Result<Pages> {
    let mut file = File::open(path)?;
    let len = file.metadata()?.len();
    let mut pages = Pages::default();
    let mut claims: HashMap<Vec<u8>, Vec<u32>> = HashMap::new();
    for start in (0..len).step_by(PAGE) {
        let Some(leaf) = Leaf::read(&mut file, start, len)? else { continue };
        for (name, bytes) in leaf.pairs() {
            pages.add(name, bytes);
        }
        for (prefix, number) in leaf.numbers() {
            let numbers = claims.entry(prefix.to_vec()).or_default();
            if !numbers.contains(&number) {
                numbers.push(number);
            }
        }
    }
    pages.limits = unambiguous(claims);
    Ok(pages)
}

impl Pages {
    /// Keeps the record that was made last. Of two made at the same time, keeps the one with the
    /// larger reserve, because it admits less.
    fn add(&mut self, name: &[u8], bytes: &[u8]) {
        let Some(record) = Record::from_checked_bytes(name, bytes) else { return };
        let kept = self.records.get(name).and_then(|kept| Record::from_checked_bytes(name, kept));
        if kept.is_none_or(|kept| (kept.at, kept.reserve) < (record.at, record.reserve)) {
            self.records.insert(name.to_vec(), bytes.to_vec());
        }
    }
}

/// Numbers have no checksum, but each belongs to one limit as long as the file exists.
fn unambiguous(claims: HashMap<Vec<u8>, Vec<u32>>) -> HashMap<u32, Vec<u8>> {
    let mut owners: HashMap<u32, Vec<Vec<u8>>> = HashMap::new();
    for (prefix, numbers) in claims {
        for number in numbers {
            owners.entry(number).or_default().push(prefix.clone());
        }
    }
    let single = |(number, mut prefixes): (u32, Vec<Vec<u8>>)| {
        let prefix = prefixes.pop()?;
        prefixes.is_empty().then_some((number, prefix))
    };
    owners.into_iter().filter_map(single).collect()
}

/// The bytes of one leaf page, from its start to its last value.
struct Leaf(Vec<u8>);

impl Leaf {
    fn read(file: &mut File, start: u64, len: u64) -> io::Result<Option<Leaf>> {
        let room = usize::try_from(len - start).unwrap_or(usize::MAX).min(LONGEST);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = vec![0; room.min(PAGE)];
        file.read_exact(&mut bytes)?;
        if bytes.first() != Some(&LEAF) {
            return Ok(None);
        }
        // A page of many records, or of a long one, continues after the first 4096 bytes.
        let ends = HEAD + 2 * END * Leaf::count(&bytes);
        grow(file, &mut bytes, ends.min(room))?;
        let end = Leaf::end(&bytes, 2 * Leaf::count(&bytes) - 1).unwrap_or(0);
        grow(file, &mut bytes, end.min(room))?;
        Ok(Some(Leaf(bytes)))
    }

    /// The number of pairs, at least one.
    fn count(bytes: &[u8]) -> usize {
        let count = bytes.get(2..4).map_or(0, |count| u16::from_le_bytes([count[0], count[1]]));
        usize::from(count).max(1)
    }

    fn end(bytes: &[u8], index: usize) -> Option<usize> {
        let end = bytes.get(HEAD + index * END..)?.first_chunk()?;
        usize::try_from(u32::from_le_bytes(*end)).ok()
    }

    fn slice(&self, range: Range<Option<usize>>) -> Option<&[u8]> {
        self.0.get(range.start?..range.end?)
    }

    /// The keys and values of a table whose values have no fixed size.
    fn pairs(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let count = Leaf::count(&self.0);
        let end = |index: usize| Leaf::end(&self.0, index);
        (0..count).filter_map(move |index| {
            let key_start = if index == 0 { Some(HEAD + 2 * END * count) } else { end(index - 1) };
            let value = end(count + index - 1)..end(count + index);
            Some((self.slice(key_start..end(index))?, self.slice(value)?))
        })
    }

    /// The keys and values of the table of numbers: prefixes and four bytes each.
    fn numbers(&self) -> impl Iterator<Item = (&[u8], u32)> {
        let count = Leaf::count(&self.0);
        let end = |index: usize| Leaf::end(&self.0, index);
        (0..count).filter_map(move |index| {
            let key_start = if index == 0 { Some(HEAD + END * count) } else { end(index - 1) };
            let prefix = self.slice(key_start..end(index))?;
            let _ = names_of(prefix)?;
            let values = self.0.get(end(count - 1)?..)?;
            Some((prefix, u32::from_le_bytes(*values.get(index * 4..)?.first_chunk()?)))
        })
    }
}

/// Reads on until the buffer has this length.
fn grow(file: &mut File, bytes: &mut Vec<u8>, len: usize) -> io::Result<()> {
    let have = bytes.len();
    if have < len {
        bytes.resize(len, 0);
        file.read_exact(&mut bytes[have..])?;
    }
    Ok(())
}

/// The namespace and the limit's identity in the prefix of a counter.
pub(crate) fn names_of(prefix: &[u8]) -> Option<(&str, &str)> {
    let (namespace, rest) = framed(prefix)?;
    let (identity, rest) = framed(rest)?;
    rest.is_empty().then_some((namespace, identity))
}

/// Reads a text after its length in four bytes. Returns the text and the bytes that follow it.
fn framed(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (len, rest) = bytes.split_first_chunk()?;
    let (text, rest) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*len)).ok()?)?;
    Some((std::str::from_utf8(text).ok()?, rest))
}
