//! The memory of an idle connection at a server, counted to the byte by a counting allocator.
#![expect(clippy::print_stdout, reason = "the figures are worth reading also when the test passes")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use manyway_proto::{ByteCount, ConnectionConfig};
use manyway_sim::Crowd;

/// Counts the bytes that are allocated.
struct Counting;

static HELD: AtomicI64 = AtomicI64::new(0);

fn held() -> i64 {
    HELD.load(Ordering::Relaxed)
}

fn count(bytes: usize, sign: i64) {
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

// One test: a parallel one would be counted, too.
#[test]
fn an_idle_connection_takes_at_most_16_kib() {
    for (paths, carried) in [(1, 0), (1, 1_000_000), (3, 0), (3, 1_000_000)] {
        let each = idle_bytes(paths, carried);
        assert!(each <= 16 << 10, "{paths} paths, {carried} bytes carried: {each}");
    }
}
