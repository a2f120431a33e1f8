//! Reports as people and programs read them.

use tollgate_simulate::{Group, Report, Simulation};

fn report() -> Report {
    let group = |load: &str| Group { load: load.parse().unwrap(), clients: 3, ..Group::default() };
    let groups = vec![group("constant 2/second"), group("poisson 3/second")];
    let simulation = Simulation { groups, ..Simulation::default() };
    let outcome = |limit: &str| simulation.run(&limit.parse().unwrap(), |_| {}).unwrap();
    let outcomes = vec![outcome("1/second"), outcome("10/second fixed-window")];
    Report { simulation, outcomes }
}

#[test]
fn text_has_the_traffic_the_figures_and_a_chart() {
    let text = report().to_text();
    for part in [
        "3 clients: poisson 3/second each, retry none",
        "10 minutes, a key for each client, seed 1",
        "fairness     0.979",
        "of group     constant 2/second: admitted",
        "# allowed, x denied",
        "Side by side",
    ] {
        assert!(text.contains(part), "{part:?} is missing:\n{text}");
    }
}

#[test]
fn json_has_the_same_figures() {
    let report = report();
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    let (first, outcome) = (&json["limits"][0], &report.outcomes[0]);
    assert_eq!(first["admitted"], outcome.admitted);
    assert_eq!(first["denied_attempts"], outcome.denied);
    assert_eq!(first["admitted_per_client"].as_array().map(Vec::len), Some(6));
    assert_eq!(json["groups"][1]["load"], "poisson 3/second");
}

#[test]
fn pictures_load_nothing() {
    let report = report();
    let (svg, html) = (report.to_svg(), report.to_html());
    assert!(svg.contains("requests, ") && html.contains("<svg"));
    for forbidden in ["<script", "https://", "src=", "url(", "@import", "href"] {
        assert!(!svg.contains(forbidden) && !html.contains(forbidden), "{forbidden}");
    }
}
