//! Removes passwords from the URLs of stores.

/// Returns the URL without its passwords, for logs.
///
/// ```
/// use tollgate::shared::without_secrets;
/// assert_eq!(without_secrets("redis://me:secret@host/0"), "redis://me:***@host/0");
/// assert_eq!(without_secrets("memory:"), "memory:");
/// ```
#[must_use]
pub fn without_secrets(url: &str) -> String {
    // A `?` before the last `@` is a part of the password.
    let query_at = url.rfind('@').unwrap_or(0);
    let query_at = url[query_at..].find('?').map_or(url.len(), |at| query_at + at);
    let (address, query) = url.split_at(query_at);
    let query = query.trim_start_matches('?');
    let mut shown = without_login(address);
    for (index, pair) in query.split('&').filter(|pair| !pair.is_empty()).enumerate() {
        shown.push(if index == 0 { '?' } else { '&' });
        match pair.split_once('=') {
            Some((name, _)) if name.to_ascii_lowercase().ends_with("password") => {
                shown.push_str(name);
                shown.push_str("=***");
            }
            _ => shown.push_str(pair),
        }
    }
    shown
}

fn without_login(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else { return address.to_owned() };
    let Some((login, place)) = rest.rsplit_once('@') else { return address.to_owned() };
    match login.split_once(':') {
        Some((user, _)) => format!("{scheme}://{user}:***@{place}"),
        None => format!("{scheme}://***@{place}"),
    }
}

#[cfg(test)]
mod tests {
    use super::without_secrets;

    #[test]
    fn passwords_are_replaced_by_asterisks() {
        for (url, shown) in [
            ("memory:", "memory:"),
            ("durable:a/b?level=reserve", "durable:a/b?level=reserve"),
            ("redis://127.0.0.1:6379/0", "redis://127.0.0.1:6379/0"),
            ("redis://:secret@host/", "redis://:***@host/"),
            ("redis://me:p@ss@host/", "redis://me:***@host/"),
            ("redis://token@host/", "redis://***@host/"),
            (
                "leased+redis://me:pw@host/?lease.nodes=3",
                "leased+redis://me:***@host/?lease.nodes=3",
            ),
            ("etcd://me:p?ss@host/?tls", "etcd://me:***@host/?tls"),
            ("postgres://host/?user=a&password=b&x=1", "postgres://host/?user=a&password=***&x=1"),
        ] {
            assert_eq!(without_secrets(url), shown);
        }
    }
}
