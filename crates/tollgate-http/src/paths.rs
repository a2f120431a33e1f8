//! Rules about paths.
//!
//! A path can be written in several ways that a router, a normalising layer or a proxy behind the
//! limit treats as the same: `/login`, `/login/`, `//login`, `/%6cogin`. A rule that limits matches
//! all of them, else every spelling would be a way around it. A rule that exempts matches only the
//! plain one.

use std::borrow::Cow;
use std::fmt;

use crate::head::Head;
use crate::preflight::is_token;

/// Why a rule of a [`Chooser`](crate::Chooser) was rejected.
///
/// ```
/// use tollgate::Memory;
/// use tollgate_http::Chooser;
///
/// let limiter = Memory::new().limiter("5/minute")?;
/// let error = Chooser::one(limiter.clone()).on("POST", "login", limiter).unwrap_err();
/// assert_eq!(error.to_string(), r#"rule "login": a path begins with a slash"#);
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError(String);

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RuleError {}

/// A method and a path, or a pattern of paths.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    /// `None` stands for every method.
    method: Option<Box<str>>,
    pattern: Box<str>,
    /// The pattern without what [`clean_path`] removes.
    cleaned: Box<[u8]>,
}

impl Rule {
    /// `method` is a method, or `*` for all.
    pub(crate) fn new(method: &str, pattern: &str) -> Result<Rule, RuleError> {
        let wrong = |what: &str| Err(RuleError(format!("rule {pattern:?}: {what}")));
        if !is_token(method.as_bytes()) {
            return wrong(&format!(
                "method {method:?} is not a method, expected GET, POST, .. or *"
            ));
        }
        if !pattern.starts_with('/') {
            return wrong("a path begins with a slash");
        }
        if pattern.contains(['?', '#']) && !pattern.contains('{') {
            return wrong("a query is not part of a path");
        }
        if pattern.split('/').any(|segment| segment.starts_with(':')) {
            return wrong("a parameter is written {name}");
        }
        let starred = |segment: &str| segment.contains('*') && !segment.contains('{');
        let before_end = pattern.strip_suffix('*').unwrap_or(pattern);
        if before_end.split('/').any(starred) {
            return wrong("a star stands at the end, or in braces: {*rest}");
        }
        Ok(Rule {
            method: (method != "*").then(|| method.to_ascii_uppercase().into()),
            pattern: pattern.into(),
            cleaned: clean_path(pattern).into(),
        })
    }

    /// Rejects a rule that can never match, because an earlier one matches all of its requests.
    pub(crate) fn not_covered_by<'r>(
        &self,
        mut earlier: impl Iterator<Item = &'r Rule>,
    ) -> Result<(), RuleError> {
        match earlier.find(|rule| rule.covers(self)) {
            Some(rule) => Err(RuleError(format!(
                "rule \"{self}\": the earlier rule \"{rule}\" has all of its requests"
            ))),
            None => Ok(()),
        }
    }

    /// Whether this rule matches every request that the other rule matches.
    pub(crate) fn covers(&self, other: &Rule) -> bool {
        let method = match (self.method.as_deref(), other.method.as_deref()) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(ours), Some(theirs)) => is_method(ours, theirs),
        };
        let open = |rule: &Rule| rule.pattern.ends_with('*') || rule.pattern.contains("{*");
        method
            && (open(self) || !open(other))
            && matches(self.pattern.as_bytes(), other.pattern.as_bytes())
    }

    /// For a rule that limits: whether the request is for this path in any spelling.
    pub(crate) fn limits(&self, head: &Head<'_>) -> bool {
        self.is_for(head.method) && candidates(head).any(|path| self.fits_any_spelling(path))
    }

    fn fits_any_spelling(&self, path: &str) -> bool {
        matches(self.pattern.as_bytes(), path.as_bytes())
            || matches(&self.cleaned, &clean_path(path))
    }

    /// For a rule that exempts: whether the request is for this path, and its path is plain.
    pub(crate) fn exempts(&self, head: &Head<'_>) -> bool {
        let fits = |path: &str| matches(self.pattern.as_bytes(), path.as_bytes());
        self.is_for(head.method) && candidates(head).any(fits) && is_plain(head.path)
    }

    fn is_for(&self, method: &str) -> bool {
        self.method.as_deref().is_none_or(|ours| is_method(ours, method))
    }
}

/// A pattern of paths, in the syntax of the rules of a [`Chooser`](crate::Chooser): `/users/{id}`,
/// `/files/{*rest}`, `/api/*`.
///
/// ```
/// let users = tollgate_http::PathPattern::new("/users/{id}")?;
/// assert!(users.fits("/users/7") && users.fits("//users/7/") && !users.fits("/users"));
/// # Ok::<(), tollgate_http::RuleError>(())
/// ```
#[derive(Clone, Debug)]
pub struct PathPattern(Rule);

impl PathPattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// When no path can fit it, because it has no slash at its start or a star in its middle.
    pub fn new(pattern: &str) -> Result<PathPattern, RuleError> {
        Rule::new("*", pattern).map(PathPattern)
    }

    /// Whether a path without a query fits, in any spelling of it.
    #[must_use]
    pub fn fits(&self, path: &str) -> bool {
        self.0.fits_any_spelling(path)
    }

    /// The pattern as it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0.pattern
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method.as_deref().unwrap_or("*"), self.pattern)
    }
}

/// `GET` matches `HEAD` too, as in most routers: else `HEAD` would be a way around the limit.
fn is_method(rule: &str, method: &str) -> bool {
    rule == method || (rule == "GET" && method == "HEAD")
}

/// The paths that a rule is compared with: the path that the client sent, the path inside of nested
/// routers, and the route that the router matched.
fn candidates<'h>(head: &Head<'h>) -> impl Iterator<Item = &'h str> {
    [Some(head.path), head.nested_path, head.route].into_iter().flatten()
}

/// Whether a path matches a pattern. `{name}` is one segment, `{*rest}` at least one more, and a
/// star at the end any rest.
fn matches(pattern: &[u8], path: &[u8]) -> bool {
    let mut ours = pattern.split(|byte| *byte == b'/').peekable();
    let mut theirs = path.split(|byte| *byte == b'/').peekable();
    loop {
        match (ours.next(), theirs.next()) {
            (None, None) => return true,
            (Some(pattern), Some(segment)) => {
                let parameter = pattern.starts_with(b"{") && pattern.ends_with(b"}");
                if parameter && pattern.starts_with(b"{*") {
                    return !segment.is_empty() || theirs.peek().is_some();
                }
                if let (Some(start), None) = (pattern.strip_suffix(b"*"), ours.peek()) {
                    return segment.starts_with(start);
                }
                let fits = if parameter { !segment.is_empty() } else { pattern == segment };
                if !fits {
                    return false;
                }
            }
            _ => return false,
        }
    }
}

/// A path as the most tolerant server would read it: ordinary characters are not escaped, slashes
/// are single, dot segments are resolved, and there is no slash at the end. It is the key of
/// [`KeyBy::path`](crate::KeyBy::path).
///
/// ```
/// assert_eq!(tollgate_http::clean_path("//%6cogin/")[..], *b"/login");
/// ```
pub fn clean_path(path: &str) -> Cow<'_, [u8]> {
    let usual = !path.contains('%')
        && !path.contains("//")
        && !path.contains("/.")
        && (path.len() < 2 || !path.ends_with('/'));
    if usual {
        return Cow::Borrowed(path.as_bytes());
    }
    let decoded = decode(path, |byte| byte != b'/' && byte != b'%');
    let mut segments: Vec<&[u8]> = Vec::new();
    for segment in decoded.split(|byte| *byte == b'/') {
        match segment {
            b"" | b"." => {}
            b".." => {
                segments.pop();
            }
            segment => segments.push(segment),
        }
    }
    let mut cleaned = vec![b'/'];
    cleaned.extend(segments.join(&b'/'));
    Cow::Owned(cleaned)
}

/// Whether no server would treat the path as another one: it has no dot segments, escaped or not,
/// and no double slash.
fn is_plain(path: &str) -> bool {
    let decoded = decode(path, |byte| byte != b'%');
    let mut segments = decoded.split(|byte| matches!(byte, b'/' | b'\\')).skip(1).peekable();
    while let Some(segment) = segments.next() {
        let twice = segment.is_empty() && segments.peek().is_some();
        if twice || matches!(segment, b"." | b"..") {
            return false;
        }
    }
    true
}

/// The path with decoded escapes, as far as `wanted` accepts the bytes.
fn decode(path: &str, wanted: impl Fn(u8) -> bool) -> Vec<u8> {
    let bytes = path.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let escaped = (byte == b'%').then(|| escape(bytes.get(at + 1..at + 3)?)).flatten();
        match escaped.filter(|byte| wanted(*byte)) {
            Some(escaped) => {
                decoded.push(escaped);
                at += 3;
            }
            None => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    decoded
}

/// The byte that two hexadecimal digits stand for.
fn escape(digits: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(*digits.first()?)? * 16 + digit(*digits.get(1)?)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head<'a>(path: &'a str, headers: &'a http::HeaderMap) -> Head<'a> {
        Head::new("GET", path, headers)
    }

    #[test]
    fn a_rule_that_limits_fits_every_spelling_of_its_path() {
        let headers = http::HeaderMap::new();
        let spellings =
            ["/login", "/login/", "//login", "/login//", "/%6cogin", "/./login", "/x/../login"];
        for rule in ["/login", "/login/", "//login", "/%6Cogin"] {
            let rule = Rule::new("*", rule).unwrap();
            for spelling in spellings {
                assert!(rule.limits(&head(spelling, &headers)), "{rule} {spelling}");
            }
            for other in ["/", "/logins", "/login/x", "/x/login", "", "*", "/log%2fin", "/Login"] {
                assert!(!rule.limits(&head(other, &headers)), "{rule} {other}");
            }
        }
    }

    #[test]
    fn a_rule_that_exempts_fits_only_plain_paths() {
        let headers = http::HeaderMap::new();
        let rule = Rule::new("*", "/static/*").unwrap();
        for path in ["/static/", "/static/a/b.css", "/static/a%20b", "/static/..a", "/static/a/"] {
            assert!(rule.exempts(&head(path, &headers)), "{path}");
        }
        for path in [
            "/static",
            "//static/a",
            "/static//a",
            "/static/../login",
            "/static/%2e%2E/login",
            "/static/..%2flogin",
            "/static/..\\login",
            "/static/%2e/a",
            "/statics/a",
        ] {
            assert!(!rule.exempts(&head(path, &headers)), "{path}");
        }
        let health = Rule::new("*", "/health").unwrap();
        assert!(health.exempts(&head("/health", &headers)));
        assert!(!health.exempts(&head("/health/", &headers)));
    }

    #[test]
    fn parameters_match_one_segment_and_stars_any_rest() {
        for (pattern, path, fits) in [
            ("/users/{id}", "/users/7", true),
            ("/users/{id}", "/users/", false),
            ("/users/{id}", "/users/7/x", false),
            ("/users/{id}/x", "/users/7/x", true),
            ("/files/{*rest}", "/files/a/b", true),
            ("/files/{*rest}", "/files/", false),
            ("/files/*", "/files/", true),
            ("/files/*", "/files", false),
            ("/a*", "/abc/d", true),
            ("/a*", "/b", false),
            ("/*", "/", true),
            ("/{*rest}", "/", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), path.as_bytes()), fits, "{pattern} {path}");
        }
    }

    #[test]
    fn rules_that_can_never_match_are_rejected() {
        for (method, path) in [
            ("GET", "login"),
            ("GET", ""),
            ("GET", "/login?x=1"),
            ("GET", "/users/:id"),
            ("GET", "/files/*rest"),
            ("GET", "/a*/b"),
            ("", "/"),
            ("GET POST", "/"),
        ] {
            assert!(Rule::new(method, path).is_err(), "{method} {path}");
        }
    }

    #[test]
    fn a_rule_covers_what_no_later_one_can_get() {
        let covers = |(method, path), (other_method, other)| {
            Rule::new(method, path).unwrap().covers(&Rule::new(other_method, other).unwrap())
        };
        assert!(covers(("*", "/a/*"), ("GET", "/a/b")));
        assert!(covers(("GET", "/a"), ("HEAD", "/a")));
        assert!(covers(("GET", "/a/{x}"), ("GET", "/a/b")));
        assert!(covers(("*", "/*"), ("*", "/a/*")));
        assert!(!covers(("GET", "/a"), ("*", "/a")));
        assert!(!covers(("*", "/a/{x}"), ("*", "/a/*")));
        assert!(!covers(("*", "/a/b"), ("*", "/a/{x}")));
    }
}
