//! The end of a connection: in order, from both ends, each packet lost, and at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use manyway_proto::{ClosedBy, ConnectionConfig, ConnectionError, Event};
use manyway_sim::rule::{Action, Matching};
use manyway_sim::scenario::{MS, SECOND, mbit};
use manyway_sim::traffic::Exchange;
use manyway_sim::{EndpointPair, PairBuilder, Peer, Side};
use manyway_wire::Writer;
use manyway_wire::mmsp1::{Block, Cause, ErrorCode, Fin, FinDone, Packet, Tag, encode_rst};

use super::connected;
use super::tester::{PEER, Tester};

const BOTH: [Side; 2] = [Side::Client, Side::Server];

fn one_path() -> PairBuilder {
    PairBuilder::new().path(mbit(20), 10 * MS)
}

fn close(pair: &mut EndpointPair, side: Side) {
    let now = pair.now();
    pair.peer(side).unwrap().connection().unwrap().close(now, 7, "done");
}

fn ended(pair: &mut EndpointPair, side: Side) -> Option<ConnectionError> {
    pair.peer(side).and_then(|peer| peer.ended().cloned())
}

fn closed(by: ClosedBy) -> ConnectionError {
    match by {
        ClosedBy::Us => ConnectionError::Closed { by, code: 7, reason: "done".to_owned() },
        // FIN carries neither code nor reason.
        ClosedBy::Peer => ConnectionError::Closed { by, code: 0, reason: String::new() },
    }
}

fn is_forgotten(pair: &mut EndpointPair) {
    for side in BOTH {
        assert_eq!(pair.peer(side).unwrap().endpoint().connections(), 0, "{side:?}");
    }
}

#[test]
fn a_close_ends_both_ends_within_two_round_trips() {
    for side in BOTH {
        let mut pair = connected(one_path());
        pair.run_for(100 * MS).unwrap();
        close(&mut pair, side);
        pair.run_for(45 * MS).unwrap();
        assert_eq!(ended(&mut pair, side), Some(closed(ClosedBy::Us)));
        assert_eq!(ended(&mut pair, side.other()), Some(closed(ClosedBy::Peer)));
        is_forgotten(&mut pair);
    }
}

#[test]
fn both_may_close_at_once() {
    let mut pair = connected(one_path());
    pair.run_for(100 * MS).unwrap();
    BOTH.into_iter().for_each(|side| close(&mut pair, side));
    pair.run_for(100 * MS).unwrap();
    for side in BOTH {
        assert_eq!(ended(&mut pair, side), Some(closed(ClosedBy::Us)), "{side:?}");
    }
    is_forgotten(&mut pair);
}

#[test]
fn data_written_before_the_close_arrive_in_both_directions() {
    let mut pair = connected(one_path());
    for side in BOTH {
        let host = pair.host(side);
        pair.start(side, Box::new(Exchange::new(host, manyway_proto::ByteCount(200_000))));
    }
    pair.run_for(30 * MS).unwrap();
    close(&mut pair, Side::Client);
    pair.run_for(2 * SECOND).unwrap();
    is_forgotten(&mut pair);
    for side in BOTH {
        // The send buffer takes all of them at once, so all were written before the close.
        assert_eq!(pair.received(side).total().get(), 200_000, "{side:?}");
    }
}

/// Does something to the first packet of a host with this block; returns whether there was one.
fn disturb(pair: &mut EndpointPair, side: Side, name: &'static str, action: Action) -> Arc<AtomicBool> {
    let met = Arc::new(AtomicBool::new(false));
    let noted = met.clone();
    let has_it = move |bytes: &[u8]| {
        let packet = Packet::decode(bytes).unwrap();
        let has_it = packet.blocks().flatten().any(|block| block.name() == name);
        noted.fetch_or(has_it, Ordering::Relaxed);
        has_it
    };
    let host = pair.host(side);
    let first = Matching::all().from(host).content(has_it).index(0..=0);
    pair.world_mut().network_mut().add_rule(first, action);
    met
}

/// Closes and disturbs one packet; both ends must come to the same end as without that.
fn disturbed_close(closing: &[Side], (side, name): (Side, &'static str), action: Action) -> bool {
    let mut pair = connected(one_path());
    pair.run_for(SECOND).unwrap();
    let what = format!("{closing:?} close; {action:?} of {name} of the {side:?}");
    let met = disturb(&mut pair, side, name, action);
    closing.iter().for_each(|side| close(&mut pair, *side));
    pair.run_for(10 * SECOND).unwrap();
    for side in BOTH {
        let by = if closing.contains(&side) { ClosedBy::Us } else { ClosedBy::Peer };
        assert_eq!(ended(&mut pair, side), Some(closed(by)), "{what}: {side:?}");
    }
    is_forgotten(&mut pair);
    met.load(Ordering::Relaxed)
}

#[test]
fn each_packet_of_the_close_may_be_lost_or_come_again() {
    for action in [Action::Drop, Action::Copy(Duration::ZERO), Action::Copy(5 * MS), Action::Copy(2 * SECOND)]
    {
        for side in BOTH {
            for packet in [(side, "FIN"), (side.other(), "FIN-ACK"), (side, "FIN-DONE")] {
                assert!(disturbed_close(&[side], packet, action), "{side:?} {packet:?}");
            }
            for name in ["FIN", "FIN-ACK"] {
                assert!(disturbed_close(&BOTH, (side, name), action), "{side:?} {name}");
            }
        }
    }
}

#[test]
fn fin_is_sent_once_everything_is_acknowledged() {
    let mut tester = Tester::accepted();
    let stream = tester.connection().open_stream().unwrap();
    tester.connection().write(stream, bytes::Bytes::from_static(b"last words")).unwrap();
    let now = tester.now;
    tester.connection().close(now, 0, "");
    assert_eq!(tester.take_names(), ["DATA"]);
    assert!(tester.connection().open_stream().is_err(), "no new messages");
    tester.sack(0, 100_000);
    let fin = tester.take();
    let [Block::Fin(fin)] = fin.blocks()[..] else { panic!("{:?}", fin.names()) };
    assert_eq!(fin.ack, tester.peer.tseq.minus(1));
    let data = tester.data(0, 0, 0, b"still on the way");
    tester.deliver(|w| data.encode(w));
    tester.run_for(30 * MS);
    assert!(tester.take_names().contains(&"SACK"), "the peer may still flush");
    tester.deliver(|w| Block::FinAck.encode(w));
    assert_eq!(tester.take_names(), ["FIN-DONE"]);
    assert!(matches!(tester.ended(), Some(ConnectionError::Closed { by: ClosedBy::Us, .. })));
}

#[test]
fn a_fin_is_answered_once_everything_is_acknowledged() {
    let mut tester = Tester::accepted();
    let stream = tester.connection().open_stream().unwrap();
    tester.connection().write(stream, bytes::Bytes::from_static(b"last words")).unwrap();
    assert_eq!(tester.take_names(), ["DATA"]);
    let ack = tester.told.unwrap().tseq.minus(1);
    tester.deliver(|w| Fin { ack }.encode(w));
    assert!(matches!(tester.ended(), Some(ConnectionError::Closed { by: ClosedBy::Peer, code: 0, .. })));
    tester.deliver(|w| Fin { ack }.encode(w));
    assert_eq!(tester.take_names(), [""; 0], "a repeated FIN earns nothing before FIN-ACK was sent");
    tester.sack(0, 100_000);
    assert_eq!(tester.take_names(), ["FIN-ACK"]);
    tester.deliver(|w| Fin { ack }.encode(w));
    assert_eq!(tester.take_names(), ["FIN-ACK"]);
    tester.deliver(|w| FinDone { reflected: false }.encode(w));
    assert_eq!(tester.endpoint.connections(), 0);
}

#[test]
fn a_fin_acknowledges_as_a_sack_does() {
    let mut tester = Tester::accepted();
    let stream = tester.connection().open_stream().unwrap();
    tester.connection().write(stream, bytes::Bytes::from_static(b"last words")).unwrap();
    assert_eq!(tester.take_names(), ["DATA"]);
    let ack = tester.told.unwrap().tseq;
    tester.deliver(|w| Fin { ack }.encode(w));
    assert_eq!(tester.take_names(), ["FIN-ACK"]);
}

#[test]
fn a_fin_that_acknowledges_what_was_never_sent_counts_as_nothing() {
    let mut tester = Tester::accepted();
    let ack = tester.told.unwrap().tseq.plus(5);
    tester.deliver(|w| Fin { ack }.encode(w));
    let error = tester.take();
    assert_eq!((error.names(), error.codes()), (vec!["ERROR"], vec![4]));
    assert_eq!(tester.ended(), None);
}

#[test]
fn steps_that_do_not_fit_are_dropped() {
    let mut tester = Tester::accepted();
    tester.deliver(|w| Block::FinAck.encode(w));
    tester.deliver(|w| FinDone { reflected: false }.encode(w));
    assert_eq!(tester.take_names(), [""; 0]);
    assert_eq!(tester.ended(), None);
}

#[test]
fn a_tombstone_answers_fin_ack_and_nothing_else() {
    let mut tester = Tester::accepted();
    let now = tester.now;
    tester.connection().close(now, 0, "");
    assert_eq!(tester.take_names(), ["FIN"]);
    tester.deliver(|w| Block::FinAck.encode(w));
    let done = tester.take();
    assert_eq!((done.names(), done.header().connection), (vec!["FIN-DONE"], tester.peer.tag));
    assert_eq!(tester.endpoint.connections(), 0);
    for _ in 0..2 {
        tester.now += SECOND;
        tester.deliver(|w| Block::FinAck.encode(w));
        let done = tester.take();
        let [Block::FinDone(block)] = done.blocks()[..] else { panic!("{:?}", done.names()) };
        assert!(!block.reflected && done.header().connection == tester.peer.tag);
    }
    let data = tester.data(0, 0, 0, b"late");
    tester.deliver(|w| data.encode(w));
    assert_eq!(tester.take_names(), [""; 0]);
    tester.now += 11 * SECOND;
    tester.deliver(|w| Block::FinAck.encode(w));
    let done = tester.take();
    let [Block::FinDone(block)] = done.blocks()[..] else { panic!("{:?}", done.names()) };
    assert!(block.reflected && done.header().connection == tester.header().connection, "forgotten by now");
}

#[test]
fn rst_ends_a_connection_at_once_if_tag_and_address_are_right() {
    let rst = |reflected: bool, code: ErrorCode| {
        move |w: &mut Writer<'_>| {
            let cause = Cause { code, information: b"for a reason" };
            encode_rst(w, reflected, std::iter::once(cause));
        }
    };
    let mut tester = Tester::accepted();
    let own = tester.header();
    let peer = tester.header_with(tester.peer.tag);
    let right = rst(false, ErrorCode::UNRECOGNISED_ERROR);
    tester.deliver_from("10.0.0.9:4000", own, right);
    tester.deliver_from(PEER, tester.header_with(Tag(own.connection.0 ^ 1)), right);
    tester.deliver_from(PEER, own, rst(true, ErrorCode::UNRECOGNISED_ERROR));
    tester.deliver_from(PEER, peer, right);
    assert_eq!(tester.take_names(), [""; 0]);
    assert_eq!(tester.ended(), None, "not by any of these");
    tester.deliver_from(PEER, own, right);
    let error = ConnectionError::AbortedByPeer { code: 10, reason: "for a reason".to_owned() };
    assert_eq!(tester.ended(), Some(&error));
    assert_eq!((tester.endpoint.connections(), tester.take_names()), (0, vec![]), "nothing answers it");
    let mut tester = Tester::accepted();
    let long = [&b"\x1b[2J"[..], &[b'x'; 1000]].concat();
    tester.deliver(|w| {
        let cause = Cause { code: ErrorCode::UNRECOGNISED_ERROR, information: &long };
        encode_rst(w, false, std::iter::once(cause));
    });
    let reason = format!("\u{fffd}[2J{}", "x".repeat(124));
    let error = ConnectionError::AbortedByPeer { code: 10, reason };
    assert_eq!(tester.ended(), Some(&error), "128 bytes, and none that controls a terminal");
    let mut tester = Tester::accepted();
    tester.deliver_from(PEER, tester.header_with(tester.peer.tag), rst(true, ErrorCode::INVALID_FIELD));
    assert_eq!(tester.ended(), Some(&ConnectionError::Reset), "the peer has forgotten the connection");
}

#[test]
fn an_abort_tells_the_peer_its_reason() {
    let mut tester = Tester::accepted();
    let now = tester.now;
    tester.connection().abort(now, 5, "out of disk");
    let rst = tester.take();
    let [Block::Rst(block)] = rst.blocks()[..] else { panic!("{:?}", rst.names()) };
    let cause = block.causes.iter().next().unwrap();
    assert_eq!((cause.code, cause.information), (ErrorCode::UNRECOGNISED_ERROR, &b"out of disk"[..]));
    assert_eq!(tester.endpoint.connections(), 0);
    assert!(tester.events.iter().filter(|event| matches!(event, Event::Closed(_))).count() == 1);
}

#[test]
fn a_close_without_an_answer_ends_by_itself() {
    let mut tester = Tester::accepted();
    let now = tester.now;
    tester.connection().close(now, 0, "");
    tester.run_for(60 * SECOND);
    let fins = tester.take_names().into_iter().filter(|name| *name == "FIN").count();
    assert_eq!(fins, 6);
    assert!(matches!(tester.ended(), Some(ConnectionError::Closed { by: ClosedBy::Us, .. })));
    assert_eq!(tester.endpoint.connections(), 0);
}

#[test]
fn both_ends_close_without_a_packet_once_no_path_works_for_the_out_of_service_time() {
    let mut config = ConnectionConfig::mmsp1();
    config.no_path_timeout = 5 * SECOND;
    let mut pair = super::connected_with(one_path(), &config);
    pair.run_for(SECOND).unwrap();
    pair.cut(0, manyway_sim::pair::Direction::Both);
    for side in BOTH {
        let host = pair.host(side);
        pair.start(side, Box::new(Exchange::new(host, manyway_proto::ByteCount(20_000))));
    }
    pair.run_for(12 * SECOND).unwrap();
    for side in BOTH {
        assert_eq!(ended(&mut pair, side), Some(ConnectionError::NoPath), "{side:?}");
    }
    is_forgotten(&mut pair);
}

// spec 3.68
#[test]
fn what_comes_after_an_rst_earns_rst_again() {
    let mut tester = Tester::accepted();
    let now = tester.now;
    tester.connection().abort(now, 0, "");
    assert_eq!(tester.take_names(), ["RST"]);
    let data = tester.data(0, 0, 0, b"the RST was lost");
    tester.deliver(|w| data.encode(w));
    let rst = tester.take();
    let [Block::Rst(block)] = rst.blocks()[..] else { panic!("{:?}", rst.names()) };
    assert!(block.reflected);
}
