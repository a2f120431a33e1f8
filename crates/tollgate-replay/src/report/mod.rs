//! The results of a replay as numbers, text, JSON and HTML.

mod html;
mod json;
mod svg;
mod text;

use sha2::{Digest, Sha256};

use crate::demand::Demand;
use crate::keys::Keys;
use crate::requests::LineCounts;
use crate::run::{KeyDenials, Tally};
use crate::timeline::Timeline;

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
    /// The most keys that a replay can distinguish.
    pub max_keys: u64,
    /// Requests of further keys, which were left out.
    pub beyond_max_keys: u64,
    /// Requests that came too late in the log to be put in order.
    pub late: u64,
    /// The first and the last request, in microseconds since the epoch.
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
    /// With the times of the log. Requests of a whole second are all at its start.
    pub early: SpreadReport,
    /// With the requests of a whole second spread over it evenly. Absent where the log has
    /// decimals.
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
    /// The denials of the key.
    pub denials: KeyDenials,
}

impl SpreadReport {
    pub(crate) fn new(tally: Tally, keys: &Keys) -> SpreadReport {
        let named = |(number, denials): (&u32, &KeyDenials)| AffectedKey {
            key: keys.name(*number).to_owned(),
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
    /// The number of keys with a peak of at most so many units, in powers of two.
    pub histogram: Vec<(u64, u64)>,
    /// The quotas that leave so many per thousand of the keys unaffected.
    pub suggested: Vec<(u64, u64)>,
}

/// In thousandths of all keys.
const UNAFFECTED: [u64; 4] = [950, 990, 999, 1000];

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
    /// Replaces every key by a digest. The salt is secret, and random unless one is given: without
    /// it, anybody could compute the digests of all addresses.
    pub fn anonymise(&mut self, salt: &[u8]) {
        let digest = |key: &mut String| {
            let hash = Sha256::new().chain_update(salt).chain_update(&key[..]).finalize();
            *key = hash
                .iter()
                .take(6)
                .fold("key-".to_owned(), |text, byte| text + &format!("{byte:02x}"));
        };
        for candidate in &mut self.candidates {
            for report in std::iter::once(&mut candidate.early).chain(&mut candidate.spread) {
                report.worst.iter_mut().for_each(|affected| digest(&mut affected.key));
                report.longest_run.iter_mut().for_each(|affected| digest(&mut affected.key));
            }
        }
        for demand in &mut self.demand {
            digest(&mut demand.highest_key);
        }
        // Examples of unreadable lines show addresses too.
        for example in &mut self.lines.examples {
            if let Some((place, _)) = example.split_once(": ") {
                *example = place.to_owned();
            }
        }
    }

    /// Whether a log had lines and none could be read.
    #[must_use]
    pub fn nothing_readable(&self) -> bool {
        self.lines.lines > 0 && self.lines.unreadable == self.lines.lines
    }
}

/// A share in per cent, with two decimals. It is 0 or 100 only if the share is exactly that.
fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "0 %".to_owned();
    }
    let hundredths = u128::from(part) * 10_000 / u128::from(whole);
    match hundredths {
        0 if part == 0 => "0 %".to_owned(),
        0 => "< 0.01 %".to_owned(),
        10_000 => "100 %".to_owned(),
        _ => format!("{}.{:02} %", hundredths / 100, hundredths % 100),
    }
}

/// A number with commas.
///
/// ```
/// assert_eq!(tollgate_replay::grouped(1_234_567), "1,234,567");
/// ```
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A time as UTC, to the second: `2026-10-10 13:55:36`.
fn utc(micros: u64) -> String {
    let seconds = micros / 1_000_000;
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Years start in March here, from the year 0 on.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// A duration in words: `1 minute`, `90 s`, `250 ms`.
fn span(micros: u64) -> String {
    let units = [
        (86_400_000_000, "day"),
        (3_600_000_000, "hour"),
        (60_000_000, "minute"),
        (1_000_000, "second"),
    ];
    for (unit, name) in units {
        if micros >= unit && micros.is_multiple_of(unit) {
            return match micros / unit {
                1 => format!("1 {name}"),
                many => format!("{many} {name}s"),
            };
        }
    }
    match micros {
        1_000.. if micros.is_multiple_of(1_000) => format!("{} ms", micros / 1_000),
        _ => format!("{micros} us"),
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
    fn numbers_are_written_for_people() {
        assert_eq!(percent(1, 3), "33.33 %");
        assert_eq!(percent(1, 1_000_000), "< 0.01 %");
        assert_eq!(percent(999_999, 1_000_000), "99.99 %");
        assert_eq!(percent(5, 5), "100 %");
        assert_eq!([percent(0, 0), percent(0, 9)], ["0 %", "0 %"]);
        assert_eq!([1, 1_000, 1_234_567].map(grouped), ["1", "1,000", "1,234,567"]);
        assert_eq!(span(90_000_000), "90 seconds");
        assert_eq!(span(1_500_000), "1500 ms");
        assert_eq!(quota(2, 60_000_000), "2/minute");
        assert!(quota(2, 1_500_000).parse::<tollgate::Limit>().is_ok());
    }

    proptest::proptest! {
        #[test]
        fn a_printed_time_is_parsed_back(seconds in 0_u64..5_000_000_000) {
            let text = utc(seconds * 1_000_000);
            let stamp = crate::parse_time(text.as_bytes()).unwrap();
            proptest::prop_assert_eq!(stamp.micros, seconds * 1_000_000);
        }
    }

    #[test]
    fn quotas_are_suggested_by_the_peaks_of_the_keys() {
        let (mut demand, mut keys) = (Demand::new(1_000_000), Keys::default());
        for key in 0..100 {
            keys.number(&key.to_string());
            for _ in 0..=key {
                demand.count(u64::from(key), key, 1);
            }
        }
        let report = DemandReport::new(&demand, &keys);
        assert_eq!(report.suggested, [(950, 95), (990, 99), (999, 100), (1000, 100)]);
        assert_eq!((report.highest, &report.highest_key[..]), (100, "99"));
        assert_eq!(report.histogram[..3], [(1, 1), (2, 1), (4, 2)]);
        assert_eq!(report.histogram.iter().map(|(_, keys)| keys).sum::<u64>(), 100);
    }
}
