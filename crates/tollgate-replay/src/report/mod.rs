//! The results of a replay as numbers, text, JSON and HTML.

mod html;
mod json;
mod text;

use sha2::{Digest, Sha256};
use tollgate_report::{Timeline, span};

use crate::counts::LineCounts;
use crate::demand::Demand;
use crate::keys::Keys;
use crate::run::{KeyDenials, Tally};

/// The number of keys that a report lists.
const WORST: usize = 20;

/// The results of a replay.
#[derive(Clone, Debug)]
pub struct Report {
    /// The format of each file.
    pub formats: Vec<String>,
    /// Counts of the lines.
    pub lines: LineCounts,
    /// The number of keys.
    pub keys: u64,
    /// The most different keys in a replay.
    pub max_keys: u64,
    /// Requests of further keys, which were left out.
    pub beyond_max_keys: u64,
    /// Requests that came too late in the log to be put in order.
    pub late: u64,
    /// Requests were put in order within less than the window, because too many waited.
    pub shortened_window: bool,
    /// The first request, in microseconds since the epoch.
    pub first: u64,
    /// The last request.
    pub last: u64,
    /// The results of each limit.
    pub candidates: Vec<CandidateReport>,
    /// The demand of the keys.
    pub demand: Vec<DemandReport>,
}

/// The results of one limit.
#[derive(Clone, Debug)]
pub struct CandidateReport {
    /// The limit, or the name of the rule.
    pub name: String,
    /// The results with the times of the log. Requests of a whole second are all at its start.
    pub early: SpreadReport,
    /// The results with the requests of a whole second spread over it evenly. Absent where the log
    /// has decimals.
    pub spread: Option<SpreadReport>,
}

/// The results of one limit with these request times.
#[derive(Clone, Debug)]
pub struct SpreadReport {
    /// The number of requests.
    pub requests: u64,
    /// Requests that were denied.
    pub denied: u64,
    /// Units of all requests.
    pub units: u64,
    /// Units of denied requests.
    pub denied_units: u64,
    /// Keys that were denied at least once.
    pub affected_keys: u64,
    /// The keys with the most denials.
    pub worst: Vec<AffectedKey>,
    /// The key with the most denials in a row.
    pub longest_run: Option<AffectedKey>,
    /// The counts over time.
    pub timeline: Timeline,
}

/// A key that was denied.
#[derive(Clone, Debug)]
pub struct AffectedKey {
    /// The key.
    pub key: String,
    /// How many requests it made.
    pub requests: u64,
    /// The denials of the key.
    pub denials: KeyDenials,
}

impl SpreadReport {
    /// The requests of each key stand in `requests`, by its number.
    pub(crate) fn new(tally: Tally, keys: &Keys, requests: &[u32]) -> SpreadReport {
        let named = |(number, denials): (&u32, &KeyDenials)| AffectedKey {
            key: keys.name(*number).to_owned(),
            requests: requests.get(*number as usize).copied().unwrap_or(0).into(),
            denials: *denials,
        };
        // Keys with equal counts are ordered by name, so that reports of one log are equal.
        let mut worst: Vec<_> = tally.keys.iter().collect();
        worst.sort_unstable_by(|(a, left), (b, right)| {
            right.denied.cmp(&left.denied).then_with(|| keys.name(**a).cmp(keys.name(**b)))
        });
        let longest = worst.iter().rev().max_by_key(|(_, denials)| denials.longest_run);
        SpreadReport {
            requests: tally.requests,
            denied: tally.denied,
            units: tally.units,
            denied_units: tally.denied_units,
            affected_keys: tally.keys.len() as u64,
            longest_run: longest.copied().map(named),
            worst: worst.into_iter().take(WORST).map(named).collect(),
            timeline: tally.timeline,
        }
    }
}

/// The demand of the keys in any span of one length.
#[derive(Clone, Debug)]
pub struct DemandReport {
    /// The length of the span in microseconds.
    pub span: u64,
    /// The largest peak of any key, and that key.
    pub highest: u64,
    /// The key with the largest peak.
    pub highest_key: String,
    /// For each power of two: the number of keys whose peak is at most that many units.
    pub histogram: Vec<(u64, u64)>,
    /// Thousandths of the keys, and the quota that leaves that share of the keys unaffected.
    pub suggested: Vec<(u64, u64)>,
}

/// The steps in thousandths of all keys.
const UNAFFECTED: [u64; 3] = [990, 999, 1000];

impl DemandReport {
    pub(crate) fn new(demand: &Demand, keys: &Keys) -> DemandReport {
        let mut peaks: Vec<u64> = demand.peaks().iter().copied().filter(|peak| *peak > 0).collect();
        peaks.sort_unstable();
        let highest = peaks.last().copied().unwrap_or(0);
        let highest_key = demand.peaks().iter().position(|peak| *peak == highest && highest > 0);
        let name = highest_key.and_then(|number| u32::try_from(number).ok());
        let mut histogram = Vec::new();
        let mut most = 1_u64;
        let mut counted = 0;
        while counted < peaks.len() {
            let below = peaks.partition_point(|peak| *peak <= most);
            histogram.push((most, (below - counted) as u64));
            counted = below;
            most = most.saturating_mul(2);
        }
        let at = |thousandths: u64| {
            let count = (peaks.len() as u64 * thousandths).div_ceil(1000).max(1) - 1;
            peaks.get(count as usize).copied().unwrap_or(0)
        };
        DemandReport {
            span: demand.span(),
            highest,
            highest_key: name.map(|number| keys.name(number).to_owned()).unwrap_or_default(),
            histogram,
            suggested: UNAFFECTED.map(|thousandths| (thousandths, at(thousandths))).to_vec(),
        }
    }
}

impl Report {
    /// Replaces every key by its [digest](anonymous).
    pub fn anonymise(&mut self, salt: &[u8]) {
        let digest = |key: &mut String| *key = anonymous(key, salt);
        for candidate in &mut self.candidates {
            for report in std::iter::once(&mut candidate.early).chain(&mut candidate.spread) {
                report.worst.iter_mut().for_each(|affected| digest(&mut affected.key));
                report.longest_run.iter_mut().for_each(|affected| digest(&mut affected.key));
            }
        }
        for demand in &mut self.demand {
            digest(&mut demand.highest_key);
        }
        // Unreadable lines may hold keys too.
        self.lines.examples.iter_mut().for_each(|example| example.text = None);
    }

    /// Whether a log had lines and none could be read.
    #[must_use]
    pub fn nothing_readable(&self) -> bool {
        self.lines.lines > 0 && self.lines.unreadable == self.lines.lines
    }
}

/// The digest of a key. The salt is secret and differs from report to report unless one is given:
/// without it somebody could try all addresses.
///
/// ```
/// assert_ne!(tollgate_replay::anonymous("192.0.2.1", b"a"), tollgate_replay::anonymous("192.0.2.1", b"b"));
/// ```
#[must_use]
pub fn anonymous(key: &str, salt: &[u8]) -> String {
    let hash = Sha256::new().chain_update(salt).chain_update(key).finalize();
    let first = hash.iter().take(6).map(|byte| format!("{byte:02x}"));
    format!("key-{}", first.collect::<String>())
}

/// Thousandths as per cent: `99`, `99.9`.
fn share(thousandths: u64) -> String {
    match thousandths % 10 {
        0 => (thousandths / 10).to_string(),
        rest => format!("{}.{rest}", thousandths / 10),
    }
}

/// A quota as the text of a limit: `2/minute`, `2 per 90 seconds`.
fn quota(units: u64, micros: u64) -> String {
    let span = span(micros);
    match span.strip_prefix("1 ") {
        Some(unit) => format!("{units}/{unit}"),
        None => format!("{units} per {span}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_are_texts_of_limits() {
        assert_eq!(quota(2, 60_000_000), "2/minute");
        assert!(quota(2, 1_500_000).parse::<tollgate::Limit>().is_ok());
    }

    #[test]
    fn quotas_are_suggested_by_the_peaks_of_the_keys() {
        let (mut demand, mut keys) = (Demand::new(1_000_000), Keys::new(1_000));
        for key in 0..100 {
            keys.number(&key.to_string());
            for _ in 0..=key {
                demand.count(u64::from(key), key, 1);
            }
        }
        let report = DemandReport::new(&demand, &keys);
        assert_eq!(report.suggested, [(990, 99), (999, 100), (1000, 100)]);
        assert_eq!((report.highest, &report.highest_key[..]), (100, "99"));
        assert_eq!(report.histogram[..3], [(1, 1), (2, 1), (4, 2)]);
        assert_eq!(report.histogram.iter().map(|(_, keys)| keys).sum::<u64>(), 100);
    }
}
