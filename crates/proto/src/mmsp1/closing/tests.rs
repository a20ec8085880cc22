use proptest::prelude::*;

use super::*;
use crate::mmsp1::table;

const START: Instant = Instant::from_nanos(5_000_000_000);
const WAIT: Duration = Duration::from_millis(100);
const STATES: [CloseState; 6] = [
    CloseState::Established,
    CloseState::FinPending,
    CloseState::FinSent,
    CloseState::FinReceived,
    CloseState::FinAckSent,
    CloseState::Closed,
];
const EVENTS: [CloseEvent; 11] = [
    CloseEvent::Close,
    CloseEvent::Flushed,
    CloseEvent::Fin,
    CloseEvent::FinAck,
    CloseEvent::FinDone,
    CloseEvent::Heard,
    CloseEvent::Timer,
    CloseEvent::LastTimer,
    CloseEvent::FlushTimeout,
    CloseEvent::Rst,
    CloseEvent::Abort,
];

fn after(millis: u64) -> Instant {
    START + Duration::from_millis(millis)
}

fn closing(events: &[CloseEvent]) -> Closing {
    let mut closing = Closing::default();
    for event in events {
        closing.on(START, WAIT, *event);
    }
    closing
}

fn says(closing: &mut Closing, now: Instant) -> Vec<ClosePacket> {
    std::iter::from_fn(|| closing.take_due(now).map(|(packet, _)| packet)).collect()
}

/// The times in ms of the packets that are due up to the end of the connection, and the end.
fn run(closing: &mut Closing) -> (Vec<u128>, Closed) {
    let mut sent = Vec::new();
    while let Some(now) = closing.deadline() {
        let closed = closing.on_timeout(now);
        if closed != Closed::No {
            return (sent, closed);
        }
        assert!(closing.take_due(now).is_some(), "a deadline with nothing to do");
        sent.push((now - START).as_millis());
    }
    (sent, Closed::No)
}

#[test]
fn the_machine_is_its_table() {
    table::check(CloseState::Established, &STATES, &EVENTS, &TABLE);
    for from in STATES {
        for event in EVENTS {
            let mut closing = Closing { state: from, ..Closing::default() };
            let closed = closing.step(START, WAIT, event);
            let row = find(&TABLE, from, event);
            assert_eq!(closing.state, row.map_or(from, |row| row.to), "{from:?} {event:?}");
            let is_over = closing.state == CloseState::Closed && from != CloseState::Closed;
            assert_eq!(matches!(closed, Closed::Ended(_)), is_over, "{from:?} {event:?}");
            if closing.state == CloseState::Closed {
                assert_eq!(closing.deadline(), None, "{from:?} {event:?}: no timer is left");
            }
        }
    }
}

// spec 3.60 to 3.63
#[test]
fn one_end_closes() {
    let (mut closer, mut peer) = (Closing::default(), Closing::default());
    assert_eq!(closer.on(START, WAIT, CloseEvent::Close), Closed::Flushing);
    assert_eq!(says(&mut closer, START), [], "what waits goes first");
    closer.on(START, WAIT, CloseEvent::Flushed);
    assert_eq!(says(&mut closer, START), [ClosePacket::Fin]);
    assert_eq!(peer.on(START, WAIT, CloseEvent::Fin), Closed::ByPeer);
    assert_eq!(says(&mut peer, START), [], "what waits goes first");
    assert_eq!(peer.on(START, WAIT, CloseEvent::Fin), Closed::No, "a repeated FIN earns nothing yet");
    assert_eq!(says(&mut peer, START), []);
    peer.on(START, WAIT, CloseEvent::Flushed);
    assert_eq!(says(&mut peer, START), [ClosePacket::FinAck]);
    assert_eq!(closer.on(START, WAIT, CloseEvent::FinAck), Closed::Ended(CloseEnd::Answered));
    assert_eq!(peer.on(START, WAIT, CloseEvent::FinDone), Closed::Ended(CloseEnd::Complete));
    assert_eq!((closer.deadline(), peer.deadline()), (None, None));
}

// spec 3.64
#[test]
fn both_ends_close_at_once() {
    use CloseEvent::{Close, Fin, FinAck, FinDone, Flushed};
    for last in [FinAck, FinDone] {
        let mut closing = closing(&[Close, Flushed]);
        assert_eq!(says(&mut closing, START), [ClosePacket::Fin]);
        assert_eq!(closing.on(START, WAIT, Fin), Closed::No);
        assert_eq!(says(&mut closing, START), [ClosePacket::FinAck]);
        assert!(matches!(
            closing.on(START, WAIT, last),
            Closed::Ended(CloseEnd::Answered | CloseEnd::Complete)
        ));
    }
    assert_eq!(
        closing(&[Close, Fin, Flushed]).state(),
        CloseState::FinAckSent,
        "a FIN that came first is answered"
    );
}

// spec 3.77, 3.112
#[test]
fn fin_is_sent_six_times_and_then_given_up() {
    let mut closing = closing(&[CloseEvent::Close, CloseEvent::Flushed]);
    let (sent, end) = run(&mut closing);
    assert_eq!((sent, end), (vec![0, 100, 300, 700, 1500, 3100], Closed::Ended(CloseEnd::NoAnswer)));
}

// spec 3.115
#[test]
fn an_end_that_misses_fin_done_is_complete() {
    let mut closing = closing(&[CloseEvent::Fin, CloseEvent::Flushed]);
    let (sent, end) = run(&mut closing);
    assert_eq!((sent.len(), end), (6, Closed::Ended(CloseEnd::Complete)));
}

// spec 3.114
#[test]
fn while_the_peer_flushes_fin_is_not_given_up_before_30_seconds() {
    let mut closing = closing(&[CloseEvent::Close, CloseEvent::Flushed]);
    let mut turns = Vec::new();
    let end = loop {
        let now = closing.deadline().unwrap();
        let closed = closing.on_timeout(now);
        if closed != Closed::No {
            break (now, closed);
        }
        turns.push(closing.take_due(now).unwrap().1);
        closing.on(now, WAIT, CloseEvent::Heard);
    };
    assert_eq!(end, (START + FLUSH_TIME, Closed::Ended(CloseEnd::NotFlushed)));
    assert!(turns.len() > 30, "{turns:?}");
    assert!(turns.iter().copied().eq(0..u32::try_from(turns.len()).unwrap()), "each goes on the next path");
    assert!(matches!(says(&mut closing, end.0)[..], [ClosePacket::Rst(_)]));
}

#[test]
fn what_is_not_flushed_in_30_seconds_ends_by_rst() {
    for events in [&[CloseEvent::Close][..], &[CloseEvent::Fin]] {
        let mut closing = closing(events);
        assert_eq!(closing.deadline(), Some(START + FLUSH_TIME));
        assert_eq!(run(&mut closing), (vec![], Closed::Ended(CloseEnd::NotFlushed)));
        let [ClosePacket::Rst(cause)] = &says(&mut closing, START)[..] else { panic!("no RST") };
        assert_eq!(cause.code, ErrorCode::UNRECOGNISED_ERROR);
    }
}

// spec 3.61
#[test]
fn each_repeated_fin_earns_one_fin_ack() {
    let mut closing = closing(&[CloseEvent::Fin, CloseEvent::Flushed]);
    assert_eq!(says(&mut closing, START), [ClosePacket::FinAck]);
    for _ in 0..20 {
        closing.on(after(1), WAIT, CloseEvent::Fin);
        assert_eq!(says(&mut closing, after(1)), [ClosePacket::FinAck]);
    }
    assert_eq!(
        closing.deadline(),
        Some(after(100)),
        "a peer that only repeats FIN does not keep the connection"
    );
}

// spec 3.66
#[test]
fn a_step_that_does_not_fit_changes_nothing() {
    use CloseEvent::{Close, Fin, FinAck, FinDone, Flushed, Heard};
    for (events, late) in [
        (&[][..], FinAck),
        (&[], FinDone),
        (&[], Flushed),
        (&[], Heard),
        (&[Close], FinAck),
        (&[Close, Flushed], FinDone),
        (&[Fin], FinDone),
        (&[Fin], Close),
        (&[Close, Flushed, FinAck], Fin),
    ] {
        let mut closing = closing(events);
        let state = closing.state();
        assert_eq!(closing.on(START, WAIT, late), Closed::No, "{events:?} {late:?}");
        assert_eq!(closing.state(), state);
    }
}

#[test]
fn abort_sends_one_rst_and_rst_earns_none() {
    for state in STATES {
        let cause = OwnedCause::new(ErrorCode::INVALID_FIELD, &[0]);
        let mut aborted = Closing { state, ..Closing::default() };
        let is_live = state != CloseState::Closed;
        let closed = aborted.abort(START, cause.clone());
        assert_eq!(closed, if is_live { Closed::Ended(CloseEnd::Aborted) } else { Closed::No });
        let expected = if is_live { vec![ClosePacket::Rst(cause)] } else { vec![] };
        assert_eq!(says(&mut aborted, START), expected);
        let mut reset = Closing { state, ..Closing::default() };
        reset.on(START, WAIT, CloseEvent::Rst);
        assert_eq!((reset.state(), says(&mut reset, START).len()), (CloseState::Closed, 0));
    }
}

#[test]
fn after_sleep_the_timers_of_the_close_start_again() {
    let mut closing = closing(&[CloseEvent::Close, CloseEvent::Flushed]);
    let _ = says(&mut closing, START);
    closing.on_wake(after(900_000), WAIT);
    assert_eq!(closing.on_timeout(after(900_000)), Closed::No);
    assert_eq!(says(&mut closing, after(900_000)), [ClosePacket::Fin]);
}

/// One end in a simulation of the close.
#[derive(Default)]
struct End {
    closing: Closing,
    close_at: Option<Instant>,
    flush_time: Duration,
    flushed_at: Option<Instant>,
    ended: Option<CloseEnd>,
}

impl End {
    /// What the end does about an event; returns the packet that answers it.
    fn on(&mut self, now: Instant, event: CloseEvent) -> Option<CloseEvent> {
        // The tombstone answers as the connection did.
        let is_late = self.ended.is_some() && event == CloseEvent::FinAck;
        let closed = self.closing.on(now, WAIT, event);
        match closed {
            Closed::No => {}
            Closed::Flushing | Closed::ByPeer => {
                self.flushed_at = self.flushed_at.or(Some(now + self.flush_time));
            }
            Closed::Ended(how) => self.ended = Some(how),
        }
        (is_late || closed == Closed::Ended(CloseEnd::Answered)).then_some(CloseEvent::FinDone)
    }

    /// What the end does by itself; returns the packets that it sends.
    fn at(&mut self, now: Instant) -> Vec<CloseEvent> {
        if self.close_at.take_if(|at| *at <= now).is_some() {
            self.on(now, CloseEvent::Close);
        }
        if self.flushed_at.take_if(|at| *at <= now).is_some() {
            self.on(now, CloseEvent::Flushed);
        }
        if let Closed::Ended(how) = self.closing.on_timeout(now) {
            self.ended = Some(how);
        }
        let packet = |sent| match sent {
            ClosePacket::Fin => CloseEvent::Fin,
            ClosePacket::FinAck => CloseEvent::FinAck,
            ClosePacket::Rst(_) => CloseEvent::Rst,
        };
        says(&mut self.closing, now).into_iter().map(packet).collect()
    }
}

proptest! {
    // spec 3.60 to 3.66
    #[test]
    fn both_ends_come_to_an_end_whatever_is_lost(
        close_at in (0_u64..3000, prop::option::of(0_u64..3000)),
        flush_time in (0_u64..2000, 0_u64..2000),
        lost in prop::collection::vec(any::<bool>(), 40),
        delay in 0_u64..300,
    ) {
        let end = |at: Option<u64>, millis| End {
            close_at: at.map(after),
            flush_time: Duration::from_millis(millis),
            ..End::default()
        };
        let mut ends = [end(Some(close_at.0), flush_time.0), end(close_at.1, flush_time.1)];
        let mut on_the_way: Vec<(Instant, usize, CloseEvent)> = Vec::new();
        let mut lost = lost.into_iter();
        for now in (0..12_000).map(|step| after(5 * step)) {
            let mut sent = Vec::new();
            let (arrived, rest): (Vec<_>, Vec<_>) = on_the_way.into_iter().partition(|(at, ..)| *at <= now);
            on_the_way = rest;
            for (_, to, event) in arrived {
                sent.extend(ends[to].on(now, event).map(|packet| (to, packet)));
            }
            for (from, end) in ends.iter_mut().enumerate() {
                sent.extend(end.at(now).into_iter().map(|packet| (from, packet)));
            }
            for (from, packet) in sent {
                if !lost.next().unwrap_or(false) {
                    on_the_way.push((now + Duration::from_millis(delay), 1 - from, packet));
                }
            }
        }
        let [a, b] = ends.map(|end| (end.ended, end.closing.state()));
        prop_assert!(a.0.is_some(), "{a:?}");
        // The peer of an end that gave up may never have heard of the close.
        let never_heard = a.0 == Some(CloseEnd::NoAnswer) && b.1 == CloseState::Established;
        prop_assert!(b.0.is_some() || never_heard, "{a:?} {b:?}");
    }
}
