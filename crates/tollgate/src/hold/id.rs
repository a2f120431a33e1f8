//! The names of holds.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::str::FromStr;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest as _, Sha256};

use crate::error::Error;
use crate::key::{Key, SLOTS};

const LONGEST: usize = 128;

/// The name of a hold within a namespace: its home and its id.
///
/// Its text is what `reserve` returns and the other calls take. The text is opaque: callers keep it
/// as it is. The id is a capability: whoever knows it may settle the hold.
///
/// ```
/// use tollgate::hold::HoldId;
///
/// let id = HoldId::new(&"user:42", b"order 7")?;
/// assert_eq!(id.to_string().parse::<HoldId>()?, id);
/// assert_ne!(HoldId::random(&"user:42"), HoldId::random(&"user:42"));
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HoldId {
    home: u16,
    id: Box<[u8]>,
}

impl HoldId {
    /// Creates the name of the hold with this id whose first item has this key.
    ///
    /// # Errors
    /// Fails if the id is empty or longer than 128 bytes.
    pub fn new<K: Key + ?Sized>(first_key: &K, id: &[u8]) -> Result<HoldId, Error> {
        HoldId::at_home(home_of(first_key), id)
    }

    /// Creates the name of a new hold whose first item has this key. The id has 128 random bits, so
    /// nobody can guess it.
    ///
    /// See the example of [`HoldId`].
    #[must_use]
    pub fn random<K: Key + ?Sized>(first_key: &K) -> HoldId {
        HoldId { home: home_of(first_key), id: Box::new(random_bits().to_be_bytes()) }
    }

    /// Creates the name of the hold with this id and this home.
    ///
    /// # Errors
    /// Fails if the id is empty or longer than 128 bytes, or the home is not below 16384.
    pub fn at_home(home: u16, id: &[u8]) -> Result<HoldId, Error> {
        if id.is_empty() || id.len() > LONGEST {
            return Err(Error::request(format!(
                "hold id of {} bytes: must be 1 to {LONGEST} bytes long",
                id.len()
            )));
        }
        if home >= SLOTS {
            return Err(Error::request(format!("hold with home {home}: must be below {SLOTS}")));
        }
        Ok(HoldId { home, id: id.into() })
    }

    /// Returns the slot of the first item's key: see [`KeyRef::home`](crate::KeyRef::home).
    #[must_use]
    pub fn home(&self) -> u16 {
        self.home
    }

    /// Returns the id.
    #[must_use]
    pub fn id(&self) -> &[u8] {
        &self.id
    }

    /// Returns the number that names this hold among the holders of a concurrency limit: the first
    /// 128 bits of the SHA-256 of the home, in two bytes with the highest first, and the id.
    #[must_use]
    pub fn holder(&self) -> u128 {
        let hash = Sha256::new_with_prefix(self.home.to_be_bytes()).chain_update(&self.id);
        let mut first = [0; 16];
        first.copy_from_slice(&hash.finalize()[..16]);
        u128::from_be_bytes(first)
    }
}

fn home_of<K: Key + ?Sized>(key: &K) -> u16 {
    key.with_key(|key| {
        let mut room = None;
        key.shorten(&mut room).home()
    })
}

/// Returns 128 bits that no other process knows. They are not repeated after a fork, because the
/// process id is a part of what is hashed.
fn random_bits() -> u128 {
    static SECRETS: LazyLock<[RandomState; 2]> = LazyLock::new(Default::default);
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let this = (COUNT.fetch_add(1, Ordering::Relaxed), std::process::id());
    let [high, low] = SECRETS.each_ref().map(|secret| u128::from(secret.hash_one(this)));
    high << 64 | low
}

/// Prints four digits of the home and two of each byte of the id, all hexadecimal.
impl fmt::Display for HoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}", self.home)?;
        self.id.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for HoldId {
    type Err = Error;

    fn from_str(text: &str) -> Result<HoldId, Error> {
        let wrong = || {
            let longest = 4 + 2 * LONGEST;
            let start: String = text.chars().take(60).collect();
            Error::request(format!(
                "hold {start:?}: must be the text that reserve returned, {} to {longest} hexadecimal digits",
                4 + 2
            ))
        };
        // Only lower case, so that a hold has one text.
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let digits: Option<Vec<u8>> = text.bytes().take(1 + 4 + 2 * LONGEST).map(digit).collect();
        let digits = digits.filter(|digits| digits.len() % 2 == 0).ok_or_else(wrong)?;
        let bytes: Vec<u8> = digits.chunks_exact(2).map(|two| two[0] << 4 | two[1]).collect();
        let (home, id) = bytes.split_first_chunk().ok_or_else(wrong)?;
        HoldId::at_home(u16::from_be_bytes(*home), id).map_err(|_| wrong())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_has_exactly_one_text() {
        let id = HoldId::at_home(0x1f3a, b"a\xff").unwrap();
        assert_eq!(id.to_string(), "1f3a61ff");
        assert_eq!("1f3a61ff".parse::<HoldId>().unwrap(), id);
        let long = "00".repeat(2 + LONGEST + 1);
        for wrong in ["", "1f3a", "1f3a6", "1f3a61FF", "1f3a61fg", "ffff61", "ü", &long] {
            let error = wrong.parse::<HoldId>().unwrap_err();
            assert!(error.to_string().contains("must be the text"), "{wrong}: {error}");
        }
    }

    #[test]
    fn an_id_has_1_to_128_bytes() {
        assert!(HoldId::new("key", &[0; LONGEST]).is_ok());
        for length in [0, LONGEST + 1] {
            let error = HoldId::new("key", &vec![0; length]).unwrap_err();
            assert!(error.to_string().contains(&format!("of {length} bytes")), "{error}");
        }
    }

    #[test]
    fn the_same_id_at_two_homes_names_two_holders() {
        let [one, two] = [1, 2].map(|home| HoldId::at_home(home, b"x").unwrap().holder());
        assert_ne!(one, two);
        assert_eq!(HoldId::random("a").id().len(), 16);
    }
}
