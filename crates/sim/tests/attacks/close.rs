//! A peer that does not end its connection.

use std::time::Duration;

use manyway_proto::{ClosedBy, ConnectionConfig, ConnectionError, Instant, PathId, Side, StreamId};
use manyway_sim::forger::Duel;
use manyway_wire::ConnectionId;
use manyway_wire::mmsp2::{Block, Close, CloseStep, NewCid, StreamData};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn duel() -> Duel {
    Duel::new(Side::Server, &ConnectionConfig::default())
}

fn close(step: CloseStep) -> Block<'static> {
    Block::Close(Close { step, code: 0, text: b"" })
}

/// Runs until the victim has dropped the connection, sending `words` every 200 ms; returns how long it took and how
/// many bytes the victim sent.
fn until_forgotten(duel: &mut Duel, words: &[Block<'_>]) -> (Duration, usize) {
    let (start, mut bytes): (Instant, usize) = (duel.now, 0);
    while duel.victim.connections() > 0 {
        bytes += duel.send(words).iter().map(|sent| sent.bytes.len()).sum::<usize>();
        bytes += duel.run_for(200 * MS).iter().map(|sent| sent.bytes.len()).sum::<usize>();
        assert!(duel.now - start < 300 * SECOND, "it stays for ever");
    }
    (duel.now - start, bytes)
}

/// Writes more than the peer accepts, and closes.
fn close_with_bytes_to_send(duel: &mut Duel) {
    let stream = StreamId::new(Side::Client, 0);
    duel.send(&[Block::Stream(StreamData { stream, offset: 0, end: false, data: b"get" })]);
    duel.connection().accept_stream().unwrap();
    duel.connection().write(stream, vec![7; 2 << 20].into()).unwrap();
    let now = duel.now;
    duel.connection().close(now, 0, "enough");
}

// spec 7.28
#[test]
fn a_peer_that_accepts_no_data_delays_a_close_by_30_seconds() {
    let mut duel = duel();
    close_with_bytes_to_send(&mut duel);
    let (took, bytes) = until_forgotten(&mut duel, &[Block::AckNow]);
    assert!(took >= 30 * SECOND && took <= 41 * SECOND, "{took:?}");
    assert!(bytes <= 100_000, "{bytes}");
}

// spec 7.28, 7.29
#[test]
fn a_peer_that_never_answers_fin_is_dropped_after_30_seconds() {
    for words in [&[Block::AckNow][..], &[Block::Padding]] {
        let mut duel = duel();
        let now = duel.now;
        duel.connection().close(now, 0, "enough");
        let (took, bytes) = until_forgotten(&mut duel, words);
        assert!(took >= 29 * SECOND && took <= 41 * SECOND, "{took:?}");
        assert!(bytes <= 20_000, "{bytes}");
    }
    // In silence it takes six repetitions.
    let mut duel = duel();
    let now = duel.now;
    duel.connection().close(now, 0, "enough");
    let sent = duel.run_for(40 * SECOND);
    let fins = sent.iter().map(|sent| sent.count(|block| matches!(block, Block::Close(_)))).sum::<usize>();
    assert_eq!((fins, duel.victim.connections()), (6, 0));
}

// spec 7.29, 7.37
#[test]
fn a_peer_that_repeats_fin_for_ever_is_dropped_after_30_seconds() {
    let mut duel = duel();
    let (took, bytes) = until_forgotten(&mut duel, &[close(CloseStep::Fin)]);
    assert!(took <= 41 * SECOND, "{took:?}");
    assert!(bytes <= 210 * 150, "one answer for each: {bytes}");
    let expected = ConnectionError::Closed { by: ClosedBy::Peer, code: 0, reason: String::new() };
    assert_eq!(duel.ended(), Some(expected));
}

// spec 7.28, 7.37
#[test]
fn a_peer_that_closes_and_accepts_no_data_is_dropped_after_a_minute() {
    let mut duel = duel();
    let stream = StreamId::new(Side::Client, 0);
    duel.send(&[Block::Stream(StreamData { stream, offset: 0, end: false, data: b"get" })]);
    duel.connection().accept_stream().unwrap();
    duel.connection().write(stream, vec![7; 2 << 20].into()).unwrap();
    let (took, _) = until_forgotten(&mut duel, &[close(CloseStep::Fin), Block::AckNow]);
    assert!(took <= 71 * SECOND, "{took:?}");
}

// spec 7.32
#[test]
fn packets_after_the_end_prolong_nothing_and_get_ever_rarer_closes() {
    let mut duel = duel();
    let now = duel.now;
    duel.connection().abort(now, 7, "enough");
    let mut words = duel.poll().len();
    for _ in 0..10_000 {
        words += duel.send(&[Block::AckNow]).len();
    }
    assert!((2..=15).contains(&words), "{words}");
    let (took, _) = until_forgotten(&mut duel, &[Block::AckNow]);
    assert!(took <= 9 * SECOND, "{took:?}");
    // And then only a reset, which is smaller than the packet.
    let packet = duel.packet(PathId::FIRST, &[Block::AckNow]);
    let length = packet.len();
    duel.deliver(duel.source, packet);
    assert!(duel.poll().iter().all(|sent| sent.bytes.len() < length));
}

// spec 7.34
#[test]
fn a_silent_peer_is_dropped_after_the_idle_time() {
    let mut duel = duel();
    let start = duel.now;
    while duel.victim.connections() > 0 {
        duel.run_for(SECOND);
        assert!(duel.now - start < 120 * SECOND);
    }
    assert_eq!(duel.ended(), Some(ConnectionError::IdleTimeout));
}

// spec 7.36
#[test]
fn a_forged_reset_is_ignored_whatever_part_of_the_token_it_guesses() {
    let mut duel = Duel::new(Side::Client, &ConnectionConfig::default());
    let mut rng = manyway_proto::Rng::from_seed([8; 32]);
    for length in (21..1200).cycle().take(20_000) {
        let mut guess = vec![0; length];
        rng.fill(&mut guess);
        guess[0] = guess[0] & 0x1f | 0x40;
        duel.deliver(duel.source, guess);
    }
    assert_eq!((duel.ended(), duel.poll()), (None, Vec::new()));
    // Each bit of the token counts; the token itself ends the connection without an answer.
    let reset = |token: u128| [&[0x41; 20][..], &token.to_be_bytes()].concat();
    // That of an ID to which the victim has sent nothing does not count.
    duel.deliver(duel.source, reset(u128::from_be_bytes(duel.reset_token().unwrap())));
    let (id, token) = (ConnectionId::from_u64(77), 0x1234_5678_9abc_def0_u128 << 40);
    let reset_token = token.to_be_bytes();
    let block = NewCid { path: PathId::FIRST, sequence: 2, retire_prior_to: 2, id, reset_token };
    assert!(!duel.send(&[Block::NewCid(block)]).is_empty());
    for bit in 0..128 {
        duel.deliver(duel.source, reset(token ^ 1 << bit));
        assert_eq!((duel.ended(), duel.poll()), (None, Vec::new()));
    }
    duel.deliver(duel.source, reset(token));
    assert_eq!((duel.poll(), duel.ended()), (Vec::new(), Some(ConnectionError::Reset)));
}
