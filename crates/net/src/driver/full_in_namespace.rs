//! Sockets that are full because their interface is slow.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use manyway_proto::{Ecn, FourTuple, LocalAddress, Transmit};
use manyway_sim::skipped::skip;

use super::sizes_in_namespace::{Ends, run};
use super::sockets::{Sent, Sockets};
use super::tests_in_namespace::{There, until_active};
use crate::EndpointOptions;
use crate::test_namespace::in_namespace;
use crate::udp::BufferSizes;

/// Small, so that a slow interface soon fills it.
const BUFFERS: BufferSizes = BufferSizes { receive: 1 << 20, send: 100_000 };

/// A cable of 4 Mbit/s with a queue that never drops, and one without a limit; `None` if that is impossible here.
fn slow_and_fast() -> Option<There> {
    let there = There::new();
    there.lay_cable(1);
    there.lay_cable(2);
    let slow = "qdisc add dev mwhere1 root tbf rate 4mbit burst 20kb limit 10mb";
    let tc = std::process::Command::new("tc").args(slow.split(' ')).output().unwrap();
    if !tc.status.success() {
        skip(format!("tc {slow}: {}", String::from_utf8_lossy(&tc.stderr)));
        return None;
    }
    Some(there)
}

#[test]
fn a_full_socket_blocks_its_address_pair_and_no_other_socket() {
    in_namespace(
        "driver::full_in_namespace::a_full_socket_blocks_its_address_pair_and_no_other_socket",
        || {
            let Some(_there) = slow_and_fast() else { return };
            run(async {
                let mut sockets = Sockets::new(BUFFERS, None, false);
                let [slow, fast] = [1, 2].map(|cable| {
                    let interface = nix::net::if_::if_nametoindex(format!("mwhere{cable}").as_str()).unwrap();
                    let local = LocalAddress { interface, address: ([10, 98, cable, 1], 0).into() };
                    let bound = sockets.candidates(vec![(local, Default::default())]);
                    FourTuple::udp(bound[0].address, ([10, 98, cable, 2], 9).into())
                });
                let bytes = vec![7; 12_000];
                let batch = |tuple| Transmit { tuple, length: bytes.len(), segment: 1200, ecn: Ecn::Ect0 };
                let filled = poll_fn(|context| {
                    let filled =
                        (0..1000).find(|_| sockets.send(context, &batch(slow), &bytes) == Sent::Waits);
                    assert_eq!(sockets.send(context, &batch(fast), &bytes), Sent::Done);
                    assert_eq!(sockets.send(context, &batch(slow), &bytes), Sent::Waits);
                    Poll::Ready(filled)
                });
                assert!(filled.await.is_some_and(|batches| batches > 0), "the socket never filled");
                let writable = poll_fn(|context| {
                    let flushed = sockets.flush(context);
                    assert!(flushed.refused.is_empty());
                    if flushed.writable.is_empty() { Poll::Pending } else { Poll::Ready(flushed.writable) }
                });
                let writable = tokio::time::timeout(Duration::from_secs(5), writable).await;
                assert_eq!(writable.expect("the queue drains"), [slow]);
                assert!(!sockets.has_pending());
            });
        },
    );
}

#[test]
fn a_transfer_over_a_full_socket_and_a_free_one_loses_nothing() {
    let name = "driver::full_in_namespace::a_transfer_over_a_full_socket_and_a_free_one_loses_nothing";
    in_namespace(name, || {
        let Some(there) = slow_and_fast() else { return };
        run(async {
            let options = EndpointOptions { buffers: BUFFERS, ..EndpointOptions::default() };
            let ends = Ends::connect_with(options, &there, "10.98.1.2").await;
            until_active(&ends.connection, &["mwhere1", "mwhere2"]).await;
            ends.transfer(10).await;
            let info = ends.connection.info().await.unwrap();
            for path in &info.paths {
                assert_eq!(path.statistics.packets_lost, 0, "{info:#?}");
            }
            ends.close().await;
        });
    });
}
