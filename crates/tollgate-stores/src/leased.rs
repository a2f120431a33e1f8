//! `leased+` in front of the URL of a store, and `lease.` settings in it.

use std::time::Duration;

use tollgate::Error;
use tollgate::shared::AnyStore;
use tollgate_cluster::Leased;

/// What a URL says of leasing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    nodes: Option<u32>,
    longest: Option<Duration>,
    skew: Option<Duration>,
    max_keys: Option<usize>,
}

impl Settings {
    /// The URL without them, and them.
    pub(crate) fn cut_from(url: &str) -> Result<(String, Settings), Error> {
        let mut settings = Settings::default();
        let Some((address, query)) = url.split_once('?') else {
            return Ok((url.to_owned(), settings));
        };
        let mut others = Vec::new();
        for pair in query.split('&') {
            match pair.strip_prefix("lease.") {
                Some(own) => settings.put(own)?,
                None => others.push(pair),
            }
        }
        let url = if others.is_empty() {
            address.to_owned()
        } else {
            format!("{address}?{}", others.join("&"))
        };
        Ok((url, settings))
    }

    fn put(&mut self, pair: &str) -> Result<(), Error> {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match name {
            "nodes" => self.nodes = Some(whole(name, value)?),
            "max_keys" => self.max_keys = Some(whole(name, value)?),
            "longest" => self.longest = Some(span(name, value)?),
            "skew" => self.skew = Some(span(name, value)?),
            _ => {
                let known = "lease.nodes, lease.longest, lease.skew and lease.max_keys";
                return Err(Error::request(format!("lease.{name}: unknown; known are {known}")));
            }
        }
        Ok(())
    }

    /// Leases from a store.
    pub(crate) fn lease(&self, store: AnyStore) -> AnyStore {
        let mut leased = Leased::builder(store);
        if let Some(nodes) = self.nodes {
            leased = leased.nodes(nodes);
        }
        if let Some(longest) = self.longest {
            leased = leased.longest(longest);
        }
        if let Some(skew) = self.skew {
            leased = leased.skew(skew);
        }
        if let Some(keys) = self.max_keys {
            leased = leased.max_keys(keys);
        }
        AnyStore::new(leased.build())
    }
}

fn whole<T: std::str::FromStr + From<u8> + PartialEq>(name: &str, value: &str) -> Result<T, Error> {
    let number = value.parse().ok().filter(|number| *number != T::from(0));
    number.ok_or_else(|| {
        Error::request(format!("lease.{name} {value:?}: a whole number of at least 1"))
    })
}

/// `250ms`, `2s`.
fn span(name: &str, value: &str) -> Result<Duration, Error> {
    let units = [("us", 1), ("ms", 1_000), ("s", 1_000_000), ("m", 60_000_000)];
    let digits = value.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = units.iter().find(|(unit, _)| *unit == &value[digits.len()..]);
    let micros = unit.and_then(|(_, micros)| digits.parse::<u64>().ok()?.checked_mul(*micros));
    let wrong = || Error::request(format!("lease.{name} {value:?}: a span such as 250ms or 2s"));
    micros.map(Duration::from_micros).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_leasing_are_cut_from_the_url() {
        let (url, settings) =
            Settings::cut_from("redis://a/?x=1&lease.nodes=3&lease.longest=250ms&y").unwrap();
        assert_eq!(url, "redis://a/?x=1&y");
        let longest = Some(Duration::from_millis(250));
        assert_eq!(settings, Settings { nodes: Some(3), longest, ..Settings::default() });
        assert_eq!(Settings::cut_from("redis://a/?lease.skew=5ms").unwrap().0, "redis://a/");
        assert_eq!(
            Settings::cut_from("durable:path").unwrap(),
            ("durable:path".to_owned(), Settings::default())
        );
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        for (url, says) in [
            ("redis://a/?lease.nodes=0", "at least 1"),
            ("redis://a/?lease.nodes=-1", "at least 1"),
            ("redis://a/?lease.longest=5", "250ms"),
            ("redis://a/?lease.longest=5é", "250ms"),
            ("redis://a/?lease.live=5s", "known are lease.nodes"),
        ] {
            let error = Settings::cut_from(url).unwrap_err().to_string();
            assert!(error.contains(says), "{url}: {error}");
        }
    }
}
