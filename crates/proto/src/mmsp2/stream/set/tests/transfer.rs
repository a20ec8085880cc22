//! Bytes arrive as they were written on any network.

use proptest::prelude::*;

use super::*;
use crate::ByteCount;
use crate::packet::content::SentContent;

/// The next step of the network or the applications; numbers choose among the possibilities.
#[derive(Debug, Clone)]
enum Step {
    Open,
    Write { stream: usize, bytes: usize },
    Finish { stream: usize },
    Prioritise { stream: usize, priority: i8 },
    Send { size: usize },
    SendFurtherOn { size: usize, skip: u64 },
    SendOf { size: usize, stream: usize },
    SendAgain { size: usize },
    Deliver { packet: usize },
    Copy { packet: usize },
    Lose { packet: usize },
    Reinject { packet: usize },
    Acknowledge { packet: usize },
    Read { stream: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let any = 0usize..1_000;
    prop_oneof![
        1 => Just(Step::Open),
        3 => (any.clone(), 0usize..9_000).prop_map(|(stream, bytes)| Step::Write { stream, bytes }),
        1 => any.clone().prop_map(|stream| Step::Finish { stream }),
        1 => (any.clone(), -2i8..3).prop_map(|(stream, priority)| Step::Prioritise { stream, priority }),
        8 => (60usize..1_500).prop_map(|size| Step::Send { size }),
        3 => (60usize..1_500, 0u64..9_000).prop_map(|(size, skip)| Step::SendFurtherOn { size, skip }),
        1 => (60usize..1_500, any.clone()).prop_map(|(size, stream)| Step::SendOf { size, stream }),
        1 => (60usize..1_500).prop_map(|size| Step::SendAgain { size }),
        6 => any.clone().prop_map(|packet| Step::Deliver { packet }),
        1 => any.clone().prop_map(|packet| Step::Copy { packet }),
        2 => any.clone().prop_map(|packet| Step::Lose { packet }),
        1 => any.clone().prop_map(|packet| Step::Reinject { packet }),
        4 => any.clone().prop_map(|packet| Step::Acknowledge { packet }),
        3 => any.prop_map(|stream| Step::Read { stream }),
    ]
}

/// A client that writes, a server that reads, and the packets between them.
struct World {
    client: Peer,
    server: Peer,
    ids: Vec<StreamId>,
    written: BTreeMap<StreamId, usize>,
    finished: Vec<StreamId>,
    flying: Vec<Packet>,
    arrived: Vec<Packet>,
}

impl World {
    fn new() -> Self {
        let (client, server) = pair(&small());
        Self {
            client,
            server,
            ids: Vec::new(),
            written: BTreeMap::new(),
            finished: Vec::new(),
            flying: Vec::new(),
            arrived: Vec::new(),
        }
    }

    fn id(&self, choice: usize) -> Option<StreamId> {
        (!self.ids.is_empty()).then(|| self.ids[choice % self.ids.len()])
    }

    fn flying(&mut self, choice: usize) -> Option<Packet> {
        (!self.flying.is_empty()).then(|| self.flying.swap_remove(choice % self.flying.len()))
    }

    fn write(&mut self, id: StreamId, bytes: usize) {
        if self.finished.contains(&id) {
            return;
        }
        let before = self.written[&id];
        let data = pattern(id, before + bytes).split_off(before);
        self.written.insert(id, before + self.client.write(id, &data));
    }

    fn finish(&mut self, id: StreamId) {
        if !self.finished.contains(&id) {
            self.client.streams.finish(id).unwrap();
            self.finished.push(id);
        }
    }

    fn deliver(&mut self, packet: Packet) {
        self.server.take(&packet).unwrap();
        self.arrived.push(packet);
        self.answer();
    }

    /// The return path is perfect: the server's blocks arrive at once.
    fn answer(&mut self) {
        while let Some(packet) = self.server.packet() {
            self.client.take(&packet).unwrap();
            self.server.settle(&packet);
        }
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Open => {
                if let Ok(id) = self.client.streams.open() {
                    self.ids.push(id);
                    self.written.insert(id, 0);
                }
            }
            Step::Write { stream, bytes } => {
                if let Some(id) = self.id(stream) {
                    self.write(id, bytes);
                }
            }
            Step::Finish { stream } => {
                if let Some(id) = self.id(stream) {
                    self.finish(id);
                }
            }
            Step::Prioritise { stream, priority } => {
                if let Some(id) = self.id(stream) {
                    let _gone = self.client.streams.set_priority(id, priority);
                }
            }
            Step::Send { size } => self.flying.extend(self.client.packet_of(size)),
            Step::SendFurtherOn { size, skip } => {
                self.flying.extend(self.client.packet_from(size, Source::Skip(ByteCount(skip))));
            }
            Step::SendOf { size, stream } => {
                if let Some(id) = self.id(stream) {
                    self.flying.extend(self.client.packet_from(size, Source::Stream(id)));
                }
            }
            Step::SendAgain { size } => {
                self.flying.extend(self.client.packet_from(size, Source::Retransmission));
            }
            Step::Deliver { packet } => {
                if let Some(packet) = self.flying(packet) {
                    self.deliver(packet);
                }
            }
            Step::Copy { packet } => {
                if let Some(packet) = self.flying(packet) {
                    self.server.take(&packet).unwrap();
                    self.flying.push(packet);
                }
            }
            Step::Lose { packet } => {
                if let Some(packet) = self.flying(packet) {
                    self.client.lose(&packet);
                }
            }
            Step::Reinject { packet } => {
                if let Some(packet) = self.flying(packet) {
                    packet.contents.iter().for_each(|content| self.client.streams.reinject(content));
                    self.flying.push(packet);
                }
            }
            Step::Acknowledge { packet } => {
                if !self.arrived.is_empty() {
                    let packet = self.arrived.swap_remove(packet % self.arrived.len());
                    self.client.settle(&packet);
                }
            }
            Step::Read { stream } => {
                self.server.accept_all();
                if let Some(id) = self.id(stream) {
                    self.server.read(id);
                }
                self.answer();
            }
        }
    }

    /// From now on nothing is lost: everything must complete.
    fn finish_all(&mut self) {
        while let Some(packet) = self.flying(0) {
            self.deliver(packet);
        }
        for id in self.ids.clone() {
            self.finish(id);
        }
        for _ in 0..200 {
            if self.client.streams.is_idle() && self.server.ended.len() == self.ids.len() {
                return;
            }
            while let Some(packet) = self.arrived.pop() {
                self.client.settle(&packet);
            }
            while let Some(packet) = self.client.packet() {
                self.deliver(packet);
            }
            self.server.accept_all();
            for id in self.ids.clone() {
                self.server.read(id);
            }
            self.answer();
        }
    }

    fn check_laws(&self) {
        let credit = &self.client.streams.send_credit;
        assert!(credit.used() <= credit.limit());
        assert!(self.server.streams.receive_credit.received() <= credit.used());
        let totals = &self.client.streams.queue.totals;
        let ready: Vec<_> = self.client.streams.streams.values().map(|stream| stream.send.ready()).collect();
        assert_eq!(totals.new, ready.iter().map(|ready| ready.new).sum::<u64>());
        assert_eq!(totals.retransmissions, ready.iter().map(|ready| ready.retransmissions).sum::<u64>());
        assert_eq!(totals.deferred, ready.iter().map(|ready| ready.deferred).sum::<u64>());
        assert_eq!(totals.outstanding, ready.iter().map(|ready| ready.outstanding).sum::<u64>());
        assert_eq!(totals.credit, ready.iter().map(|ready| ready.credit).sum::<u64>());
        assert_eq!(totals.fin_only, ready.iter().filter(|ready| ready.fin_only).count());
        assert_eq!(totals.unsettled, ready.iter().filter(|ready| ready.unsettled).count());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn loss_copies_and_reordering_change_no_byte(steps in prop::collection::vec(step(), 1..250)) {
        let mut world = World::new();
        for step in steps {
            world.apply(step);
            world.check_laws();
        }
        world.finish_all();
        world.check_laws();
        for (id, length) in &world.written {
            let received = world.server.received.get(id).cloned().unwrap_or_default();
            prop_assert_eq!(received, pattern(*id, *length));
            prop_assert_eq!(world.server.ended.get(id), Some(&ReadOutcome::End));
        }
        prop_assert!(world.client.streams.is_idle());
        for id in &world.ids {
            prop_assert!(world.client.saw(StreamEvent::Finished(*id)));
        }
    }
}

#[test]
fn a_late_acknowledgement_cancels_the_copy_of_a_reinjected_packet() {
    let (mut client, mut server) = pair(&small());
    let id = client.streams.open().unwrap();
    client.write(id, &pattern(id, 2_000));
    let (first, second) = (client.packet().unwrap(), client.packet().unwrap());
    for packet in [&first, &second] {
        packet.contents.iter().for_each(|content| client.streams.reinject(content));
    }
    assert_eq!(client.streams.backlog(), ByteCount(2_000));
    server.take(&first).unwrap();
    client.settle(&first);
    let copy = client.packet().unwrap();
    let SentContent::Stream { offset, length, .. } = copy.contents[0] else { panic!("{:?}", copy.contents) };
    let SentContent::Stream { length: first_length, .. } = first.contents[0] else { panic!() };
    assert_eq!((offset, length), (u64::from(first_length), 2_000 - first_length));
    assert!(client.packet().is_none());
    client.settle(&second);
    client.settle(&copy);
    assert!(client.streams.is_idle());
}

#[test]
fn a_big_stream_does_not_starve_a_small_one() {
    let (mut client, _) = pair(&StreamConfig::default());
    let (big, little) = (client.streams.open().unwrap(), client.streams.open().unwrap());
    client.write(big, &vec![1; 1 << 20]);
    for _ in 0..20 {
        client.packet().unwrap();
    }
    client.write(little, &[2; 500]);
    let waited = (0..).find(|_| {
        let packet = client.packet().unwrap();
        packet
            .contents
            .iter()
            .any(|content| matches!(content, SentContent::Stream { stream, .. } if *stream == little))
    });
    assert!(waited.unwrap() <= 8, "{waited:?} packets");
}

#[test]
fn an_urgent_stream_goes_first() {
    let (mut client, _) = pair(&StreamConfig::default());
    let ids = [(); 3].map(|()| client.streams.open().unwrap());
    for id in ids {
        client.write(id, &[1; 3_000]);
    }
    client.streams.set_priority(ids[2], 1).unwrap();
    client.streams.set_priority(ids[0], -1).unwrap();
    let mut order = Vec::new();
    while let Some(packet) = client.packet() {
        order.extend(packet.contents.iter().map(|content| {
            let SentContent::Stream { stream, .. } = content else { panic!("{content:?}") };
            *stream
        }));
    }
    order.dedup();
    assert_eq!(order, [ids[2], ids[1], ids[0]]);
}

#[test]
fn retransmissions_go_before_new_bytes() {
    let (mut client, _) = pair(&StreamConfig::default());
    let id = client.streams.open().unwrap();
    client.write(id, &[1; 100_000]);
    let first = client.packet().unwrap();
    client.packet().unwrap();
    client.lose(&first);
    let third = client.packet().unwrap();
    assert!(matches!(third.contents[0], SentContent::Stream { offset: 0, .. }));
}

#[test]
fn a_block_that_fills_the_packet_has_no_padding() {
    let (mut client, mut server) = pair(&StreamConfig::default());
    let id = client.streams.open().unwrap();
    client.write(id, &pattern(id, 100_000));
    for size in 1_190..1_200 {
        let packet = client.packet_of(size).unwrap();
        assert_eq!(packet.payload.len(), size);
        server.take(&packet).unwrap();
    }
    server.accept_all();
    server.read(id);
    assert_eq!(server.received[&id], pattern(id, server.received[&id].len()));
    assert!(server.received[&id].len() > 11_000);
}

#[test]
fn bulk_in_order_keeps_its_queues_short() {
    let (mut client, mut server) = pair(&StreamConfig::default());
    let id = client.streams.open().unwrap();
    let chunk = Bytes::from(vec![5; 64 << 10]);
    let mut moved = 0;
    for _ in 0..200 {
        assert_eq!(client.streams.write(id, chunk.clone()), Ok(chunk.len()));
        while let Some(packet) = client.packet() {
            assert!(!packet.contents.spilled());
            server.take(&packet).unwrap();
            client.settle(&packet);
        }
        server.accept_all();
        while let Ok(ReadOutcome::Data(bytes)) = server.streams.read(id, usize::MAX) {
            moved += bytes.len();
        }
        while let Some(packet) = server.packet() {
            client.take(&packet).unwrap();
            server.settle(&packet);
        }
    }
    assert_eq!(moved, 200 * chunk.len());
    assert!(client.streams.is_idle());
}
