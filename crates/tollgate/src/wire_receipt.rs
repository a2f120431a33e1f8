//! Receipts that leave the process: as text, with a checksum over the counter that was charged.
//!
//! The text is base64url of 42 bytes, so it always has 56 characters, all of which can be used in
//! URLs. Numbers have their highest byte first:
//!
//! | bytes | content |
//! | --- | --- |
//! | 1 | version: 1 |
//! | 1 | source |
//! | 8 | units |
//! | 8 | time, in microseconds since the Unix epoch |
//! | 8 | mark |
//! | 8 | process that issued the receipt; 0 if every process may honour it |
//! | 8 | checksum |
//!
//! The checksum is the beginning of the SHA-256 of the prefix of the counter's [`Place`], the bytes
//! before the checksum, and the form and the bytes of the key. So namespace, limit and key are
//! checked without being part of the text, and a receipt reveals none of them. The checksum finds
//! mistakes. It has no secret, so it does not find forgery: a caller that may refund may also
//! refund without a receipt.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::str::FromStr;
use std::sync::OnceLock;

use sha2::{Digest as _, Sha256};

use crate::algorithm::MAX_UNITS;
use crate::base64;
use crate::error::Error;
use crate::key::Key;
use crate::outcome::{Receipt, Source};
use crate::shared::Place;
use crate::time::Timestamp;

const VERSION: u8 = 1;

/// The length of the bytes under the checksum.
const BODY: usize = 34;

/// The longest text of any version, so that readers can bound their input.
const LONGEST: usize = 96;

/// A [`Receipt`] as text, for a refund by another process or by a caller over a network. It is for
/// one key of one limit in one namespace: [`check`](WireReceipt::check) refuses all others, and a
/// text of which a character was changed.
///
/// The store does not record that a receipt was used: a second refund gives back units of other
/// hits. The checksum does not find forgery, so accept receipts only from callers that may refund
/// anyway.
///
/// ```
/// use tollgate::shared::Place;
/// use tollgate::{Limit, Memory, WireReceipt};
///
/// let limit = Limit::per_minute(10).build()?;
/// let limiter = Memory::new().limiter(&limit)?;
/// let place = Place::new("", &limit);
/// let receipt = limiter.hit_n("user:42", 3).headline().receipt();
/// let text = WireReceipt::new(receipt, &place, "user:42").to_string();
/// assert_eq!(text.len(), WireReceipt::LENGTH);
///
/// let read: WireReceipt = text.parse()?;
/// assert!(read.check(&place, "user:43").is_err());
/// limiter.refund_receipts("user:42", &[read.check(&place, "user:42")?]);
/// assert_eq!(limiter.usage("user:42"), 0);
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WireReceipt {
    receipt: Receipt,
    process: u64,
    checksum: [u8; 8],
}

impl WireReceipt {
    /// The length of the text, in characters.
    pub const LENGTH: usize = 56;

    /// Combines a receipt with the place and the key that were charged.
    ///
    /// See the example of [`WireReceipt`].
    #[must_use]
    pub fn new(receipt: Receipt, place: &Place, key: impl Key) -> WireReceipt {
        // Stores never charge more and have no later marks. A reader refuses such numbers.
        let receipt = Receipt {
            mark: receipt.mark.min(Timestamp::MAX.as_micros()),
            ..receipt.at_most(MAX_UNITS)
        };
        let process = if is_of_one_process(receipt.source) { this_process() } else { 0 };
        let mut wire = WireReceipt { receipt, process, checksum: [0; 8] };
        wire.checksum = wire.checksum_for(place, key);
        wire
    }

    /// Returns the receipt if it is for this key of this place.
    ///
    /// # Errors
    /// Fails if it is for another namespace, limit or key, or if its text was changed.
    ///
    /// See the example of [`WireReceipt`].
    pub fn check(&self, place: &Place, key: impl Key) -> Result<Receipt, Error> {
        if self.is_for(place, &key) { Ok(self.receipt) } else { Err(self.wrong_place()) }
    }

    /// Returns whether the receipt is for this key of this place.
    ///
    /// ```
    /// # use tollgate::{Limit, Memory, WireReceipt, shared::Place};
    /// let limit = Limit::per_minute(10).build()?;
    /// let place = Place::new("shop", &limit);
    /// let receipt = Memory::new().limiter(&limit)?.hit("user:42").headline().receipt();
    /// let wire = WireReceipt::new(receipt, &place, "user:42");
    /// assert!(wire.is_for(&place, "user:42"));
    /// assert!(!wire.is_for(&Place::new("bank", &limit), "user:42"));
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn is_for(&self, place: &Place, key: impl Key) -> bool {
        self.checksum == self.checksum_for(place, key)
    }

    /// Returns whether this process can give the units back. A receipt of a fallback, a lease or a
    /// replica is honoured only by the process that issued it, because only that process knows
    /// where it counted the units.
    ///
    /// ```
    /// # use tollgate::{Limit, Memory, WireReceipt, shared::Place};
    /// # let limit = Limit::per_minute(10).build()?;
    /// # let receipt = Memory::new().limiter(&limit)?.hit("user:42").headline().receipt();
    /// let wire = WireReceipt::new(receipt, &Place::new("", &limit), "user:42");
    /// assert!(wire.is_honoured_here());
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn is_honoured_here(&self) -> bool {
        !is_of_one_process(self.receipt.source) || self.process == this_process()
    }

    /// Returns the units that were charged.
    ///
    /// ```
    /// # use tollgate::{Limit, Memory, WireReceipt, shared::Place};
    /// # let limit = Limit::per_minute(10).build()?;
    /// # let receipt = Memory::new().limiter(&limit)?.hit_n("user:42", 3).headline().receipt();
    /// assert_eq!(WireReceipt::new(receipt, &Place::new("", &limit), "user:42").units(), 3);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn units(&self) -> u64 {
        self.receipt.units
    }

    /// Appends the text. It is faster than formatting.
    ///
    /// ```
    /// # use tollgate::{Limit, Memory, WireReceipt, shared::Place};
    /// # let limit = Limit::per_minute(10).build()?;
    /// # let receipt = Memory::new().limiter(&limit)?.hit("user:42").headline().receipt();
    /// let wire = WireReceipt::new(receipt, &Place::new("", &limit), "user:42");
    /// let mut text = String::new();
    /// wire.push_to(&mut text);
    /// assert_eq!(text, wire.to_string());
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn push_to(&self, text: &mut String) {
        let mut bytes = [0; BODY + 8];
        bytes[..BODY].copy_from_slice(&self.body());
        bytes[BODY..].copy_from_slice(&self.checksum);
        text.extend(base64::encode(base64::URL, &bytes).map(char::from));
    }

    /// Returns the error for a receipt that is not for the places and the key of a refund.
    pub(crate) fn wrong_place(&self) -> Error {
        Error::request(format!(
            "receipt {self}: it is for another limit, key or namespace, or its text was changed"
        ))
    }

    /// Returns the receipt for a refund of these units; `None` means all of them.
    pub(crate) fn refund_of(&self, units: Option<u64>) -> Result<Receipt, Error> {
        match units {
            Some(units) if units > self.receipt.units => Err(Error::request(format!(
                "receipt {self}: units {units}; it charged only {}",
                self.receipt.units
            ))),
            Some(units) => Ok(self.receipt.at_most(units)),
            None => Ok(self.receipt),
        }
    }

    /// Returns the bytes under the checksum.
    fn body(&self) -> [u8; BODY] {
        let Receipt { units, at, mark, source } = self.receipt;
        let mut body = [0; BODY];
        body[..2].copy_from_slice(&[VERSION, source.number()]);
        let numbers = [units, at.as_micros(), mark, self.process];
        for (place, number) in body[2..].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_be_bytes());
        }
        body
    }

    fn checksum_for(&self, place: &Place, key: impl Key) -> [u8; 8] {
        let mut hash = Sha256::new();
        hash.update(place.prefix());
        hash.update(self.body());
        key.with_key(|key| {
            let mut room = None;
            let key = key.shorten(&mut room);
            hash.update([key.form() as u8]);
            hash.update(key.bytes());
        });
        let mut checksum = [0; 8];
        checksum.copy_from_slice(&hash.finalize()[..8]);
        checksum
    }
}

impl fmt::Display for WireReceipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::with_capacity(WireReceipt::LENGTH);
        self.push_to(&mut text);
        f.write_str(&text)
    }
}

/// Reads the text. Whether the checksum is right is known only when the place and the key are:
/// [`WireReceipt::check`].
///
/// ```
/// use tollgate::WireReceipt;
/// let error = "AQAA".parse::<WireReceipt>().unwrap_err();
/// assert_eq!(error.to_string(), "receipt \"AQAA\": 4 characters; a receipt has 56");
/// ```
impl FromStr for WireReceipt {
    type Err = Error;

    fn from_str(text: &str) -> Result<WireReceipt, Error> {
        let wrong = |why: String| {
            let start: String = text.chars().take(LONGEST).collect();
            Error::request(format!("receipt {start:?}: {why}"))
        };
        let decode = |four: [u8; 4]| {
            base64::decode(four).map_err(|character| {
                wrong(format!(
                    "character {:?}; only A-Z, a-z, 0-9, - and _ are allowed",
                    char::from(character)
                ))
            })
        };
        let length = || wrong(format!("{} characters; a receipt has 56", text.chars().count()));
        // The version comes first, because other versions may have other lengths.
        let first = text.as_bytes().first_chunk().ok_or_else(length)?;
        let [version, ..] = decode(*first)?;
        if version != VERSION {
            return Err(wrong(format!("version {version}; the only known version is {VERSION}")));
        }
        if text.len() != WireReceipt::LENGTH {
            return Err(length());
        }
        let mut bytes = [0; BODY + 8];
        let (fours, _) = text.as_bytes().as_chunks();
        for (four, three) in fours.iter().zip(bytes.chunks_exact_mut(3)) {
            three.copy_from_slice(&decode(*four)?);
        }
        let source = Source::from_number(bytes[1])
            .ok_or_else(|| wrong(format!("source {}; there is none of that number", bytes[1])))?;
        let (numbers, _) = bytes[2..].as_chunks();
        let number = |index: usize| u64::from_be_bytes(numbers[index]);
        let at_most = |name: &str, index: usize, most: u64| match number(index) {
            number if number <= most => Ok(number),
            number => Err(wrong(format!("{name} {number}; at most {most} are possible"))),
        };
        let latest = Timestamp::MAX.as_micros();
        let receipt = Receipt {
            units: at_most("units", 0, MAX_UNITS)?,
            at: Timestamp::from_micros(at_most("time", 1, latest)?),
            mark: at_most("mark", 2, latest)?,
            source,
        };
        Ok(WireReceipt { receipt, process: number(3), checksum: number(4).to_be_bytes() })
    }
}

/// Returns whether units of this source can be given back only by the process that charged them.
fn is_of_one_process(source: Source) -> bool {
    matches!(source, Source::Fallback | Source::Lease | Source::Replica)
}

/// A random number of this process, other than 0.
fn this_process() -> u64 {
    static NUMBER: OnceLock<u64> = OnceLock::new();
    // The keys of the hash are random numbers of the system.
    *NUMBER.get_or_init(|| RandomState::new().hash_one(std::process::id()).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_of_a_local_source_is_honoured_only_by_its_process() {
        let limit = crate::Limit::per_minute(9).build().expect("a valid limit");
        let place = Place::new("", &limit);
        for source in Source::BY_NUMBER {
            let receipt = Receipt { units: 1, at: Timestamp::EPOCH, mark: 0, source };
            let own = WireReceipt::new(receipt, &place, "a");
            assert!(own.is_honoured_here(), "{source:?}");
            let local = own.process != 0;
            let mut other = WireReceipt { process: own.process ^ 1, ..own };
            assert!(!other.is_for(&place, "a"), "{source:?}: the process is under the checksum");
            other.checksum = other.checksum_for(&place, "a");
            assert!(other.is_for(&place, "a"), "{source:?}");
            assert_eq!(other.is_honoured_here(), !local, "{source:?}");
        }
    }

    #[test]
    fn sources_are_read_by_their_numbers() {
        for source in Source::BY_NUMBER {
            assert_eq!(Source::from_number(source.number()), Some(source));
        }
        assert_eq!(Source::from_number(8), None);
    }
}
