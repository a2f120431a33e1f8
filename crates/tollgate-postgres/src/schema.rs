//! The tables and functions in the database, as SQL.

use tollgate::{Algorithm, Error};

/// The version of the tables and of the functions' arguments.
pub(crate) const VERSION: i32 = 2;

/// The file of each algorithm. Both buckets share one.
const FILES: &[(Algorithm, &str)] = &[
    (Algorithm::Ban, include_str!("../sql/ban.sql")),
    (Algorithm::FixedWindow, include_str!("../sql/fixed_window.sql")),
    (Algorithm::FixedWindowPerKey, include_str!("../sql/fixed_window_per_key.sql")),
    (Algorithm::ElasticWindow, include_str!("../sql/elastic_window.sql")),
    (Algorithm::MovingWindow, include_str!("../sql/moving_window.sql")),
    (Algorithm::SlidingWindow, include_str!("../sql/sliding_window.sql")),
    (Algorithm::TokenBucket, include_str!("../sql/bucket.sql")),
    (Algorithm::LeakyBucket, include_str!("../sql/bucket.sql")),
    (Algorithm::Budget, include_str!("../sql/budget.sql")),
    (Algorithm::CalendarWindow, include_str!("../sql/calendar_window.sql")),
    (Algorithm::Gcra, include_str!("../sql/gcra.sql")),
];

/// Whether the tables survive a crash of the server.
///
/// ```
/// assert_eq!(tollgate_postgres::Tables::default(), tollgate_postgres::Tables::Unlogged);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tables {
    /// There is no write-ahead log, so a hit waits for no disk. The tables are empty after a crash
    /// and on a standby that takes over: at most one more limit per key is admitted. A clean
    /// restart keeps them.
    #[default]
    Unlogged,
    /// Ordinary tables: counts survive a crash, and replicas have them. Each batch waits until the
    /// log is on the disk, as `synchronous_commit` says.
    Logged,
}

/// The SQL that creates everything this store needs in a schema of that name, for your migrations:
/// run it once, as the owner to be.
///
/// # Errors
/// When the name is not made of lower case letters, digits and underscores.
///
/// ```
/// use tollgate_postgres::{Tables, schema};
///
/// let sql = schema("tollgate", Tables::Logged)?;
/// assert!(sql.contains("CREATE TABLE IF NOT EXISTS tollgate.counters"));
/// # Ok::<(), tollgate::Error>(())
/// ```
pub fn schema(name: &str, tables: Tables) -> Result<String, Error> {
    check_name(name)?;
    let ask = include_str!("../sql/ask.sql");
    let ask = ask.replace("{view}\n", &sections(0, 4));
    let ask = ask.replace("{act}\n", &sections(1, 6));
    let ask = ask.replace("{moving_window}", &Algorithm::MovingWindow.number().to_string());
    let ask = ask.replace("{calendar_window}", &Algorithm::CalendarWindow.number().to_string());
    let ask = ask.replace("{ban}", &Algorithm::Ban.number().to_string());
    let parts = [
        include_str!("../sql/schema.sql"),
        &tables_sql(tables),
        &ask,
        include_str!("../sql/hits.sql"),
        include_str!("../sql/clean.sql"),
    ];
    let text = parts.join("\n").replace("{schema}", name);
    Ok(text.replace("{version}", &VERSION.to_string()))
}

/// The SQL that creates missing tables of a schema.
pub(crate) fn missing_tables(name: &str, tables: Tables) -> String {
    tables_sql(tables).replace("{schema}", name).replace("{version}", &VERSION.to_string())
}

fn tables_sql(tables: Tables) -> String {
    let create = match tables {
        Tables::Unlogged => "CREATE UNLOGGED TABLE",
        Tables::Logged => "CREATE TABLE",
    };
    include_str!("../sql/tables.sql").replace("{create}", create)
}

/// One section of each algorithm's file, as the branches of a `CASE`. The first section reads a
/// state; the second one, after the line `-- act`, changes it.
fn sections(number: usize, indent: usize) -> String {
    let mut text = String::new();
    let indent = " ".repeat(indent);
    // The usual algorithm first: `CASE` tests one after the other.
    for (algorithm, file) in FILES.iter().rev() {
        let section = file.split("-- act\n").nth(number);
        text.push_str(&format!("{indent}WHEN {} THEN\n", algorithm.number()));
        for line in section.unwrap_or_default().lines() {
            text.push_str(&format!("{indent}  {line}\n"));
        }
    }
    text
}

/// Refuses names that would have to be quoted.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let starts = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    if starts && name.len() <= 63 && name.chars().all(plain) {
        return Ok(());
    }
    Err(Error::request(format!(
        "schema {name:?}: a name is up to 63 lower case letters, digits and underscores, and does not begin with a digit"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_has_two_sections_and_no_placeholder_is_left() {
        let sql = schema("limits", Tables::Unlogged).unwrap();
        for (algorithm, _) in FILES {
            let branch = format!("WHEN {} THEN\n", algorithm.number());
            assert_eq!(sql.matches(&branch).count(), 2, "{algorithm}");
        }
        for hole in ["{schema}", "{version}", "{create}", "{view}", "{act}", "_window}", "{ban}"] {
            assert!(!sql.contains(hole), "{hole}");
        }
        assert_eq!(sql.matches("CREATE UNLOGGED TABLE").count(), 2);
    }

    #[test]
    fn names_that_would_have_to_be_quoted_are_refused() {
        for name in ["", "1a", "a b", "Über", "a;b", "A", "a\"", &"a".repeat(64)] {
            assert!(schema(name, Tables::Logged).is_err(), "{name:?}");
        }
        assert!(schema("_a1", Tables::Logged).is_ok());
    }
}
