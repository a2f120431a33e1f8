//! Waits until a hit is allowed, on a thread and on any async runtime.
//!
//! ```text
//! cargo run --example waiting
//! ```
//!
//! The async part runs on a small executor whose clock jumps to the next timer, so that two seconds
//! take no time. With tokio you would pass `tokio::time::sleep` instead of `timers.sleep`.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tollgate::{Clock, Limiter, ManualClock, Memory, Store, Timestamp};

fn main() -> Result<(), tollgate::Error> {
    println!("a thread waits: one hit per millisecond");
    let limiter = Memory::new().limiter("1000/second burst=1")?;
    for turn in 1..=3 {
        let decision = limiter.wait_blocking("worker", 1, Duration::from_secs(5));
        println!("  turn {turn}: {}", if decision.allowed() { "admitted" } else { "refused" });
    }

    println!(
        "\nfour tasks wait for one key at 2/second, whose burst of 4 is used up: first come, first served"
    );
    let clock = ManualClock::new(Timestamp::from_micros(1_767_225_600_000_000));
    let timers = Timers { clock: clock.clone(), at: RefCell::default() };
    let limiter = Memory::builder().clock(clock).build().limiter("2/second burst=4")?;
    let _ = limiter.hit_n("queue", 4);
    let patient = Duration::from_secs(10);
    timers.run([
        task("first", &limiter, &timers, patient),
        task("second", &limiter, &timers, patient),
        task("hasty", &limiter, &timers, Duration::from_millis(1_200)),
        task("fourth", &limiter, &timers, patient),
    ]);

    println!("\na task that gives up is not charged: {} of 4 in use", limiter.usage("queue"));
    Ok(())
}

type Task<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

fn task<'a, S: Store>(
    name: &'a str,
    limiter: &'a Limiter<S>,
    timers: &'a Timers,
    timeout: Duration,
) -> Task<'a> {
    Box::pin(async move {
        let asked = timers.clock.now();
        let decision = limiter.wait("queue", 1, timeout, |span| timers.sleep(span)).await;
        let waited = timers.clock.now().since(asked);
        if decision.allowed() {
            println!("  {name:<7} admitted after {waited:?}");
        } else {
            println!(
                "  {name:<7} denied after {waited:?}, because its wait would be longer than {timeout:?}"
            );
        }
    })
}

/// Timers that use a manual clock.
struct Timers {
    clock: ManualClock,
    at: RefCell<Vec<Timestamp>>,
}

impl Timers {
    fn sleep(&self, span: Duration) -> impl Future<Output = ()> {
        let until = self.clock.now() + span;
        self.at.borrow_mut().push(until);
        poll_fn(move |_| if self.clock.now() >= until { Poll::Ready(()) } else { Poll::Pending })
    }

    /// Polls all tasks until each has ended. When no task can continue, sets the clock to the next
    /// timer.
    fn run<'a>(&self, tasks: impl IntoIterator<Item = Task<'a>>) {
        let mut tasks: Vec<Task<'a>> = tasks.into_iter().collect();
        let mut context = Context::from_waker(Waker::noop());
        while !tasks.is_empty() {
            let before = tasks.len();
            tasks.retain_mut(|task| task.as_mut().poll(&mut context).is_pending());
            if tasks.len() == before {
                let now = self.clock.now();
                let mut timers = self.at.borrow_mut();
                timers.retain(|at| *at > now);
                if let Some(next) = timers.iter().min() {
                    self.clock.set(*next);
                }
            }
        }
    }
}
