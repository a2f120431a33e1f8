//! The addresses of the servers, and the choice of a server for a key.

use std::fmt;
use std::path::PathBuf;

use tollgate::key::Form;
use tollgate::{Error, KeyRef};
use tollgate_remote::{Login, StoreUrl, invalid_url};

const PORT: u16 = 11211;

/// The servers of a URL, and the login.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) addresses: Vec<Address>,
    pub(crate) login: Option<Login>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp(String, u16),
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Address::Tcp(host, port) => write!(f, "{host}:{port}"),
            Address::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

impl Target {
    /// `memcached://user:password@host:port,host:port` or `unix:///path`.
    pub(crate) fn parse(url: &str) -> Result<Target, Error> {
        let wrong = |problem: &str| {
            let expected = "memcached://host:port,host:port, \
                            memcached://user:password@host:port or unix:///path";
            invalid_url("Memcached", url, problem, expected)
        };
        let StoreUrl { scheme, login, addresses, rest, .. } =
            StoreUrl::parse(url).map_err(wrong)?;
        // The login is sent as one line.
        let is_line = |Login { user, password }: &Login| {
            !user.contains([' ', '\r', '\n']) && !password.contains(['\r', '\n'])
        };
        if !login.as_ref().is_none_or(is_line) {
            return Err(wrong("a user with a blank, or a line end"));
        }
        let addresses: Vec<_> = match (scheme, rest) {
            ("unix" | "memcached+unix", path) if addresses == [""] && path.len() > 1 => {
                vec![Address::Unix(path.into())]
            }
            ("unix" | "memcached+unix", _) => return Err(wrong("no path")),
            ("memcached", "" | "/") => {
                let addresses = addresses.into_iter().map(Address::parse);
                addresses.collect::<Result<_, _>>().map_err(wrong)?
            }
            ("memcached", _) => return Err(wrong("a path or an option")),
            _ => return Err(wrong("unknown scheme")),
        };
        let twice = |(index, a): (usize, &Address)| addresses[..index].contains(a);
        if addresses.iter().enumerate().any(twice) {
            return Err(wrong("an address comes twice"));
        }
        Ok(Target { addresses, login })
    }
}

impl Address {
    fn parse(text: &str) -> Result<Address, &'static str> {
        let (host, port) = match text.strip_prefix('[').map(|rest| rest.split_once(']')) {
            Some(Some((host, ""))) => (host, None),
            Some(Some((host, port))) => (host, Some(port.strip_prefix(':').ok_or("no port")?)),
            Some(None) => return Err("the address has [ without ]"),
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        if host.is_empty() {
            return Err("no host");
        }
        let port = port.map_or(Ok(PORT), |port| port.parse().map_err(|_| "no port"))?;
        Ok(Address::Tcp(host.to_owned(), port))
    }
}

/// Chooses the server of a subject: the one with the highest score. When a server is added or
/// removed, only the keys that move to it or were on it move.
///
/// All limits of a key, and all keys of a tag, are on one server.
#[derive(Debug)]
pub(crate) struct Lanes {
    servers: Box<[u64]>,
}

impl Lanes {
    pub(crate) fn new(addresses: &[Address]) -> Lanes {
        let seed = |address: &Address| fnv(FNV, address.to_string().as_bytes());
        Lanes { servers: addresses.iter().map(seed).collect() }
    }

    pub(crate) fn of(&self, key: KeyRef<'_>) -> usize {
        if self.servers.len() < 2 {
            return 0;
        }
        let subject = match key.form() {
            Form::Tagged => key.inner().next().unwrap_or(key),
            _ => key,
        };
        let hash = fnv(fnv(FNV, &[subject.form() as u8]), subject.bytes());
        let score = |(_, seed): &(usize, &u64)| mix(hash ^ **seed);
        self.servers.iter().enumerate().max_by_key(score).map_or(0, |(index, _)| index)
    }
}

/// FNV-1a: the same in every process and every version.
const FNV: u64 = 0xcbf2_9ce4_8422_2325;

fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// The last step of SplitMix64: every bit depends on every other.
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use tollgate::{Key, Tagged};

    use super::*;

    fn addresses(url: &str) -> Vec<String> {
        let target = Target::parse(url).unwrap();
        target.addresses.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn addresses_are_read() {
        assert_eq!(addresses("memcached://a"), ["a:11211"]);
        assert_eq!(addresses("memcached://a:1,b/"), ["a:1", "b:11211"]);
        assert_eq!(addresses("memcached://[::1]:7,[::2]"), ["[::1]:7", "[::2]:11211"]);
        assert_eq!(addresses("unix:///run/memcached.sock"), ["/run/memcached.sock"]);
        let login = Target::parse("memcached://me:p%40ss@a").unwrap().login.unwrap();
        assert_eq!((&login.user[..], &login.password[..]), ("me", "p@ss"));
        assert_eq!(format!("{login:?}"), "Login(me)");
    }

    #[test]
    fn errors_of_addresses_hide_the_password() {
        for url in [
            "",
            "a:1",
            "redis://a",
            "memcached://",
            "memcached://a:b",
            "memcached://a:99999",
            "memcached://a,,b",
            "memcached://a,a",
            "memcached://[::1",
            "memcached://a/b",
            "memcached://secret@a",
            "memcached://me:secret@",
            "memcached://me:secret%0d@a",
            "unix://",
            "unix:///",
        ] {
            let error = Target::parse(url).unwrap_err().to_string();
            assert!(error.contains("expected memcached://"), "{url}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    fn lane(lanes: &Lanes, key: impl Key) -> usize {
        key.with_key(|key| lanes.of(key))
    }

    #[test]
    fn keys_are_spread_and_stay_when_servers_change() {
        let list = |url| Lanes::new(&Target::parse(url).unwrap().addresses);
        let three = list("memcached://a,b,c");
        let (other_order, two) = (list("memcached://c,a,b"), list("memcached://a,b"));
        let mut counts = [0; 3];
        for n in 0..3000_u32 {
            let at = lane(&three, n);
            counts[at] += 1;
            assert_eq!(lane(&other_order, n), [1, 2, 0][at], "the order does not matter");
            if at < 2 {
                assert_eq!(lane(&two, n), at, "only those of c move");
            }
            assert_eq!(lane(&three, Tagged("t", n)), lane(&three, "t"), "by the tag");
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }
}
