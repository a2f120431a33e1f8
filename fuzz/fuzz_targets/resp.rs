//! No bytes make the parser panic, and they mean the same in whatever pieces they arrive.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_server::resp::{InputBounds, Parser, ProtocolError};

type Commands = Vec<Vec<Vec<u8>>>;

fn commands<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Commands, Option<ProtocolError>) {
    // Small bounds, so that they are reached.
    let limits = InputBounds { argument: 64, arguments: 8, line: 80, command: 200 };
    let (mut parser, mut there, mut commands) = (Parser::default(), Vec::new(), Vec::new());
    for piece in pieces {
        there.extend_from_slice(piece);
        loop {
            match parser.parse(&there, &limits) {
                Ok(None) => break,
                Ok(Some(length)) => {
                    let command = parser.command(&there);
                    assert_eq!(command.iter().count(), command.len());
                    commands.push(command.iter().map(<[u8]>::to_vec).collect());
                    parser.next();
                    there.drain(..length);
                }
                Err(error) => return (commands, Some(error)),
            }
        }
    }
    (commands, None)
}

fuzz_target!(|bytes: &[u8]| {
    let whole = commands(std::iter::once(bytes));
    assert_eq!(commands(bytes.chunks(1)), whole);
    assert_eq!(commands(bytes.chunks(7)), whole);
});
