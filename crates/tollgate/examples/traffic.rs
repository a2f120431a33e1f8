//! A limiter at work: five clients with different habits, ten seconds, one limit.
//!
//! ```text
//! cargo run --release --example traffic
//! cargo run --release --example traffic -- "5/second moving-window"
//! ```
//!
//! The time is simulated: the clock is moved by hand, so the ten seconds are over at once and every run prints the same.

use std::time::Duration;

use tollgate::{Clock, Decision, Limiter, ManualClock, Memory, Store, Timestamp};

/// 2026-01-01T00:00:00Z: the windows of the clock start on whole seconds.
const START: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);
const TICK: Duration = Duration::from_millis(50);
const TICKS: u32 = 200;
/// One character of the timeline is a quarter of a second.
const TICKS_PER_CELL: u32 = 5;

/// When a client comes, and with what.
enum Habit {
    /// One hit every so many ticks.
    Every { ticks: u32, cost: u64 },
    /// So many hits at once at these ticks.
    Bursts { hits: u32, at: &'static [u32] },
    /// As fast as it may: after a refusal it stays away for as long as it was told.
    Obedient { back_at: Timestamp },
}

struct Client {
    name: &'static str,
    about: &'static str,
    habit: Habit,
    cells: Vec<Cell>,
    longest_wait: Duration,
}

#[derive(Clone, Copy, Default)]
struct Cell {
    admitted: u32,
    refused: u32,
}

impl Client {
    fn new(name: &'static str, about: &'static str, habit: Habit) -> Client {
        let cells = vec![Cell::default(); (TICKS / TICKS_PER_CELL) as usize];
        Client { name, about, habit, cells, longest_wait: Duration::ZERO }
    }

    /// What it asks for at this tick: how many hits, and of which cost.
    fn demand(&self, tick: u32, now: Timestamp) -> (u32, u64) {
        match self.habit {
            Habit::Every { ticks, cost } => (u32::from(tick.is_multiple_of(ticks)), cost),
            Habit::Bursts { hits, at } => (if at.contains(&tick) { hits } else { 0 }, 1),
            Habit::Obedient { back_at } => (u32::from(now >= back_at), 1),
        }
    }

    fn note(&mut self, tick: u32, decision: &Decision) {
        let cell = &mut self.cells[(tick / TICKS_PER_CELL) as usize];
        if decision.allowed() {
            cell.admitted += 1;
            return;
        }
        cell.refused += 1;
        if let Some(wait) = decision.retry_after() {
            self.longest_wait = self.longest_wait.max(wait);
            if let Habit::Obedient { back_at } = &mut self.habit {
                *back_at = decision.now() + wait;
            }
        }
    }

    fn timeline(&self) -> String {
        let mark = |cell: &Cell| match (cell.admitted, cell.refused) {
            (0, 0) => '·',
            (_, 0) => '█',
            (0, _) => '×',
            _ => '▒',
        };
        self.cells.iter().map(mark).collect()
    }
}

fn clients() -> [Client; 5] {
    let at_once = Habit::Bursts { hits: 15, at: &[20, 120] };
    [
        Client::new("steady", "4 a second", Habit::Every { ticks: 5, cost: 1 }),
        Client::new("bursts", "15 at once, twice", at_once),
        Client::new("heavy", "cost 4, every second", Habit::Every { ticks: 20, cost: 4 }),
        Client::new("greedy", "20 a second", Habit::Every { ticks: 1, cost: 1 }),
        Client::new("obedient", "waits as told", Habit::Obedient { back_at: START }),
    ]
}

fn main() -> Result<(), tollgate::Error> {
    let text = std::env::args().nth(1).unwrap_or_else(|| "5/second burst=10".to_owned());
    let clock = ManualClock::new(START);
    let limiter = Memory::builder().clock(clock.clone()).build().limiter(&*text)?;

    println!("each client may do {}; ten seconds of traffic\n", limiter.limit());
    let mut clients = clients();
    let mut closer_look = Vec::new();
    for tick in 0..TICKS {
        for client in &mut clients {
            let (hits, cost) = client.demand(tick, clock.now());
            for hit in 1..=hits {
                let decision = limiter.hit_n(client.name, cost);
                client.note(tick, &decision);
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
    println!("{:<10}0s      2s      4s      6s      8s      10s", "");
    for client in clients {
        println!("{:<10}{}  {}", client.name, client.timeline(), client.about);
    }
    println!("{:<10}█ admitted   ▒ some of them   × refused   · silent\n", "");
}

fn show_sums<S: Store>(clients: &[Client], limiter: &Limiter<S>) {
    println!(
        "{:<10}{:>8}{:>10}{:>9}{:>15}{:>10}",
        "", "asked", "admitted", "refused", "longest wait", "left now"
    );
    for client in clients {
        let admitted: u32 = client.cells.iter().map(|cell| cell.admitted).sum();
        let refused: u32 = client.cells.iter().map(|cell| cell.refused).sum();
        println!(
            "{:<10}{:>8}{admitted:>10}{refused:>9}{:>15}{:>10}",
            client.name,
            admitted + refused,
            format!("{:?}", client.longest_wait),
            limiter.peek(client.name).remaining(),
        );
    }
}

/// One burst as the client sees it: the last hit that passed and the first two that did not.
fn show_closer_look(hits: &[(u32, Decision)]) {
    println!("\nthe first burst, hit by hit: every answer tells all of this");
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
        println!("  hit {hit:>2}  {used:>2} of {limit} used, {left} left, as new in {fresh:?}: {verdict}");
    }
}
