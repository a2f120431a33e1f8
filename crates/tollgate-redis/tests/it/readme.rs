//! The table of README agrees with a real server.

use tollgate::Limit;
use tollgate_redis::Redis;

use crate::conformance::runtime;
use crate::server::Server;

const README: &str = include_str!("../../../../README.md");

#[test]
fn readme_says_which_algorithms_redis_holds() {
    let server = Server::start(&[]);
    let runtime = runtime();
    let store = runtime.block_on(Redis::connect(server.url())).unwrap_or_else(|e| panic!("{e}"));
    let cells = |row: &'static str| -> Vec<&'static str> {
        row.trim_matches('|').split('|').map(|cell| cell.trim_matches([' ', '`'])).collect()
    };
    let mut rows = README.lines().skip_while(|line| !line.starts_with("| algorithm")).map(cells);
    let header = rows.next().unwrap_or_default();
    let column = header.iter().position(|cell| *cell == "Redis").expect("a column of Redis");
    let mut seen = 0;
    for row in rows.skip(1).take_while(|row| row.len() == header.len()) {
        let algorithm = row[0].parse().unwrap_or_else(|e| panic!("{}: {e}", row[0]));
        let limit = Limit::per_minute(1).algorithm(algorithm);
        let limiter = store.limiter(limit).unwrap_or_else(|e| panic!("{}: {e}", row[0]));
        let limiter = limiter.deadline(crate::server::PATIENCE);
        let passes = || runtime.block_on(limiter.hit("key")).is_ok_and(|d| d.allowed());
        assert_eq!(if passes() && !passes() { "yes" } else { "no" }, row[column], "{}", row[0]);
        seen += 1;
    }
    assert_eq!(seen, tollgate::Algorithm::PERIODIC.len());
}
