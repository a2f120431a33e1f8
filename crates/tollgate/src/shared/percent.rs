//! Escapes in the URLs of stores.

/// Decodes `%20` and similar escapes; `None` if a `%` is not followed by two hexadecimal digits.
///
/// ```
/// use tollgate::shared::percent_decoded;
/// assert_eq!(percent_decoded(b"p%40ss"), Some(b"p@ss".to_vec()));
/// assert_eq!(percent_decoded(b"100%"), None);
/// assert_eq!(percent_decoded(b"%+5"), None);
/// ```
#[must_use]
pub fn percent_decoded(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = text.iter().copied();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        let mut digit = || Some(char::from(bytes.next()?).to_digit(16)? as u8);
        decoded.push(if byte == b'%' { digit()? << 4 | digit()? } else { byte });
    }
    Some(decoded)
}
