//! Sockets that are full because their interface is slow, with and without lanes.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use manyway_proto::{Ecn, FourTuple, LocalAddress, Transmit};
use manyway_sim::skipped::skip;

use super::lane::Batch;
use super::sizes_in_namespace::{Ends, run};
use super::sockets::{Flushed, Sent, Sockets};
use super::tests_in_namespace::{There, until_active};
use crate::test_namespace::in_namespace;
use crate::udp::BufferSizes;
use crate::{EndpointOptions, Lanes};

/// Small, so that a slow interface soon fills it.
const BUFFERS: BufferSizes = BufferSizes { receive: 1 << 20, send: 100_000 };

/// A cable with this rate and a queue that never drops, and one without a limit; `None` if that is impossible here.
fn slow_and_fast(rate: &str) -> Option<There> {
    let there = There::new();
    there.lay_cable(1);
    there.lay_cable(2);
    let slow = format!("qdisc add dev mwhere1 root tbf rate {rate} burst 20kb limit 10mb");
    let tc = std::process::Command::new("tc").args(slow.split(' ')).output().unwrap();
    if !tc.status.success() {
        skip(format!("tc {slow}: {}", String::from_utf8_lossy(&tc.stderr)));
        return None;
    }
    Some(there)
}

/// Sockets on both cables, and an address pair of each.
fn sockets(lanes: Lanes) -> (Sockets, [FourTuple; 2]) {
    let mut sockets = Sockets::new(BUFFERS, None, false, lanes);
    let pairs = [1, 2].map(|cable| {
        let interface = nix::net::if_::if_nametoindex(format!("mwhere{cable}").as_str()).unwrap();
        let local = LocalAddress { interface, address: ([10, 98, cable, 1], 0).into() };
        let bound = sockets.candidates(vec![(local, Default::default())]);
        FourTuple::udp(bound[0].address, ([10, 98, cable, 2], 9).into())
    });
    (sockets, pairs)
}

/// Sends batches over the slow cable until it takes no more; then one over the fast one is sent, and one more has to wait.
async fn fill(sockets: &mut Sockets, [slow, fast]: [FourTuple; 2]) {
    let filled = poll_fn(|context| {
        let mut send = |tuple| {
            let mut batch = Batch::new();
            batch.bytes.resize(12_000, 7);
            let transmit = Transmit { tuple, length: 12_000, segment: 1200, ecn: Ecn::Ect0 };
            sockets.send(context, &transmit, &mut batch)
        };
        let filled = (0..1000).find(|_| send(slow) == Sent::Waits);
        assert_eq!((send(fast), send(slow)), (Sent::Done, Sent::Waits));
        Poll::Ready(filled)
    });
    assert!(filled.await.is_some_and(|batches| batches > 0), "the socket never filled");
}

fn blocks_its_address_pair(lanes: Lanes) {
    let Some(_there) = slow_and_fast("4mbit") else { return };
    run(async {
        let (mut sockets, [slow, fast]) = sockets(lanes);
        fill(&mut sockets, [slow, fast]).await;
        let mut writable = Vec::new();
        let all_sent = poll_fn(|context| {
            let mut flushed: Flushed = sockets.flush(context);
            assert!(flushed.refused.is_empty());
            writable.append(&mut flushed.writable);
            if writable.is_empty() || sockets.has_pending() { Poll::Pending } else { Poll::Ready(()) }
        });
        tokio::time::timeout(Duration::from_secs(10), all_sent).await.expect("the queue drains");
        assert_eq!(writable, [slow]);
    });
}

#[test]
fn a_full_socket_blocks_its_address_pair_and_no_other_socket() {
    in_namespace(
        "driver::full_in_namespace::a_full_socket_blocks_its_address_pair_and_no_other_socket",
        || blocks_its_address_pair(Lanes::Never),
    );
}

#[test]
fn a_full_lane_blocks_its_address_pair_and_no_other_socket() {
    in_namespace(
        "driver::full_in_namespace::a_full_lane_blocks_its_address_pair_and_no_other_socket",
        || blocks_its_address_pair(Lanes::Always),
    );
}

/// The cable would need minutes for what the lane has.
#[test]
fn a_lane_that_waits_for_a_full_socket_ends_with_its_driver() {
    let name = "driver::full_in_namespace::a_lane_that_waits_for_a_full_socket_ends_with_its_driver";
    in_namespace(name, || {
        let Some(_there) = slow_and_fast("8kbit") else { return };
        run(async {
            let (mut sockets, pairs) = sockets(Lanes::Always);
            fill(&mut sockets, pairs).await;
            let ended = tokio::task::spawn_blocking(|| drop(sockets));
            tokio::time::timeout(Duration::from_secs(20), ended).await.expect("it ends").unwrap();
        });
    });
}

fn loses_nothing(lanes: Lanes) {
    let Some(there) = slow_and_fast("4mbit") else { return };
    run(async {
        let options = EndpointOptions { buffers: BUFFERS, lanes, ..EndpointOptions::default() };
        let ends = Ends::connect_with(options, &there, "10.98.1.2").await;
        until_active(&ends.connection, &["mwhere1", "mwhere2"]).await;
        ends.transfer(10).await;
        let info = ends.connection.info().await.unwrap();
        for path in &info.paths {
            assert_eq!(path.statistics.packets_lost, 0, "{info:#?}");
        }
        ends.close().await;
    });
}

#[test]
fn a_transfer_over_a_full_socket_and_a_free_one_loses_nothing() {
    let name = "driver::full_in_namespace::a_transfer_over_a_full_socket_and_a_free_one_loses_nothing";
    in_namespace(name, || loses_nothing(Lanes::Never));
}

#[test]
fn what_goes_by_a_full_lane_and_a_free_one_is_not_lost() {
    let name = "driver::full_in_namespace::what_goes_by_a_full_lane_and_a_free_one_is_not_lost";
    in_namespace(name, || loses_nothing(Lanes::Always));
}
