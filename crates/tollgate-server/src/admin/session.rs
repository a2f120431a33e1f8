//! Sessions of browsers: a login with a token begins one, and a cookie names it.
//!
//! The cookie is a random number and not the token. The server keeps its hash, and the hash of the
//! token, so a session ends with its token.

use std::sync::{Mutex, PoisonError};

use crate::auth::{ClientGate, Hash, Owner, random};

/// How long a session lasts, in seconds.
pub(super) const LIFETIME: u64 = 12 * 60 * 60;

/// The most sessions. One more ends the oldest.
const MOST: usize = 100;

/// The sessions in force.
#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<Vec<Session>>);

#[derive(Clone, Copy, Debug)]
struct Session {
    id: Hash,
    token: Hash,
    /// When it ends, in seconds since the Unix epoch.
    end: u64,
}

impl Sessions {
    /// Begins a session for the owner of a token. Returns what the cookie holds.
    ///
    /// # Errors
    /// When the system has no random bytes.
    pub(super) fn begin(&self, owner: &Owner, now: u64) -> Result<String, String> {
        let id = random()?;
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|session| now < session.end);
        if sessions.len() == MOST {
            sessions.remove(0);
        }
        sessions.push(Session {
            id: Hash::from_token(id.as_bytes()),
            token: owner.hash,
            end: now.saturating_add(LIFETIME),
        });
        Ok(id)
    }

    /// The owner of a session, if the gate still admits its token.
    pub(super) fn owner(&self, id: &Hash, gate: &ClientGate, now: u64) -> Option<Owner> {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let index = sessions.iter().position(|session| session.id.is(id))?;
        let owner = (now < sessions[index].end).then(|| gate.owner(&sessions[index].token));
        let owner = owner.flatten();
        if owner.is_none() {
            sessions.remove(index);
        }
        owner
    }

    /// Ends a session.
    pub(super) fn end(&self, id: &Hash) {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|session| !session.id.is(id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Tokens;

    fn gate() -> (ClientGate, Owner) {
        let hash = Hash::from_token(b"secret");
        let gate = ClientGate::new([("me".to_owned(), hash)].into_iter().collect());
        let owner = gate.owner(&hash).unwrap();
        (gate, owner)
    }

    #[test]
    fn a_session_ends_with_its_time_with_a_logout_and_with_its_token() {
        let (gate, owner) = gate();
        let sessions = Sessions::default();
        let begin = || Hash::from_token(sessions.begin(&owner, 1_000).unwrap().as_bytes());
        let (one, other, third) = (begin(), begin(), begin());
        let knows = |id: &Hash, now| sessions.owner(id, &gate, now).is_some();
        assert!(knows(&one, 1_000 + LIFETIME - 1) && knows(&other, 1_000));
        assert!(!knows(&Hash::from_token(b"guess"), 1_000));
        sessions.end(&other);
        assert!(knows(&one, 1_000) && !knows(&other, 1_000));
        assert!(!knows(&one, 1_000 + LIFETIME) && !knows(&one, 1_000));
        gate.replace(Tokens::default());
        assert!(!knows(&third, 1_000));
    }

    #[test]
    fn the_number_of_sessions_is_bounded_and_the_oldest_one_ends() {
        let (gate, owner) = gate();
        let sessions = Sessions::default();
        let begin = || Hash::from_token(sessions.begin(&owner, 1_000).unwrap().as_bytes());
        let all: Vec<Hash> = (0..=MOST).map(|_| begin()).collect();
        assert_eq!(sessions.owner(&all[0], &gate, 1_000), None);
        assert!(all[1..].iter().all(|id| sessions.owner(id, &gate, 1_000).is_some()));
    }
}
