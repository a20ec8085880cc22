//! The window of each end: the edge that never moves left, persist probes, and DATA beyond the edge.

use std::time::Duration;

use manyway_proto::{ConnectionConfig, MessageOptions, SendError};
use manyway_sim::scenario::{MS, SECOND};
use manyway_wire::mmsp1::{Data, Opening};

use super::tester::{OwnData, Tester, opening};

/// A peer that takes this many bytes, and an application that has sent `messages` of 1000 bytes.
fn with_window(window: u32, messages: u32) -> Tester {
    let mut tester = Tester::accepted_from(Opening { window, ..opening(77) });
    let stream = tester.open_stream();
    for message in 0..messages {
        let content = [u8::try_from(message).unwrap(); 1000];
        tester.send_message(stream, &content, MessageOptions::default());
    }
    tester
}

fn tseqs(packets: &[Vec<OwnData>]) -> Vec<u32> {
    packets.iter().flatten().map(|block| block.tseq).collect()
}

/// Lets time pass until the endpoint sends DATA, and returns how long that took with the blocks.
fn wait_for_data(tester: &mut Tester) -> (Duration, Vec<OwnData>) {
    let start = tester.now;
    for _ in 0..10_000 {
        tester.run_for(MS);
        let packets = tester.take_data_so_far();
        if !packets.is_empty() {
            return (tester.now - start, packets.concat());
        }
    }
    panic!("nothing in 10 s");
}

// spec 3.43, 3.99
#[test]
fn a_sender_stops_at_the_edge() {
    let mut tester = with_window(3500, 6);
    assert_eq!(tseqs(&tester.take_data()), [0, 1, 2], "the fourth message would pass the edge");
    tester.sack(0, 3500);
    assert_eq!(tseqs(&tester.take_data()), [3], "1000 acknowledged and 3500 more");
    tester.sack(3, 1999);
    assert_eq!(tseqs(&tester.take_data()), [4], "one byte is missing for the sixth");
    tester.sack(3, 2000);
    assert_eq!(tseqs(&tester.take_data()), [5]);
}

// spec 3.98, 3.99
#[test]
fn a_sender_of_small_messages_stops_when_their_memory_is_twice_the_window() {
    // 134 bytes of memory for each message of 6.
    let mut tester = Tester::accepted_from(Opening { window: 1340, ..opening(77) });
    let stream = tester.open_stream();
    (0..30).for_each(|_| tester.send_message(stream, b"sixsix", MessageOptions::default()));
    assert_eq!(tseqs(&tester.take_data()), (0..20).collect::<Vec<_>>());
    tester.sack(19, 334);
    assert_eq!(tseqs(&tester.take_data()), [20, 21, 22, 23], "two bytes of memory are missing for the next");
    tester.sack(23, 66);
    assert!(tester.take_data().is_empty(), "as before");
    tester.sack(23, 67);
    assert_eq!(tseqs(&tester.take_data()), [24]);
    tester.sack(24, 0);
    assert!(tester.take_data().is_empty());
    let (_, sent) = wait_for_data(&mut tester);
    assert_eq!(sent[0].tseq, 25, "a persist probe goes beyond this edge, too");
}

// spec 3.98, 3.101
#[test]
fn small_unread_messages_close_the_window_before_one_is_dropped() {
    let mut config = ConnectionConfig::mmsp1();
    (config.streams.connection_receive_window, config.streams.stream_receive_window) = (16_384, 16_384);
    let mut tester = Tester::accepted_with(config);
    let memory = |messages: u32| messages * (6 + 128);
    let (mut edge, mut sent, mut window) = (2 * 16_384, 0, 16_384);
    while memory(sent + 1) <= edge {
        let block = tester.data(sent, 0, u16::try_from(sent).unwrap(), b"unread");
        tester.send(&[block]);
        tester.run_for(20 * MS);
        sent += 1;
        for sack in tester.take_sacks() {
            assert_eq!(sack.blocks, sent, "everything within the edges is taken");
            edge = edge.max(memory(sack.blocks) + 2 * sack.window);
            window = sack.window;
        }
    }
    assert_eq!((sent, edge, window), (244, 2 * 16_384, 36), "no room for a message");
    assert_eq!(tester.texts().len(), 244);
    tester.run_for(20 * MS);
    assert!(tester.take_sacks().last().is_some_and(|sack| sack.window > 4096), "the reader opens it again");
}

// spec 3.43
#[test]
fn a_smaller_window_takes_no_credit_back() {
    let mut tester = with_window(2000, 6);
    assert_eq!(tseqs(&tester.take_data()), [0, 1]);
    tester.sack(0, 4000);
    tester.sack(0, 0);
    tester.sack(1, 0);
    assert_eq!(tseqs(&tester.take_data()), [2, 3, 4], "the edge stays at 5000");
}

// spec 3.44
#[test]
fn the_window_of_a_sack_that_was_overtaken_is_ignored_and_its_ranges_count() {
    let mut tester = with_window(4000, 9);
    assert_eq!(tseqs(&tester.take_data()), [0, 1, 2, 3]);
    tester.sack(1, 2000);
    tester.sack_ranges(1, &[(3, 3)], 50_000);
    let sent = tseqs(&tester.take_data());
    assert!(sent.iter().all(|tseq| *tseq == 2), "{sent:?}: 50 000 come from an old SACK, 3 has arrived");
    tester.sack_ranges(2, &[(2, 2)], 3000);
    let sent = tseqs(&tester.take_data());
    assert!(sent.contains(&4) && sent.iter().all(|tseq| matches!(tseq, 2 | 4)), "{sent:?}");
}

// spec 3.47
#[test]
fn a_blocked_sender_sends_the_same_block_after_growing_waits_until_the_window_opens() {
    let mut tester = with_window(2000, 4);
    assert_eq!(tseqs(&tester.take_data()), [0, 1]);
    tester.sack(1, 0);
    assert!(tester.take_data().is_empty());
    let mut waits = Vec::new();
    let mut blocks = Vec::new();
    for _ in 0..10 {
        let (wait, sent) = wait_for_data(&mut tester);
        assert_eq!(sent.len(), 1, "one block beyond the edge: {sent:?}");
        waits.push(wait);
        blocks.extend(sent);
        tester.now += MS;
        tester.sack(1, 0);
    }
    assert!(blocks.iter().all(|block| *block == blocks[0] && block.tseq == 2), "the same in every bit");
    assert!(waits[0] < 200 * MS, "{waits:?}: the first after one PTO");
    let grows = |pair: &[Duration]| pair[1] >= pair[0] * 2 - 10 * MS || pair[1] >= 4900 * MS;
    assert!(waits.windows(2).all(grows), "{waits:?}");
    assert!(waits.iter().all(|wait| *wait <= 5 * SECOND + 10 * MS), "{waits:?}: 5 s at most");
    tester.sack(1, 2000);
    assert_eq!(tseqs(&tester.take_data()), [2, 3], "the window is open");
}

#[test]
fn a_persist_probe_that_is_taken_is_followed_by_the_next_block() {
    let mut tester = with_window(2000, 4);
    assert_eq!(tseqs(&tester.take_data()), [0, 1]);
    tester.sack(1, 0);
    let (_, sent) = wait_for_data(&mut tester);
    assert_eq!(sent[0].tseq, 2);
    tester.now += MS;
    tester.sack(2, 0);
    let (_, sent) = wait_for_data(&mut tester);
    assert_eq!(sent[0].tseq, 3);
    tester.now += MS;
    tester.sack(3, 0);
    tester.run_for(10 * SECOND);
    assert!(tester.take_data().is_empty(), "everything is acknowledged");
    assert_eq!(tester.ended(), None);
}

#[test]
fn persist_probes_go_on_though_no_sack_comes() {
    let mut tester = with_window(2000, 4);
    assert_eq!(tseqs(&tester.take_data()), [0, 1]);
    tester.sack(1, 0);
    // PROBE is answered, so the path works, but each persist probe or its SACK is lost.
    let mut times = Vec::new();
    for _ in 0..1200 {
        tester.run_for(50 * MS);
        let now = tester.now;
        for sent in tester.take_all() {
            tester.answer_probe(&sent);
            times.extend(sent.names().iter().filter(|name| **name == "DATA").map(|_| now));
        }
    }
    assert!(times.len() >= 12, "{times:?}: at least each 5 s");
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] <= 5100 * MS), "{times:?}");
}

// spec 3.43, 3.47
#[test]
fn an_unread_window_closes_and_a_reader_opens_it_again() {
    let mut config = ConnectionConfig::mmsp1();
    (config.streams.connection_receive_window, config.streams.stream_receive_window) = (16_384, 16_384);
    let mut tester = Tester::accepted_with(config);
    let content: &'static [u8] = &[b'w'; 1024];
    let mut sacks = Vec::new();
    for tseq in 0..16 {
        let block = tester.data(tseq, 0, u16::try_from(tseq).unwrap(), content);
        tester.send(&[block]);
        sacks.extend(tester.take_sacks());
    }
    let edges: Vec<u32> = sacks.iter().map(|sack| sack.blocks * 1024 + sack.window).collect();
    assert!(edges.is_sorted(), "the edge never moves left: {edges:?}");
    assert_eq!(sacks.last().map(|sack| (sack.blocks, sack.window)), Some((16, 0)));
    // A persist probe is answered with a SACK, whether it is taken or not.
    for tseq in 16..64 {
        let block = tester.data(tseq, 0, u16::try_from(tseq).unwrap(), content);
        tester.send(&[block]);
        tester.run_for(20 * MS);
        let sacks = tester.take_sacks();
        assert!(!sacks.is_empty() && sacks.iter().all(|sack| sack.window == 0), "{tseq}: {sacks:?}");
        assert!(sacks.iter().all(|sack| sack.blocks <= 32), "{sacks:?}: twice the window at most");
    }
    let read = tester.texts().len();
    tester.run_for(20 * MS);
    let sacks = tester.take_sacks();
    let sack = sacks.last().unwrap();
    assert_eq!(usize::try_from(sack.blocks).unwrap(), read);
    assert!(sack.window > 0, "{sack:?}");
}

// spec 3.100
#[test]
fn of_data_beyond_the_edge_what_is_not_taken_is_not_acknowledged_and_may_come_again() {
    let mut config = ConnectionConfig::mmsp1();
    (config.streams.connection_receive_window, config.streams.stream_receive_window) = (16_384, 16_384);
    let mut tester = Tester::accepted_with(config);
    let content: &'static [u8] = &[b'w'; 1024];
    for tseq in 0..64 {
        let block = tester.data(tseq, 0, u16::try_from(tseq).unwrap(), content);
        tester.send(&[block]);
    }
    let taken = tester.take_sacks().last().unwrap().blocks;
    assert!((16..64).contains(&taken), "{taken}");
    let mut received = tester.texts().len();
    assert_eq!(usize::try_from(taken).unwrap(), received, "what was acknowledged is delivered");
    for tseq in taken..64 {
        let block = tester.data(tseq, 0, u16::try_from(tseq).unwrap(), content);
        tester.send(&[block]);
        received += tester.texts().len();
    }
    assert_eq!((received, tester.ended()), (64, None));
}

// spec 3.48
#[test]
fn a_sender_takes_no_message_larger_than_half_of_the_peers_first_window() {
    for (window, most) in [(0, 0), (1, 0), (2, 1), (5000, 2500)] {
        let mut tester = Tester::accepted_from(Opening { window, ..opening(77) });
        let stream = tester.open_stream();
        let now = tester.now;
        let mut send = |size: usize| {
            let message = bytes::Bytes::from(vec![1; size]);
            tester.connection().send_message(now, stream, message, MessageOptions::default())
        };
        assert_eq!(send(most + 1), Err(SendError::TooLarge { size: most as u64 + 1, most: most as u64 }));
        assert!(most == 0 || send(most).is_ok(), "window {window}");
    }
}

// spec 3.31
#[test]
fn no_tseq_is_more_than_65535_beyond_the_highest_ack() {
    let mut tester = Tester::accepted_from(Opening { window: u32::MAX, ..opening(77) });
    let stream = tester.open_stream();
    let mut highest = 0;
    // The peer acknowledges everything but the first block.
    for _ in 0..3000 {
        for _ in 0..100 {
            let now = tester.now;
            let message = bytes::Bytes::from_static(b"x");
            let options = MessageOptions::default().order(manyway_proto::Order::Unordered);
            if tester.connection().send_message(now, stream, message, options).is_err() {
                break;
            }
        }
        tester.now += 5 * MS;
        let sent = tseqs(&tester.take_data());
        highest = sent.into_iter().max().unwrap_or(highest).max(highest);
        if highest > 0 {
            tester.sack_ranges(0, &[(2, u16::try_from(highest + 1).unwrap_or(u16::MAX))], u32::MAX);
        }
    }
    assert!((60_000..=65_534).contains(&highest), "{highest}");
}

// spec 3.40
#[test]
fn the_window_of_each_end_is_the_one_that_it_named_in_the_handshake() {
    let mut config = ConnectionConfig::mmsp1();
    (config.streams.connection_receive_window, config.streams.stream_receive_window) = (40_000, 40_000);
    let mut tester = Tester::accepted_with(config);
    assert_eq!(tester.told.unwrap().window, 40_000);
    let block = Data { unordered: true, ..tester.data(0, 0, 0, &[7; 1000]) };
    tester.send(&[block]);
    tester.run_for(20 * MS);
    assert_eq!(tester.take_sacks().last().map(|sack| (sack.blocks, sack.window)), Some((1, 39_000)));
}
