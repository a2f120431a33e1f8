//! Settings in the URL of a store whose names begin with `lease.`, `replica.` or `guard.`.

#[cfg(feature = "cluster")]
use std::{str::FromStr, time::Duration};

use tollgate::Error;

/// One setting: `lease.nodes=3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Setting<'a> {
    /// The name with its prefix: `lease.nodes`.
    pub(crate) name: &'a str,
    value: &'a str,
}

/// The URL without the settings whose names begin with `prefix`, and these settings.
pub(crate) fn cut<'a>(url: &'a str, prefix: &str) -> (String, Vec<Setting<'a>>) {
    let (rest, fragment) = match url.split_once('#') {
        Some((rest, fragment)) => (rest, format!("#{fragment}")),
        None => (url, String::new()),
    };
    let Some((address, query)) = rest.split_once('?') else {
        return (url.to_owned(), Vec::new());
    };
    let (own, others): (Vec<_>, Vec<_>) =
        query.split('&').partition(|pair| pair.starts_with(prefix));
    let others = if others.is_empty() { String::new() } else { format!("?{}", others.join("&")) };
    let setting = |pair: &'a str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Setting { name, value }
    };
    (format!("{address}{others}{fragment}"), own.into_iter().map(setting).collect())
}

impl Setting<'_> {
    /// A whole number, not zero.
    #[cfg(feature = "cluster")]
    pub(crate) fn whole<T: FromStr + From<u8> + PartialEq>(self) -> Result<T, Error> {
        let number = self.value.parse().ok().filter(|number| *number != T::from(0));
        number.ok_or_else(|| self.wrong("a whole number of at least 1"))
    }

    /// `250ms`, `2s`.
    #[cfg(feature = "cluster")]
    pub(crate) fn span(self) -> Result<Duration, Error> {
        let Setting { name, value } = self;
        tollgate::text::span(value)
            .map_err(|error| Error::request(format!("{name} {value:?} is not a duration: {error}")))
    }

    /// A text, not empty.
    #[cfg(feature = "cluster")]
    pub(crate) fn text(self) -> Result<String, Error> {
        if self.value.is_empty() { Err(self.wrong("a text")) } else { Ok(self.value.to_owned()) }
    }

    /// Parses the value as one of these words.
    pub(crate) fn one_of<T: Copy>(self, words: &[(&str, T)]) -> Result<T, Error> {
        let found = words.iter().find(|(word, _)| *word == self.value);
        found.map(|(_, meaning)| *meaning).ok_or_else(|| {
            let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            self.wrong(&format!("one of {}", words.join(", ")))
        })
    }

    pub(crate) fn unknown(self, known: &str) -> Error {
        Error::request(format!("{}: unknown; known are {known}", self.name))
    }

    fn wrong(self, rule: &str) -> Error {
        Error::request(format!("{} {:?}: must be {rule}", self.name, self.value))
    }
}

#[cfg(all(test, feature = "cluster"))]
mod tests {
    use super::*;

    #[test]
    fn settings_of_a_mode_are_cut_from_the_url() {
        let of = |url| {
            let (rest, own) = cut(url, "lease.");
            (rest, own.iter().map(|setting| setting.name.to_owned()).collect::<Vec<_>>())
        };
        let nothing = Vec::<String>::new;
        assert_eq!(
            of("redis://a/?x=1&lease.nodes=3&y#z"),
            ("redis://a/?x=1&y#z".into(), vec!["lease.nodes".into()])
        );
        assert_eq!(
            of("redis://a/?lease.skew=5ms"),
            ("redis://a/".into(), vec!["lease.skew".into()])
        );
        assert_eq!(of("durable:path"), ("durable:path".into(), nothing()));
        assert_eq!(of("nats://a#b?lease.c"), ("nats://a#b?lease.c".into(), nothing()));
    }

    #[test]
    fn invalid_values_are_reported_with_the_rule() {
        let setting = |value| Setting { name: "lease.x", value };
        for value in ["0", "-1", "", "1.5"] {
            let error = setting(value).whole::<u32>().unwrap_err().to_string();
            assert!(
                error.contains(&format!("lease.x {value:?}")) && error.contains("at least 1"),
                "{error}"
            );
        }
        for value in ["5", "5é", "-5ms", "", "99999999999999999m"] {
            let error = setting(value).span().unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("lease.x {value:?} is not a duration: at ")),
                "{value}: {error}"
            );
        }
        for value in ["250ms", "250 ms", "250milliseconds", "250000us"] {
            assert_eq!(setting(value).span().unwrap(), Duration::from_millis(250), "{value}");
        }
        assert!(setting("b").one_of(&[("a", 1)]).unwrap_err().to_string().contains("one of a"));
    }
}
