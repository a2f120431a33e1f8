//! The address of a file: a path, or `durable:path?level=reserve&interval=1s`.

use std::path::PathBuf;
use std::time::Duration;

use tollgate::Error;
use tollgate::shared::percent_decoded;

use crate::level::Level;

/// The parts of an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) path: PathBuf,
    pub(crate) level: Option<Level>,
    pub(crate) interval: Option<Duration>,
    pub(crate) max_keys: Option<usize>,
    pub(crate) max_limits: Option<usize>,
}

const SCHEME: &str = "durable:";

impl Address {
    /// A text without the scheme is a path.
    pub(crate) fn parse(text: &str) -> Result<Address, Error> {
        let Some(rest) = text.strip_prefix(SCHEME) else {
            return Address::at(text, text);
        };
        let (path, options) = rest.split_once('?').unwrap_or((rest, ""));
        // `durable:///var/lib/limits` is a URL without a host.
        let path = match path.strip_prefix("//") {
            Some(absolute) if absolute.starts_with('/') => absolute,
            Some(_) => {
                return Err(Error::request(format!(
                    "{text}: a file has no host; write durable:path or durable:///path"
                )));
            }
            None => path,
        };
        let path =
            percent_decoded(path.as_bytes())
                .and_then(|path| String::from_utf8(path).ok())
                .ok_or_else(|| Error::request(format!("{text}: % needs two hexadecimal digits")))?;
        let mut address = Address::at(&path, text)?;
        for option in options.split('&').filter(|option| !option.is_empty()) {
            address.set(option).map_err(|error| Error::request(format!("{text}: {error}")))?;
        }
        Ok(address)
    }

    fn at(path: &str, text: &str) -> Result<Address, Error> {
        if path.is_empty() {
            return Err(Error::request(format!("{text:?}: the path of a file is missing")));
        }
        Ok(Address { path: path.into(), ..Address::default() })
    }

    fn set(&mut self, option: &str) -> Result<(), Error> {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        match name {
            "level" => self.level = Some(value.parse()?),
            "interval" => self.interval = Some(span(value)?),
            "max_keys" => self.max_keys = Some(number(name, value)?),
            "max_limits" => self.max_limits = Some(number(name, value)?),
            _ => {
                return Err(Error::request(format!(
                    "option {name:?}: expected level, interval, max_keys or max_limits"
                )));
            }
        }
        Ok(())
    }
}

fn number(name: &str, value: &str) -> Result<usize, Error> {
    value.parse().map_err(|_| Error::request(format!("{name}={value}: expected a number")))
}

/// Parses `500ms`, or `2+seconds` with a blank as a URL encodes it.
fn span(text: &str) -> Result<Duration, Error> {
    let text = text.replace("%20", " ").replace('+', " ");
    tollgate::text::span(&text)
        .map_err(|error| Error::request(format!("interval {text:?} is not a duration: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Address {
        Address::parse(text).unwrap()
    }

    #[test]
    fn a_path_may_contain_any_characters() {
        assert_eq!(parsed("a/b?c%20").path, PathBuf::from("a/b?c%20"));
        assert_eq!(parsed("durable:a%20b").path, PathBuf::from("a b"));
        assert_eq!(parsed("durable:///var/x").path, PathBuf::from("/var/x"));
        assert_eq!(parsed("durable:/var/x").path, PathBuf::from("/var/x"));
    }

    #[test]
    fn options_of_an_address_are_parsed() {
        let address = parsed("durable:x?level=sync&interval=500ms&max_keys=7&max_limits=9");
        assert_eq!(address.level, Some(Level::Sync));
        assert_eq!(address.interval, Some(Duration::from_millis(500)));
        assert_eq!((address.max_keys, address.max_limits), (Some(7), Some(9)));
        assert_eq!(parsed("durable:x?interval=2+seconds").interval, Some(Duration::from_secs(2)));
        assert_eq!(parsed("durable:x?interval=1s").interval, Some(Duration::from_secs(1)));
    }

    #[test]
    fn errors_of_an_address_name_value_and_rule() {
        let said = |text: &str| Address::parse(text).unwrap_err().to_string();
        assert_eq!(said(""), "\"\": the path of a file is missing");
        assert_eq!(
            said("durable:?level=sync"),
            "\"durable:?level=sync\": the path of a file is missing"
        );
        assert_eq!(
            said("durable://host/x"),
            "durable://host/x: a file has no host; write durable:path or durable:///path"
        );
        assert_eq!(
            said("durable:x?level=hard"),
            "durable:x?level=hard: level \"hard\": expected none, interval, reserve or sync"
        );
        assert!(said("durable:x?interval=soon").contains(
            "interval \"soon\" is not a duration: at 0: found \"soon\", expected a unit of time"
        ));
        assert!(
            said("durable:x?colour=red")
                .contains("expected level, interval, max_keys or max_limits")
        );
        assert!(said("durable:x%2").contains("% needs two hexadecimal digits"));
    }
}
