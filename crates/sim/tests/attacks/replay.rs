//! An attacker that recorded a connection: every packet of every kind again, late and damaged. The reference is the
//! same connection without an attack: what both ends send, when and how much, is equal.

use std::time::Duration;

use manyway_proto::{ConnectionConfig, Ecn, FourTuple, KeyLimits};
use manyway_sim::pair::Direction;
use manyway_sim::scenario::{MS, SECOND, mbit, megabytes};
use manyway_sim::traffic::Exchange;
use manyway_sim::{EndpointPair, Entry, PairBuilder, Side, What, endpoint_pair};

/// What is done with the recorded packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attack {
    None,
    /// Everything again, unchanged.
    Replay,
    /// Everything again, from another address.
    ReplayFromElsewhere,
    /// Everything again, each time with one bit flipped.
    Flip,
}

/// A datagram in flight: its receiver, and the addresses that the receiver sees.
#[derive(Debug, Clone)]
struct Recorded {
    to: Side,
    tuple: FourTuple,
    data: Vec<u8>,
}

/// Number of attacks in the life of the connection.
const STAGES: usize = 12;

fn pair() -> EndpointPair {
    let mut config = ConnectionConfig::default();
    config.key_limits = KeyLimits::default();
    // Several key updates.
    config.key_limits.update_after_packets = 300;
    let builder = PairBuilder::new().seed(5).path(mbit(20), 10 * MS).path(mbit(20), 15 * MS);
    endpoint_pair(builder, &config)
}

/// What arrived at both ends since the last call.
fn listen(pair: &mut EndpointPair) -> Vec<Recorded> {
    let mut heard = Vec::new();
    for to in [Side::Client, Side::Server] {
        let arrivals = pair.peer(to).unwrap().take_arrivals();
        heard.extend(arrivals.into_iter().map(|(tuple, data)| Recorded { to, tuple, data }));
    }
    heard
}

/// The attacker is next to the victim: its datagrams take no time and no bandwidth of the links.
fn strike(pair: &mut EndpointPair, attack: Attack, past: &[Recorded], rng: &mut manyway_proto::Rng) -> usize {
    let (now, mut struck) = (pair.now(), 0);
    let mut hit = |recorded: &Recorded, tuple: FourTuple, mut data: Vec<u8>| {
        let endpoint = pair.peer(recorded.to).unwrap().endpoint();
        endpoint.handle_datagram(now, tuple, Ecn::NotEct, &mut data);
        struck += 1;
    };
    for recorded in past {
        let elsewhere = FourTuple { remote: ([192, 0, 2, 9], 9).into(), ..recorded.tuple };
        match attack {
            Attack::None => {}
            Attack::Replay => hit(recorded, recorded.tuple, recorded.data.clone()),
            Attack::ReplayFromElsewhere => hit(recorded, elsewhere, recorded.data.clone()),
            Attack::Flip => {
                for _ in 0..3 {
                    let bits = recorded.data.len() * 8;
                    let bit = usize::try_from(rng.next_u64()).unwrap() % bits;
                    // One in three hits the header. Another version is answered by a version list.
                    let bit = if bit % 3 == 0 { bit % 240 } else { bit };
                    let in_version = recorded.data[0] & 0x80 != 0 && (8..40).contains(&bit);
                    let mut data = recorded.data.clone();
                    data[bit / 8] ^= 1 << (bit % 8);
                    if !in_version && bit != 0 && bit != 7 {
                        hit(recorded, recorded.tuple, data);
                    }
                }
            }
        }
    }
    struck
}

/// A whole connection: handshake, two paths, data both ways, key updates, an outage, the close, and the time after it.
/// Returns what both ends sent, and the number of attacks.
fn live(attack: Attack) -> (Vec<Entry>, usize) {
    let mut pair = pair();
    pair.world_mut().record_mut().keep(1_000_000);
    listen(&mut pair);
    let mut rng = manyway_proto::Rng::from_seed([7; 32]);
    let (mut past, mut struck): (Vec<Recorded>, usize) = (Vec::new(), 0);
    pair.begin().unwrap();
    for stage in 0..STAGES {
        // Each stage in the middle of an activity.
        let time = [12, 12, 12, 12, 30, 200, 300, 400, 300, 30, 500, 3000][stage];
        pair.run_for(Duration::from_millis(time)).unwrap();
        past.extend(listen(&mut pair));
        // At most 600 at each stage, of all ages.
        let chosen: Vec<_> = past.iter().step_by(past.len() / 600 + 1).cloned().collect();
        struck += strike(&mut pair, attack, &chosen, &mut rng);
        let host = pair.host(Side::Client);
        match stage {
            4 => pair.start(Side::Client, Box::new(Exchange::new(host, megabytes(2)))),
            5 => {
                let host = pair.host(Side::Server);
                pair.start(Side::Server, Box::new(Exchange::new(host, megabytes(2))));
            }
            6 => pair.cut(1, Direction::Both),
            7 => pair.restore(1, Direction::Both),
            8 => pair.run_until(20 * SECOND, "transferred", |pair| pair.is_quiet()).unwrap(),
            9 => {
                let now = pair.now();
                pair.peer(Side::Client).unwrap().connection().unwrap().close(now, 0, "done");
            }
            _ => {}
        }
    }
    assert_eq!(pair.peer(Side::Server).unwrap().endpoint().connections(), 0);
    assert_eq!(pair.peer(Side::Client).unwrap().endpoint().connections(), 0);
    let sent = pair.world().record().entries().filter(|entry| matches!(entry.what, What::Sent { .. }));
    (sent.copied().collect(), struck)
}

fn compare(attack: Attack, at_least: usize) {
    let (quiet, none) = live(Attack::None);
    let (attacked, struck) = live(attack);
    assert!(none == 0 && struck >= at_least, "{struck}");
    assert!(quiet.len() > 3000, "{}", quiet.len());
    let differs = quiet.iter().zip(&attacked).find(|(quiet, attacked)| quiet != attacked);
    assert_eq!(differs, None);
    // After the end the last close, ever more rarely (spec 7.32), and once the connection is dropped a reset for each
    // packet with one of its IDs (spec 4.11).
    let after = &attacked[quiet.len()..];
    let words = after.iter().filter(|entry| entry.size > 43).count();
    assert!(after.len() <= 600 && words <= 11, "{} {words}", after.len());
}

// spec 4.20, 9.1
#[test]
fn replayed_packets_of_every_kind_change_nothing_and_get_no_answer() {
    compare(Attack::Replay, 3000);
}

// spec 4.20, 6.30
#[test]
fn replayed_packets_of_every_kind_from_elsewhere_change_nothing_and_get_no_answer() {
    compare(Attack::ReplayFromElsewhere, 3000);
}

// spec 4.20
#[test]
fn packets_of_every_kind_with_a_bit_flipped_change_nothing_and_get_no_answer() {
    compare(Attack::Flip, 9000);
}
