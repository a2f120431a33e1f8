//! Prints random sequences of calls with the expected answers, as JSON, for tests of clients in
//! other languages: `sequences SEED CASES`.

use std::io::Write as _;

fn main() -> std::io::Result<()> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse().unwrap_or(1));
    let (seed, cases) = (numbers.next().unwrap_or(1), numbers.next().unwrap_or(1));
    let json = tollgate_testkit::sequences_as_json(seed, cases as usize);
    std::io::stdout().write_all(json.as_bytes())
}
