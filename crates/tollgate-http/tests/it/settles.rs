//! Settling the cost of a request by its response.

use proptest::prelude::*;
use tollgate::{Limiter, Memory};
use tollgate_http::{
    Admission, Deciding, Gate, Head, KeyBy, LimitedRequest, Response, Settle, SettleBy,
};

use crate::heads::AnyLines;

fn admitted(limiter: &Limiter<Memory>, cost: u64) -> LimitedRequest<Limiter<Memory>> {
    let gate = Gate::new(limiter.clone()).key(KeyBy::everyone()).cost(move |_| cost);
    let headers = AnyLines::default();
    let head = Head::new("GET", "/", &headers);
    match gate.keep_decisions().decide(&head, |_| std::future::ready(())) {
        Deciding::Ready(Admission::Admitted(admitted)) => *admitted.request.unwrap(),
        other => panic!("{other:?}"),
    }
}

proptest! {
    #[test]
    fn in_the_end_a_request_costs_what_it_is_settled_at(charged in 0..100_u64, cost in 0..300_u64) {
        for settle in [Settle::AsCharged, Settle::Nothing, Settle::Cost(cost)] {
            let limiter = Memory::new().limiter("100/hour fixed-window-per-key").unwrap();
            let request = admitted(&limiter, charged);
            prop_assert!(request.settle_now(settle));
            let expected = match settle {
                Settle::Cost(cost) => cost,
                Settle::Nothing => 0,
                _ => charged,
            };
            // Units above the limit count against later ones, as far as the limit counts.
            prop_assert_eq!(limiter.peek("").used().min(100), expected.min(100));
        }
    }

    #[test]
    fn a_header_settles_at_its_number_and_nothing_else(value in prop_oneof!["[0-9]{1,20}", "[ -~]{0,8}"]) {
        let headers = AnyLines::one("x-cost", &value);
        let expected = value.trim().parse().map_or(Settle::AsCharged, Settle::Cost);
        prop_assert_eq!(SettleBy::header("X-Cost").settle(&Response::new(200, &headers)), expected);
    }
}

#[test]
fn settling_by_head_needs_no_body_and_settling_by_body_counts_its_bytes() {
    let headers = AnyLines::one("x-a", "1");
    let mut response = Response::new(503, &headers);
    response.bytes = 7;
    let head = SettleBy::head(|response| Settle::Cost(u64::from(response.status)));
    assert_eq!((head.needs_body(), head.settle(&response)), (false, Settle::Cost(503)));
    let body = SettleBy::body(|response| Settle::Cost(response.bytes));
    assert_eq!((body.needs_body(), body.settle(&response)), (true, Settle::Cost(7)));
    assert_eq!(response.line("x-a"), Some(&b"1"[..]));
}

#[test]
fn a_cost_by_the_body_has_a_minimum() {
    let headers = AnyLines::default();
    let empty = Response::new(200, &headers);
    let by_byte = || SettleBy::body(|response| Settle::Cost(response.bytes));
    assert_eq!(by_byte().settle(&empty), Settle::Cost(1));
    assert_eq!(by_byte().minimum(100).settle(&empty), Settle::Cost(100));
    assert_eq!(by_byte().minimum(0).settle(&empty), Settle::Cost(0));
    let mut long = empty;
    long.bytes = 101;
    assert_eq!(by_byte().minimum(100).settle(&long), Settle::Cost(101));
    let by_header = SettleBy::head(|_| Settle::Cost(0));
    assert_eq!(by_header.settle(&empty), Settle::Cost(0), "said by the handler");
}
