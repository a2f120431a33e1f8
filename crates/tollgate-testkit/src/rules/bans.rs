//! Bans in policies, beside the definition.

use std::time::Duration;

use tollgate::algorithm::Op;
use tollgate::shared::SharedLimiter;
use tollgate::{Decision, Error, Outcome, Policy, Source, Timestamp};

use crate::ground::{Ground, HOUR, START, on_threads};
use crate::model::{Model, Share, headline, same};
use crate::random::Random;
use crate::subject::Subject;

/// Bans beside limits of all kinds, with every option.
const POLICIES: [&str; 5] = [
    "2/minute fixed-window; ban after=3/minute for=90s",
    "3/minute; 2/second moving-window; ban after=2/10s for=20s doubling max=2m",
    "2/second elastic-window; ban after=3/minute for=10s push",
    "2/minute fixed-window-per-key charge-denied; 5/hour sliding-window; \
     ban after=4/minute for=1m doubling max=1m name=lockout",
    "3/minute token-bucket; ban after=1/second for=1500ms doubling max=1h push",
];

const CASES: u64 = 12;
const CALLS: usize = 60;

/// Random hits and other operations on policies with a ban are answered as the definition says, in
/// every field.
pub fn policies_with_a_ban_equal_the_definition<S: Subject>(subject: &S) {
    let ground = Ground::new(subject);
    for case in 0..CASES {
        let text = POLICIES[(case % POLICIES.len() as u64) as usize];
        let ground = ground.within(&format!("/{case}"));
        let Some(limiter) = held(&ground, text) else { return };
        let mut random = Random::new(0x6_ba05 + case);
        let mut beside = Beside { limiter, model: model(text), now: START };
        let mut calls = Vec::new();
        for _ in 0..CALLS {
            let (wait, call) = (any_wait(&mut random), any_call(&mut random));
            calls.push((wait, call));
            beside.now = beside.now + wait;
            if let Err(difference) = beside.check(&ground, call) {
                panic!("{text}, case {case}: {difference}\nafter {calls:?}");
            }
        }
    }
}

/// Two limits that one ban each watches, in one group: a denial counts for the ban beside it only.
pub fn a_ban_counts_only_the_denials_of_its_own_limits<S: Subject>(subject: &S) {
    let ground = Ground::new(subject);
    let Some(user) = held(&ground, "5/hour; ban after=1/minute for=1h") else { return };
    let Some(address) = held(&ground, "1/hour fixed-window-per-key; ban after=2/minute for=1h")
    else {
        return;
    };
    let tagged = |key: &'static str| tollgate::Tagged("tenant", key);
    let both = || {
        let items = [user.item(tagged("alice"), 1), address.item(tagged("192.0.2.1"), 1)];
        let decided = ground.run(tollgate::shared::hit_all_shared(&items, Some(START)));
        decided.unwrap_or_else(|error| panic!("{error}"))
    };
    let verdicts: Vec<_> = (0..4).map(|_| Verdict::of(&both())).collect();
    assert_eq!(verdicts, [Verdict::Allowed, Verdict::Denied, Verdict::Banned, Verdict::Banned]);
    let peeked = ground.run(user.at(START).peek(tagged("alice")));
    let peeked = peeked.unwrap_or_else(|error| panic!("{error}"));
    assert!(!peeked.banned(), "the denials of the address were counted for the user");
    assert_eq!(peeked.outcomes()[0].used(), 1);
}

/// Under threads a ban starts exactly once, at the exact denial.
pub fn a_ban_starts_once_at_the_exact_denial<S: Subject>(subject: &S) {
    const THREADS: usize = 4;
    const HITS: usize = 10;
    let ground = Ground::new(subject);
    let text = "3/hour fixed-window-per-key; ban after=6/hour for=1h doubling max=8h";
    if held(&ground, text).is_none() {
        return;
    }
    let verdicts = on_threads(THREADS, |_| {
        let ground = ground.again();
        let Some(limiter) = held(&ground, text) else { return Vec::new() };
        let hit = |_| ground.run(limiter.at(START).hit("mallory"));
        (0..HITS).map(hit).collect::<Result<Vec<_>, _>>().unwrap_or_else(|e| panic!("{e}"))
    });
    let verdicts: Vec<Decision> = verdicts.into_iter().flatten().collect();
    let count = |wanted| verdicts.iter().filter(|one| Verdict::of(one) == wanted).count();
    assert_eq!(count(Verdict::Denied), 5, "the sixth denial starts the ban");
    let allowed = count(Verdict::Allowed);
    assert!(allowed <= 3, "{allowed} of 3 hits allowed");
    for banned in verdicts.iter().filter(|one| one.banned()) {
        assert_eq!(banned.retry_after(), Some(HOUR), "started once, at one level");
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Allowed,
    Denied,
    Banned,
}

impl Verdict {
    fn of(decision: &Decision) -> Verdict {
        match (decision.allowed(), decision.banned()) {
            (true, _) => Verdict::Allowed,
            (false, false) => Verdict::Denied,
            (false, true) => Verdict::Banned,
        }
    }
}

fn policy(text: &str) -> Policy {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn model(text: &str) -> Model {
    Model::new(policy(text).limits())
}

/// `None` if the store has no bans, and need not have any.
fn held<S: Subject>(ground: &Ground<'_, S>, text: &str) -> Option<SharedLimiter<S::Store>> {
    ground.policy(&policy(text))
}

#[derive(Clone, Copy, Debug)]
enum Call {
    Hit(u64),
    Peek(u64),
    Take(u64),
    Charge(u64),
    RefundUnits(u64),
    Set(u64),
    Reset,
}

fn any_call(random: &mut Random) -> Call {
    let units = random.below(4);
    match random.weighted(&[40, 6, 4, 2, 3, 2, 1]) {
        0 => Call::Hit(units),
        1 => Call::Peek(units),
        2 => Call::Take(units),
        3 => Call::Charge(units),
        4 => Call::RefundUnits(units),
        5 => Call::Set(units),
        _ => Call::Reset,
    }
}

/// Bursts of hits, and pauses of about the length of a ban or of its decay.
fn any_wait(random: &mut Random) -> Duration {
    let micros = match random.weighted(&[12, 6, 3, 1]) {
        0 => 0,
        1 => random.below(5_000_000),
        2 => random.below(60_000_000),
        _ => random.below(600_000_000),
    };
    Duration::from_micros(micros)
}

struct Beside<St: tollgate::shared::SharedStore> {
    limiter: SharedLimiter<St>,
    model: Model,
    now: Timestamp,
}

impl<St: tollgate::shared::SharedStore> Beside<St> {
    fn check<S: Subject<Store = St>>(
        &mut self,
        ground: &Ground<'_, S>,
        call: Call,
    ) -> Result<(), String> {
        const KEY: &str = "mallory";
        let (now, at) = (self.now, self.limiter.at(self.now));
        let ran = |decided: Result<Decision, Error>| decided.map_err(|error| error.to_string());
        let (got, wanted) = match call {
            Call::Hit(cost) => (ground.run(at.hit_n(KEY, cost)), self.together(now, cost)),
            Call::Take(cost) => (ground.run(at.take(KEY, cost)), self.take(now, cost)),
            Call::Peek(cost) => (ground.run(at.peek_n(KEY, cost)), self.each(now, Op::Peek(cost))),
            Call::Charge(n) => (ground.run(at.charge(KEY, n)), self.each(now, Op::Charge(n))),
            Call::RefundUnits(n) => {
                (ground.run(at.refund_n(KEY, n)), self.each(now, Op::RefundUnits(n)))
            }
            Call::Set(n) => (ground.run(at.set(KEY, n)), self.each(now, Op::Set(n))),
            Call::Reset => {
                let got = ground.run(at.reset(KEY)).map_err(|error| error.to_string())?;
                let limits = 0..self.limiter.limits().len();
                let wanted = limits.fold(false, |any, l| any | self.model.reset(l, 0, now));
                return if got == wanted { Ok(()) } else { Err(format!("reset: {got}")) };
            }
        };
        let got = ran(got)?;
        if got.source() == Source::DenialCache {
            // The units of other limits may be older.
            let ban = wanted.last().filter(|ban| ban.banned());
            let wait = ban.and_then(Outcome::retry_after);
            return if got.banned() && got.retry_after() == wait {
                Ok(())
            } else {
                Err(format!("remembered {got:?}, wanted {wanted:?}"))
            };
        }
        same(got.outcomes(), &wanted)?;
        let shown = headline(&wanted).map(std::slice::from_ref).unwrap_or_default();
        same(&[*got.headline()], shown)
    }

    fn each(&mut self, now: Timestamp, op: Op) -> Vec<Outcome> {
        let limits = 0..self.limiter.limits().len();
        limits.map(|limit| self.model.apply(limit, 0, now, op)).collect()
    }

    fn together(&mut self, now: Timestamp, cost: u64) -> Vec<Outcome> {
        let limits = 0..self.limiter.limits().len();
        let shares: Vec<_> = limits.map(|limit| Share { limit, key: 0, cost }).collect();
        self.model.together(&shares, now)
    }

    fn take(&mut self, now: Timestamp, cost: u64) -> Vec<Outcome> {
        let peeked = self.each(now, Op::Peek(cost));
        let banned = peeked.iter().any(Outcome::banned);
        let counting = peeked.iter().filter(|outcome| !outcome.is_ban());
        let room = counting.map(Outcome::remaining).min().unwrap_or_default();
        let granted = if banned { 0 } else { room.min(cost) };
        self.together(now, granted.max(cost.min(1)))
    }
}
