//! The server's clock decides, also for clients whose clocks are wrong.

use std::time::Duration;

use tollgate::shared::{Guard, SharedLimiter};
use tollgate::{Algorithm, Clock, ManualClock, Source, SystemClock, Timestamp};
use tollgate_redis::Redis;

use crate::client::{LONG, connect, hears, limiter, run};
use crate::servers::Server;

const MINUTE: Duration = Duration::from_secs(60);

/// A client whose clock stands at that time.
async fn client(server: &Server, now: Timestamp) -> (Redis, ManualClock) {
    let clock = ManualClock::new(now);
    let guard = Guard::builder().deadline(LONG).denials_for(Duration::MAX).clock(clock.clone());
    (connect(server.url(), guard).await, clock)
}

async fn hit(limited: &SharedLimiter<Redis>) -> tollgate::Decision {
    limited.hit("key").await.unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn clients_a_minute_apart_share_one_limit_by_the_time_of_the_server() {
    run(async {
        let server = Server::start(&[]);
        let now = SystemClock::new().now();
        let (behind, _) = client(&server, before(now)).await;
        let (ahead, _) = client(&server, now + MINUTE).await;
        for algorithm in Algorithm::PERIODIC {
            // Windows of half an hour: an error of a minute would show in their edges.
            let text = format!("4/30 minutes {algorithm}");
            let (behind, ahead) = (limiter(&behind, &text), limiter(&ahead, &text));
            let mut passed = 0;
            for _ in 0..4 {
                let (one, other) = (hit(&behind).await, hit(&ahead).await);
                passed += u64::from(one.allowed()) + u64::from(other.allowed());
                for decision in [one, other].iter().filter(|hit| hit.source() == Source::Store) {
                    let apart = decision.now().since(now) + now.since(decision.now());
                    assert!(apart < MINUTE / 2, "{text}: decided {apart:?} from now");
                }
            }
            assert!(passed == 4 || algorithm == Algorithm::FixedWindow && passed <= 8, "{text}");
        }
    });
}

fn before(now: Timestamp) -> Timestamp {
    Timestamp::from_micros(now.as_micros() - 60_000_000)
}

#[test]
fn a_remembered_denial_ends_by_elapsed_time_not_by_the_clock() {
    run(async {
        let server = Server::start(&[]);
        let now = SystemClock::new().now();
        for start in [before(now), now, now + MINUTE] {
            let (store, clock) = client(&server, start).await;
            let limited = limiter(&store, "1/30 minutes fixed-window-per-key");
            hears(&store).await;
            let _ = limited.reset("key").await.unwrap();
            assert!(hit(&limited).await.allowed());
            assert_eq!(hit(&limited).await.source(), Source::Store);
            let remembered = hit(&limited).await;
            assert_eq!((remembered.allowed(), remembered.source()), (false, Source::DenialCache));
            clock.advance(29 * MINUTE);
            let remembered = hit(&limited).await;
            assert_eq!(remembered.source(), Source::DenialCache);
            assert!(remembered.retry_after().unwrap() <= MINUTE);
            // By the client's clock the denial has ended, so the server is asked, and denies.
            clock.advance(MINUTE);
            let asked = hit(&limited).await;
            assert_eq!((asked.allowed(), asked.source()), (false, Source::Store));
        }
    });
}
