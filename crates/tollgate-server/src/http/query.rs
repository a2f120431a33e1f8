//! Parameters of a URL.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use super::problem::Problem;

/// Names and values, decoded, in the order they came.
pub(crate) fn pairs(
    query: &str,
) -> impl Iterator<Item = Result<(Cow<'_, str>, Cow<'_, str>), Problem>> {
    raw_pairs(query).map(|(name, value)| Ok((text(name)?, text(value)?)))
}

/// Names and values, not decoded.
pub(super) fn raw_pairs(query: &str) -> impl Iterator<Item = (&str, &str)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

/// Sets a parameter that may be given once.
pub(super) fn put<T>(place: &mut Option<T>, name: &str, value: T) -> Result<(), Problem> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(Problem::wrong(format!("parameter {name}: given more than once"))),
    }
}

/// Decodes a name or a value to text: `%41` is `A`, `+` is a space.
pub(super) fn text(encoded: &str) -> Result<Cow<'_, str>, Problem> {
    let is_escape =
        |rest: &str| rest.len() >= 2 && rest.bytes().take(2).all(|digit| digit.is_ascii_hexdigit());
    let text = match bytes(encoded) {
        Cow::Borrowed(_) => Some(Cow::Borrowed(encoded)),
        Cow::Owned(bytes) => String::from_utf8(bytes).ok().map(Cow::Owned),
    };
    text.filter(|_| encoded.split('%').skip(1).all(is_escape)).ok_or_else(|| {
        Problem::wrong(format!(
            "query {encoded:?}: % must be followed by two hexadecimal digits of UTF-8"
        ))
    })
}

/// Decodes a value to bytes. A `%` without two digits stands for itself: a value that a proxy takes
/// from its client must not be able to make a check fail.
pub(super) fn bytes(encoded: &str) -> Cow<'_, [u8]> {
    if encoded.contains('+') {
        return Cow::Owned(percent_decode_str(&encoded.replace('+', " ")).collect());
    }
    percent_decode_str(encoded).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded() {
        let all: Vec<_> =
            pairs("limit=10%2Fsecond+burst%3D20&key=&x").map(Result::unwrap).collect();
        assert_eq!(
            all,
            [
                ("limit".into(), "10/second burst=20".into()),
                ("key".into(), "".into()),
                ("x".into(), "".into())
            ]
        );
        for wrong in ["a=%", "a=%4", "a=%zz", "a=%ff"] {
            assert!(pairs(wrong).any(|pair| pair.is_err()), "{wrong}");
        }
    }

    #[test]
    fn decoding_bytes_never_fails() {
        for (encoded, decoded) in [
            ("a", &b"a"[..]),
            ("%41+%2f", b"A /"),
            ("%", b"%"),
            ("%4", b"%4"),
            ("%zz%ff", b"%zz\xff"),
            ("%%41", b"%A"),
        ] {
            assert_eq!(&*bytes(encoded), decoded, "{encoded}");
        }
    }
}
