//! Which limiter decides.

use std::future::ready;

use tollgate::{Limiter, Memory};
use tollgate_http::{Chooser, Gate, Head, KeyBy, Question, Verdict};
use tollgate_testkit::block_on;

use crate::heads::AnyLines;

/// A limiter to be known by its name.
fn named(name: &str) -> Limiter<Memory> {
    Memory::new().limiter(tollgate::Limit::per_hour(1000).name(name)).unwrap()
}

/// The name of the limiter that decides on a request, if one does.
fn chosen(gate: &Gate<Limiter<Memory>>, method: &str, path: &str) -> Option<String> {
    let headers = AnyLines::default();
    match gate.question(&Head::new(method, path, &headers)) {
        Question::Skip => None,
        Question::NoKey(status) => panic!("{status}"),
        Question::Ask { key, cost, choice } => {
            match block_on(gate.decide(key, cost, choice, |_| ready(()))) {
                Verdict::Unlimited => None,
                Verdict::Pass(pass) => pass.limits()[0].name().map(str::to_owned),
                other => panic!("{other:?}"),
            }
        }
    }
}

fn gate(chooser: Chooser<Limiter<Memory>>) -> Gate<Limiter<Memory>> {
    Gate::choosing(chooser).key(KeyBy::everyone())
}

fn routes() -> Gate<Limiter<Memory>> {
    gate(
        Chooser::one(named("default"))
            .on(Some("POST"), "/login", Some(named("login")))
            .on(None, "/static/*", None)
            .on(Some("GET"), "/a*", Some(named("a")))
            .on(None, "/a/b", Some(named("after the line before"))),
    )
}

#[test]
fn the_first_route_that_fits_counts_and_else_the_default() {
    for (method, path, limiter) in [
        ("POST", "/login", Some("login")),
        ("GET", "/login", Some("default")),
        ("POST", "/login/", Some("default")),
        ("POST", "/log", Some("default")),
        ("GET", "/static/x.css", None),
        ("DELETE", "/static/", None),
        ("GET", "/static", Some("default")),
        ("GET", "/a/b", Some("a")),
        ("GET", "/abc", Some("a")),
        ("", "", Some("default")),
    ] {
        assert_eq!(chosen(&routes(), method, path).as_deref(), limiter, "{method} {path}");
    }
}

#[test]
fn head_is_no_way_around_the_limit_of_get() {
    assert_eq!(chosen(&routes(), "HEAD", "/abc").as_deref(), Some("a"));
    assert_eq!(chosen(&routes(), "HEAD", "/login").as_deref(), Some("default"));
    let own = Chooser::one(named("default")).on(Some("HEAD"), "/", Some(named("head"))).on(
        Some("GET"),
        "/",
        Some(named("get")),
    );
    let own = gate(own);
    let both = ["HEAD", "GET"].map(|method| chosen(&own, method, "/").unwrap());
    assert_eq!(both, ["head", "get"]);
}

#[test]
fn a_plan_is_asked_where_no_route_fits() {
    let plan = named("plan");
    let plans = Chooser::plan(move |head| {
        let (path, plan) = (head.path.to_owned(), plan.clone());
        async move { (path != "/free").then_some(plan) }
    });
    let plans = gate(plans.on(None, "/login", Some(named("login"))));
    assert_eq!(chosen(&plans, "GET", "/login").as_deref(), Some("login"));
    assert_eq!(chosen(&plans, "GET", "/x").as_deref(), Some("plan"));
    assert_eq!(chosen(&plans, "GET", "/free"), None);
}
