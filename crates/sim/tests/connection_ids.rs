//! Connection IDs of the lengths and with the first bytes that an endpoint was told to issue.
// spec 4.2, 4.39
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeSet;
use std::sync::Arc;

use manyway_proto::{ByteCount, ConnectionError, IdLayout, PathState};
use manyway_sim::scenario::{MINUTE, MS, SECOND, count_in, mbit, megabytes};
use manyway_sim::traffic::Exchange;
use manyway_sim::{EndpointPair, EndpointPeer, PairBuilder, Side};

const PREFIX: [u8; 5] = [0x4c, 0xfe, 0xff, 0x00, 0x17];

fn layouts() -> [IdLayout; 5] {
    [(8, 0), (13, 0), (13, 5), (20, 0), (20, 3)]
        .map(|(length, prefix)| IdLayout::new(length, &PREFIX[..prefix]).unwrap())
}

/// Two ends that keep their reset keys, connected over two paths; each endpoint has a layout of its IDs.
fn connected(client: IdLayout, server: IdLayout) -> EndpointPair {
    let builder = PairBuilder::new().path(mbit(20), 10 * MS).behind_nat(MINUTE).path(mbit(20), 15 * MS);
    let mut pair = builder.build(
        |mut rng| {
            EndpointPeer::client(Arc::default(), rng.fork()).configured(rng, |config| {
                config.ids = client;
                config.reset_key = Some([5; 32]);
            })
        },
        |mut rng| {
            EndpointPeer::server(Arc::default(), rng.fork()).configured(rng, |config| config.ids = server)
        },
    );
    pair.connect(10 * SECOND).unwrap();
    pair.run_for(SECOND).unwrap();
    pair
}

/// The IDs of this length in the packets with a short header that arrived at an end since the last call.
fn ids_at(pair: &mut EndpointPair, side: Side, length: usize) -> BTreeSet<Vec<u8>> {
    let arrived = pair.peer(side).unwrap().take_arrivals();
    let short = arrived.iter().filter(|(_, datagram)| datagram[0] & 0xc0 == 0x40);
    short.map(|(_, datagram)| datagram[1..=length].to_vec()).collect()
}

#[test]
fn data_flow_and_paths_move_whatever_the_length_and_the_prefix_of_ids() {
    for (number, layout) in layouts().into_iter().enumerate() {
        // The endpoint that connects may issue other IDs than 8 bytes, too.
        let of_client = layouts()[number * 2 % 5];
        let mut pair = connected(of_client, layout);
        let mut seen = [(Side::Client, of_client), (Side::Server, layout)].map(|(side, layout)| {
            ids_at(&mut pair, side, layout.length());
            (side, layout, BTreeSet::new())
        });
        for from in [Side::Server, Side::Client] {
            pair.transfer(from, megabytes(2), MINUTE).unwrap();
        }
        let host = pair.host(Side::Client);
        pair.start(Side::Client, Box::new(Exchange::new(host, megabytes(6))));
        for _ in 0..3 {
            pair.run_for(200 * MS).unwrap();
            pair.rebind(0);
            pair.run_for(200 * MS).unwrap();
            pair.change_address(1);
        }
        pair.run_until(MINUTE, "transferred", |pair| pair.is_quiet()).unwrap();
        pair.run_for(2 * SECOND).unwrap();
        assert_eq!(count_in(&mut pair, Side::Client, PathState::Active), 2, "{layout:?}");
        for (side, layout, ids) in &mut seen {
            ids.extend(ids_at(&mut pair, *side, layout.length()));
            assert!(ids.iter().all(|id| id.starts_with(layout.prefix())), "{layout:?} {ids:02x?}");
            // Longer ones would differ in every packet, since its number follows.
            assert!((3..30).contains(&ids.len()), "{side:?} {layout:?} {ids:02x?}");
        }
        assert_eq!(pair.ended(), None);
    }
}

// spec 4.11, 7.36
#[test]
fn each_end_learns_that_the_other_was_restarted_whatever_the_length_of_ids() {
    for layout in layouts() {
        for restarted in [Side::Client, Side::Server] {
            let mut pair = connected(IdLayout::default(), layout);
            let rng = pair.world_mut().fork_rng();
            pair.peer(restarted).unwrap().restart(rng);
            let other = restarted.other();
            let host = pair.host(other);
            pair.start(other, Box::new(Exchange::new(host, ByteCount(100_000))));
            let began = pair.now();
            let result = pair.run_until(MINUTE, "ended", |_| false);
            assert_eq!(pair.ended(), Some((other, ConnectionError::Reset)), "{layout:?} {result:?}");
            assert!(pair.now() - began < SECOND, "{layout:?} {:?}", pair.now() - began);
        }
    }
}
