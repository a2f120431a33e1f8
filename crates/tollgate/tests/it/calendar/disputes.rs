//! Callers whose calendars differ share the counter of a limit with a name.

use proptest::prelude::*;
use proptest::sample::select;
use tollgate::algorithm::{AnyMachine, AnyState, Op};
use tollgate::{Limit, Timestamp};

const HOUR: u64 = 3_600_000_000;
const QUOTA: u64 = 5;

/// Calendars of one unit. The zones are half a day apart.
const DAYS: [&str; 3] = [
    "5/day calendar name=a",
    "5/day calendar tz=Pacific/Auckland name=a",
    "5/day calendar tz=America/New_York at=06:30 name=a",
];
const MONTHS: [&str; 3] = [
    "5/month calendar name=a",
    "5/month calendar tz=Pacific/Auckland anchor=15 name=a",
    "5/month calendar anchor=31 name=a",
];

fn machines(texts: [&str; 3]) -> [(Limit, AnyMachine); 3] {
    texts.map(|text| {
        let limit: Limit = text.parse().expect("a valid limit");
        let machine = AnyMachine::new(&limit);
        (limit, machine)
    })
}

/// Returns the number of edges of all callers in a span.
fn edges(machines: &[(Limit, AnyMachine)], from: Timestamp, to: Timestamp) -> u64 {
    let mut all = Vec::new();
    for (limit, _) in machines {
        let calendar = limit.calendar().expect("a calendar limit");
        let mut edge = calendar.window(from).1;
        while edge <= to {
            all.push(edge);
            edge = calendar.window(edge).1;
        }
    }
    all.sort_unstable();
    all.dedup();
    all.len() as u64
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A window opens at an edge of one of the callers, and none opens twice. No wait is longer than
    /// the window of the caller, and it is true if only that caller comes.
    #[test]
    fn each_disputed_edge_opens_at_most_one_window(
        texts in select(vec![DAYS, MONTHS]),
        hits in proptest::collection::vec((0_usize..3, 0_u64..30, 1_u64..=5), 1..80),
    ) {
        let machines = machines(texts);
        let mut now = Timestamp::from_micros(1_790_000_000_000_000);
        let (first, mut state, mut admitted) = (now, None::<AnyState>, 0);
        for (caller, hours, cost) in hits {
            now = Timestamp::from_micros(now.as_micros() + hours * HOUR);
            let (limit, machine) = &machines[caller];
            let hit = machine.apply(&mut state, now, Op::Hit(cost));
            admitted += hit.charged();
            let most = QUOTA * (1 + edges(&machines, first, now));
            prop_assert!(admitted <= most, "{admitted} units, at most {most}");
            if !hit.allowed() {
                let wait = hit.retry_after().expect("the cost fits the quota");
                let end = limit.calendar().unwrap().window(now).1;
                prop_assert!(now + wait <= end, "{limit} waits {wait:?}");
                let mut later = state.clone();
                prop_assert!(machine.apply(&mut later, now + wait, Op::Hit(cost)).allowed());
            }
        }
    }
}

/// A caller whose clock is behind or ahead gets the answer of the open window until its end.
#[test]
fn a_changed_calendar_counts_in_the_open_window_until_its_own_end() {
    let [(_, utc), (_, auckland), _] = machines(DAYS);
    // 2026-11-19T00:00:00Z is 13:00 in Auckland.
    let midnight = Timestamp::from_micros(1_795_046_400_000_000);
    let at = |hours: u64| Timestamp::from_micros(midnight.as_micros() + hours * HOUR);
    let mut state = None;
    assert!(utc.apply(&mut state, at(1), Op::Hit(5)).allowed());
    let denied = auckland.apply(&mut state, at(2), Op::Hit(1));
    assert_eq!(denied.retry_after().map(|wait| wait.as_secs()), Some(9 * 3600), "until 11:00 UTC");
    // The denial of `auckland` reported a wait, so the window now ends after that wait for all.
    assert_eq!(
        utc.apply(&mut state, at(3), Op::Peek(1)).retry_after().unwrap().as_secs(),
        8 * 3600
    );
    assert!(utc.apply(&mut state, at(11), Op::Hit(5)).allowed(), "one more window for this edge");
    assert!(!auckland.apply(&mut state, at(12), Op::Hit(1)).allowed());
    assert!(utc.apply(&mut state, at(24), Op::Hit(5)).allowed());
}

/// The receipt of a window that ended early is worthless in the next one.
#[test]
fn a_receipt_matches_the_start_of_its_window() {
    let [(_, utc), (_, auckland), _] = machines(DAYS);
    let at = |hours: u64| Timestamp::from_micros(1_795_046_400_000_000 + hours * HOUR);
    let mut state = None;
    let receipt = utc.apply(&mut state, at(1), Op::Hit(5)).receipt();
    assert!(!auckland.apply(&mut state, at(2), Op::Hit(1)).allowed());
    assert!(utc.apply(&mut state, at(11), Op::Hit(5)).allowed());
    let refund = utc.apply(&mut state, at(12), Op::Refund(receipt));
    assert_eq!(refund.used(), 5, "it was charged in the window before 11:00");
}
