//! Tests of the URLs.

use tollgate::Error;
use tollgate::shared::{AnyStore, SharedLimiter};

use super::{Opening, known};

fn opened(opening: Opening) -> Result<AnyStore, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(opening.open())
}

#[test]
fn an_unknown_scheme_gets_a_list_of_known_ones() {
    let error = opened(Opening::new("tape://a")).unwrap_err().to_string();
    assert!(
        error.starts_with("store \"tape\": unknown; known are memory:, atomic:, redis://"),
        "{error}"
    );
}

#[test]
fn a_store_that_is_not_compiled_in_names_its_feature() {
    for scheme in known().iter().filter(|scheme| !scheme.compiled) {
        let error = opened(Opening::new(scheme.example)).unwrap_err().to_string();
        assert!(error.contains(&format!("feature {:?}", scheme.feature.unwrap())), "{error}");
    }
}

#[test]
fn every_compiled_store_opens_before_its_server_answers() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    for scheme in known().iter().filter(|scheme| scheme.compiled) {
        let dir = std::env::temp_dir().join(format!("tollgate-stores-{}", std::process::id()));
        let url = match scheme.name {
            "durable" => format!("durable:{}", dir.display()),
            "memory" | "atomic" => scheme.example.to_owned(),
            _ => format!("{}://127.0.0.1:1/", scheme.schemes[0]),
        };
        let store = runtime.block_on(Opening::new(url).lazily().open());
        let store = store.unwrap_or_else(|error| panic!("{scheme:?}: {error}"));
        let limiter = SharedLimiter::new(&store, "", "1/hour").unwrap();
        let answered = runtime.block_on(limiter.hit("a")).is_ok();
        let here = matches!(scheme.name, "memory" | "atomic" | "durable");
        assert_eq!(answered, here, "{scheme:?}");
        drop((limiter, store));
        let _ = std::fs::remove_file(&dir);
    }
}

#[test]
fn a_store_in_process_takes_no_address() {
    let error = opened(Opening::new("memory:somewhere")).unwrap_err().to_string();
    assert!(error.contains("nothing may follow"), "{error}");
}

#[cfg(feature = "cluster")]
#[test]
fn any_store_can_be_leased_from() {
    let store = opened(Opening::new("leased+memory:?lease.nodes=2")).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let limiter = SharedLimiter::new(&store, "", "100/hour fixed-window").unwrap();
    runtime.block_on(async {
        for _ in 0..100 {
            assert!(limiter.hit("a").await.unwrap().allowed());
        }
        assert!(!limiter.hit("a").await.unwrap().allowed());
    });
    let refused = SharedLimiter::new(&store, "", "100/hour elastic-window").unwrap_err();
    assert_eq!(refused.kind(), tollgate::ErrorKind::Unsupported);
}

#[cfg(feature = "redis")]
#[test]
fn settings_of_the_guard_are_read_from_the_url() {
    let at = |query: &str| opened(Opening::new(format!("redis://127.0.0.1:1/{query}")).lazily());
    assert!(at("?guard.charge_local=false").is_ok());
    for (query, message) in [
        ("?guard.charge_local=no", "guard.charge_local \"no\": must be one of true, false"),
        ("?guard.deadline=1s", "guard.deadline: unknown; known are guard.charge_local"),
    ] {
        let error = at(query).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}
