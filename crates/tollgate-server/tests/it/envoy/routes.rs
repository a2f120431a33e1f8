//! The routes of the guide with a running server. One Envoy for all tests, because it starts
//! slowly.

use super::*;

#[test]
fn every_route_of_the_guide_is_limited_as_it_says() {
    if skipped("every_route_of_the_guide_is_limited_as_it_says") {
        return;
    }
    let edge = Edge::start();
    each_client_has_its_limit_and_gets_headers(&edge);
    several_descriptors_are_decided_together(&edge);
    large_and_odd_values_are_limited_too(&edge);
    a_descriptor_costs_what_it_says_and_a_part_comes_back_at_the_end(&edge);
    a_cost_known_at_the_end_counts_for_the_next_request(&edge);
    a_limit_may_come_with_the_request(&edge);
    a_shadow_and_what_has_no_rule_pass(&edge);
}

fn each_client_has_its_limit_and_gets_headers(edge: &Edge) {
    let first = edge.get("/");
    assert_eq!(first.status(), 200);
    assert_eq!(first.header("ratelimit-policy"), Some("\"client\";q=60;w=60"), "{first:?}");
    assert!(first.header("ratelimit").unwrap().starts_with("\"client\";r=59;t="), "{first:?}");
    assert_eq!(first.header("x-ratelimit-limit"), Some("60, 60;w=60;name=\"client\""));
    assert_eq!(first.header("x-ratelimit-remaining"), Some("59"));
    assert_eq!(first.header("retry-after"), None);
}

fn several_descriptors_are_decided_together(edge: &Edge) {
    let search = |key: &str| edge.curl("/search", &["-H", &format!("x-api-key: {key}")]);
    for left in ["4", "3", "2", "1", "0"] {
        let answer = search("alice");
        assert_eq!((answer.status(), answer.header("x-ratelimit-remaining")), (200, Some(left)));
    }
    let refused = search("alice");
    assert_eq!(refused.status(), 429, "{refused:?}");
    assert_eq!(refused.header("x-envoy-ratelimited"), Some("true"));
    assert!(refused.header("ratelimit").unwrap().starts_with("\"search\";r=0;t="), "{refused:?}");
    let seconds: u32 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=3_600).contains(&seconds), "{refused:?}");
    assert_eq!(search("bob").status(), 200, "another key");
}

/// This Envoy lets requests pass on which tollgate does not decide.
fn large_and_odd_values_are_limited_too(edge: &Edge) {
    let file = edge.tollgate.dir().join("header");
    let header = format!("@{}", file.display());
    for value in [vec![b'x'; 33_000], vec![b'y'; 50_000], b"\xff\xfe".to_vec()] {
        std::fs::write(&file, [b"x-api-key: ", &value[..]].concat()).unwrap();
        let status = || edge.curl("/search", &["-H", &header]).status();
        let statuses: Vec<_> = (0..6).map(|_| status()).collect();
        assert_eq!(statuses, [200, 200, 200, 200, 200, 429], "{:?}", &value[..2]);
    }
    // An Envoy that traces passes trace headers of clients on to tollgate.
    std::fs::write(&file, format!("x-api-key: alice\nbaggage: {}", "x".repeat(50_000))).unwrap();
    assert_eq!(edge.curl("/search", &["-H", &header]).status(), 429);
}

fn a_descriptor_costs_what_it_says_and_a_part_comes_back_at_the_end(edge: &Edge) {
    // 20 units; each request takes 5 and gives 2 back when its response is complete. The second
    // call to tollgate comes after curl has ended.
    let mut left = 20;
    while left >= 5 {
        let answer = edge.get("/export");
        assert_eq!(answer.status(), 200, "{left} left");
        let told: i32 = answer.header("x-ratelimit-remaining").unwrap().parse().unwrap();
        assert_eq!(told, left - 5);
        left -= 3;
        eventually("the refund is made", || {
            let peek = edge.get("/export/left");
            peek.header("x-ratelimit-remaining") == Some(&left.to_string())
        });
    }
    assert_eq!(edge.get("/export").status(), 429);
}

fn a_cost_known_at_the_end_counts_for_the_next_request(edge: &Edge) {
    // 250 bytes, and each response has 100. After the third response the limit is exceeded.
    // Responses are charged at their end, so a fourth may pass before that.
    let first = edge.get("/download");
    assert_eq!(
        (first.status(), first.header("x-ratelimit-remaining")),
        (200, Some("250")),
        "a look costs nothing"
    );
    let mut passed = 1;
    eventually("all bytes are used", || {
        let passes = edge.get("/download").status() == 200;
        passed += u32::from(passes);
        !passes
    });
    assert!((3..=4).contains(&passed), "{passed} passed");
}

fn a_limit_may_come_with_the_request(edge: &Edge) {
    assert_eq!(edge.statuses("/plan", 5), [200, 200, 200, 429, 429]);
    let refused = edge.get("/plan");
    assert_eq!(refused.header("x-ratelimit-limit"), Some("3, 3;w=3600;name=\"override\""));
}

fn a_shadow_and_what_has_no_rule_pass(edge: &Edge) {
    assert_eq!(edge.statuses("/beta", 3), [200; 3]);
    assert_eq!(edge.statuses("/free", 3), [200; 3]);
    let closed = edge.get("/closed");
    assert_eq!((closed.status(), closed.header("retry-after")), (429, Some("3600")));
}
