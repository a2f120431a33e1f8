//! The parser alone: bytes mean the same in whatever pieces they arrive.

use proptest::collection::vec;
use proptest::prelude::*;
use tollgate_server::resp::{InputBounds, Parser, ProtocolError};

use super::client::command;

type Commands = Vec<Vec<Vec<u8>>>;

/// All commands of bytes that arrive in these pieces, and the error that ends them.
fn commands(pieces: &[&[u8]], limits: &InputBounds) -> (Commands, Option<ProtocolError>) {
    let (mut parser, mut there, mut commands) = (Parser::default(), Vec::new(), Vec::new());
    for piece in pieces {
        there.extend_from_slice(piece);
        loop {
            match parser.parse(&there, limits) {
                Ok(None) => break,
                Ok(Some(length)) => {
                    let words = parser.command(&there);
                    assert_eq!(words.iter().count(), words.len());
                    commands.push(words.iter().map(<[u8]>::to_vec).collect());
                    parser.next();
                    there.drain(..length);
                }
                Err(error) => return (commands, Some(error)),
            }
        }
    }
    (commands, None)
}

fn pieces<'a>(bytes: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    cuts.extend([0, bytes.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect()
}

fn word() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![vec(any::<u8>(), 0..20), Just(b"$1\r\n".to_vec()), Just(b"*1\r\n".to_vec())]
}

/// Random bytes that resemble the protocol.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        vec(any::<u8>(), 0..4),
        prop::sample::select(vec![
            &b"*"[..],
            b"$",
            b"\r\n",
            b"-1",
            b"0",
            b"1",
            b"3",
            b"99999999999999999999",
            b" ",
            b"\"",
            b"'",
            b"\\x",
            b"PING",
        ])
        .prop_map(<[u8]>::to_vec),
    ];
    vec(part, 0..30).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn commands_survive_a_round_trip(all in vec(vec(word(), 1..6), 0..8), cuts in vec(any::<prop::sample::Index>(), 0..20)) {
        let encode = |words: &Vec<Vec<u8>>| command(&words.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let bytes: Vec<u8> = all.iter().flat_map(encode).collect();
        prop_assert_eq!(commands(&pieces(&bytes, &cuts), &InputBounds::ADMITTED), (all, None));
    }

    #[test]
    fn commands_mean_the_same_in_any_pieces(bytes in noise(), cuts in vec(any::<prop::sample::Index>(), 0..30)) {
        let limits = InputBounds { argument: 40, arguments: 4, line: 60, command: 80 };
        let whole = commands(&[&bytes], &limits);
        let bytewise: Vec<&[u8]> = bytes.chunks(1).collect();
        prop_assert_eq!(&commands(&bytewise, &limits), &whole);
        prop_assert_eq!(&commands(&pieces(&bytes, &cuts), &limits), &whole);
    }
}

#[test]
fn errors_have_the_texts_of_redis() {
    let small = InputBounds { argument: 4, arguments: 2, line: 8, command: 20 };
    for (bytes, message) in [
        (&b"*x\r\n"[..], "invalid multibulk length"),
        (b"*3\r\n", "invalid multibulk length"),
        (b"*99999999999999999999\r\n", "invalid multibulk length"),
        (b"*1\r\n+OK\r\n", "expected '$', got '+'"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*1\r\n$5\r\n", "invalid bulk length"),
        (b"*1\r\n$x\r\n", "invalid bulk length"),
        (b"*1\r\n$1\r\nabc", "expected CRLF after a bulk"),
        (b"*2\r\n$4\r\nabcd\r\n$4\r\n", "too big request"),
        (b"123456789", "too big inline request"),
        (b"a b c\r\n", "invalid multibulk length"),
        (b"\"a\r\n", "unbalanced quotes in request"),
    ] {
        let (commands, error) = commands(&[bytes], &small);
        let error = error.map(|error| error.to_string());
        assert_eq!(error, Some(format!("Protocol error: {message}")), "{}", bytes.escape_ascii());
        assert!(commands.is_empty());
    }
}

#[test]
fn empty_commands_are_skipped() {
    let (commands, error) = commands(&[b"\r\n\n*0\r\n*-1\r\nPING\r\n"], &InputBounds::ADMITTED);
    assert_eq!(error, None);
    assert_eq!(commands.concat(), [b"PING"]);
}
