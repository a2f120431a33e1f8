//! The list of commands: what there is, how many arguments each takes, and what it says about
//! itself.

/// One command.
pub(super) struct Known {
    pub(super) name: &'static str,
    /// How many arguments with the name, at least as many if negative: as Redis counts.
    pub(super) arity: i64,
    /// The place of its key, if there is one.
    pub(super) key: usize,
    pub(super) summary: &'static str,
}

const fn known(name: &'static str, arity: i64, key: usize, summary: &'static str) -> Known {
    Known { name, arity, key, summary }
}

pub(super) const ALL: &[Known] = &[
    known("CL.THROTTLE", -5, 1, "CL.THROTTLE key max_burst count period [quantity]: as redis-cell"),
    known("THROTTLE", -5, 1, "THROTTLE key max_burst count period [quantity]: as throttlecrab"),
    known("TG.ALLOW", -3, 2, "TG.ALLOW limit key [COST n] [NAMESPACE ns]: a hit, as 1 or 0"),
    known("TG.HIT", -3, 2, "TG.HIT limit key [COST n] [NAMESPACE ns]: decide and charge"),
    known("TG.PEEK", -3, 2, "TG.PEEK limit key [COST n] [NAMESPACE ns]: would a hit pass?"),
    known("TG.TAKE", -3, 2, "TG.TAKE limit key [COST n] [NAMESPACE ns]: as much as fits"),
    known("TG.CHARGE", -3, 2, "TG.CHARGE limit key [COST n] [NAMESPACE ns]: charge unchecked"),
    known("TG.REFUND", -3, 2, "TG.REFUND limit key [COST n] [NAMESPACE ns]: give back"),
    known(
        "TG.SET",
        -4,
        2,
        "TG.SET limit key units [NAMESPACE ns]: put the units in use at a number",
    ),
    known("TG.RESET", -3, 2, "TG.RESET limit key [NAMESPACE ns]: forget the key"),
    known("TG.USAGE", -3, 2, "TG.USAGE limit key [NAMESPACE ns]: units in use"),
    known(
        "TG.ALL",
        -5,
        0,
        "TG.ALL items limit key cost [limit key cost ...] [NAMESPACE ns]: all or nothing",
    ),
    known(
        "TG.EACH",
        -5,
        0,
        "TG.EACH items limit key cost [limit key cost ...] [NAMESPACE ns]: each on its own",
    ),
    known("AUTH", -2, 0, "AUTH [user] secret"),
    known(
        "CLIENT",
        -2,
        0,
        "CLIENT ID|INFO|LIST|GETNAME|SETNAME|SETINFO|NO-EVICT|NO-TOUCH|TRACKING",
    ),
    known("COMMAND", -1, 0, "COMMAND [COUNT|DOCS|INFO|LIST]"),
    known("CONFIG", -2, 0, "CONFIG GET pattern: always empty"),
    known("DISCARD", 1, 0, "DISCARD: forget the commands since MULTI"),
    known("ECHO", 2, 0, "ECHO message"),
    known("EXEC", 1, 0, "EXEC: run the commands since MULTI, in order"),
    known("HELLO", -1, 0, "HELLO [2|3 [AUTH user secret] [SETNAME name]]"),
    known("INFO", -1, 0, "INFO [section ...]"),
    known("MULTI", 1, 0, "MULTI: keep commands until EXEC"),
    known("PING", -1, 0, "PING [message]"),
    known("QUIT", -1, 0, "QUIT"),
    known("READONLY", 1, 0, "READONLY"),
    known("READWRITE", 1, 0, "READWRITE"),
    known("RESET", 1, 0, "RESET: as if newly connected"),
    known("SELECT", 2, 0, "SELECT 0"),
    known("UNWATCH", 1, 0, "UNWATCH: does nothing"),
    known("WATCH", -2, 0, "WATCH key [key ...]: does nothing; no key can be read"),
];

pub(super) fn find(name: &[u8]) -> Option<&'static Known> {
    ALL.iter().find(|known| known.name.as_bytes().eq_ignore_ascii_case(name))
}

impl Known {
    pub(super) fn takes(&self, arguments: usize) -> bool {
        let arguments = i64::try_from(arguments).unwrap_or(i64::MAX);
        if self.arity < 0 { arguments >= -self.arity } else { arguments == self.arity }
    }

    pub(super) fn lower_name(&self) -> String {
        self.name.to_ascii_lowercase()
    }
}
