//! The cost of a hit: the requests that etcd counts.

use std::io::{Read, Write};
use std::net::TcpStream;

use tollgate::{Algorithm, Source};

use crate::client::{admitted, limiter, patient, run};
use crate::servers::Member;

/// Requests so far: transactions, reads, leases granted.
fn requests(member: &Member) -> [u64; 3] {
    let mut stream = TcpStream::connect(("127.0.0.1", member.port)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    ["Txn", "Range", "LeaseGrant"].map(|method| {
        let of_it = format!("grpc_method=\"{method}\"");
        let handled =
            |line: &&str| line.starts_with("grpc_server_handled_total") && line.contains(&of_it);
        let count = |line: &str| line.rsplit(' ').next()?.parse::<u64>().ok();
        text.lines().filter(handled).filter_map(count).sum()
    })
}

fn since(member: &Member, before: [u64; 3]) -> [u64; 3] {
    let now = requests(member);
    std::array::from_fn(|index| now[index] - before[index])
}

#[test]
fn a_hit_is_one_transaction_whatever_the_algorithm() {
    run(async {
        let member = Member::start(&[]);
        let store = patient(member.url()).await;
        let warm = limiter(&store, "1/hour");
        assert_eq!(admitted(&warm, "first", 1).await, 1);
        for algorithm in Algorithm::PERIODIC {
            let limited = limiter(&store, &format!("100/365 days {algorithm}"));
            // The charge grants a lease of this length, so that the hits below need none.
            assert!(limited.charge("first", 50).await.is_ok());
            assert_eq!(admitted(&limited, "key", 1).await, 1);
            let before = requests(&member);
            assert_eq!(admitted(&limited, "key", 40).await, 40, "{algorithm}");
            let _ = limited.charge("key", 1).await.unwrap();
            let _ = limited.take("key", 1).await.unwrap();
            let [transactions, reads, leases] = since(&member, before);
            assert_eq!((transactions, reads), (42, 0), "{algorithm}");
            // The state of a bucket that fills lives longer: a new lease each time its life
            // doubles.
            assert!(leases <= 6, "{algorithm}: {leases} leases");
        }
    });
}

#[test]
fn new_keys_policies_and_keys_that_another_store_changed_take_few_trips() {
    run(async {
        let member = Member::start(&[]);
        let (one, two) = (patient(member.url()).await, patient(member.url()).await);
        let text = "100/365 days fixed-window-per-key";
        let (first, second) = (limiter(&one, text), limiter(&two, text));
        assert_eq!(admitted(&first, "first", 1).await + admitted(&second, "second", 1).await, 2);
        let before = requests(&member);
        assert_eq!(admitted(&first, "key", 1).await, 1);
        assert_eq!(since(&member, before), [1, 0, 0], "a new key");
        // The other process does not know the cell yet: it reads it first.
        assert_eq!(admitted(&second, "key", 1).await, 1);
        let [transactions, reads, _] = since(&member, before);
        assert!(transactions + reads <= 1 + 3, "a key of others: {transactions} and {reads}");
        let before = requests(&member);
        assert_eq!(admitted(&second, "key", 3).await, 3);
        assert_eq!(since(&member, before), [3, 0, 0]);

        let policy =
            one.limiter("9/365 days fixed-window-per-key; 8/365 days moving-window").unwrap();
        assert!(policy.hit("key").await.unwrap().allowed());
        let before = requests(&member);
        assert!(policy.hit("key").await.unwrap().allowed());
        assert_eq!(since(&member, before), [1, 0, 0], "a policy");
    });
}

#[test]
fn a_denial_is_read_once_and_then_remembered() {
    run(async {
        let member = Member::start(&[]);
        let store = patient(member.url()).await;
        let limited = limiter(&store, "3/365 days");
        assert_eq!(admitted(&limited, "key", 3).await, 3);
        let before = requests(&member);
        assert_eq!(limited.hit("key").await.unwrap().source(), Source::Store);
        assert_eq!(since(&member, before), [0, 1, 0]);
        for _ in 0..20 {
            assert_eq!(limited.hit("key").await.unwrap().source(), Source::DenialCache);
        }
        assert_eq!(since(&member, before), [0, 1, 0]);
    });
}

#[test]
fn callers_on_one_key_share_transactions() {
    run(async {
        let member = Member::start(&[]);
        let store = patient(member.url()).await;
        let limited = limiter(&store, "100000/365 days");
        assert_eq!(admitted(&limited, "key", 1).await, 1);
        let before = requests(&member);
        let callers = (0..64).map(|_| {
            let limited = limited.clone();
            tokio::spawn(async move { admitted(&limited, "key", 20).await })
        });
        let mut passed = 0;
        for caller in callers.collect::<Vec<_>>() {
            passed += caller.await.unwrap();
        }
        let [transactions, reads, leases] = since(&member, before);
        assert_eq!((passed, reads), (64 * 20, 0));
        assert!(transactions + leases <= 64 * 20 / 4, "{transactions} transactions");
        assert_eq!(limited.usage("key").await.unwrap(), 1 + 64 * 20);
    });
}
