//! Flow control over MMSP/1: the edge, persist probes, and windows that open.

use bytes::Bytes;
use manyway_proto::{ByteCount, Instant, StreamId};
use manyway_sim::link::{LinkConfig, LossModel, Probability};
use manyway_sim::scenario::{MINUTE, MS, SECOND, mbit};
use manyway_sim::traffic::{Application, Read, Streams};
use manyway_sim::{EndpointPair, PairBuilder, Side};
use manyway_wire::mmsp1::Block;

use super::connected;
use super::tester::Tester;

/// Lets the endpoint send until the window of the peer is full, and acknowledges everything with a window of 0.
fn with_closed_window() -> Tester {
    let mut tester = Tester::accepted();
    let stream = tester.connection().open_stream().unwrap();
    tester.connection().write(stream, Bytes::from(vec![7; 150_000])).unwrap();
    let mut highest = 0;
    for _ in 0..200 {
        for sent in tester.take_all() {
            for block in sent.blocks() {
                if let Block::Data(data) = block {
                    highest = data.tseq.since(tester.told.unwrap().tseq).max(highest);
                }
            }
        }
        let left = 100_000_u32.saturating_sub((highest + 1) * 1172);
        tester.sack(highest, left.min(99_000));
        tester.run_for(5 * MS);
    }
    tester.sack(highest, 0);
    tester.discard();
    tester
}

fn count_data(tester: &mut Tester) -> usize {
    let sent = tester.take_all();
    sent.iter().for_each(|sent| tester.answer_probe(sent));
    sent.iter().filter(|sent| sent.names().contains(&"DATA")).count()
}

// spec 3.47
#[test]
fn a_persist_probe_that_is_lost_is_repeated_at_growing_intervals() {
    let mut tester = with_closed_window();
    let mut times = Vec::new();
    for step in 0..600 {
        tester.run_for(50 * MS);
        if count_data(&mut tester) > 0 {
            times.push(step);
        }
    }
    assert!(times.len() >= 6, "at {times:?}");
    let gaps: Vec<i32> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.windows(2).all(|pair| pair[1] >= pair[0] - 1), "{gaps:?}");
    assert!(gaps.iter().all(|gap| *gap <= 101), "at least each 5 s: {gaps:?}");
}

#[test]
fn the_block_of_a_persist_probe_may_be_acknowledged_or_the_edge_moved() {
    for takes in [false, true] {
        let mut tester = with_closed_window();
        let mut highest = 0;
        for _ in 0..40 {
            tester.run_for(50 * MS);
            for sent in tester.take_all() {
                tester.answer_probe(&sent);
                let tseqs = sent.blocks().into_iter();
                let tseqs = tseqs
                    .filter_map(|block| if let Block::Data(data) = block { Some(data.tseq) } else { None });
                let mut tseqs = tseqs.map(|tseq| tseq.since(tester.told.unwrap().tseq));
                highest = tseqs.next_back().unwrap_or(highest);
            }
            if highest > 0 {
                break;
            }
        }
        assert!(highest > 0, "a persist probe went");
        tester.sack(if takes { highest } else { highest - 1 }, 60_000);
        tester.run_for(10 * MS);
        let sent = tester.take_all();
        let first = sent.iter().find_map(|sent| {
            sent.blocks()
                .iter()
                .find_map(|block| if let Block::Data(data) = block { Some(data.tseq) } else { None })
        });
        let expected = if takes { highest + 1 } else { highest };
        assert_eq!(first.map(|tseq| tseq.since(tester.told.unwrap().tseq)), Some(expected));
    }
}

// spec 3.46
#[test]
fn a_window_that_opens_is_told() {
    let mut tester = Tester::accepted();
    let window = tester.told.unwrap().window;
    let content: &'static [u8] = &[9; 1000];
    for number in 0..window / 1000 {
        let data = tester.data(number, 0, u16::try_from(number).unwrap(), content);
        tester.deliver(|w| data.encode(w));
        tester.discard();
    }
    tester.connection().accept_stream().unwrap();
    tester.run_for(100 * MS);
    tester.discard();
    let mut read = 0;
    while let Ok(manyway_proto::MessageOutcome::Message(message)) =
        tester.connection().receive_message(StreamId(0))
    {
        read += message.data.len();
    }
    assert!(read > 1_000_000, "{read}");
    let sent = tester.take();
    let [Block::Sack(sack)] = sent.blocks()[..] else { panic!("{:?}", sent.names()) };
    assert!(sack.window >= window - 1000, "{}", sack.window);
}

/// Reads the service's answer in bursts of half a megabyte, one in two seconds.
#[derive(Debug, Default)]
struct SlowReader {
    stream: Option<StreamId>,
    reads_at: Option<Instant>,
}

impl Application for SlowReader {
    fn act(&mut self, now: Instant, streams: &mut dyn Streams) {
        if self.stream.is_none() {
            self.stream = streams.open();
            self.stream.iter().for_each(|stream| streams.finish(*stream));
        }
        let Some(stream) = self.stream.filter(|_| self.reads_at.is_none_or(|at| at <= now)) else { return };
        self.reads_at = Some(now + 2 * SECOND);
        let mut left = 500_000;
        while left > 0 {
            let Read::Data(data) = streams.read(stream, left) else { break };
            left -= data.len();
        }
    }

    fn wakes_at(&self) -> Option<Instant> {
        self.reads_at
    }

    fn is_done(&self) -> bool {
        false
    }
}

#[test]
fn a_slow_reader_gets_everything_over_a_lossy_link() {
    let lossy =
        LinkConfig::new(mbit(20), 10 * MS).with_loss(LossModel::Random(Probability::from_percent(5.0)));
    for seed in 0..6 {
        let builder = PairBuilder::new().seed(seed).path_with(lossy.clone(), lossy.clone());
        let mut pair = connected(builder.answer(ByteCount(5_000_000)));
        pair.start(Side::Client, Box::<SlowReader>::default());
        let all = |pair: &mut EndpointPair| pair.received(Side::Client).total() == ByteCount(5_000_000);
        let result = pair.run_until(2 * MINUTE, "read", all);
        assert!(result.is_ok(), "seed {seed}: {result:?}");
    }
}
