//! The cost of each kind of packet of an unknown sender to a server: `cargo run --release --example syn_flood`.
//!
//! Prints nanoseconds of processor time for each packet, the least of five rounds, and the resulting load of a core at
//! 100 000 packets a second.
#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "it measures time and prints it")]

use std::net::SocketAddr;
use std::time::{Duration, Instant as Clock};

use manyway_proto::{ConnectionConfig, Ecn, Endpoint, Instant, PathId, Side};
use manyway_sim::forger::{Duel, Stranger};
use manyway_wire::mmsp2::{Block, Crypto, Syn};

const ROUNDS: u32 = 5;
const PACKETS: u32 = 20_000;

fn source(number: u32) -> SocketAddr {
    let [_, a, b, c] = number.to_be_bytes();
    SocketAddr::from(([11_u8.wrapping_add(a), b, c, 7], 1000))
}

fn syn(stranger: &Stranger, number: u64) -> Vec<u8> {
    let ids = (Stranger::id(2 * number), Stranger::id(2 * number + 1));
    let hello = Block::Crypto(Crypto { offset: 0, data: stranger.hello() });
    Stranger::open_packet(ids, 0, &[Block::Syn(Syn { info: &[] }), hello])
}

/// The time for one packet, in the best of several rounds of at most `most` packets.
fn measure(name: &str, most: u32, load: bool, make: impl Fn(u32) -> Vec<u8>) {
    let stranger = Stranger::new();
    let mut best = Duration::MAX;
    let mut answers = 0;
    for round in 0..ROUNDS {
        let mut server: Endpoint = Stranger::server(&ConnectionConfig::default());
        let mut now = Instant::from_nanos(u64::from(1 + round) * 1_000_000_000);
        let mut buffer = Vec::with_capacity(1 << 17);
        let packets: Vec<_> = (0..most).map(&make).collect();
        let mut give = |now: Instant, number: u32, mut packet: Vec<u8>| {
            server.handle_datagram(now, Stranger::tuple(source(number)), Ecn::NotEct, &mut packet);
            let mut sent = 0;
            while server.poll_transmit(now, &mut buffer).is_some() {
                sent += 1;
            }
            sent
        };
        for number in 0..if load { 64 } else { 0 } {
            give(now, 5_000_000 + number, syn(&stranger, 5_000_000 + u64::from(number)));
        }
        let began = Clock::now();
        answers = 0;
        for (number, packet) in (0..).zip(packets) {
            now += Duration::from_micros(10);
            answers += give(now, number, packet);
        }
        best = best.min(began.elapsed() / most);
    }
    let share = best.as_nanos() / 100;
    println!("{name:<44} {:>9} ns   {share:>5} % of a core   {answers} answers", best.as_nanos());
}

fn main() {
    let stranger = Stranger::new();
    measure("SYN to a server under load", PACKETS, true, |number| syn(&stranger, u64::from(number)));
    measure("the same seven ids again and again", PACKETS, true, |number| {
        syn(&stranger, u64::from(number % 7))
    });
    measure("1200 bytes that do not open", PACKETS, true, |number| {
        let mut packet = syn(&stranger, u64::from(number));
        packet.iter_mut().skip(600).take(8).for_each(|byte| *byte ^= 0xff);
        packet
    });
    let mut duel = Duel::new(Side::Server, &ConnectionConfig::default());
    let real = duel.packet(PathId::FIRST, &[Block::AckNow]);
    measure("a short header with a foreign id", PACKETS, false, |number| {
        let mut packet = real.clone();
        packet.iter_mut().skip(1).zip(number.to_be_bytes()).for_each(|(byte, other)| *byte ^= other | 1);
        packet
    });
    measure("a reset for a forgotten id", PACKETS, false, |_| real.clone());
    measure("SYN to a server without load, with TLS", 60, false, |number| syn(&stranger, u64::from(number)));
}
