//! The script: one for every algorithm and every operation. It begins with a shorter way for hits on
//! the most common limits.

use std::sync::OnceLock;

use redis::{Arg, Cmd};

/// The source, joined from one file for each algorithm.
///
/// Each call of a script creates the functions of the script again, which takes time. So the
/// algorithms are branches of one function, and helpers that only some algorithms need come after
/// the branches of those that do not need them: a call creates only what its algorithm needs.
///
/// The function returns the machine of a key, which is a function too. The first argument of the
/// machine says what it does:
///
/// - `load` reads the state; `save` writes it if it has changed
/// - `fits`, cost: whether the cost fits now
/// - `charge`, units: charges, whether or not they fit
/// - `denied`, cost: changes the state as a denied attempt does, and returns the units that this
///   charges, if any
/// - `attempt`: changes the state as an attempt of cost 0 does
/// - `take`, cost: how much of the cost fits
/// - `refund`, units, time, mark: gives back what was charged then; without time and mark, now
/// - `set`, units: makes the state that these units would leave if they had just been charged to a
///   fresh key
/// - `fresh`: whether nothing is left of what was charged
/// - `state`, refused cost: three numbers for the reply, or nothing
///
/// The machine of a ban sets `watches`: the number of keys before its own whose refusals it counts.
const TEXT: &str = concat!(
    include_str!("../lua/start.lua"),
    include_str!("../lua/hits.lua"),
    include_str!("../lua/prelude.lua"),
    "local function machine(algorithm, key, op)\nlocal from = cursor\n",
    include_str!("../lua/gcra.lua"),
    include_str!("../lua/moving_window.lua"),
    include_str!("../lua/text.lua"),
    include_str!("../lua/fixed_window.lua"),
    include_str!("../lua/fixed_window_per_key.lua"),
    include_str!("../lua/elastic_window.lua"),
    include_str!("../lua/calendar_window.lua"),
    include_str!("../lua/budget.lua"),
    include_str!("../lua/ban.lua"),
    include_str!("../lua/muldiv.lua"),
    include_str!("../lua/sliding_window.lua"),
    include_str!("../lua/level.lua"),
    "end\n",
    include_str!("../lua/main.lua"),
);

/// The SHA-1 of the script, by which `EVALSHA` names it.
pub(crate) fn hash() -> &'static str {
    static HASH: OnceLock<String> = OnceLock::new();
    HASH.get_or_init(|| redis::Script::new(TEXT).get_hash().to_owned())
}

/// An `EVALSHA` of the script as an `EVAL` with its text, which makes it known to the server.
pub(crate) fn with_text(evalsha: &Cmd) -> Cmd {
    let mut eval = redis::cmd("EVAL");
    eval.arg(TEXT);
    for arg in evalsha.args_iter().skip(2) {
        if let Arg::Simple(arg) = arg {
            eval.arg(arg);
        }
    }
    eval
}
