use manyway_proto::{Ecn, FourTuple, LocalAddress, Transmit};
use manyway_sim::skipped::skip;

use super::*;
use crate::test_namespace::{in_namespace, ip};

fn here(test: &str) -> String {
    format!("udp::tests_in_namespace::{test}")
}

/// A socket on one end of a veth with an MTU of 1280.
fn on_cable() -> (UdpSocket, FourTuple) {
    ip("link add mwa type veth peer name mwb");
    ip("address add 10.97.0.1/24 dev mwa");
    ip("link set dev mwa up mtu 1280");
    ip("link set dev mwb up mtu 1280");
    ip("neighbour add 10.97.0.2 lladdr 02:00:00:00:00:01 dev mwa");
    let interface = nix::net::if_::if_nametoindex("mwa").unwrap();
    let local = LocalAddress { interface, address: "10.97.0.1:0".parse().unwrap() };
    let socket = UdpSocket::bind(&BindOptions::new(local)).unwrap();
    let tuple = FourTuple::udp(socket.local(), "10.97.0.2:4455".parse().unwrap());
    (socket, tuple)
}

/// A slow queue on the link makes the socket full.
#[test]
fn a_full_socket_would_block_and_becomes_writable_again() {
    in_namespace(&here("a_full_socket_would_block_and_becomes_writable_again"), || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (first, tuple) = on_cable();
            let mut options =
                BindOptions::new(LocalAddress { address: "10.97.0.1:0".parse().unwrap(), ..first.local() });
            options.buffers.send = 100_000;
            let socket = UdpSocket::bind(&options).unwrap();
            let slow = "qdisc add dev mwa root tbf rate 20mbit burst 20kb limit 1mb";
            let tc = std::process::Command::new("tc").args(slow.split(' ')).output().unwrap();
            if !tc.status.success() {
                skip(format!("tc {slow}: {}", String::from_utf8_lossy(&tc.stderr)));
                return;
            }
            let payload = vec![7; 12_000];
            let whole = Transmit { tuple, length: payload.len(), segment: 1200, ecn: Ecn::Ect0 };
            let mut waits = 0;
            let mut batches = 0;
            let mut rest = whole;
            while waits < 20 {
                let from = payload.len() - rest.length;
                match socket.try_send(&rest, &payload[from..]) {
                    Ok(()) => (rest, batches) = (whole, batches + 1),
                    Err(error) => {
                        assert_eq!(error.failure, SendFailure::WouldBlock, "{error}");
                        rest = error.rest(&rest);
                        waits += 1;
                        let writable =
                            tokio::time::timeout(std::time::Duration::from_secs(2), socket.writable());
                        writable.await.expect("the queue drains").unwrap();
                    }
                }
                assert!(batches < 10_000, "the socket never filled");
            }
        });
    });
}

fn run(test: impl FnOnce()) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _inside = runtime.enter();
    test();
}

#[test]
fn datagrams_beyond_the_mtu_are_refused_without_giving_up_offload() {
    in_namespace(&here("datagrams_beyond_the_mtu_are_refused_without_giving_up_offload"), || {
        run(|| {
            let (socket, tuple) = on_cable();
            assert_eq!(socket.capabilities().device, DeviceBinding::Bound);
            let segments = socket.max_segments(1200);
            let payload = vec![7; 6000];
            let transmit = |segment| Transmit { tuple, length: 6000, segment, ecn: Ecn::Ect0 };
            socket.try_send(&transmit(1200), &payload).unwrap();
            let error = socket.try_send(&transmit(1500), &payload).unwrap_err();
            assert_eq!((error.failure, error.sent), (SendFailure::TooLarge, 0), "{error}");
            assert_eq!(socket.max_segments(1200), segments);
            socket.try_send(&transmit(1200), &payload).unwrap();
        });
    });
}

#[test]
fn a_vanished_address_route_or_interface_is_called_unreachable() {
    in_namespace(&here("a_vanished_address_route_or_interface_is_called_unreachable"), || {
        run(|| {
            let (socket, tuple) = on_cable();
            let transmit = Transmit { tuple, length: 5, segment: 5, ecn: Ecn::NotEct };
            socket.try_send(&transmit, b"hello").unwrap();
            ip("link set dev mwa down");
            let error = socket.try_send(&transmit, b"hello").unwrap_err();
            assert_eq!(error.failure, SendFailure::Unreachable, "{error}");
            ip("link set dev mwa up");
            ip("address delete 10.97.0.1/24 dev mwa");
            let error = socket.try_send(&transmit, b"hello").unwrap_err();
            assert_eq!(error.failure, SendFailure::Unreachable, "{error}");
            ip("link delete dev mwa");
            let error = socket.try_send(&transmit, b"hello").unwrap_err();
            assert_eq!(error.failure, SendFailure::Unreachable, "{error}");
        });
    });
}
