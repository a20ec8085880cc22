//! Moving packets allocates nothing once as many have been in flight as ever will: checked by a counting allocator.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use manyway_lab::emulator::Emulator;
use manyway_lab::hosts::Hosts;
use manyway_lab::scenario::{Checksum, Ending, Interface, Link, Route, Scenario, Side};
use manyway_proto::Rate;
use manyway_sim::link::{Jitter, LinkConfig, LossModel, Order, Probability};
use manyway_sim::skipped::{skip, tell_skipped};

/// Counts allocations.
struct Counting;

static MADE: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        MADE.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        MADE.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_packet_costs_no_allocation() {
    if let Err(reason) = Hosts::check() {
        skip(reason);
        return tell_skipped();
    }
    // A queue that is always full, so that its length does not depend on the machine.
    let config = LinkConfig::new(Rate::from_bits_per_second(40_000_000), Duration::from_millis(20))
        .with_queue_time(Duration::from_millis(20))
        .with_jitter(Jitter::Uniform(Duration::from_millis(3)), Order::Free)
        .with_loss(LossModel::Random(Probability::from_percent(2.0)))
        .with_corruption(Probability::from_percent(2.0))
        .with_duplication(Probability::from_percent(2.0));
    let scenario = scenario(&config);
    let hosts = Hosts::make(&scenario).unwrap();
    let emulator = Emulator::start(&scenario, &hosts, 1).unwrap();
    emulator.begin();
    let [client, server] = [Side::Client, Side::Server].map(|side| hosts.addresses(side, 0)[0]);
    let bind = |address| move || UdpSocket::bind(SocketAddr::new(address, 0)).unwrap();
    let receiver = hosts.inside(Side::Server, bind(server)).unwrap();
    let sender = hosts.inside(Side::Client, bind(client)).unwrap();
    sender.connect(receiver.local_addr().unwrap()).unwrap();

    send(&sender, Duration::from_secs(1));
    let before = MADE.load(Ordering::Relaxed);
    let sent = send(&sender, Duration::from_secs(1));
    let made = MADE.load(Ordering::Relaxed) - before;
    let delivered = emulator.finish().unwrap().totals.links[0].up.delivered.packets;
    println!("{made} allocations for {sent} packets");
    // The series of the route grows by doubling.
    assert!(sent > 2_000 && delivered > 2_000 && made < 100, "{made} for {sent}, {delivered} delivered");
}

/// Sends more than the link carries for a while; returns the number of packets.
fn send(sender: &UdpSocket, time: Duration) -> u64 {
    let start = Instant::now();
    let mut sent = 0;
    while start.elapsed() < time {
        for _ in 0..14 {
            sender.send(&[0; 1_472]).unwrap();
            sent += 1;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    sent
}

fn scenario(config: &LinkConfig) -> Scenario {
    let interface = |name: &str| Interface {
        name: name.into(),
        addresses: Vec::new(),
        mtu: 1500,
        nat: None,
        cost: 0,
        is_for_others: false,
        tcp_packet: None,
        starts_down: false,
    };
    let link =
        Link { name: "link".into(), up: config.clone(), down: config.clone(), checksum: Checksum::Repaired };
    Scenario {
        name: "allocations".into(),
        title: String::new(),
        group: String::new(),
        source: String::new(),
        duration: Duration::ZERO,
        client: vec![interface("near")],
        server: vec![interface("far")],
        links: vec![link],
        routes: vec![Route { name: "near".into(), client: 0, server: 0, links: vec![0], shares: Vec::new() }],
        cross_routes: Vec::new(),
        traffic: Vec::new(),
        cross_traffic: Vec::new(),
        events: Vec::new(),
        ending: Ending::Complete,
        damage: None,
    }
}
