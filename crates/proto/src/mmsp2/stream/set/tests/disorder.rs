//! Both ends write, end, reset and stop at random, over a network that loses and reorders both ways: at the end
//! nothing is left, and both ends have counted the same credit.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Open,
    Write { stream: usize, bytes: usize },
    Finish { stream: usize },
    Reset { stream: usize },
    Stop { stream: usize },
    Read { stream: usize },
    Send,
    Deliver { packet: usize },
    Lose { packet: usize },
    Reinject { packet: usize },
    Acknowledge { packet: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let any = 0usize..1_000;
    prop_oneof![
        2 => Just(Step::Open),
        4 => (any.clone(), 0usize..6_000).prop_map(|(stream, bytes)| Step::Write { stream, bytes }),
        1 => any.clone().prop_map(|stream| Step::Finish { stream }),
        1 => any.clone().prop_map(|stream| Step::Reset { stream }),
        1 => any.clone().prop_map(|stream| Step::Stop { stream }),
        3 => any.clone().prop_map(|stream| Step::Read { stream }),
        8 => Just(Step::Send),
        6 => any.clone().prop_map(|packet| Step::Deliver { packet }),
        2 => any.clone().prop_map(|packet| Step::Lose { packet }),
        1 => any.clone().prop_map(|packet| Step::Reinject { packet }),
        4 => any.prop_map(|packet| Step::Acknowledge { packet }),
    ]
}

/// One end, with the calls of its application and its packets in the network.
struct End {
    peer: Peer,
    known: Vec<StreamId>,
    written: BTreeMap<StreamId, usize>,
    flying: Vec<Packet>,
    arrived: Vec<Packet>,
}

impl End {
    fn new(side: Side) -> Self {
        Self {
            peer: Peer::new(side, &small(), &small()),
            known: Vec::new(),
            written: BTreeMap::new(),
            flying: Vec::new(),
            arrived: Vec::new(),
        }
    }

    fn id(&self, choice: usize) -> Option<StreamId> {
        (!self.known.is_empty()).then(|| self.known[choice % self.known.len()])
    }

    fn flying(&mut self, choice: usize) -> Option<Packet> {
        (!self.flying.is_empty()).then(|| self.flying.swap_remove(choice % self.flying.len()))
    }

    /// A call of the application; an untimely one is rightly refused.
    fn call(&mut self, step: &Step) {
        self.known.extend(std::iter::from_fn(|| self.peer.streams.accept()));
        let streams = &mut self.peer.streams;
        if let Step::Open = step {
            self.known.extend(streams.open());
        }
        let (Step::Write { stream, .. }
        | Step::Finish { stream }
        | Step::Reset { stream }
        | Step::Stop { stream }
        | Step::Read { stream }) = step
        else {
            return;
        };
        let Some(id) = self.id(*stream) else { return };
        let streams = &mut self.peer.streams;
        if let Step::Write { bytes, .. } = step {
            let before = self.written.get(&id).copied().unwrap_or_default();
            let data = pattern(id, before + bytes).split_off(before);
            let accepted = streams.write(id, data.into()).unwrap_or_default();
            self.written.insert(id, before + accepted);
        } else if let Step::Finish { .. } = step {
            let _refused = streams.finish(id);
        } else if let Step::Reset { .. } = step {
            let _refused = streams.reset(id, 1);
        } else if let Step::Stop { .. } = step {
            let _refused = streams.stop(id, 2);
        } else {
            self.peer.read(id);
        }
    }

    fn apply(&mut self, step: &Step, other: &mut Self) {
        self.call(step);
        if let Step::Send = step {
            self.flying.extend(self.peer.packet());
        } else if let Step::Deliver { packet } = step {
            let Some(packet) = self.flying(*packet) else { return };
            other.peer.take(&packet).unwrap();
            self.arrived.push(packet);
        } else if let Step::Lose { packet } = step {
            let Some(packet) = self.flying(*packet) else { return };
            self.peer.lose(&packet);
        } else if let Step::Reinject { packet } = step {
            let Some(packet) = self.flying(*packet) else { return };
            packet.contents.iter().for_each(|content| self.peer.streams.reinject(content));
            self.flying.push(packet);
        } else if let Step::Acknowledge { packet } = step
            && !self.arrived.is_empty()
        {
            let packet = self.arrived.swap_remove(packet % self.arrived.len());
            self.peer.settle(&packet);
        }
    }

    fn is_quiet(&self) -> bool {
        self.peer.streams.streams.is_empty() && self.flying.is_empty() && self.arrived.is_empty()
    }

    /// From now on nothing is lost, and the application reads and ends all streams.
    fn finish(&mut self, other: &mut Self) {
        self.call(&Step::Send);
        for stream in 0..self.known.len() {
            self.call(&Step::Read { stream });
            self.call(&Step::Finish { stream });
        }
        self.flying.extend(std::iter::from_fn(|| self.peer.packet()));
        while let Some(packet) = self.flying(0) {
            other.peer.take(&packet).unwrap();
            self.arrived.push(packet);
        }
        while let Some(packet) = self.arrived.pop() {
            self.peer.settle(&packet);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn every_stream_ends_and_both_ends_count_the_same(
        steps in prop::collection::vec((any::<bool>(), step()), 1..300),
    ) {
        let (mut client, mut server) = (End::new(Side::Client), End::new(Side::Server));
        for (by_client, step) in steps {
            let (this, other) = if by_client { (&mut client, &mut server) } else { (&mut server, &mut client) };
            this.apply(&step, other);
        }
        for _ in 0..100 {
            if client.is_quiet() && server.is_quiet() {
                break;
            }
            client.finish(&mut server);
            server.finish(&mut client);
        }
        for (from, to) in [(&client, &server), (&server, &client)] {
            prop_assert!(from.peer.streams.is_idle());
            prop_assert_eq!(from.peer.streams.streams.len(), 0);
            let credit = &to.peer.streams.receive_credit;
            prop_assert_eq!(from.peer.streams.send_credit.used(), credit.received());
            prop_assert_eq!(credit.consumed(), credit.received());
            for (id, received) in &to.peer.received {
                let written = from.written[id];
                prop_assert_eq!(received, &pattern(*id, received.len()));
                let ended = to.peer.ended.get(id) == Some(&ReadOutcome::End);
                prop_assert!(received.len() == written || (received.len() < written && !ended));
            }
        }
    }
}
