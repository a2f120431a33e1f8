//! Callers that are looked up.

use std::collections::HashMap;
use std::future::ready;

use tollgate::{Limiter, Memory};
use tollgate_http::{Admission, Caller, Chooser, Gate, Head, KeyBy, OnMissing, Reason, RequestKey};
use tollgate_testkit::block_on;

use crate::heads::{AnyLines, address};

type Callers = HashMap<&'static str, fn(&Limiter<Memory>) -> Caller<Limiter<Memory>>>;

/// A gate with a few callers, known by their keys.
fn gate(store: &Memory, chooser: Chooser<Limiter<Memory>>) -> Gate<Limiter<Memory>> {
    let callers: Callers = HashMap::from([
        ("key-a", (|_| Caller::new("acme")) as fn(&Limiter<Memory>) -> _),
        ("key-b", |_| Caller::new("acme")),
        ("address", |_| Caller::new("192.0.2.1")),
        ("paid", |paid| Caller::new("payer").limiter(paid.clone())),
        ("staff", |_| Caller::new("ourselves").unlimited()),
    ]);
    let paid = store.limiter("3/hour name=paid").unwrap();
    Gate::from_chooser(chooser).callers((callers, paid), |state, head| {
        let api_key = head.line("x-api-key").map(<[u8]>::to_vec);
        async move {
            let (callers, paid) = &*state;
            let api_key = String::from_utf8(api_key?).ok()?;
            callers.get(api_key.as_str()).map(|caller| caller(paid))
        }
    })
}

/// Whether requests with these keys pass, from one address.
fn pass<const N: usize>(gate: &Gate<Limiter<Memory>>, path: &str, keys: [&str; N]) -> [bool; N] {
    keys.map(|key| {
        let headers = AnyLines::one("x-api-key", key);
        let head = Head::new("GET", path, &headers).peer(Some(address("192.0.2.1")));
        match block_on(gate.decide(&head, |_| ready(())).admission()) {
            Admission::Admitted(_) => true,
            Admission::Refused(refused) => match refused.reason() {
                Reason::Denied { .. } | Reason::NoKey => false,
                other => panic!("{other:?}"),
            },
        }
    })
}

#[test]
fn invented_keys_share_the_bucket_of_their_address() {
    let store = Memory::new();
    let usual = store.limiter("2/hour").unwrap();
    let gate = gate(&store, Chooser::one(usual.clone()));
    assert_eq!(pass(&gate, "/", ["x1", "x2", "x3", ""]), [true, true, false, false]);
    assert_eq!(usual.usage("192.0.2.1"), 2);
    // A known caller is not limited by the address, and all of its keys are one caller.
    assert_eq!(pass(&gate, "/", ["key-a", "key-b", "key-a"]), [true, true, false]);
    assert_eq!(usual.usage(RequestKey::caller("acme")), 2);
}

#[test]
fn a_caller_is_no_other_key_whatever_its_id() {
    let store = Memory::new();
    let usual = store.limiter("1/hour").unwrap();
    let by_address = gate(&store, Chooser::one(usual.clone()));
    assert_eq!(pass(&by_address, "/", ["address", "x", "address"]), [true, true, false]);
    // Keys that a client can compose do not match either.
    let header = || KeyBy::header("x-api-key");
    for key in [header().or(header()), header().and(header()), header().and(header().or(header()))]
    {
        usual.clear();
        assert_eq!(pass(&by_address.clone().key(key), "/", ["key-a", "acme"]), [true, true]);
    }
}

#[test]
fn a_caller_may_have_a_limiter_of_its_own_or_none() {
    let store = Memory::new();
    let gate = gate(&store, Chooser::one(store.limiter("1/hour").unwrap()));
    assert_eq!(pass(&gate, "/", ["paid"; 4]), [true, true, true, false]);
    assert_eq!(pass(&gate, "/", ["staff"; 4]), [true; 4]);
    assert_eq!(pass(&gate, "/", ["key-a"; 2]), [true, false]);
}

#[test]
fn rules_for_a_path_go_before_the_limiter_of_a_caller() {
    let store = Memory::new();
    let chooser = Chooser::one(store.limiter("9/hour").unwrap())
        .on("*", "/login", store.limiter("1/hour name=login").unwrap())
        .and_then(|chooser| chooser.unlimited("*", "/free"));
    let gate = gate(&store, chooser.unwrap());
    assert_eq!(pass(&gate, "/login", ["paid", "paid", "x", "y"]), [true, false, true, false]);
    assert_eq!(pass(&gate, "/free", ["x"; 20]), [true; 20]);
}

#[test]
fn a_plan_is_asked_for_callers_without_a_limiter() {
    let store = Memory::new();
    let plan = Chooser::plan(store.limiter("2/hour").unwrap(), |plan, _| async move {
        Some(Limiter::clone(&plan))
    });
    let gate = gate(&store, plan).on_missing(OnMissing::Refuse(400));
    assert_eq!(pass(&gate, "/", ["key-a"; 3]), [true, true, false]);
    assert_eq!(pass(&gate, "/", ["x", "y", "z"]), [true, true, false]);
}
