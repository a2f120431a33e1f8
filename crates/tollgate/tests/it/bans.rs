//! Bans in policies: their text, their timeline, and what a store must never forget.

use std::time::Duration;

use tollgate::algorithm::{Act, AnyMachine, Op};
use tollgate::{Atomic, Decision, Limit, Limiter, ManualClock, Memory, Policy, Source, Timestamp};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const START: Timestamp = Timestamp::from_micros(1_790_000_000_000_000);

fn limiter(policy: &str) -> Limiter<Memory> {
    Memory::new().limiter(policy).expect("a policy that Memory can hold")
}

/// One letter for each hit: allowed, denied or banned.
fn verdict(decision: &Decision) -> char {
    match (decision.allowed(), decision.banned()) {
        (true, false) => 'a',
        (false, false) => 'd',
        (false, true) => 'b',
        (true, true) => panic!("a banned key is allowed"),
    }
}

fn verdicts(limiter: &Limiter<Memory>, now: Timestamp, hits: usize) -> String {
    (0..hits).map(|_| verdict(&limiter.at(now).hit("mallory"))).collect()
}

#[test]
fn a_ban_is_printed_last_and_in_one_spelling() {
    for (written, printed) in [
        (
            "ban after=10/minute for=1h doubling max=1d; 100/minute",
            "100/minute; ban after=10/minute for=1h doubling max=1d",
        ),
        (
            "5/second | BAN  max = 24 hours  doubling for=60m after = 10 per minute, 100/minute",
            "5/second; 100/minute; ban after=10/minute for=1h doubling max=1d",
        ),
        (
            "1/minute; ban after=3/90s for=1500ms push name=\"log in\"",
            "1/minute; ban after=3/90s for=1500ms push name=\"log in\"",
        ),
    ] {
        let policy: Policy = written.parse().unwrap();
        assert_eq!(policy.to_string(), printed);
        assert_eq!(printed.parse(), Ok(policy));
    }
}

#[test]
fn bad_bans_are_refused_with_value_and_rule() {
    for (text, message) in [
        (
            "ban after=3/minute for=1h",
            r#"at 0: "ban after=3/minute for=1h" without another limit: a ban counts the denials of at least one other limit of its policy"#,
        ),
        (
            "1/second; ban after=3/minute for=1h; ban after=4/minute for=1h",
            r#"at 37: second ban "ban after=4/minute for=1h" in one policy: at most one is allowed"#,
        ),
        (
            "1/second; ban after=3/minute for=1h doubling max=30m",
            "at 49: longest ban of 1800000000000 ns: must be at least as long as the first ban (for) and at most 100 years",
        ),
        ("1/second; ban after=3/minute for=1h doubling", "at 36: doubling without max=SPAN"),
        ("1/second; ban after=3/minute for=1h max=1d", "at 40: max without doubling"),
        (
            "1/second; ban after=3/minute",
            "at 28: found the end of the text, expected for=SPAN, which every ban has",
        ),
        (
            "1/second; ban for=1h",
            "at 20: found the end of the text, expected after=COUNT/PERIOD, which every ban has",
        ),
        ("1/second; ban after=0/minute for=1h", "at 20: quota 0: must be from 1 to 1000000000000"),
        (
            "1/second; ban after=1/minute for=200 us",
            "at 33: ban for 200000 ns: must be from 1 millisecond to 100 years",
        ),
        (
            "1/second; ban after=1/minute for=1h for=2h",
            r#"at 36: found "for", expected each option at most once"#,
        ),
        (
            "1/second; ban after=1/minute for=1h gcra",
            r#"at 36: found "gcra", expected an option of a ban: after=COUNT/PERIOD, for=SPAN, doubling, max=SPAN, push or name=WORD"#,
        ),
        ("10/minute ban", "at 0: ban after 10 denials without a length: must state for=SPAN"),
    ] {
        assert_eq!(text.parse::<Policy>().unwrap_err().to_string(), message, "{text}");
    }
    let ban = || Limit::ban(3, MINUTE, HOUR);
    assert_eq!(
        ban().doubling(MINUTE).build().unwrap_err().to_string(),
        "longest ban of 60000000000 ns: must be at least as long as the first ban (for) and at most 100 years"
    );
    assert_eq!(
        Limit::per_minute(3).push().build().unwrap_err().to_string(),
        "doubling or push with gcra: only a ban has them"
    );
    assert!(ban().charge_denied().build().is_err());
    assert!(ban().burst(5).build().is_err());
}

#[test]
fn a_ban_counts_towards_the_limits_of_a_policy() {
    let with_ban = |limits: u64| {
        let limits = (1..=limits).map(Limit::per_second);
        Policy::new(limits.chain([Limit::ban(3, MINUTE, HOUR)]))
    };
    assert!(with_ban(7).is_ok());
    assert!(with_ban(8).is_err());
}

#[test]
fn an_unnamed_ban_is_identified_by_the_limits_that_it_watches() {
    let identity = |text: &str| text.parse::<Policy>().unwrap().limits().last().unwrap().identity();
    let ban = "ban after=3/minute for=1h";
    assert_ne!(identity(&format!("1/second; {ban}")), identity(&format!("2/second; {ban}")));
    assert_eq!(
        identity(&format!("1/second; {ban} name=x")),
        identity(&format!("2/second; {ban} name=x"))
    );
    assert_ne!(
        identity(&format!("1/second; {ban}")),
        identity("1/second; ban after=3/minute for=1h push")
    );
}

#[test]
fn stores_that_cannot_hold_a_ban_name_one_that_can() {
    let refused = Atomic::new().limiter("1/second; ban after=3/minute for=1h").unwrap_err();
    assert!(refused.to_string().ends_with("Atomic cannot hold a ban; Memory can"), "{refused}");
}

#[test]
fn a_ban_starts_at_the_exact_denial_and_ends_at_the_exact_time() {
    let limiter = limiter("2/day fixed-window; ban after=3/minute for=1h");
    let day = Timestamp::from_micros(START.as_micros() / 86_400_000_000 * 86_400_000_000);
    assert_eq!(verdicts(&limiter, day, 7), "aaddbbb");
    // Attempts do not extend it.
    let last = limiter.at(day + (HOUR - SECOND)).hit("mallory");
    assert_eq!((last.banned(), last.retry_after()), (true, Some(SECOND)));
    // After it the other limits decide again, and denials are counted anew.
    assert_eq!(verdicts(&limiter, day + HOUR, 4), "ddbb");
    // Another day, after this ban.
    assert_eq!(verdicts(&limiter, day + 25 * HOUR, 4), "aadd");
}

#[test]
fn denials_are_counted_in_a_window_that_begins_with_the_first() {
    let limiter = limiter("1/day; ban after=3/minute for=1h");
    let at = |span: Duration| verdict(&limiter.at(START + span).hit("mallory"));
    assert_eq!(at(Duration::ZERO), 'a');
    assert_eq!((at(5 * SECOND), at(64 * SECOND)), ('d', 'd'));
    // The window of the first denial is over at 65 seconds.
    assert_eq!((at(65 * SECOND), at(66 * SECOND), at(67 * SECOND)), ('d', 'd', 'b'));
}

#[test]
fn bans_double_up_to_the_longest_and_decay_after_it() {
    let limiter = limiter("1/365 days fixed-window; ban after=1/minute for=1h doubling max=3h");
    let mut now = START;
    let mut ban = |after_last: Duration| {
        now = now + after_last;
        let banned = limiter.at(now).hit("mallory");
        let length = banned.retry_after().unwrap();
        now = now + length;
        (verdict(&banned), length)
    };
    let _ = limiter.at(START).hit("mallory");
    assert_eq!(ban(Duration::ZERO), ('b', HOUR));
    assert_eq!(ban(Duration::ZERO), ('b', 2 * HOUR));
    assert_eq!(ban(Duration::ZERO), ('b', 3 * HOUR), "4 hours, but at most 3");
    assert_eq!(ban(Duration::ZERO), ('b', 3 * HOUR));
    // The level lasts for three hours after the end of a ban, to the microsecond.
    assert_eq!(ban(3 * HOUR - Duration::from_micros(1)), ('b', 3 * HOUR));
    assert_eq!(ban(3 * HOUR), ('b', HOUR));
    assert_eq!(ban(Duration::ZERO), ('b', 2 * HOUR));
}

#[test]
fn only_a_ban_with_push_is_extended_by_attempts() {
    for (options, left) in [("", 40 * MINUTE), (" push", HOUR)] {
        let limiter = limiter(&format!("1/day; ban after=1/minute for=1h{options}"));
        let _ = limiter.at(START).hit("mallory");
        assert!(limiter.at(START).hit("mallory").banned());
        let peeked = limiter.at(START + 10 * MINUTE).peek("mallory");
        assert_eq!((peeked.banned(), peeked.retry_after()), (true, Some(50 * MINUTE)));
        let tried = limiter.at(START + 20 * MINUTE).hit("mallory");
        assert_eq!(tried.retry_after(), Some(left), "{options}");
    }
}

#[test]
fn while_banned_no_other_limit_is_charged_or_pushed() {
    let limiter = limiter(
        "1/minute elastic-window; 2/hour fixed-window-per-key charge-denied; \
         ban after=2/hour for=10m",
    );
    let figures = || -> Vec<_> {
        let peeked = limiter.at(START).peek("mallory");
        peeked.outcomes().iter().map(|one| (one.used(), one.expires_at())).collect()
    };
    assert_eq!(verdicts(&limiter, START, 3), "adb");
    let before = figures();
    assert_eq!(verdicts(&limiter, START + SECOND, 5), "bbbbb");
    assert_eq!(figures(), before);
}

#[test]
fn every_denied_hit_and_take_counts_once_whatever_its_cost() {
    let limiter = limiter("2/day; ban after=4/minute for=1h");
    let at = limiter.at(START);
    assert_eq!(verdict(&at.hit_n("mallory", 3)), 'd', "a cost that never passes");
    assert_eq!(verdict(&at.take("mallory", 5)), 'a');
    assert_eq!(verdict(&at.take("mallory", 5)), 'd');
    assert_eq!(verdict(&at.peek("mallory")), 'd', "a peek is not counted");
    assert_eq!(verdict(&at.peek("mallory")), 'd');
    assert_eq!(verdict(&at.hit("mallory")), 'd');
    let banned = at.take("mallory", 1);
    assert_eq!((verdict(&banned), banned.charged()), ('b', 0));
    assert_eq!(verdict(&at.hit_n("mallory", 0)), 'b', "a cost of zero is denied too");
}

#[test]
fn the_ban_is_no_headline_unless_it_denies() {
    let limiter = limiter("100/minute; ban after=2/minute for=1h");
    let allowed = limiter.at(START).hit("mallory");
    assert_eq!((allowed.limit(), allowed.remaining(), allowed.headline_index()), (100, 99, 0));
    assert_eq!(limiter.at(START).usage("mallory"), 1);
    let _ = limiter.at(START).hit_n("mallory", 101);
    let banned = limiter.at(START).hit_n("mallory", 101);
    assert_eq!((banned.headline_index(), banned.retry_after()), (1, Some(HOUR)));
    assert_eq!(limiter.at(START).usage("mallory"), 1, "a ban has no units");
}

#[test]
fn charges_and_corrections_leave_a_ban_as_it_is() {
    let limiter = limiter("1/day; ban after=1/minute for=1h push");
    let _ = limiter.at(START).hit("mallory");
    assert!(limiter.at(START).hit("mallory").banned());
    let later = limiter.at(START + MINUTE);
    assert_eq!(later.charge("mallory", 2).outcomes()[0].used(), 3);
    let _ = (later.refund_n("mallory", 3), later.set("mallory", 0));
    assert_eq!(later.peek("mallory").outcomes()[0].used(), 0);
    assert_eq!(later.peek("mallory").retry_after(), Some(HOUR - MINUTE));
}

#[test]
fn a_reset_forgets_count_ban_and_level() {
    let limiter = limiter("1/day; ban after=2/minute for=1h doubling max=4h");
    assert_eq!(verdicts(&limiter, START, 4), "adbb");
    assert!(limiter.at(START).reset("mallory"));
    assert!(!limiter.at(START).reset("mallory"));
    assert_eq!(verdicts(&limiter, START, 2), "ad");
    assert!(limiter.at(START).reset("mallory"));
    assert_eq!(verdicts(&limiter, START, 3), "adb");
    assert_eq!(limiter.at(START).hit("mallory").retry_after(), Some(HOUR));
}

#[test]
fn denials_by_other_items_of_a_group_are_not_counted() {
    let store = Memory::new();
    let user = store.limiter("5/day; ban after=1/minute for=1h").unwrap();
    let address = store.limiter("1/day; ban after=2/minute for=1h").unwrap();
    let both = || {
        let items = [user.item("alice", 1), address.item("192.0.2.1", 1)];
        tollgate::hit_all_at(&items, START).unwrap()
    };
    assert_eq!(verdict(&both()), 'a');
    assert_eq!(verdict(&both()), 'd');
    assert!(user.at(START).peek("alice").allowed(), "the address denied, not the user");
    let banned = both();
    assert_eq!((verdict(&banned), banned.headline_index()), ('b', 3));
    assert_eq!(user.at(START).usage("alice"), 1);
}

#[test]
fn an_earlier_time_neither_ends_a_ban_nor_extends_it() {
    let limiter = limiter("1/day fixed-window-per-key; ban after=1/minute for=1h");
    assert_eq!(verdicts(&limiter, START, 2), "ab");
    let earlier = Timestamp::from_micros(START.as_micros() - 3_600_000_000);
    assert_eq!(limiter.at(earlier).hit("mallory").retry_after(), Some(2 * HOUR));
    assert_eq!(limiter.at(START).hit("mallory").retry_after(), Some(HOUR));
}

#[test]
fn at_the_bound_on_keys_no_unknown_key_is_banned() {
    let store = Memory::builder().max_keys(2).clock(ManualClock::new(START)).build();
    let limiter = store.limiter("1/day; ban after=1/minute for=1h").unwrap();
    assert_eq!((limiter.hit("known").allowed(), limiter.hit("known").banned()), (true, true));
    for _ in 0..5 {
        let unknown = limiter.hit("unknown");
        assert!(!unknown.banned(), "denials of unknown keys are not counted");
        assert_eq!(unknown.outcomes()[1].source(), Source::Overflow);
    }
    assert!(limiter.hit("known").banned());
}

#[test]
fn key_older_than_does_not_lift_a_ban() {
    let clock = ManualClock::new(START);
    let store = Memory::builder().key_older_than(MINUTE).clock(clock.clone()).build();
    let limiter = store.limiter("1/day; ban after=1/minute for=1h").unwrap();
    assert_eq!((limiter.hit("a").allowed(), limiter.hit("a").banned()), (true, true));
    for _ in 0..5 {
        clock.advance(5 * MINUTE);
        store.clean();
    }
    assert!(limiter.hit("a").banned());
    clock.advance(24 * HOUR);
    store.clean();
    assert!(store.is_empty(), "a ban that is over and forgiven is forgotten");
}

/// The state is three words. The level shares one with the count.
#[test]
fn the_bytes_of_a_ban_hold_count_end_and_level() {
    use tollgate::algorithm::AnyState;
    let ban: Policy =
        "1/day; ban after=1000000000000/day for=1ms doubling max=36500 days".parse().unwrap();
    let machine = AnyMachine::new(&ban.limits()[1]);
    let mut state = None;
    let _ = machine.act(&mut state, START, Act::DenyHit(1));
    let once: Policy = "1/day; ban after=1/day for=1ms doubling max=36500 days".parse().unwrap();
    let banning = AnyMachine::new(&once.limits()[1]);
    for _ in 0..60 {
        let now = machine.apply(&mut state, START, Op::Peek(0)).expires_at().unwrap();
        let _ = banning.act(&mut state, now, Act::DenyHit(1));
        let mut bytes = Vec::new();
        state.as_ref().unwrap().to_bytes(&mut bytes);
        assert_eq!(AnyState::from_bytes(&bytes), state);
    }
}
