//! Keys with other values than states.

use tollgate::shared::hit_all_shared;
use tollgate::{Algorithm, Error, ErrorKind};

use crate::client::{LONG, Rules, admitted, hasty, key_of, limiter, patient, run, stats};
use crate::servers::Server;

fn is_of_the_value<T: std::fmt::Debug>(result: Result<T, Error>) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Store, "{error}");
    assert!(!error.is_transient(), "{error}");
}

/// Replaces the value of a subject's key by one that is not valid for that algorithm.
type Spoil = fn(&Server, &str, Algorithm);

fn wrong_type(server: &Server, key: &str, algorithm: Algorithm) {
    if algorithm == Algorithm::MovingWindow {
        server.ok(&["SET", key, "text"]);
    } else {
        server.cli(&["RPUSH", key, "1", "2", "3"]);
    }
}

fn no_state(server: &Server, key: &str, algorithm: Algorithm) {
    if algorithm == Algorithm::MovingWindow {
        server.cli(&["RPUSH", key, "what", "is", "this"]);
    } else {
        server.ok(&["SET", key, "what is this"]);
    }
}

#[test]
fn a_key_that_holds_no_state_is_an_error_of_the_store_and_stays_as_it_is() {
    run(async {
        let server = Server::start(&[]);
        let store = patient(server.url()).await;
        for (name, spoil) in [("type", wrong_type as Spoil), ("value", no_state)] {
            for algorithm in Algorithm::PERIODIC {
                let text = format!("5/365 days {algorithm}");
                let (limited, key) = (limiter(&store, &text), key_of(&store, &text, name));
                spoil(&server, &key, algorithm);
                let dump = server.cli(&["DUMP", &key]);
                is_of_the_value(limited.hit(name).await);
                is_of_the_value(limited.peek(name).await);
                is_of_the_value(limited.take(name, 2).await);
                is_of_the_value(limited.charge(name, 2).await);
                is_of_the_value(limited.refund_n(name, 2).await);
                is_of_the_value(limited.set(name, 2).await);
                assert_eq!(server.cli(&["DUMP", &key]), dump, "{text}");
                // Other keys are not affected.
                assert_eq!(admitted(&limited, "other", 1).await, 1);
                assert!(limited.reset("other").await.unwrap());
            }
        }
    });
}

#[test]
fn a_reset_removes_a_foreign_value() {
    run(async {
        let server = Server::start(&[]);
        let store = patient(server.url()).await;
        for (name, spoil) in [("type", wrong_type as Spoil), ("value", no_state)] {
            for algorithm in Algorithm::PERIODIC {
                let text = format!("5/365 days {algorithm}");
                let limited = limiter(&store, &text);
                spoil(&server, &key_of(&store, &text, name), algorithm);
                is_of_the_value(limited.hit(name).await);
                assert!(limited.reset(name).await.unwrap(), "{text}");
                assert_eq!(limited.usage(name).await.unwrap(), 0, "{text}");
                assert!(!limited.reset(name).await.unwrap(), "{text}");
            }
        }
        // A reset of the policy resets the other limits too.
        let policy = store.limiter("5/365 days; 6/365 days").unwrap();
        assert!(policy.hit("both").await.unwrap().allowed());
        server.ok(&["SET", &key_of(&store, "6/365 days", "both"), "what is this"]);
        assert!(policy.reset("both").await.unwrap());
        assert_eq!(limiter(&store, "5/365 days").usage("both").await.unwrap(), 0);
        assert_eq!(limiter(&store, "6/365 days").usage("both").await.unwrap(), 0);
    });
}

#[test]
fn a_value_that_resembles_a_state_is_an_error() {
    run(async {
        let server = Server::start(&[]);
        let store = patient(server.url()).await;
        let nearly =
            ["", "1", "1 2 3 4", "-1 2 3", "1.5 2 3", "1 2 3 ", " 1 2 3", "1e3 2 3", "nan inf 0"];
        for algorithm in Algorithm::PERIODIC {
            let text = format!("5/365 days {algorithm}");
            let (limited, key) = (limiter(&store, &text), key_of(&store, &text, "key"));
            for value in nearly {
                // A single number is a valid state of GCRA.
                if algorithm == Algorithm::Gcra && value == "1" {
                    continue;
                }
                server.ok(&["SET", &key, value]);
                is_of_the_value(limited.hit("key").await);
            }
        }
    });
}

#[test]
fn a_group_with_an_invalid_key_charges_no_other_key() {
    run(async {
        let server = Server::start(&[]);
        let store = patient(server.url()).await;
        for algorithm in Algorithm::PERIODIC {
            let texts: [String; 3] =
                std::array::from_fn(|n| format!("{}/365 days {algorithm}", n + 5));
            let policy = store.limiter(&texts.join("; ")[..]).unwrap();
            let limits = texts.each_ref().map(|text| limiter(&store, text));
            for spoiled in 0..3 {
                let subject = format!("{algorithm}{spoiled}");
                wrong_type(&server, &key_of(&store, &texts[spoiled], &subject), algorithm);
                is_of_the_value(policy.hit(&subject).await);
                let items = limits.each_ref().map(|limited| limited.item(&subject, 1));
                is_of_the_value(hit_all_shared(&items, None).await);
                for limited in limits.iter().enumerate().filter(|(n, _)| *n != spoiled) {
                    assert_eq!(limited.1.usage(&subject).await.unwrap(), 0, "{}", texts[limited.0]);
                }
                // Independent hits in one call: some may have been charged, none twice.
                let keys = ["x", &subject, "y"];
                is_of_the_value(limits[spoiled].hit_each(&keys).await);
                for key in ["x", "y"] {
                    assert!(limits[spoiled].usage(key).await.unwrap() <= 1);
                }
                let _ = limits[spoiled].reset("x").await.unwrap();
                let _ = limits[spoiled].reset("y").await.unwrap();
            }
        }
    });
}

#[test]
fn invalid_keys_follow_the_rule_of_the_limiter_and_open_no_breaker() {
    run(async {
        let server = Server::start(&[]);
        let store = hasty(server.url()).await;
        let rules = Rules::on(&store);
        let text = rules.error.limits()[0].to_string();
        wrong_type(&server, &key_of(&store, &text, "spoiled"), Algorithm::Gcra);
        rules.hold_without_the_store("spoiled").await;
        for _ in 0..50 {
            is_of_the_value(rules.error.within(LONG).hit("spoiled").await);
        }
        assert_eq!((stats(&store).opened, stats(&store).skipped), (0, 0), "{:?}", stats(&store));
        assert!(stats(&store).refused >= 50);
        assert_eq!(admitted(&rules.error, "well", 10).await, 8);
    });
}
