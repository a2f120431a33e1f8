//! Shows how a limiter treats five clients with different behaviour, for six seconds and with one
//! limit.
//!
//! ```text
//! cargo run --release --example traffic
//! cargo run --release --example traffic -- "5/second moving-window"
//! ```
//!
//! The time is simulated: the program moves the clock. So the six seconds take no time, and every
//! run prints the same.

use std::process::ExitCode;
use std::time::Duration;

use tollgate::{Clock, Decision, Limiter, ManualClock, Memory, Store, Timestamp};

/// 2026-01-01T00:00:00Z, a whole second, at which windows of the clock start.
const START: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);
/// The time that one character of the timeline represents.
const TICK: Duration = Duration::from_millis(100);
const TICKS: u32 = 60;

/// The times and costs of a client's hits.
enum Habit {
    /// One hit every `ticks` ticks.
    Every { ticks: u32, cost: u64 },
    /// Several hits at these ticks.
    Bursts { hits: u32, at: &'static [u32] },
    /// Hits as fast as allowed. After each answer the client computes when the next hit will pass,
    /// and sends it at that time.
    Obedient { back_at: Timestamp },
}

struct Client {
    name: &'static str,
    about: &'static str,
    habit: Habit,
    /// The answers in each tick.
    got: Vec<Got>,
    /// The longest wait in an answer. `None` if an answer said that the hit can never pass.
    longest_wait: Option<Duration>,
}

#[derive(Clone, Copy, Default)]
struct Got {
    admitted: u32,
    refused: u32,
}

impl Client {
    fn new(name: &'static str, about: &'static str, habit: Habit) -> Client {
        Client { name, about, habit, got: Vec::new(), longest_wait: Some(Duration::ZERO) }
    }

    /// Returns the number of hits in a tick, and their cost.
    fn demand(&self, tick: u32, now: Timestamp) -> (u32, u64) {
        match self.habit {
            Habit::Every { ticks, cost } => (u32::from(tick.is_multiple_of(ticks)), cost),
            Habit::Bursts { hits, at } => (if at.contains(&tick) { hits } else { 0 }, 1),
            Habit::Obedient { back_at } => (u32::from(now >= back_at), 1),
        }
    }

    fn note(&mut self, decision: &Decision) {
        let Some(got) = self.got.last_mut() else { return };
        if decision.allowed() {
            got.admitted += 1;
            return;
        }
        got.refused += 1;
        let waits = self.longest_wait.zip(decision.retry_after());
        self.longest_wait = waits.map(|(longest, wait)| longest.max(wait));
    }

    fn timeline(&self) -> String {
        let mark = |got: &Got| match (got.admitted, got.refused) {
            (0, 0) => '·',
            (_, 0) => '█',
            (0, _) => '×',
            _ => '▒',
        };
        self.got.iter().map(mark).collect()
    }
}

fn clients() -> [Client; 5] {
    let at_once = Habit::Bursts { hits: 15, at: &[10, 40] };
    [
        Client::new("steady", "3 or 4 a second", Habit::Every { ticks: 3, cost: 1 }),
        Client::new("bursts", "15 at once, twice", at_once),
        Client::new("heavy", "cost 6, every second", Habit::Every { ticks: 10, cost: 6 }),
        Client::new("greedy", "10 a second", Habit::Every { ticks: 1, cost: 1 }),
        Client::new("obedient", "retries as told", Habit::Obedient { back_at: START }),
    ]
}

fn main() -> ExitCode {
    let limit = std::env::args().nth(1).unwrap_or_else(|| "5/second burst=10".to_owned());
    match run(&limit) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{limit}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(limit: &str) -> Result<(), tollgate::Error> {
    let clock = ManualClock::new(START);
    let limiter = Memory::builder().clock(clock.clone()).build().limiter(limit)?;

    println!("the limit of each client is {}: six seconds of traffic\n", limiter.limits()[0]);
    let mut clients = clients();
    let mut closer_look = Vec::new();
    for tick in 0..TICKS {
        for client in &mut clients {
            let (hits, cost) = client.demand(tick, clock.now());
            client.got.push(Got::default());
            for hit in 1..=hits {
                let decision = limiter.hit_n(client.name, cost);
                client.note(&decision);
                if let Habit::Obedient { back_at } = &mut client.habit {
                    let next = limiter.peek(client.name);
                    *back_at = next.now() + next.retry_after().unwrap_or(Duration::MAX);
                }
                if matches!(client.habit, Habit::Bursts { at, .. } if at[0] == tick) {
                    closer_look.push((hit, decision));
                }
            }
        }
        clock.advance(TICK);
    }

    show_timeline(&clients);
    show_sums(&clients, &limiter);
    show_closer_look(&closer_look);
    Ok(())
}

fn show_timeline(clients: &[Client]) {
    let seconds: String = (0..TICKS / 10).map(|second| format!("{second:<10}")).collect();
    println!("{:<10}{}", "second", seconds.trim_end());
    for client in clients {
        println!("{:<10}{}  {}", client.name, client.timeline(), client.about);
    }
    println!("{:<10}█ admitted   ▒ some of them   × refused   · silent\n", "");
}

fn show_sums<S: Store>(clients: &[Client], limiter: &Limiter<S>) {
    println!(
        "{:<10}{:>8}{:>10}{:>9}{:>15}{:>10}",
        "", "hits", "admitted", "refused", "longest wait", "left now"
    );
    for client in clients {
        let admitted: u32 = client.got.iter().map(|got| got.admitted).sum();
        let refused: u32 = client.got.iter().map(|got| got.refused).sum();
        println!(
            "{:<10}{:>8}{admitted:>10}{refused:>9}{:>15}{:>10}",
            client.name,
            admitted + refused,
            match client.longest_wait {
                Some(Duration::ZERO) => "-".to_owned(),
                Some(wait) => format!("{wait:?}"),
                None => "never".to_owned(),
            },
            limiter.peek(client.name).remaining(),
        );
    }
}

/// Prints a part of a burst as the client sees it: the first hit, the last two that passed and the
/// first two that were denied.
fn show_closer_look(hits: &[(u32, Decision)]) {
    println!("\nthe first burst, hit by hit: every answer contains these figures");
    let passed = hits.iter().filter(|(_, decision)| decision.allowed()).count();
    for (index, (hit, decision)) in hits.iter().enumerate() {
        if index > 0 && (index + 1 < passed || index > passed + 1) {
            continue;
        }
        let verdict = match decision.retry_after() {
            _ if decision.allowed() => "admitted".to_owned(),
            Some(wait) => format!("refused, would pass in {wait:?}"),
            None => "refused, could never pass".to_owned(),
        };
        let (used, limit) = (decision.used(), decision.limit());
        let (left, fresh) = (decision.remaining(), decision.reset_after());
        println!(
            "  hit {hit:>2}  {used:>2} of {limit} used, {left} left, fresh in {fresh:?}: {verdict}"
        );
    }
}
