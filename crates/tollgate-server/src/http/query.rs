//! Parameters of a URL.

use std::borrow::Cow;

use super::problem::Problem;

/// Names and values, decoded, in the order they came.
pub(crate) fn pairs(
    query: &str,
) -> impl Iterator<Item = Result<(Cow<'_, str>, Cow<'_, str>), Problem>> {
    query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Ok((decoded(name)?, decoded(value)?))
    })
}

/// `%41` is `A`, `+` is a blank.
fn decoded(text: &str) -> Result<Cow<'_, str>, Problem> {
    if !text.contains(['%', '+']) {
        return Ok(Cow::Borrowed(text));
    }
    let wrong = || {
        Problem::wrong(format!(
            "query {text:?}: % must be followed by two hexadecimal digits of UTF-8"
        ))
    };
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || (rest.next()? as char).to_digit(16);
                let (high, low) = (digit().ok_or_else(wrong)?, digit().ok_or_else(wrong)?);
                u8::try_from(high * 16 + low).map_err(|_| wrong())?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).map(Cow::Owned).map_err(|_| wrong())
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
}
