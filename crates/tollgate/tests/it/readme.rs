//! Tests that the table in README states correctly which limits each store supports.

use tollgate::{Algorithm, Atomic, Direct, Limit, Memory, Store};

const README: &str = include_str!("../../../../README.md");

/// Returns the cells of a row of a Markdown table, without the blanks and backticks around them.
fn cells(row: &str) -> Vec<&str> {
    let inner = row.trim().trim_matches('|');
    inner.split('|').map(|cell| cell.trim_matches([' ', '`'])).collect()
}

/// Returns the columns of the three stores in the table whose header names all of them, and the
/// rows.
fn table() -> ([usize; 3], Vec<Vec<&'static str>>) {
    const STORES: [&str; 3] = ["Memory", "Atomic", "Direct"];
    let mut lines = README.lines().skip_while(|line| {
        let header = cells(line);
        !STORES.iter().all(|store| header.contains(store))
    });
    let header = cells(lines.next().expect("README has no table of algorithms and stores"));
    let column = |store: &str| {
        header.iter().position(|cell| *cell == store).expect("a column of this store")
    };
    let rows = lines.skip(1).take_while(|line| line.starts_with('|')).map(cells).collect();
    (STORES.map(column), rows)
}

#[test]
fn readme_lists_every_algorithm_once_and_in_order() {
    let (_, rows) = table();
    let listed: Vec<Algorithm> = rows.iter().map(|row| row[0].parse().unwrap()).collect();
    assert_eq!(listed, Algorithm::ALL);
}

#[test]
fn readme_states_correctly_which_store_supports_which_algorithm() {
    let (columns, rows) = table();
    for row in rows {
        let algorithm: Algorithm = row[0].parse().unwrap();
        let hour = std::time::Duration::from_secs(3600);
        let limit = match algorithm {
            Algorithm::Concurrent => Limit::concurrent(10),
            Algorithm::Budget => Limit::total(10).name("budget"),
            Algorithm::Ban => Limit::ban(10, hour, hour),
            _ => Limit::per_day(10).algorithm(algorithm),
        };
        let limit = limit.build().unwrap();
        let held = [
            Memory::new().prepare("", &limit).is_ok(),
            Atomic::new().prepare("", &limit).is_ok(),
            Direct::new(limit).is_ok(),
        ];
        let stated = columns.map(|column| match row[column] {
            "yes" => true,
            "no" => false,
            other => panic!("{}: a cell is yes or no, not {other:?}", row[0]),
        });
        assert_eq!(stated, held, "{}: [Memory, Atomic, Direct]", row[0]);
    }
}
