//! The memory that a hostile peer can make one connection use: at most twice its window, whatever it does.
//!
//! An allocator counts what the victim has allocated and not freed; nothing else is counted.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests fail as tests do, and the figures are for people"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::SocketAddr;
use std::time::Duration;

use manyway_proto::{ConnectionConfig, Ecn, Instant, PathId, Side, StreamId};
use manyway_sim::forger::{CLIENT, Duel, SERVER, Stranger};
use manyway_wire::ConnectionId;
use manyway_wire::mmsp2::{
    AddAddress, Block, Crypto, MaxData, MaxStreamData, NewCid, Ping, Probe, ProbeAck, ResetStream,
    StopSending, StreamData, Syn,
};

/// Bytes in use and their maximum, for one thread.
struct Counting;

thread_local! {
    static WATCHED: Cell<bool> = const { Cell::new(false) };
    static IN_USE: Cell<i64> = const { Cell::new(0) };
    static PEAK: Cell<i64> = const { Cell::new(0) };
}

fn count(bytes: i64) {
    if WATCHED.get() {
        IN_USE.set(IN_USE.get() + bytes);
        PEAK.set(PEAK.get().max(IN_USE.get()));
    }
}

fn signed(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

// SAFETY: every call is passed on unchanged to the system's allocator; the counters allocate nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(signed(layout.size()));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-signed(layout.size()));
        // SAFETY: the pointer came from `alloc` above, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn watch(begins: bool) {
    WATCHED.set(begins);
}

/// The default window of a connection, 1.5 MiB.
const WINDOW: i64 = 3 << 19;
const MIB: u64 = 1 << 20;

fn duel() -> Duel {
    duel_with(&ConnectionConfig::default())
}

fn duel_with(config: &ConnectionConfig) -> Duel {
    IN_USE.set(0);
    PEAK.set(0);
    Duel::watched(Side::Server, config, watch)
}

/// The victim sends this many times a hundred tiny writes on streams of the peer, which grants all credit and
/// acknowledges nothing. Tiny writes use the most memory.
fn send_unacknowledged(duel: &mut Duel, streams: u64, rounds: usize) {
    let credit = u64::MAX >> 2;
    let handle = duel.handle;
    for stream in (0..streams).map(stream) {
        let open = Block::Stream(StreamData { stream, offset: 0, end: false, data: b"get" });
        let more = Block::MaxStreamData(MaxStreamData { stream, credit });
        duel.send(&[open, more, Block::MaxData(MaxData { credit })]);
        duel.act(|victim| victim.connection(handle).unwrap().accept_stream()).unwrap();
    }
    for _ in 0..rounds {
        for stream in (0..streams).map(stream) {
            for _ in 0..100 {
                let data = bytes::Bytes::from_static(&[7; 50]);
                duel.act(|victim| victim.connection(handle).unwrap().write(stream, data)).unwrap();
            }
        }
        duel.run_for(Duration::from_millis(5));
        duel.send(&[Block::Padding]);
    }
}

/// Opens paths until there are `count`, each from an address of its own.
fn open_paths(duel: &mut Duel, count: u8) {
    for path in 1..count {
        let from = SocketAddr::from(([203, 0, 113, 10 + path], 1000));
        let id = PathId(path.into());
        let question = duel.packet(id, &[Block::Probe(Probe { nonce: 1 }), Block::AckNow]);
        duel.deliver(from, question);
        let mut answers = Vec::new();
        for sent in duel.poll() {
            sent.for_each_block(|block| {
                if let Block::Probe(Probe { nonce }) = block {
                    answers.push(Block::ProbeAck(ProbeAck { nonce, observed: SERVER }));
                }
            });
        }
        let answer = duel.packet(id, &answers);
        duel.deliver(from, answer);
        duel.poll();
    }
    let paths = duel.connection().statistics().paths;
    assert!(
        paths.iter().all(|path| path.state.carries_data()) && paths.len() == usize::from(count),
        "{paths:?}"
    );
}

fn stream(index: u64) -> StreamId {
    StreamId::new(Side::Client, index)
}

/// Delivers bytes of a stream to the victim.
fn give(duel: &mut Duel, index: u64, range: std::ops::Range<u64>) {
    let data = vec![7; usize::try_from(range.end - range.start).unwrap()];
    let block = StreamData { stream: stream(index), offset: range.start, end: false, data: &data };
    let packet = duel.packet(PathId::FIRST, &[Block::Stream(block)]);
    duel.deliver(CLIENT, packet);
    // The victim acknowledges from time to time; its packets do not matter.
    if index + range.start % 7 == 0 {
        duel.poll();
    }
}

/// Checks the bound, at the end of a pattern.
fn check(name: &str, duel: &mut Duel) {
    duel.poll();
    let peak = PEAK.get();
    println!("{name}: {peak} bytes, {}% of the window", peak * 100 / WINDOW);
    assert!(peak <= 2 * WINDOW, "{name}: {peak} bytes, more than twice the window");
}

#[test]
fn an_idle_connection_takes_little() {
    let mut duel = duel();
    duel.converse_for(Duration::from_secs(1));
    let in_use = IN_USE.get();
    println!("idle: {in_use} bytes");
    assert!(in_use > 1000 && in_use <= 128 << 10, "{in_use}");
}

#[test]
fn an_unread_full_window_uses_at_most_twice_its_bytes() {
    for streams in [2, 3, 24, 256] {
        let mut duel = duel();
        let each = (3 * MIB / 2 / streams).min(MIB);
        for index in 0..streams {
            for offset in (0..each).step_by(1000) {
                give(&mut duel, index, offset..(offset + 1000).min(each));
            }
        }
        check(&format!("in order over {streams} streams"), &mut duel);
        assert_eq!(duel.ended(), None);
        assert!(PEAK.get() > WINDOW / 2, "it holds what was sent");
    }
}

#[test]
fn a_full_window_behind_gaps_uses_at_most_twice_its_bytes() {
    // In packets of this size, with gaps of this size.
    for (length, gap) in [(1000, 0), (1000, 200), (300, 1), (150, 150), (100, 1), (60_000, 1)] {
        for backwards in [false, true] {
            let mut duel = duel();
            let step = usize::try_from(length + gap).unwrap();
            let pieces = [(0, MIB), (1, MIB / 2)].into_iter().flat_map(|(index, end)| {
                let mut offsets: Vec<_> = (1..end - length).step_by(step).collect();
                if backwards {
                    offsets.reverse();
                }
                offsets.into_iter().map(move |offset| (index, offset))
            });
            for (index, offset) in pieces {
                give(&mut duel, index, offset..offset + length);
                if duel.ended().is_some() {
                    break;
                }
            }
            check(&format!("pieces of {length} with gaps of {gap}, backwards {backwards}"), &mut duel);
        }
    }
}

#[test]
fn fragments_and_a_full_window_together_use_at_most_twice_its_bytes() {
    let mut duel = duel();
    // Just less than what is refused, over all streams, then everything else in order.
    for offset in 0..23 {
        for index in 0..256 {
            give(&mut duel, index, 4000 + 2 * offset..4001 + 2 * offset);
        }
    }
    for index in 0..256 {
        for offset in [0, 1000, 2000, 3000] {
            give(&mut duel, index, offset..(offset + 1000).min(3999));
        }
    }
    assert_eq!(duel.ended(), None);
    check("crumbs", &mut duel);
    for offset in 23.. {
        give(&mut duel, 0, 4000 + 2 * offset..4001 + 2 * offset);
        if duel.ended().is_some() {
            break;
        }
    }
    check("crumbs until it is refused", &mut duel);
}

#[test]
fn streams_that_were_read_keep_little() {
    let mut duel = duel();
    for index in 0..256 {
        for offset in (0..100_000).step_by(1000) {
            give(&mut duel, index, offset..offset + 1000);
            // Read late, so that much is queued at a time.
            if offset % 50_000 == 49_000 {
                read_all(&mut duel);
                duel.poll();
            }
        }
        duel.acknowledge(PathId::FIRST);
    }
    assert_eq!(duel.ended(), None);
    let in_use = IN_USE.get();
    println!("256 streams that were read: {in_use} bytes");
    assert!(in_use <= WINDOW, "{in_use}");
    check("read late", &mut duel);
}

fn read_all(duel: &mut Duel) {
    let handle = duel.handle;
    while duel
        .act(|victim| victim.connection(handle).and_then(|connection| connection.accept_stream()))
        .is_some()
    {}
    for index in 0..256 {
        while let Some(Ok(manyway_proto::ReadOutcome::Data(bytes))) =
            duel.act(|victim| Some(victim.connection(handle)?.read(stream(index), usize::MAX)))
        {
            duel.act(|_| drop(bytes));
        }
    }
}

#[test]
fn floods_of_everything_else_use_at_most_twice_the_window() {
    let mut duel = duel();
    // Every stream opened, reset and stopped, and no event is read.
    for index in 0..256 {
        let reset = ResetStream { stream: stream(index), code: 1, final_size: 0 };
        let stop = StopSending { stream: stream(index), code: 1 };
        duel.send(&[Block::ResetStream(reset), Block::StopSending(stop)]);
    }
    // Every path opened, from many addresses, with gaps in its numbers, and with as many IDs as allowed.
    for path in 1..8 {
        for sequence in 2..4 {
            let id = ConnectionId::from_u64(u64::from(path) * 10 + sequence);
            let (path, reset_token) = (PathId(path), [7; 16]);
            duel.send(&[Block::NewCid(NewCid { path, sequence, retire_prior_to: 0, id, reset_token })]);
        }
        for number in 0..200_u16 {
            duel.skip(PathId(path), 1);
            let probe = duel.packet(PathId(path), &[Block::Probe(Probe { nonce: 1 }), Block::AckNow]);
            duel.deliver(SocketAddr::from(([192, 0, 2, 1], 1 + number)), probe);
        }
    }
    for number in 0..20_000 {
        duel.skip(PathId::FIRST, 1);
        let nonce = Block::Probe(Probe { nonce: number });
        let packet = duel.packet(PathId::FIRST, &[nonce, Block::AckNow]);
        duel.deliver(CLIENT, packet);
        if number % 100 == 0 {
            duel.poll();
        }
    }
    assert_eq!(duel.ended(), None);
    check("floods", &mut duel);
}

#[test]
fn floods_of_a_server_use_at_most_twice_the_window_of_a_client() {
    IN_USE.set(0);
    PEAK.set(0);
    let mut duel = Duel::watched(Side::Client, &ConnectionConfig::default(), watch);
    for number in 0..20_000_u64 {
        let [.., a, b] = number.to_be_bytes();
        let address = SocketAddr::from(([192, 1, a, b], 1));
        let block = AddAddress { id: number, sequence: 1, priority: 0, cost: 0, address };
        duel.send(&[Block::AddAddress(block)]);
    }
    assert_eq!(duel.ended(), None);
    check("addresses", &mut duel);
}

#[test]
fn a_peer_that_acknowledges_nothing_costs_what_is_in_flight_and_the_send_buffer() {
    let mut duel = duel();
    send_unacknowledged(&mut duel, 1, 1000);
    let peak = PEAK.get();
    println!("nothing acknowledged: {peak} bytes");
    // spec 8.25: a send buffer is 4 MiB; a quarter more for its chunks and what is in flight.
    assert!(peak > 4 << 20 && peak <= 5 << 20, "{peak}");
}

#[test]
fn a_small_connection_with_four_paths_and_everything_full_takes_at_most_256_kib() {
    let config = ConnectionConfig::small();
    let streams = config.streams.peer_streams;
    let mut duel = duel_with(&config);
    open_paths(&mut duel, 4);
    send_unacknowledged(&mut duel, streams, 25);
    // Nothing that arrives can be read.
    for (index, end) in [(1, 32 << 10), (2, 15 << 10)] {
        for offset in (1..end - 300).step_by(301) {
            give(&mut duel, index, offset..offset + 300);
        }
    }
    duel.poll();
    let peak = PEAK.get();
    println!("small: {peak} bytes");
    assert_eq!(duel.ended(), None);
    assert!(peak > 96 << 10 && peak <= 256 << 10, "{peak}");
}

// spec 7.10: the cost of 1024 incomplete handshakes follows from one
#[test]
fn an_incomplete_handshake_uses_at_most_128_kib_and_a_stateless_answer_nothing() {
    let stranger = Stranger::new();
    let mut server = Stranger::server(&ConnectionConfig::default());
    let now = Instant::from_nanos(1_000_000_000);
    let mut buffer = Vec::with_capacity(1 << 17);
    let mut give = |number: u64, packet: u64, blocks: &[Block<'_>], drain: bool| {
        let ids = (Stranger::id(2 * number), Stranger::id(2 * number + 1));
        let mut datagram = Stranger::open_packet(ids, packet, blocks);
        let [.., a, b] = number.to_be_bytes();
        let tuple = Stranger::tuple(SocketAddr::from(([203, a, b, 1], 1)));
        watch(true);
        server.handle_datagram(now, tuple, Ecn::NotEct, &mut datagram);
        while drain && server.poll_transmit(now, &mut buffer).is_some() {}
        watch(false);
        server.connections()
    };
    let hello = Block::Crypto(Crypto { offset: 0, data: stranger.hello() });
    let far = Block::Crypto(Crypto { offset: (16 << 10) - 1, data: b"x" });
    for number in 0..64 {
        give(number, 0, &[Block::Syn(Syn { info: &[] }), hello], true);
        give(number, 1, &[Block::Ping(Ping { info: &[] }), far], true);
    }
    let each = IN_USE.get() / 64;
    println!("a handshake that never completes: {each} bytes");
    assert!(each > 1000 && each <= 128 << 10, "{each}");
    let before = IN_USE.get();
    for number in 64..10_064 {
        assert_eq!(give(number, 0, &[Block::Syn(Syn { info: &[] }), hello], true), 64);
    }
    // The table that counts answers, and an empty outbox with capacity.
    assert!(IN_USE.get() - before <= 64 << 10, "{}", IN_USE.get() - before);
}
