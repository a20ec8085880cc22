//! Windows, memory, and what is refused.

use manyway_wire::mmsp1::{Fragment, Sseq};

use super::*;
use crate::SendError;
use crate::mmsp1::reassembly::Broken;
use crate::mmsp1::received::Taken;
use crate::mmsp1::streams::input::{DataError, Heard};

#[test]
fn what_mmsp1_cannot_carry_is_refused() {
    let mut pair = Pair::usual();
    let id = pair.client().open().unwrap();
    let send = |streams: &mut Streams, size: usize, protocol| {
        streams.send_message(at(0), id, pattern(size).into(), MessageOptions::default().protocol(protocol))
    };
    let half = usize::try_from(WINDOW / 2).unwrap();
    let most = half as u64;
    assert_eq!(pair.client().most_message(), Some(most));
    assert_eq!(send(pair.client(), 0, 0), Err(Misuse::EmptyMessage { stream: id }.into()));
    assert_eq!(send(pair.client(), half + 1, 0), Err(SendError::TooLarge { size: most + 1, most }));
    let reserved = Misuse::ReservedProtocol { protocol: 0x4d57_0001 };
    assert_eq!(send(pair.client(), 1, 0x4d57_0001), Err(reserved.into()));
    assert!(send(pair.client(), half, 0).is_ok());
    assert!(pair.client().write(id, Bytes::from_static(b"x")).is_err(), "it carries messages");
}

// spec 3.43
#[test]
fn the_window_closes_and_opens() {
    let mut pair = Pair::usual();
    let id = pair.client().open().unwrap();
    let data = pattern(3 * WINDOW as usize);
    pair.client().write(id, data.clone().into()).unwrap();
    pair.run();
    assert!(pair.client().is_blocked() && !pair.client().wants_data(ClassFilter::All));
    let backlog = pair.client().backlog_of(ClassFilter::All);
    assert!(backlog.credit_left == ByteCount::ZERO && backlog.backlog > ByteCount(u64::from(WINDOW)));
    pair.server().accept();
    let mut received = Vec::new();
    for _ in 0..8 {
        received.extend(read_all(pair.server(), id).0);
        pair.run();
    }
    assert_eq!(received, data);
    assert!(pair.client().is_idle());
}

// spec 3.47
#[test]
fn a_persist_probe_is_repeated_until_the_edge_moves() {
    let mut pair = Pair::usual();
    let id = pair.client().open().unwrap();
    let data = pattern(6 * WINDOW as usize);
    pair.client().write(id, data.clone().into()).unwrap();
    pair.run();
    let mut probes = 0;
    while pair.client().is_blocked() && probes < 200 {
        probes += 1;
        assert!(pair.persist(0));
        pair.run();
    }
    assert_eq!(probes, 200, "the window stays closed");
    let used = pair.server().arrivals.ready + pair.server().arrivals.behind;
    assert!(used <= 3 * u64::from(WINDOW), "{used}");
    pair.server().accept();
    let mut received = Vec::new();
    for _ in 0..30 {
        received.extend(read_all(pair.server(), id).0);
        pair.run();
    }
    assert_eq!(received.len(), data.len());
    assert_eq!(received, data);
}

fn data(tseq: u32, stream: u16, sseq: u16, bytes: &[u8]) -> Data<'_> {
    let (fragment, sseq) = (Fragment::Whole, Sseq(sseq));
    Data { tseq: Tseq(tseq), stream, sseq, protocol: 5, unordered: false, fragment, data: bytes }
}

fn lone_server() -> Streams {
    let [_, server] = Pair::usual().ends;
    server.streams
}

// spec 3.35, 3.36
#[test]
fn wrong_streams_and_empty_data_are_acknowledged_and_reported() {
    let mut server = lone_server();
    let first = u32::MAX - 5;
    let invalid = server.on_data(&data(first, 8, 0, b"abc")).unwrap();
    assert_eq!(invalid, Heard { taken: Taken::InOrder, error: Some(DataError::InvalidStream) });
    let empty = server.on_data(&data(first + 1, 0, 0, b"")).unwrap();
    assert_eq!(empty, Heard { taken: Taken::InOrder, error: Some(DataError::NoUserData) });
    assert_eq!(server.ack(), Tseq(first + 1));
    server.on_data(&data(first + 2, 0, 1, b"abc")).unwrap();
    let id = server.accept().unwrap();
    assert!(
        matches!(server.receive_message(id), Ok(MessageOutcome::Message(message)) if message.data == "abc")
    );
    assert_eq!(server.receive_message(id), Ok(MessageOutcome::Blocked), "nothing empty is delivered");
    assert_eq!(server.on_data(&data(first + 3, 0, 1, b"abc")), Err(Broken::Impossible), "the SSEQ was used");
    assert_eq!(server.on_data(&data(first, 8, 0, b"abc")).unwrap().taken, Taken::Duplicate);
}

#[test]
fn memory_is_bounded_against_a_flood_of_single_bytes() {
    let bound = 4 * u64::from(WINDOW) + 1000;
    let first = u32::MAX - 5;
    // In sequence, on a stream that the application does not read.
    let mut server = lone_server();
    let mut dropped = 0;
    for count in 0..5000_u32 {
        let number = first.wrapping_add(count - dropped);
        let heard = server.on_data(&data(number, 0, u16::try_from(count - dropped).unwrap(), b"x")).unwrap();
        dropped += u32::from(heard.taken == Taken::TooFar);
        assert!(server.tally().ahead + server.arrivals.ready <= bound);
    }
    assert!(dropped > 0);
    // Behind a gap.
    let mut server = lone_server();
    for count in 1..5000_u16 {
        server.on_data(&data(first.wrapping_add(count.into()), 0, count, b"x")).unwrap();
        assert!(server.tally().ahead + server.arrivals.ready <= bound);
    }
    assert!(server.has_gap());
    assert_eq!(
        server.on_data(&data(first, 0, 0, b"x")).unwrap().taken,
        Taken::FillsGap,
        "what others wait for"
    );
    // Fragments of a message that never ends.
    let mut server = lone_server();
    let end = (0..5000_u32).find_map(|count| {
        let fragment = if count == 0 { Fragment::First } else { Fragment::Middle };
        let block = Data { fragment, ..data(first.wrapping_add(count), 0, 0, b"x") };
        assert!(server.tally().ahead <= bound);
        server.on_data(&block).err()
    });
    assert_eq!(end, Some(Broken::TooLarge));
}

#[test]
fn a_stopped_half_drops_what_comes_and_gives_back_the_window() {
    let mut pair = Pair::usual();
    let id = pair.client().open().unwrap();
    pair.client().write(id, pattern(10 * WINDOW as usize).into()).unwrap();
    pair.run();
    pair.server().accept();
    pair.server().stop(id, 1).unwrap();
    pair.run();
    assert!(pair.client().is_idle());
    assert_eq!(pair.server().read(id, 1), Err(Misuse::ReceivingEnded { stream: id }));
}

#[test]
fn a_flood_of_single_bytes_against_a_slow_reader_ends() {
    let mut pair = Pair::new(2000, (8, 8), (8, 8));
    let id = pair.client().open().unwrap();
    let count = 3000_u32;
    for _ in 0..count {
        let unordered = MessageOptions::default().order(Order::Unordered);
        pair.client().send_message(at(0), id, Bytes::from_static(b"x"), unordered).unwrap();
    }
    let mut received = 0;
    for round in 0.. {
        assert!(round < 2000, "{received} of {count}");
        pair.run_once();
        pair.lose_all();
        if round % 3 == 0 {
            pair.server().accept();
            while let Ok(MessageOutcome::Message(_)) = pair.server().receive_message(id) {
                received += 1;
            }
        }
        if received == count {
            break;
        }
        pair.persist(0);
    }
    pair.run();
    assert!(pair.client().is_idle());
}
