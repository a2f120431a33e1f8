//! The requests of one log, with the values that distinguish those of one whole second.

use std::collections::VecDeque;

use crate::keys::Keys;
use crate::requests::{Request, Requests};

/// A request, and how much later it began if those of its second were spread evenly.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    pub(crate) request: Request,
    /// The time in microseconds that is added to the time in the log.
    pub(crate) later: u32,
}

/// The most requests of one second that are spread over it together.
const MOST_OF_A_SECOND: usize = 1_000_000;

/// One log, whose next request is known.
pub(crate) struct Log {
    requests: Requests,
    /// The requests of the current whole second that are not handed out.
    second: VecDeque<Spread>,
    /// The first request after them.
    after: Option<Request>,
    pub(crate) next: Option<Spread>,
}

impl Log {
    pub(crate) fn new(mut requests: Requests, keys: &mut Keys) -> Result<Log, String> {
        let after = requests.next(keys)?;
        let mut log = Log { requests, second: VecDeque::new(), after, next: None };
        log.advance(keys)?;
        Ok(log)
    }

    pub(crate) fn requests(&self) -> &Requests {
        &self.requests
    }

    pub(crate) fn into_requests(self) -> Requests {
        self.requests
    }

    /// Whether the log states whole seconds, by its next request.
    pub(crate) fn has_whole_seconds(&self) -> bool {
        self.next.is_some_and(|next| next.request.whole_second.is_some())
    }

    pub(crate) fn advance(&mut self, keys: &mut Keys) -> Result<(), String> {
        if self.second.is_empty() {
            self.read_second(keys)?;
        }
        self.next = self.second.pop_front();
        Ok(())
    }

    /// Reads all requests of the next whole second, or one request of a log with decimals.
    fn read_second(&mut self, keys: &mut Keys) -> Result<(), String> {
        let Some(first) = self.after.take() else { return Ok(()) };
        self.second.push_back(Spread { request: first, later: 0 });
        self.after = self.requests.next(keys)?;
        while let Some(request) = self.after
            && first.whole_second.is_some()
            && request.whole_second == first.whole_second
            && self.second.len() < MOST_OF_A_SECOND
        {
            self.second.push_back(Spread { request, later: 0 });
            self.after = self.requests.next(keys)?;
        }
        let count = self.second.len() as u64;
        for (index, spread) in self.second.iter_mut().enumerate() {
            spread.later = u32::try_from(index as u64 * 1_000_000 / count).unwrap_or(0);
        }
        Ok(())
    }
}
