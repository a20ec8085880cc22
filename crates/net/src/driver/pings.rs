//! Callers that wait for the response to a ping.

use std::collections::VecDeque;
use std::time::Duration;

use manyway_proto::{PathId, PingToken};

use crate::link::PingReply;

/// Most pings of a path that are outstanding at the protocol machine; the oldest is dropped first (spec 6.114).
const MOST: usize = 256;

/// The outstanding pings of one connection, in the order of sending.
#[derive(Debug, Default)]
pub(super) struct Pings {
    waiting: VecDeque<(PathId, PingToken, PingReply)>,
}

impl Pings {
    pub(super) fn add(&mut self, path: PathId, token: PingToken, reply: PingReply) {
        self.waiting.retain(|(_, _, reply)| !reply.is_closed());
        let of_path = |(other, ..): &(PathId, PingToken, PingReply)| *other == path;
        if self.waiting.iter().filter(|ping| of_path(ping)).count() >= MOST
            && let Some((_, _, oldest)) =
                self.waiting.iter().position(of_path).and_then(|index| self.waiting.remove(index))
        {
            let _ = oldest.send(None);
        }
        self.waiting.push_back((path, token, reply));
    }

    pub(super) fn answer(&mut self, path: PathId, token: PingToken, rtt: Duration) {
        let found = self.waiting.iter().position(|(other, number, _)| (*other, *number) == (path, token));
        if let Some((_, _, reply)) = found.and_then(|index| self.waiting.remove(index)) {
            // The caller may have gone.
            let _ = reply.send(Some(rtt));
        }
    }

    /// The path is closed: no response can arrive any more.
    pub(super) fn forget(&mut self, path: PathId) {
        while let Some(index) = self.waiting.iter().position(|(other, ..)| *other == path) {
            if let Some((_, _, reply)) = self.waiting.remove(index) {
                let _ = reply.send(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn each_response_reaches_its_caller_and_a_closed_path_ends_all_waits() {
        let mut pings = Pings::default();
        let mut ping = |path, token| {
            let (reply, answer) = oneshot::channel();
            pings.add(PathId(path), PingToken(token), reply);
            answer
        };
        let (mut first, mut second, mut other) = (ping(0, 0), ping(0, 1), ping(1, 0));
        drop(ping(1, 1));
        pings.answer(PathId(0), PingToken(1), Duration::from_millis(7));
        assert_eq!(second.try_recv(), Ok(Some(Duration::from_millis(7))));
        pings.forget(PathId(0));
        assert_eq!(first.try_recv(), Ok(None));
        assert!(other.try_recv().is_err());
    }

    #[test]
    fn too_many_pings_of_one_path_drop_the_oldest_of_that_path() {
        let mut pings = Pings::default();
        let mut answers = Vec::new();
        for token in 0..=MOST as u64 {
            let (reply, answer) = oneshot::channel();
            pings.add(PathId(token.min(1) as u32), PingToken(token), reply);
            answers.push(answer);
        }
        let (reply, _last) = oneshot::channel();
        pings.add(PathId(1), PingToken(1000), reply);
        assert!(answers[0].try_recv().is_err(), "another path");
        assert_eq!(answers[1].try_recv(), Ok(None));
        assert!(answers[2].try_recv().is_err());
    }
}
