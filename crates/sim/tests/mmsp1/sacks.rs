//! SACK that the endpoint sends: when, and what it says of what arrived, arrived again, or is missing.

use std::time::Duration;

use manyway_proto::Event;
use manyway_sim::scenario::{MINUTE, MS, SECOND, mbit, megabytes};
use manyway_sim::{PairBuilder, Side};
use manyway_wire::mmsp1::{Opening, Tseq};

use super::tester::{Acknowledged, Tester, opening, packet};

/// Distances of first and last block.
type Ranges = &'static [(u16, u16)];

/// Sends a whole message on a stream of its own for each of these TSEQs, each in a packet of its own.
fn send_each(tester: &mut Tester, tseqs: &[u32]) {
    for tseq in tseqs {
        let block = manyway_wire::mmsp1::Data { unordered: true, ..tester.data(*tseq, 0, 0, b"0123456789") };
        tester.send(&[block]);
    }
}

fn only(sacks: Vec<Acknowledged>) -> Acknowledged {
    assert_eq!(sacks.len(), 1, "{sacks:?}");
    sacks.into_iter().next().unwrap()
}

// spec 3.46
#[test]
fn without_a_gap_every_second_datagram_is_acknowledged_at_once() {
    let mut tester = Tester::accepted();
    for round in 0..5 {
        send_each(&mut tester, &[2 * round]);
        assert!(tester.take_sacks().is_empty(), "round {round}");
        send_each(&mut tester, &[2 * round + 1]);
        assert_eq!(only(tester.take_sacks()).blocks, 2 * round + 2);
    }
}

#[test]
fn a_single_datagram_is_acknowledged_after_20_milliseconds() {
    let mut tester = Tester::accepted();
    send_each(&mut tester, &[0]);
    tester.run_for(Duration::from_micros(19_999));
    assert!(tester.take_sacks().is_empty());
    tester.run_for(Duration::from_micros(1));
    assert_eq!(only(tester.take_sacks()).blocks, 1);
    tester.run_for(100 * MS);
    assert!(tester.take_sacks().is_empty(), "once");
}

#[test]
fn a_datagram_counts_once_however_many_blocks_it_has() {
    let mut tester = Tester::accepted();
    let blocks: Vec<_> =
        (0..8).map(|tseq| tester.data(tseq, 0, u16::try_from(tseq).unwrap(), b"x")).collect();
    tester.send(&blocks[..6]);
    assert!(tester.take_sacks().is_empty());
    tester.send(&blocks[6..]);
    assert_eq!(only(tester.take_sacks()).blocks, 8);
}

// spec 3.41, 3.46
#[test]
fn while_there_is_a_gap_every_datagram_is_acknowledged_with_what_arrived_beyond_it() {
    let mut tester = Tester::accepted();
    send_each(&mut tester, &[0]);
    tester.run_for(20 * MS);
    tester.discard();
    let steps: [(u32, u32, Ranges); 6] = [
        (2, 1, &[(2, 2)]),
        (3, 1, &[(2, 3)]),
        (7, 1, &[(2, 3), (7, 7)]),
        (5, 1, &[(2, 3), (5, 5), (7, 7)]),
        (1, 4, &[(2, 2), (4, 4)]),
        (4, 6, &[(2, 2)]),
    ];
    for (tseq, blocks, ranges) in steps {
        send_each(&mut tester, &[tseq]);
        let sack = only(tester.take_sacks());
        assert_eq!((sack.blocks, &sack.ranges[..]), (blocks, ranges), "after {tseq}");
    }
    send_each(&mut tester, &[6]);
    let sack = only(tester.take_sacks());
    assert_eq!((sack.blocks, sack.ranges), (8, vec![]), "the last gap is filled");
    send_each(&mut tester, &[8]);
    assert!(tester.take_sacks().is_empty(), "and every second datagram suffices again");
}

// spec 3.42
#[test]
fn a_copy_is_reported_at_once_and_once() {
    let mut tester = Tester::accepted();
    send_each(&mut tester, &[0, 1, 3]);
    tester.discard();
    for tseq in [1, 3] {
        send_each(&mut tester, &[tseq]);
        let sack = only(tester.take_sacks());
        assert_eq!((sack.blocks, sack.ranges, sack.duplicates), (2, vec![(2, 2)], vec![tseq]));
    }
    let copies: Vec<_> = [0, 0, 1].map(|tseq| tester.data(tseq, 0, 0, b"0123456789")).to_vec();
    tester.send(&copies);
    assert_eq!(only(tester.take_sacks()).duplicates, [0, 0, 1], "an entry for each copy");
    send_each(&mut tester, &[4]);
    assert_eq!(only(tester.take_sacks()).duplicates, [0; 0]);
    assert_eq!(tester.texts().len(), 4, "nothing is delivered twice");
}

// spec 3.31
#[test]
fn tseqs_wrap_from_the_largest_to_0() {
    let mut tester = Tester::accepted_from(Opening { tseq: Tseq(u32::MAX - 2), ..opening(77) });
    send_each(&mut tester, &[0, 1]);
    assert_eq!(only(tester.take_sacks()).blocks, 2);
    send_each(&mut tester, &[5]);
    let sack = only(tester.take_sacks());
    assert_eq!((sack.blocks, sack.ranges), (2, vec![(4, 4)]), "2^32 + 2 beyond 2^32 - 2");
    send_each(&mut tester, &[2, 3, 4]);
    assert_eq!(tester.take_sacks().last().map(|sack| sack.blocks), Some(6));
    send_each(&mut tester, &[0]);
    assert_eq!(only(tester.take_sacks()).duplicates, [0], "from before the wrap");
    assert_eq!(tester.texts().len(), 6);
}

// spec 3.32
#[test]
fn sseqs_wrap_from_65535_to_0() {
    let mut tester = Tester::accepted();
    let mut received = 0;
    for first in (0..65_600_u32).step_by(100) {
        let sseq = |tseq: u32| u16::try_from(tseq % 65_536).unwrap();
        let blocks: Vec<_> =
            (first..first + 100).rev().map(|tseq| tester.data(tseq, 6, sseq(tseq), b"x")).collect();
        tester.send(&blocks);
        received += tester.texts().len();
        tester.discard();
    }
    assert_eq!((received, tester.ended()), (65_600, None));
}

// spec 3.31
#[test]
fn data_more_than_65535_beyond_the_ack_tseq_are_dropped() {
    let mut tester = Tester::accepted();
    send_each(&mut tester, &[65_535]);
    assert_eq!(only(tester.take_sacks()).ranges, [], "the ack TSEQ is that of the first block - 1");
    send_each(&mut tester, &[65_534]);
    assert_eq!(only(tester.take_sacks()).ranges, [(65_535, 65_535)]);
    send_each(&mut tester, &[0x8000_0000, 0x7fff_ffff]);
    let ranges = tester.take_sacks().into_iter().map(|sack| sack.ranges).next_back();
    assert_eq!(ranges, Some(vec![(65_535, 65_535)]), "half of all numbers apart there is no order");
    send_each(&mut tester, &[0, 65_535]);
    assert_eq!(tester.take_sacks().last().map(|sack| sack.ranges.clone()), Some(vec![(65_534, 65_535)]));
    assert_eq!((tester.texts().len(), tester.ended()), (3, None));
}

// spec 3.41, 3.46
#[test]
fn each_block_beyond_a_gap_is_reported_by_the_sack_for_its_datagram_however_many_gaps_there_are() {
    let mut tester = Tester::accepted();
    let mut arrived: Vec<u32> = (1..400).filter(|tseq| tseq % 2 == 1).collect();
    arrived.sort_by_key(|tseq| (tseq * 7919) % 401);
    for tseq in arrived {
        send_each(&mut tester, &[tseq]);
        let sack = only(tester.take_sacks());
        let offset = u16::try_from(tseq + 1).unwrap();
        assert!(sack.ranges.contains(&(offset, offset)), "{tseq}: {sack:?}");
        assert!(sack.ranges.is_sorted() && sack.ranges.len() <= 64, "{sack:?}");
    }
    assert!(tester.events.iter().all(|event| !matches!(event, Event::Closed(_))));
}

// spec 3.124, 3.127
#[test]
fn data_on_a_path_that_moved_are_acknowledged_there_within_its_limit() {
    let mut tester = Tester::accepted();
    let (header, block) = (tester.header(), tester.data(0, 0, 0, b"x"));
    let second = tester.data(1, 0, 1, b"y");
    let bytes = packet(header, |w| {
        block.encode(w);
        second.encode(w);
    });
    let came = bytes.len();
    tester.deliver_bytes("10.0.0.2:9999", bytes);
    tester.run_for(20 * MS);
    let sent = tester.take_all();
    assert!(sent.iter().any(|sent| sent.names().contains(&"SACK")), "{sent:?}");
    let there = sent.iter().filter(|sent| sent.tuple.remote.port() == 9999);
    let size: usize = there.map(|sent| sent.bytes.len()).sum();
    assert!((1..=3 * came).contains(&size), "{size} bytes for {came}");
    assert_eq!(tester.texts(), ["x", "y"]);
}

// spec 3.42
#[test]
fn bytes_of_copies_are_counted_at_both_ends() {
    let config = super::modern("redundant", "cubic");
    let paths = PairBuilder::new().path(mbit(10), 10 * MS).path(mbit(10), 15 * MS);
    let mut pair = super::connected_with(paths, &config);
    pair.transfer(Side::Client, megabytes(2), MINUTE).unwrap();
    pair.run_for(SECOND).unwrap();
    let statistics = |pair: &mut manyway_sim::EndpointPair, side| {
        pair.peer(side).unwrap().connection().unwrap().statistics()
    };
    let (sender, receiver) = (statistics(&mut pair, Side::Client), statistics(&mut pair, Side::Server));
    let duplicates = receiver.duplicate_bytes_received.get();
    assert!((300_000..2_200_000).contains(&duplicates), "{receiver:?}");
    // They can differ only by what the peer told in a SACK that was lost.
    assert!(sender.duplicate_bytes_sent.get().abs_diff(duplicates) < 100_000, "{sender:?} {receiver:?}");
}
