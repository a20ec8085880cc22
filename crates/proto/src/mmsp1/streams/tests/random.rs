//! Random operations over a network that loses and reorders.

use manyway_wire::PathId;
use proptest::prelude::*;

use super::*;

/// Bytes and messages of the client, on their way.
struct Transfer {
    pair: Pair,
    bytes: StreamId,
    messages: StreamId,
    written: usize,
    sent: u32,
    network: Vec<(usize, Vec<u8>)>,
    read: Vec<u8>,
    ordered: Vec<u32>,
    unordered: Vec<u32>,
}

impl Transfer {
    fn new() -> Self {
        let mut pair = Pair::new(20_000, (4, 4), (4, 4));
        let (bytes, messages) = (pair.client().open().unwrap(), pair.client().open().unwrap());
        Self {
            pair,
            bytes,
            messages,
            written: 0,
            sent: 0,
            network: Vec::new(),
            read: Vec::new(),
            ordered: Vec::new(),
            unordered: Vec::new(),
        }
    }

    fn write(&mut self, size: usize) {
        let data = testing::pattern(self.written..self.written + size);
        self.written += self.pair.client().write(self.bytes, data.into()).unwrap();
    }

    /// Every third message is unordered; the content tells the number.
    fn send(&mut self, size: usize) {
        let content = vec![self.sent.to_be_bytes()[3]; size];
        let order = if self.sent % 3 == 2 { Order::Unordered } else { Order::Ordered };
        let options = MessageOptions::default().protocol(self.sent).order(order);
        let sent = self.pair.client().send_message(at(0), self.messages, content.into(), options);
        self.sent += u32::from(sent.is_ok());
    }

    fn packet(&mut self, from: usize, path: u32, source: Source) {
        let packet = self.pair.packet(from, path, source);
        self.network.extend(packet.map(|packet| (1 - from, packet)));
    }

    /// Copies of the oldest blocks of a path on another one.
    fn copy(&mut self, path: u32) {
        let now = at(self.pair.millis);
        let End { streams, flight, .. } = &mut self.pair.ends[0];
        let (mut buffer, mut contents) = (Vec::new(), Contents::new());
        streams.write_oldest(PathId(path), &mut Writer::new(&mut buffer, PACKET), &mut contents);
        if !contents.is_empty() {
            register(streams, flight, now, path + 1, &contents);
            self.network.push((1, buffer));
        }
    }

    fn reinject(&mut self, pick: prop::sample::Index) {
        let End { streams, flight, .. } = &mut self.pair.ends[0];
        let flying = flight.in_flight();
        if !flying.is_empty() {
            let (path, number) = flying[pick.index(flying.len())];
            flight.reinject(&mut streams.cuts, path, number);
        }
    }

    fn step(&mut self, (what, path, pick): (u8, u32, prop::sample::Index)) {
        self.pair.millis += 1;
        match what {
            0 => self.write(pick.index(8000)),
            1 => self.send(1 + pick.index(9000)),
            2 | 3 => self.packet(0, path, Source::Next),
            4 => self.packet(0, path, Source::Skip(ByteCount(pick.index(9000) as u64))),
            5 => self.packet(0, path, Source::Stream(if path == 0 { self.bytes } else { self.messages })),
            6 => self.packet(1, path, Source::Next),
            7 if !self.network.is_empty() => drop(self.network.swap_remove(pick.index(self.network.len()))),
            8 => self.pair.lose_all(),
            9 => self.take(),
            10 => self.copy(path),
            11 => self.reinject(pick),
            _ if !self.network.is_empty() => {
                let (to, packet) = self.network.swap_remove(pick.index(self.network.len()));
                self.pair.deliver(to, &packet);
            }
            _ => {}
        }
    }

    /// The server reads all that it can.
    fn take(&mut self) {
        let server = &mut self.pair.ends[1].streams;
        while server.accept().is_some() {}
        while let Ok(ReadOutcome::Data(data)) = server.read(self.bytes, 2000) {
            self.read.extend_from_slice(&data);
        }
        while let Ok(MessageOutcome::Message(message)) = server.receive_message(self.messages) {
            let content = message.protocol.to_be_bytes()[3];
            assert!(message.data.iter().all(|byte| *byte == content), "two messages were mixed");
            match message.order {
                Order::Ordered => self.ordered.push(message.protocol),
                Order::Unordered => self.unordered.push(message.protocol),
            }
        }
    }

    /// The network works again.
    fn finish(&mut self) {
        self.pair.client().finish(self.bytes).unwrap();
        self.pair.client().finish(self.messages).unwrap();
        for round in 0.. {
            assert!(round < 200, "it never ends");
            self.pair.lose_all();
            self.pair.run();
            self.pair.persist(0);
            self.take();
            if self.pair.client().is_idle() {
                return;
            }
        }
    }
}

/// Streams that both ends open and use one after the other, each of few numbers.
struct Reuse {
    pair: Pair,
    network: Vec<(usize, Vec<u8>)>,
    /// Opened and not finished, by end.
    open: [Vec<StreamId>; 2],
    /// Accepted and not read to the end, with what came, by end.
    reading: [BTreeMap<StreamId, Vec<u8>>; 2],
    written: [BTreeMap<StreamId, Vec<u8>>; 2],
    finished: usize,
}

impl Reuse {
    fn new() -> Self {
        Self {
            pair: Pair::new(20_000, (4, 4), (4, 4)),
            network: Vec::new(),
            open: [Vec::new(), Vec::new()],
            reading: [BTreeMap::new(), BTreeMap::new()],
            written: [BTreeMap::new(), BTreeMap::new()],
            finished: 0,
        }
    }

    fn step(&mut self, (what, end, pick): (u8, usize, prop::sample::Index)) {
        self.pair.millis += 1;
        let streams = &mut self.pair.ends[end].streams;
        match what {
            0 | 1 => {
                if let Ok(id) = streams.open() {
                    let text = format!("{id} of {end}, {}", pick.index(1000)).into_bytes();
                    streams.write(id, text.clone().into()).unwrap();
                    self.open[end].push(id);
                    assert!(self.written[end].insert(id, text).is_none(), "{id} was used twice");
                }
            }
            2 | 3 if !self.open[end].is_empty() => {
                let id = self.open[end].swap_remove(pick.index(self.open[end].len()));
                streams.finish(id).unwrap();
            }
            4 | 5 => self.read(end),
            6 | 7 => {
                self.network.extend(self.pair.packet(end, 0, Source::Next).map(|packet| (1 - end, packet)));
            }
            8 if !self.network.is_empty() => drop(self.network.swap_remove(pick.index(self.network.len()))),
            9 => self.pair.lose_all(),
            _ if !self.network.is_empty() => {
                let (to, packet) = self.network.swap_remove(pick.index(self.network.len()));
                self.pair.deliver(to, &packet);
            }
            _ => {}
        }
    }

    /// Accepts and reads; a stream of the peer that has ended gets its own end.
    fn read(&mut self, end: usize) {
        let streams = &mut self.pair.ends[end].streams;
        while let Some(id) = streams.accept() {
            self.reading[end].insert(id, Vec::new());
        }
        let mut ended = Vec::new();
        for (id, text) in &mut self.reading[end] {
            let (bytes, outcome) = read_all(streams, *id);
            text.extend_from_slice(&bytes);
            if outcome.is_some() {
                ended.push(*id);
            }
        }
        for id in ended {
            assert_eq!(self.reading[end].remove(&id), self.written[1 - end].get(&id).cloned(), "{id}");
            streams.finish(id).unwrap();
            self.finished += 1;
        }
        // On the way back of own streams only the end comes.
        for id in self.written[end].keys() {
            let outcome = streams.read(*id, 1);
            assert!(
                matches!(outcome, Err(_) | Ok(ReadOutcome::Blocked | ReadOutcome::End)),
                "{id}: {outcome:?}"
            );
        }
    }
}

proptest! {
    #[test]
    fn streams_are_used_again_by_both_ends_over_a_network_that_loses_and_reorders(
        steps in prop::collection::vec((0_u8..16, 0_usize..2, any::<prop::sample::Index>()), 1..400)
    ) {
        let mut reuse = Reuse::new();
        steps.into_iter().for_each(|step| reuse.step(step));
        for end in [0, 1] {
            for id in std::mem::take(&mut reuse.open[end]) {
                reuse.pair.ends[end].streams.finish(id).unwrap();
            }
        }
        for _ in 0..8 {
            reuse.pair.lose_all();
            reuse.pair.run();
            [0, 1].into_iter().for_each(|end| reuse.read(end));
        }
        let opened = reuse.written.iter().map(BTreeMap::len).sum::<usize>();
        prop_assert_eq!(reuse.finished, opened);
        for end in &reuse.pair.ends {
            prop_assert!(end.streams.is_idle() && end.streams.streams.is_empty());
            prop_assert!(end.streams.slots.values().all(|slot| slot.is_free));
        }
    }

    #[test]
    fn bytes_and_messages_arrive_over_a_network_that_loses_and_reorders(
        steps in prop::collection::vec((0_u8..18, 0_u32..3, any::<prop::sample::Index>()), 1..300)
    ) {
        let mut transfer = Transfer::new();
        steps.into_iter().for_each(|step| transfer.step(step));
        transfer.finish();
        let Transfer { mut pair, bytes, messages, written, sent, read, ordered, mut unordered, .. } = transfer;
        prop_assert!(read == testing::pattern(0..written), "{} of {written} bytes", read.len());
        prop_assert_eq!(ordered, (0..sent).filter(|number| number % 3 != 2).collect::<Vec<_>>());
        unordered.sort_unstable();
        prop_assert_eq!(unordered, (0..sent).filter(|number| number % 3 == 2).collect::<Vec<_>>());
        // The ends were read, and nothing is kept.
        prop_assert_eq!(pair.server().read(bytes, 1), Err(Misuse::ReceivingEnded { stream: bytes }));
        prop_assert!(pair.server().receive_message(messages).is_err());
        let arrivals = &pair.ends[1].streams.arrivals;
        prop_assert_eq!((arrivals.ready, arrivals.behind, arrivals.reassembly.held()), (0, 0, 0));
    }
}
