//! Patterns of keys.

use std::collections::HashMap;

use foldhash::fast::RandomState;

/// An exact text, or one with `*` for any bytes.
///
/// ```
/// use tollgate_server::rules::Pattern;
/// assert!(Pattern::new("user:*").matches(b"user:42"));
/// assert!(!Pattern::new("user:*").matches(b"admin"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pattern(Box<str>);

impl Pattern {
    /// A pattern from its text.
    pub fn new(text: impl Into<Box<str>>) -> Pattern {
        Pattern(text.into())
    }

    /// Whether the pattern has no `*`.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        !self.0.contains('*')
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Whether the pattern matches a key.
    #[must_use]
    pub fn matches(&self, key: &[u8]) -> bool {
        let Some((first, rest)) = self.0.split_once('*') else { return self.0.as_bytes() == key };
        let Some(mut key) = key.strip_prefix(first.as_bytes()) else { return false };
        let mut parts = rest.split('*').peekable();
        while let Some(part) = parts.next() {
            let part = part.as_bytes();
            if parts.peek().is_none() {
                return key.ends_with(part);
            }
            match find(key, part) {
                Some(at) => key = &key[at + part.len()..],
                None => return false,
            }
        }
        true
    }
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    if part.is_empty() {
        return Some(0);
    }
    text.windows(part.len()).position(|window| window == part)
}

/// Several patterns, each with a value: exact ones first, then those with `*` as they were written.
#[derive(Clone, Debug, PartialEq)]
pub struct Patterns<T> {
    exact: HashMap<Box<[u8]>, T, RandomState>,
    wild: Vec<(Pattern, T)>,
}

impl<T> Default for Patterns<T> {
    fn default() -> Self {
        Patterns { exact: HashMap::default(), wild: Vec::new() }
    }
}

impl<T> FromIterator<(Pattern, T)> for Patterns<T> {
    fn from_iter<I: IntoIterator<Item = (Pattern, T)>>(patterns: I) -> Self {
        let mut all = Patterns::default();
        for (pattern, value) in patterns {
            if pattern.is_exact() {
                all.exact.insert(pattern.text().as_bytes().into(), value);
            } else {
                all.wild.push((pattern, value));
            }
        }
        all
    }
}

impl<T> Patterns<T> {
    /// Whether there are no patterns.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.wild.is_empty()
    }

    /// The number of patterns.
    #[must_use]
    pub fn len(&self) -> usize {
        self.exact.len() + self.wild.len()
    }

    /// All patterns: exact ones in the order of their texts, then those with `*` as they were
    /// written.
    pub fn iter(&self) -> impl Iterator<Item = (String, &T)> {
        let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
        let mut exact: Vec<_> = self.exact.iter().map(|(key, value)| (text(key), value)).collect();
        exact.sort_by(|(one, _), (other, _)| one.cmp(other));
        let wild = self.wild.iter().map(|(pattern, value)| (pattern.text().to_owned(), value));
        exact.into_iter().chain(wild)
    }

    /// The value of the first pattern that matches.
    #[must_use]
    pub fn find(&self, key: &[u8]) -> Option<&T> {
        if self.is_empty() {
            return None;
        }
        self.exact.get(key).or_else(|| {
            self.wild.iter().find(|(pattern, _)| pattern.matches(key)).map(|(_, value)| value)
        })
    }

    /// Converts all values.
    ///
    /// # Errors
    /// The first error of `f`.
    pub fn try_map<U, E>(&self, mut f: impl FnMut(&T) -> Result<U, E>) -> Result<Patterns<U>, E> {
        let exact = self.exact.iter().map(|(key, value)| Ok((key.clone(), f(value)?)));
        let exact = exact.collect::<Result<_, E>>()?;
        let wild = self.wild.iter().map(|(pattern, value)| Ok((pattern.clone(), f(value)?)));
        Ok(Patterns { exact, wild: wild.collect::<Result<_, E>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_bytes() {
        for (pattern, key, matches) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("*", "", true),
            ("a*", "a", true),
            ("*a", "ba", true),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("/files/*", "/files/1", true),
        ] {
            assert_eq!(Pattern::new(pattern).matches(key.as_bytes()), matches, "{pattern} {key}");
        }
    }

    #[test]
    fn an_exact_pattern_precedes_one_with_a_star() {
        let all: Patterns<u8> =
            [(Pattern::new("a*"), 1), (Pattern::new("ab"), 2)].into_iter().collect();
        assert_eq!((all.find(b"ab"), all.find(b"ac"), all.find(b"b")), (Some(&2), Some(&1), None));
    }
}
