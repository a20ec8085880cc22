//! A sender without credit and with nothing in flight: it notices a dead peer, and no credit is lost.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::time::Duration;

use manyway_proto::{ConnectionConfig, Instant, PathState, StreamId};
use manyway_sim::pair::Direction;
use manyway_sim::scenario::{
    MINUTE, MS, SECOND, connected, connected_with, count_in, mbit, megabytes, path_events, path_figures,
};
use manyway_sim::traffic::{Application, Read, Streams};
use manyway_sim::{EndpointPair, PairBuilder, Side};

/// Requests the service's answer and reads none of it before a given time.
#[derive(Debug)]
struct Later {
    stream: Option<StreamId>,
    reads_at: Instant,
    ended: bool,
}

impl Application for Later {
    fn act(&mut self, now: Instant, streams: &mut dyn Streams) {
        if self.stream.is_none() {
            self.stream = streams.open();
            self.stream.iter().for_each(|stream| streams.finish(*stream));
        }
        let Some(stream) = self.stream.filter(|_| now >= self.reads_at) else { return };
        while !self.ended {
            match streams.read(stream, 100_000) {
                Read::Data(_) => {}
                Read::Blocked => break,
                Read::End | Read::Reset(_) => self.ended = true,
            }
        }
    }

    fn wakes_at(&self) -> Option<Instant> {
        Some(self.reads_at)
    }

    fn is_done(&self) -> bool {
        self.ended
    }
}

/// The server has 5 MB for a client that reads nothing for this long; a second has passed.
fn blocked(reads_after: Duration) -> EndpointPair {
    let builder = PairBuilder::new().path(mbit(20), 10 * MS).path(mbit(10), 30 * MS);
    let mut pair = connected(builder.answer(megabytes(5))).unwrap();
    let reads_at = pair.now() + reads_after;
    pair.start(Side::Client, Box::new(Later { stream: None, reads_at, ended: false }));
    pair.run_for(SECOND).unwrap();
    pair
}

/// When each path of the server stopped working, counted from `since`.
fn doubted(pair: &mut EndpointPair, since: Instant) -> Vec<Duration> {
    let events = path_events(pair, Side::Server);
    (0..2)
        .filter_map(|path| {
            let doubt = events.iter().find(|(at, event)| {
                *at > since
                    && event.path.0 == path
                    && matches!(event.state, PathState::Suspect | PathState::Dead)
            });
            doubt.map(|(at, _)| *at - since)
        })
        .collect()
}

// spec 8.27
#[test]
fn a_sender_without_credit_notices_within_seconds_that_every_path_is_cut() {
    // The next persist probe comes within as long as it has waited already (a second and the time named here), at most
    // 5 s. The path that is alone then is dead after a second of silence and three probe timeouts, with the queue that
    // its first bandwidth probe made.
    for (waited, most) in [(Duration::ZERO, 3500 * MS), (2 * SECOND, 7 * SECOND), (2 * MINUTE, 7 * SECOND)] {
        let mut pair = blocked(10 * MINUTE);
        pair.run_for(waited).unwrap();
        let cut_at = pair.now();
        (0..2).for_each(|path| pair.cut(path, Direction::Both));
        pair.run_for(20 * SECOND).unwrap();
        let doubted = doubted(&mut pair, cut_at);
        assert!(doubted.len() == 2 && doubted.iter().all(|after| *after < most), "{waited:?}: {doubted:?}");
    }
}

#[test]
fn a_sender_without_credit_notices_which_of_its_paths_is_cut() {
    for path in 0..2 {
        let mut pair = blocked(10 * MINUTE);
        pair.run_for(MINUTE).unwrap();
        pair.cut(path, Direction::Both);
        // The paths are probed in turn.
        pair.run_for(11 * SECOND).unwrap();
        let figures = path_figures(&mut pair, Side::Server);
        let dead: Vec<_> = figures.iter().map(|path| path.state == PathState::Dead).collect();
        assert_eq!(dead, [path == 0, path == 1]);
    }
}

#[test]
fn credit_that_gets_lost_on_all_paths_reaches_the_sender_when_one_is_back() {
    let mut pair = blocked(2 * SECOND);
    (0..2).for_each(|path| pair.cut(path, Direction::Up));
    pair.run_for(4 * SECOND).unwrap();
    assert!(pair.received(Side::Client).total() < megabytes(2), "what came before it was blocked");
    pair.restore(1, Direction::Up);
    pair.run_until(10 * SECOND, "read", |pair| pair.is_quiet()).unwrap();
    assert_eq!(pair.received(Side::Client).total(), megabytes(5));
}

#[test]
fn a_paused_reader_costs_a_packet_in_five_seconds_and_is_served_when_it_resumes() {
    let mut pair = blocked(8 * MINUTE);
    pair.run_for(MINUTE).unwrap();
    let sent = |pair: &mut EndpointPair, side| -> u64 {
        path_figures(pair, side).iter().map(|path| path.packets_sent).sum()
    };
    let before = [Side::Client, Side::Server].map(|side| sent(&mut pair, side));
    pair.run_for(6 * MINUTE).unwrap();
    for (side, before) in [Side::Client, Side::Server].into_iter().zip(before) {
        let packets = sent(&mut pair, side) - before;
        // And very few for other reasons.
        assert!((60..=6 * 60 / 5 + 3).contains(&packets), "{side:?}: {packets}");
        assert_eq!(count_in(&mut pair, side, PathState::Active), 2);
    }
    pair.run_until(2 * MINUTE, "read", |pair| pair.is_quiet()).unwrap();
    assert_eq!(pair.received(Side::Client).total(), megabytes(5));
}

/// Requests three answers, and reads the last one five times a second.
#[derive(Debug)]
struct Picky {
    opened: Vec<StreamId>,
    reads_at: Instant,
    ended: bool,
}

impl Application for Picky {
    fn act(&mut self, now: Instant, streams: &mut dyn Streams) {
        while self.opened.len() < 3 && (self.opened.len() < 2 || now >= self.reads_at) {
            let Some(stream) = streams.open() else { return };
            streams.finish(stream);
            self.opened.push(stream);
        }
        let Some(stream) = self.opened.get(2).filter(|_| now >= self.reads_at) else { return };
        self.reads_at = now + 200 * MS;
        while !self.ended {
            match streams.read(*stream, 100_000) {
                Read::Data(_) => {}
                Read::Blocked => break,
                Read::End | Read::Reset(_) => self.ended = true,
            }
        }
    }

    fn wakes_at(&self) -> Option<Instant> {
        Some(self.reads_at)
    }

    fn is_done(&self) -> bool {
        self.ended
    }
}

/// An eighth of the window is left beside two unread streams. When it was read the credit is due, but it is less than
/// what is announced unasked; and the sender reported before that it is blocked.
#[test]
fn credit_too_small_to_announce_unasked_does_not_stop_a_stream_for_ever() {
    let mut config = ConnectionConfig::default();
    config.streams.connection_receive_window = 1 << 20;
    config.streams.max_window = 1 << 20;
    config.streams.stream_receive_window = 7 << 16;
    let builder = PairBuilder::new().path(mbit(20), 10 * MS).path(mbit(10), 30 * MS);
    let mut pair = connected_with(builder.answer(megabytes(1)), &config).unwrap();
    let reads_at = pair.now() + SECOND;
    let picky = Picky { opened: Vec::new(), reads_at, ended: false };
    pair.start(Side::Client, Box::new(picky));
    let read = |pair: &mut EndpointPair| pair.received(Side::Client).total() == megabytes(1);
    pair.run_until(20 * SECOND, "read", read).unwrap();
}
