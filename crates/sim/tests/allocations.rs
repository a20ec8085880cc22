//! What connections allocate: the memory of idle ones and of streams that ended, to the byte, and how often a stream
//! allocates. A counting allocator tells both.
#![expect(clippy::print_stdout, reason = "the figures are worth reading also when the test passes")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use manyway_proto::{ByteCount, ConnectionConfig, RateAlgorithm, TargetRate};
use manyway_sim::link::{LinkConfig, LossModel, Probability};
use manyway_sim::nightly::few_or_many;
use manyway_sim::scenario::{MINUTE, MS, mbit};
use manyway_sim::{Crowd, Side};

use wanted_over_tcp::{WANTED, paths, streaming};

#[path = "shared/wanted_over_tcp.rs"]
mod wanted_over_tcp;

/// Counts the bytes that are allocated.
struct Counting;

static HELD: AtomicI64 = AtomicI64::new(0);
static CALLS: AtomicI64 = AtomicI64::new(0);

fn held() -> i64 {
    HELD.load(Ordering::Relaxed)
}

/// How often memory was allocated.
fn calls() -> i64 {
    CALLS.load(Ordering::Relaxed)
}

fn count(bytes: usize, sign: i64) {
    CALLS.fetch_add(sign.max(0), Ordering::Relaxed);
    HELD.fetch_add(sign * i64::try_from(bytes).unwrap_or(i64::MAX), Ordering::Relaxed);
}

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(layout.size(), -1);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(layout.size(), -1);
        count(size, 1);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// One test at a time: what another one allocates would be counted, too.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

const CONNECTIONS: usize = 200;

/// Bytes that the server holds for each of its connections, after each carried this many bytes and became idle.
fn idle_bytes(paths: u8, carried: u64) -> i64 {
    let mut config = ConnectionConfig::default();
    config.idle_timeout = Duration::from_secs(3600);
    let mut crowd = Crowd::new(CONNECTIONS, paths, &config, held);
    if carried > 0 {
        for client in 0..CONNECTIONS {
            crowd.exchange(client, ByteCount(carried));
        }
    }
    crowd.rest(Duration::from_secs(10));
    assert_eq!(crowd.connections(), CONNECTIONS);
    let each = crowd.metered() / i64::try_from(CONNECTIONS).unwrap_or(1);
    println!("{paths} paths, {carried} bytes carried: {each} bytes for each connection");
    each
}

#[test]
fn an_idle_connection_takes_at_most_8_kib_with_one_path_and_13_with_three() {
    let _alone = alone();
    for (paths, most) in [(1, 8 << 10), (3, 13 << 10)] {
        for carried in [0, 1_000_000] {
            let each = idle_bytes(paths, carried);
            assert!(each <= most, "{paths} paths, {carried} bytes carried: {each}");
        }
    }
}

/// Every table has its size after the first ten million bytes.
#[test]
fn the_packets_of_a_stream_allocate_nothing_but_the_data_for_the_application() {
    let _alone = alone();
    for paths in [1, 2] {
        let mut crowd = Crowd::new(1, paths, &ConnectionConfig::default(), calls);
        crowd.exchange(0, ByteCount(10_000_000));
        let before = (crowd.metered_at_clients(), crowd.metered(), crowd.packets());
        crowd.exchange(0, ByteCount(30_000_000));
        let sender = crowd.metered_at_clients() - before.0;
        let receiver = crowd.metered() - before.1;
        let packets = crowd.packets() - before.2;
        println!(
            "{paths} paths, {packets} packets: {sender} allocations at the sender, {receiver} at the receiver"
        );
        assert!(packets > 20_000);
        // The stream, and tables that grow by an entry.
        assert!(sender <= 100, "{sender}");
        // The application gets received data in memory of its own, 28 kB at a time.
        assert!(receiver <= 30_000_000 / 20_000, "{receiver}");
    }
}

#[test]
fn streams_that_ended_leave_no_memory_at_either_end() {
    let _alone = alone();
    let mut crowd = Crowd::new(1, 2, &ConnectionConfig::default(), held);
    let mut run = |streams: u32| {
        for _ in 0..streams {
            crowd.exchange(0, ByteCount(10));
        }
        crowd.rest(Duration::from_secs(1));
        (crowd.metered(), held())
    };
    let (server, both) = run(2000);
    let streams = few_or_many(20_000, 1_000_000);
    let (server_later, both_later) = run(streams);
    println!("{streams} streams: {} bytes, at the server {}", both_later - both, server_later - server);
    // Tables may grow by some entries, however many streams there were.
    assert!(server_later <= server + 4096 && both_later <= both + 8192);
}

/// Losses come and go, and TCP connections with them. A day in the nightly run, and an hour otherwise.
#[test]
fn a_day_of_opening_and_ending_tcp_connections_for_a_target_rate_leaves_no_memory() {
    let _alone = alone();
    let mut target = TargetRate::new(WANTED);
    target.algorithm = RateAlgorithm::Advanced;
    let mut pair = streaming(LinkConfig::new(mbit(6), 40 * MS), 1, target);
    let link = pair.paths()[0].down;
    let mut last = None;
    // Ends after the same course as it begins.
    let mut run = |times: u32| {
        let mut opened = 0;
        for _ in 0..times {
            for percent in [10.0, 0.0] {
                let now = pair.now();
                let loss = LossModel::Random(Probability::from_percent(percent));
                pair.world_mut().network_mut().link_mut(link).unwrap().set_loss(now, loss);
                pair.run_for(MINUTE * 2).unwrap();
                let count = paths(&mut pair).len();
                if percent > 0.0 {
                    assert!(count > 1, "{count}");
                } else {
                    assert_eq!(count, 1);
                }
                let highest = paths(&mut pair).iter().map(|path| path.id).max();
                opened += usize::from(last.replace(highest) != Some(highest));
            }
        }
        for side in [Side::Client, Side::Server] {
            pair.peer(side).unwrap().peer().forget_events();
        }
        (held(), opened)
    };
    let (before, _) = run(5);
    let (after, opened) = run(few_or_many(10, 355));
    println!("{} bytes more after {opened} changes of paths", after - before);
    assert!(opened > 10);
    assert!(after <= before + 16_384, "{before} {after}");
}
