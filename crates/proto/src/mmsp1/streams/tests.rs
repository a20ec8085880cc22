//! Two ends without an engine: packets go through the blocks of the wire.

mod limits;
mod random;

use bytes::Bytes;
use manyway_wire::PathId;
use manyway_wire::Writer;
use manyway_wire::mmsp1::{Block, Blocks, Data, Sack, Tag, Tseq};

use super::*;
use crate::mmsp1::cuts::{BlockQueue, Flight as _};
use crate::mmsp1::sack::{check, translate};
use crate::mmsp1::testing::{self, FakeFlight, at};
use crate::packet::content::Contents;
use crate::scheduler::Source;
use crate::stream::priority::ClassFilter;
use crate::{ByteCount, Carries, Class, MessageOptions, MessageOutcome, Misuse, Order, ReadOutcome};

const PACKET: usize = 1200 - HEADER_LEN;
const WINDOW: u32 = 64 << 10;

fn opening(window: u32, numbers: (u16, u16), tseq: u32) -> Opening {
    Opening { tag: Tag(1), window, outgoing: numbers.0, incoming: numbers.1, tseq: Tseq(tseq) }
}

struct End {
    streams: Streams,
    flight: FakeFlight,
    sack_is_due: bool,
}

/// Two ends and the clock.
struct Pair {
    ends: [End; 2],
    millis: u64,
}

impl Pair {
    fn new(window: u32, client: (u16, u16), server: (u16, u16)) -> Self {
        let openings = [opening(window, client, u32::MAX - 5), opening(window, server, 77)];
        let sides = [Side::Client, Side::Server];
        let config = StreamConfig::default();
        let end = |index: usize| {
            let mut streams = Streams::new(sides[index], &config, &openings[index]);
            streams.set_peer(&openings[index], &openings[1 - index]);
            End { streams, flight: FakeFlight::default(), sack_is_due: false }
        };
        Self { ends: [end(0), end(1)], millis: 0 }
    }

    fn usual() -> Self {
        Self::new(WINDOW, (8, 8), (8, 8))
    }

    fn client(&mut self) -> &mut Streams {
        &mut self.ends[0].streams
    }

    fn server(&mut self) -> &mut Streams {
        &mut self.ends[1].streams
    }

    /// Writes one packet of one end.
    fn packet(&mut self, from: usize, path: u32, source: Source) -> Option<Vec<u8>> {
        let now = at(self.millis);
        let End { streams, flight, sack_is_due } = &mut self.ends[from];
        let mut buffer = Vec::new();
        let mut contents = Contents::new();
        let mut w = Writer::new(&mut buffer, PACKET);
        *sack_is_due |= streams.wants_window_update();
        if std::mem::take(sack_is_due) {
            assert!(streams.write_sack(&mut w));
        }
        streams.write_data(&mut w, &mut contents, source, ClassFilter::All);
        register(streams, flight, now, path, &contents);
        (!buffer.is_empty()).then_some(buffer)
    }

    /// Delivers a packet to one end.
    fn deliver(&mut self, to: usize, packet: &[u8]) {
        for block in Blocks::new(packet) {
            let block = block.unwrap();
            if let Block::Sack(sack) = block {
                self.take_sack(to, &sack);
                continue;
            }
            let Block::Data(data) = block else { panic!("{block:?}") };
            self.ends[to].sack_is_due = true;
            assert_eq!(self.ends[to].streams.on_data(&data).map(|heard| heard.error), Ok(None));
        }
    }

    fn take_sack(&mut self, to: usize, sack: &Sack<'_>) {
        let now = at(self.millis);
        let End { streams, flight, .. } = &mut self.ends[to];
        let checked = check(sack, streams.cuts()).unwrap();
        let acknowledged = translate(&checked, streams.cuts(), now, flight);
        streams.acknowledge(&acknowledged, checked.aws);
        for on in &acknowledged.paths {
            for number in on.unknown.iter() {
                flight.remove(on.path, *number);
            }
            for number in on.timed.iter().chain(on.untimed.iter()).flatten() {
                let Some((contents, _)) = flight.remove(on.path, number) else { continue };
                contents.iter().for_each(|content| streams.on_out_of_flight(content, flight));
            }
        }
    }

    fn lose_all(&mut self) {
        for End { streams, flight, .. } in &mut self.ends {
            for (path, number) in flight.in_flight() {
                let Some((contents, reinjected)) = flight.remove(path, number) else { continue };
                if !reinjected {
                    contents.iter().for_each(|content| streams.on_out_of_flight(content, flight));
                }
            }
        }
    }

    /// Exchanges packets until neither end has anything to send.
    fn run(&mut self) {
        while self.run_once() {}
    }

    /// Each end sends all that it has; false if that was nothing.
    fn run_once(&mut self) -> bool {
        let mut has_sent = false;
        for from in [0, 1] {
            while let Some(packet) = self.packet(from, 0, Source::Next) {
                has_sent = true;
                self.deliver(1 - from, &packet);
            }
        }
        self.millis += 1;
        has_sent
    }

    fn persist(&mut self, from: usize) -> bool {
        let streams = &mut self.ends[from].streams;
        streams.repeat_blocked();
        let mut buffer = Vec::new();
        let wrote = streams.write_persist(&mut Writer::new(&mut buffer, PACKET));
        self.deliver(1 - from, &buffer);
        wrote
    }
}

fn register(
    streams: &mut Streams,
    flight: &mut FakeFlight,
    now: Instant,
    path: u32,
    contents: &Contents,
) -> u64 {
    if contents.is_empty() {
        return 0;
    }
    let number = flight.add(PathId(path), contents.to_vec());
    streams.on_sent(now, PathId(path), number, contents);
    number
}

fn read_all(streams: &mut Streams, id: StreamId) -> (Vec<u8>, Option<ReadOutcome>) {
    let mut bytes = Vec::new();
    loop {
        match streams.read(id, 1000).unwrap() {
            ReadOutcome::Data(data) => bytes.extend_from_slice(&data),
            ReadOutcome::Blocked => return (bytes, None),
            end @ (ReadOutcome::End | ReadOutcome::Reset(_)) => return (bytes, Some(end)),
        }
    }
}

fn pattern(length: usize) -> Vec<u8> {
    testing::pattern(0..length)
}

fn events(streams: &mut Streams) -> Vec<StreamEvent> {
    std::iter::from_fn(|| streams.poll_event()).collect()
}

#[test]
fn bytes_go_both_ways_and_each_end_is_told() {
    let mut pair = Pair::usual();
    let id = pair.client().open().unwrap();
    assert_eq!((id, pair.server().accept()), (StreamId(0), None));
    assert_eq!(pair.client().write(id, pattern(5000).into()), Ok(5000));
    pair.client().finish(id).unwrap();
    pair.run();
    assert_eq!(events(pair.server()), [StreamEvent::Opened]);
    assert_eq!(pair.server().accept(), Some(id));
    assert_eq!(events(pair.server()), [StreamEvent::Readable(id)]);
    assert_eq!(read_all(pair.server(), id), (pattern(5000), Some(ReadOutcome::End)));
    assert_eq!(pair.server().read(id, 1), Err(Misuse::ReceivingEnded { stream: id }));
    assert_eq!(events(pair.client()), [StreamEvent::Finished(id)]);
    pair.server().write(id, Bytes::from_static(b"answer")).unwrap();
    pair.server().finish(id).unwrap();
    pair.run();
    assert_eq!(read_all(pair.client(), id), (b"answer".to_vec(), Some(ReadOutcome::End)));
    assert!(pair.ends.iter().all(|end| end.streams.is_idle() && end.streams.streams.is_empty()));
    assert!(pair.ends.iter().all(|end| end.streams.arrivals.ready == 0 && end.streams.arrivals.behind == 0));
}

// spec 3.146
#[test]
fn streams_are_used_again() {
    let mut pair = Pair::new(WINDOW, (4, 4), (4, 4));
    for round in 0..5_u64 {
        let ids = [pair.client().open().unwrap(), pair.client().open().unwrap()];
        assert!(matches!(pair.client().open(), Err(Misuse::NoStreamCredit { .. })));
        if round == 0 {
            assert_eq!(ids, [StreamId(0), StreamId(2)]);
        }
        for id in ids {
            let text = Bytes::from(format!("round {round} of {id}"));
            pair.client().write(id, text.clone()).unwrap();
            pair.client().finish(id).unwrap();
            pair.run();
            assert_eq!(pair.server().accept(), Some(id));
            assert_eq!(read_all(pair.server(), id), (text.to_vec(), Some(ReadOutcome::End)));
            pair.server().reset(id, 3).unwrap();
            pair.run();
            let told = events(pair.client());
            assert!(
                told.contains(&StreamEvent::Reset(id, 3)) && told.contains(&StreamEvent::Finished(id)),
                "{told:?}"
            );
            assert_eq!(told.contains(&StreamEvent::Available), id == ids[0], "{told:?}");
            assert_eq!(pair.client().read(id, 1), Ok(ReadOutcome::Reset(3)));
        }
    }
}

#[test]
fn a_stream_in_use_does_not_keep_the_others_from_being_used_again() {
    let mut pair = Pair::new(WINDOW, (4, 4), (4, 4));
    let long = pair.client().open().unwrap();
    pair.client().write(long, Bytes::from_static(b"long")).unwrap();
    for _ in 0..3 {
        let id = pair.client().open().unwrap();
        pair.client().finish(id).unwrap();
        pair.run();
        while let Some(accepted) = pair.server().accept() {
            if accepted == id {
                // The next use may begin before the application has read this one to its end.
                pair.server().finish(id).unwrap();
            }
        }
        pair.run();
    }
    assert!(pair.client().streams.contains_key(&long));
}

#[test]
fn an_end_that_sends_on_fewer_streams_opens_no_others() {
    let mut pair = Pair::new(WINDOW, (1, 3), (9, 9));
    assert_eq!(pair.client().open(), Ok(StreamId(0)));
    assert!(pair.client().open().is_err(), "the client sends on one stream");
    assert_eq!(pair.server().open(), Ok(StreamId(1)));
    assert!(pair.server().open().is_err(), "the client takes streams 0 to 2");
    pair.server().write(StreamId(1), Bytes::from_static(b"news")).unwrap();
    pair.server().finish(StreamId(1)).unwrap();
    pair.run();
    assert_eq!(pair.client().accept(), Some(StreamId(1)));
    assert_eq!(read_all(pair.client(), StreamId(1)).0, b"news");
    assert!(pair.client().write(StreamId(1), Bytes::from_static(b"x")).is_err(), "there is no way back");
}

#[test]
fn messages_keep_boundaries_order_and_protocol() {
    let mut pair = Pair::usual();
    let id = pair.client().open().unwrap();
    let unordered = MessageOptions::default().order(Order::Unordered);
    for (size, options) in [
        (5000, MessageOptions::default().protocol(1)),
        (1, MessageOptions::default().protocol(2)),
        (3, unordered.protocol(3)),
    ] {
        pair.client().send_message(at(0), id, pattern(size).into(), options).unwrap();
    }
    pair.client().finish(id).unwrap();
    pair.run();
    assert_eq!(pair.server().accept(), Some(id));
    assert_eq!(pair.server().carries(id), Ok(Carries::Messages));
    for (size, protocol) in [(5000, 1), (1, 2), (3, 3)] {
        assert_eq!(pair.server().next_message(id), Some(size));
        let MessageOutcome::Message(message) = pair.server().receive_message(id).unwrap() else {
            panic!("none")
        };
        assert_eq!((message.data.to_vec(), message.protocol), (pattern(size), protocol));
    }
    assert_eq!(pair.server().receive_message(id), Ok(MessageOutcome::End));
    let (client, server) = (pair.client().message_statistics(), pair.server().message_statistics());
    assert_eq!((client.sent, client.delivered, server.received), (3, 3, 3));
}

#[test]
fn the_end_waits_for_unordered_messages_before_it() {
    let mut pair = Pair::usual();
    let id = pair.client().open().unwrap();
    let unordered = MessageOptions::default().order(Order::Unordered);
    pair.client().send_message(at(0), id, pattern(1100).into(), unordered).unwrap();
    pair.client().finish(id).unwrap();
    let (first, second) = (pair.packet(0, 0, Source::Next).unwrap(), pair.packet(0, 0, Source::Next));
    let end = second.unwrap_or_default();
    let blocks = Blocks::new(&first).count();
    assert_eq!((blocks, Blocks::new(&end).count()), (2, 0), "message and end share a packet");
    // Only the end arrives.
    let last = Blocks::new(&first).last().unwrap().unwrap();
    let Block::Data(data) = last else { panic!("{last:?}") };
    pair.server().on_data(&data).unwrap();
    pair.server().accept().unwrap();
    assert_eq!(pair.server().receive_message(id), Ok(MessageOutcome::Blocked));
    pair.deliver(1, &first);
    assert!(matches!(pair.server().receive_message(id), Ok(MessageOutcome::Message(_))));
    assert_eq!(pair.server().receive_message(id), Ok(MessageOutcome::End));
}

// spec 3.32
#[test]
fn a_blocked_stream_blocks_no_other() {
    let mut pair = Pair::usual();
    let (first, second) = (pair.client().open().unwrap(), pair.client().open().unwrap());
    pair.client().write(first, pattern(1000).into()).unwrap();
    pair.packet(0, 0, Source::Next).unwrap();
    pair.client().write(first, pattern(1000).into()).unwrap();
    pair.client().write(second, pattern(100).into()).unwrap();
    while let Some(packet) = pair.packet(0, 0, Source::Next) {
        pair.deliver(1, &packet);
    }
    assert_eq!((pair.server().accept(), pair.server().accept()), (Some(first), Some(second)));
    assert_eq!(pair.server().read(first, 1), Ok(ReadOutcome::Blocked));
    assert_eq!(read_all(pair.server(), second).0.len(), 100);
    assert!(pair.server().expects_more());
    pair.lose_all();
    pair.run();
    assert_eq!(read_all(pair.server(), first).0.len(), 2000);
}

#[test]
fn deferred_bytes_have_their_tseqs_and_go_next() {
    let mut pair = Pair::usual();
    let id = pair.client().open().unwrap();
    pair.client().write(id, pattern(6 * FRAGMENT).into()).unwrap();
    let late = pair.packet(0, 1, Source::Skip(ByteCount(2 * FRAGMENT as u64))).unwrap();
    let backlog = pair.client().backlog_of(ClassFilter::All);
    assert_eq!(backlog.deferred, ByteCount(2 * FRAGMENT as u64));
    assert_eq!(backlog.backlog, ByteCount(5 * FRAGMENT as u64));
    let rest: Vec<_> = std::iter::from_fn(|| pair.packet(0, 0, Source::Next)).collect();
    assert_eq!(rest.len(), 5);
    pair.deliver(1, &late);
    assert_eq!((pair.server().has_gap(), pair.server().accept()), (true, Some(id)));
    assert_eq!(pair.server().read(id, 1), Ok(ReadOutcome::Blocked));
    rest.iter().for_each(|packet| pair.deliver(1, packet));
    assert_eq!(read_all(pair.server(), id).0, pattern(6 * FRAGMENT));
    assert!(pair.packet(0, 1, Source::Skip(ByteCount(1))).is_none());
}

#[test]
fn a_copy_is_written_only_of_what_is_in_flight() {
    let mut pair = Pair::usual();
    let id = pair.client().open().unwrap();
    pair.client().write(id, pattern(100).into()).unwrap();
    pair.packet(0, 0, Source::Next).unwrap();
    let (path, number) = pair.ends[0].flight.in_flight()[0];
    let content = pair.ends[0].flight.packet(path, number).unwrap().contents[0];
    let (mut buffer, mut contents) = (Vec::new(), Contents::new());
    let reached = pair.client().write_copy(&content, &mut Writer::new(&mut buffer, PACKET), &mut contents);
    assert_eq!((reached, contents.as_slice()), (content.tseq().map(|tseq| tseq + 1), &[content][..]));
    let small = pair.client().write_copy(&content, &mut Writer::new(&mut Vec::new(), 50), &mut contents);
    assert_eq!((small, contents.len()), (None, 1), "it does not fit");
    pair.client().write_oldest(PathId(0), &mut Writer::new(&mut Vec::new(), PACKET), &mut contents);
    assert_eq!(contents.len(), 1, "it is in the packet already");
    assert!(pair.client().is_held_up_by(&content) && !pair.client().has_arrived(&content));
    pair.lose_all();
    assert_eq!(pair.client().cuts.next(BlockQueue::Retransmit, ClassFilter::All, Edge::NONE), content.tseq());
    pair.client().write_copy(&content, &mut Writer::new(&mut Vec::new(), PACKET), &mut contents);
    assert_eq!(contents.len(), 1, "it waits to be sent again");
    pair.run();
    assert!(pair.client().has_arrived(&content));
}

#[test]
fn an_urgent_message_goes_before_the_repeats_of_others() {
    let mut pair = Pair::usual();
    let (bulk, urgent) = (pair.client().open().unwrap(), pair.client().open().unwrap());
    pair.client().set_class(urgent, Class::Interactive).unwrap();
    pair.client().write(bulk, pattern(3000).into()).unwrap();
    while pair.packet(0, 0, Source::Next).is_some() {}
    pair.lose_all();
    pair.client().write(urgent, pattern(10).into()).unwrap();
    assert_eq!(pair.client().urgent_backlog(), Some(10));
    assert!(pair.client().wants_data(ClassFilter::Urgent));
    let mut list = Vec::new();
    pair.client().ready_streams(ClassFilter::All, &mut list);
    let listed: Vec<_> =
        list.iter().map(|ready| (ready.stream, ready.unsent.get(), ready.retransmissions.get())).collect();
    assert_eq!(listed, [(urgent, 10, 0), (bulk, 0, 3000)]);
    let packet = pair.packet(0, 0, Source::Next).unwrap();
    let Some(Ok(Block::Data(first))) = Blocks::new(&packet).next() else { panic!("no DATA") };
    assert_eq!(u64::from(first.stream), urgent.0);
}
