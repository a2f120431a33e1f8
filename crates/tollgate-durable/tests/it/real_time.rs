//! The store's answers after real time has passed. The subject is the real clock, so these tests
//! sleep. The whole process has one clock, and every reader keeps it up to date. So each idle time
//! has its own process, and all processes sleep at the same time.

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use tollgate::{Algorithm, Limit};
use tollgate_durable::Level;
use tollgate_testkit::block_on;

use crate::disk::Disk;

const IDLE_MILLIS: [u64; 5] = [500, 1_000, 2_500, 5_000, 10_000];

/// Tells a child how long to idle.
const VARIABLE: &str = "TOLLGATE_TEST_IDLE_MILLIS";

#[test]
fn the_store_is_exact_after_idle_time() {
    if let Ok(millis) = std::env::var(VARIABLE) {
        return idle(Duration::from_millis(millis.parse().unwrap()));
    }
    let start = |millis: &u64| -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "real_time::the_store_is_exact_after_idle_time", "--nocapture"]);
        command.env(VARIABLE, millis.to_string()).spawn().unwrap()
    };
    let children: Vec<_> = IDLE_MILLIS.iter().map(|millis| (millis, start(millis))).collect();
    for (millis, mut child) in children {
        assert!(child.wait().unwrap().success(), "after {millis} ms");
    }
}

#[expect(clippy::disallowed_methods, reason = "the subject is real time")]
fn idle(idle: Duration) {
    let disk = Disk::default();
    let interval = Duration::from_secs(3600);
    let store = disk.builder().level(Level::Reserve).interval(interval).open().unwrap();
    // Uses up a key. The long period outlasts the idle time, and more than two of the short periods
    // pass in it.
    let limiter = |algorithm, period| {
        let limiter = store.limiter(Limit::new(2, period).algorithm(algorithm)).unwrap();
        while block_on(limiter.hit("key")).unwrap().allowed() {}
        limiter
    };
    let begin = Instant::now();
    let long = Algorithm::PERIODIC.map(|algorithm| limiter(algorithm, idle * 4));
    let short = Algorithm::PERIODIC.map(|algorithm| limiter(algorithm, idle * 2 / 5));
    let peek = |limiter| {
        let limiter: &tollgate::shared::SharedLimiter<_> = limiter;
        let decision = block_on(limiter.peek("key")).unwrap();
        (decision.allowed(), decision.retry_after().unwrap().min(decision.reset_after()))
    };
    let before = long.each_ref().map(peek);
    let set_up = begin.elapsed();

    let begin = Instant::now();
    std::thread::sleep(idle);
    let after = long.each_ref().map(peek);
    let most = begin.elapsed() + set_up + Duration::from_millis(2);

    for ((algorithm, (_, announced)), (allowed, left)) in
        Algorithm::PERIODIC.iter().zip(before).zip(after)
    {
        if announced > most {
            assert!(!allowed, "{algorithm}: allowed after {most:?} of {announced:?}");
            assert!(left + most >= announced, "{algorithm}: {left:?} after {most:?}");
        } else if announced + Duration::from_millis(2) < idle {
            assert!(allowed, "{algorithm}: denied after {idle:?} of {announced:?}");
        }
        if !allowed {
            let least = idle.saturating_sub(Duration::from_millis(2));
            assert!(left + least <= announced, "{algorithm}: {left:?} after {idle:?}");
        }
    }
    for (algorithm, limiter) in Algorithm::PERIODIC.iter().zip(&short) {
        assert!(block_on(limiter.hit("key")).unwrap().allowed(), "{algorithm}: fresh, but denied");
    }
}
