//! The choice of a limiter.

use std::future::ready;

use tollgate::{Limiter, Memory};
use tollgate_http::{Admission, Chooser, Gate, Head, KeyBy};
use tollgate_testkit::block_on;

use crate::heads::AnyLines;

/// A limiter that tests recognize by its name.
fn named(name: &str) -> Limiter<Memory> {
    Memory::new().limiter(tollgate::Limit::per_hour(1000).name(name)).unwrap()
}

/// The name of the limiter that decides on a request, if one does.
fn chosen(gate: &Gate<Limiter<Memory>>, method: &str, path: &str) -> Option<String> {
    let headers = AnyLines::default();
    limiter_of(gate, &Head::new(method, path, &headers))
}

fn limiter_of(gate: &Gate<Limiter<Memory>>, head: &Head<'_>) -> Option<String> {
    let gate = gate.clone().keep_decisions();
    match block_on(gate.decide(head, |_| ready(())).admission()) {
        Admission::Admitted(admitted) => admitted.request?.limits()[0].name().map(str::to_owned),
        refused @ Admission::Refused(_) => panic!("{refused:?}"),
    }
}

fn gate(chooser: Chooser<Limiter<Memory>>) -> Gate<Limiter<Memory>> {
    Gate::from_chooser(chooser).key(KeyBy::everyone())
}

fn routes() -> Gate<Limiter<Memory>> {
    gate(
        Chooser::one(named("default"))
            .on("POST", "/login", named("login"))
            .and_then(|chooser| chooser.unlimited("*", "/static/*"))
            .and_then(|chooser| chooser.on("get", "/a*", named("a")))
            .and_then(|chooser| chooser.on("*", "/a/b", named("after the line before")))
            .unwrap(),
    )
}

#[test]
fn the_first_route_that_fits_decides_or_else_the_default() {
    for (method, path, limiter) in [
        ("POST", "/login", Some("login")),
        ("GET", "/login", Some("default")),
        ("POST", "/login/", Some("login")),
        ("POST", "//login", Some("login")),
        ("POST", "/%6cogin", Some("login")),
        ("GET", "/static/../login", Some("default")),
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
    let own = Chooser::one(named("default"))
        .on("HEAD", "/", named("head"))
        .and_then(|chooser| chooser.on("GET", "/", named("get")));
    let own = gate(own.unwrap());
    let both = ["HEAD", "GET"].map(|method| chosen(&own, method, "/").unwrap());
    assert_eq!(both, ["head", "get"]);
}

#[test]
fn the_plan_chooses_the_limiter_where_no_route_fits() {
    let plans = Chooser::plan(named("plan"), |plan, head| {
        let limited = head.path != "/free";
        async move { limited.then(|| Limiter::clone(&plan)) }
    });
    let plans = gate(plans.on("*", "/login", named("login")).unwrap());
    assert_eq!(chosen(&plans, "GET", "/login").as_deref(), Some("login"));
    assert_eq!(chosen(&plans, "GET", "/x").as_deref(), Some("plan"));
    assert_eq!(chosen(&plans, "GET", "/free"), None);
}

#[test]
fn a_rule_is_about_the_whole_path_the_nested_one_and_the_route() {
    let rules = |path: &str| {
        let chooser = Chooser::one(named("default")).unlimited("*", "/free").unwrap();
        gate(chooser.on("*", path, named("login")).unwrap())
    };
    let headers = AnyLines::default();
    let head = Head::new("GET", "/api/login", &headers).nested_path("/login");
    let head = head.route(Some("/api/{action}"));
    for path in ["/api/login", "/login", "/api/{action}", "/api/*", "/{*all}"] {
        assert_eq!(limiter_of(&rules(path), &head).as_deref(), Some("login"), "{path}");
    }
    assert_eq!(limiter_of(&rules("/action"), &head).as_deref(), Some("default"));
    let free = Head::new("GET", "/api/free", &headers).nested_path("/free");
    assert_eq!(limiter_of(&rules("/x"), &free), None);
    let other_spelling = Head::new("GET", "/api/./free", &headers).nested_path("/free");
    assert_eq!(limiter_of(&rules("/x"), &other_spelling).as_deref(), Some("default"));
}

#[test]
fn a_rule_that_no_request_can_reach_is_rejected() {
    let chooser = || Chooser::one(named("a")).unlimited("*", "/api/*").unwrap();
    let error = chooser().on("POST", "/api/login", named("b")).unwrap_err();
    let text = r#"rule "POST /api/login": the earlier rule "* /api/*" has all of its requests"#;
    assert_eq!(error.to_string(), text);
    assert!(chooser().on("POST", "login", named("b")).is_err());
    assert!(chooser().on("POST", "/login", named("b")).is_ok());
}

#[test]
fn limiters_and_policies_are_mixed() {
    let store = Memory::new();
    let chooser = Chooser::one(store.limiter("5/second; 100/minute").unwrap())
        .on("*", "/one", store.limiter("1/minute").unwrap())
        .unwrap();
    let gate = Gate::from_chooser(chooser).key(KeyBy::everyone());
    let headers = AnyLines::default();
    let allowed = |path: &str| {
        let deciding = gate.decide(&Head::new("GET", path, &headers), |_| ready(()));
        matches!(block_on(deciding.admission()), Admission::Admitted(_))
    };
    assert_eq!(["/one", "/one", "/", "/"].map(allowed), [true, false, true, true]);
}
