use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use manyway_proto::{Ecn, FourTuple, LocalAddress, Transmit, Undelivered};
use manyway_sim::skipped::skip_optional;

use super::*;

#[tokio::test]
async fn forty_segments_arrive_intact_with_their_addresses() {
    batch_arrives("127.0.0.1:0", Segmentation::WherePossible).await;
}

#[tokio::test]
async fn forty_datagrams_arrive_without_offload_as_well() {
    batch_arrives("127.0.0.1:0", Segmentation::Off).await;
}

#[tokio::test]
async fn forty_segments_arrive_over_ipv6() {
    if !has_ipv6() {
        return;
    }
    batch_arrives("[::1]:0", Segmentation::WherePossible).await;
}

#[tokio::test]
async fn a_batch_larger_than_the_system_takes_is_cut() {
    let (here, there) = (bound("127.0.0.1:0"), bound("127.0.0.1:0"));
    let payload = pattern(90 * 1000 + 17);
    here.try_send(&transmit(&here, &there, payload.len(), 1000), &payload).unwrap();
    let received = receive(&there, 91).await;
    assert_eq!(received.concat(), payload);
}

#[tokio::test]
async fn a_large_single_datagram_arrives_whole() {
    let (here, there) = (bound("127.0.0.1:0"), bound("127.0.0.1:0"));
    let payload = pattern(65_000);
    here.try_send(&transmit(&here, &there, payload.len(), payload.len()), &payload).unwrap();
    assert_eq!(receive(&there, 1).await, [payload]);
}

#[tokio::test]
async fn a_wildcard_socket_answers_from_the_address_it_was_asked_at() {
    wildcard_answers("0.0.0.0:0", "127.0.0.2", "127.0.0.1:0").await;
}

#[tokio::test]
async fn an_ipv6_wildcard_socket_answers_from_the_address_it_was_asked_at() {
    if !has_ipv6() {
        return;
    }
    wildcard_answers("[::]:0", "::1", "[::1]:0").await;
}

#[tokio::test]
async fn both_wildcards_share_a_port() {
    if !has_ipv6() {
        return;
    }
    let v6 = bound("[::]:0");
    let v4 = UdpSocket::bind(&options(&format!("0.0.0.0:{}", v6.local().address.port())));
    assert!(v4.is_ok(), "{v4:?}");
}

#[tokio::test]
async fn a_taken_port_and_a_foreign_address_are_named() {
    let first = bound("127.0.0.1:0");
    let error = UdpSocket::bind(&options(&first.local().address.to_string())).unwrap_err();
    assert!(error.to_string().contains("is taken"), "{error}");
    let error = UdpSocket::bind(&options("192.0.2.77:0")).unwrap_err();
    assert_eq!(error.step, BindStep::Bind);
    assert!(error.to_string().contains("192.0.2.77"), "{error}");
}

#[tokio::test]
async fn a_socket_is_bound_to_its_interface_or_says_why_not() {
    let local = LocalAddress { interface: 1, address: "127.0.0.1:0".parse().unwrap() };
    let socket = UdpSocket::bind(&BindOptions::new(local)).unwrap();
    assert_eq!(socket.local().interface, 1);
    match socket.capabilities().device {
        DeviceBinding::Bound => {}
        DeviceBinding::Refused { reason } => assert!(!reason.is_empty()),
        DeviceBinding::NotRequested => panic!("an interface was asked for"),
    }
    let missing = LocalAddress { interface: 987_654, ..local };
    let socket = UdpSocket::bind(&BindOptions::new(missing)).unwrap();
    assert!(matches!(socket.capabilities().device, DeviceBinding::Refused { .. }));
}

/// As before Linux 5.7, and in strict containers. A seccomp filter applies to one thread, so that others are not
/// affected.
#[test]
#[cfg(all(target_os = "linux", not(manyway_portable)))]
fn a_socket_that_may_not_be_tied_to_its_interface_works_by_its_address() {
    let test = async {
        crate::test_seccomp::refuse_socket_option(nix::libc::SO_BINDTODEVICE);
        let local = LocalAddress { interface: 1, address: "127.0.0.1:0".parse().unwrap() };
        let here = UdpSocket::bind(&BindOptions::new(local)).unwrap();
        let reason = nix::errno::Errno::EPERM.desc().to_owned();
        let DeviceBinding::Refused { reason: told } = here.capabilities().device else { panic!("tied") };
        assert!(told.contains(&reason), "{told}");
        let there = bound("127.0.0.1:0");
        here.try_send(&transmit(&here, &there, 5, 5), b"hello").unwrap();
        assert_eq!(receive(&there, 1).await, [b"hello"]);
    };
    in_own_thread(test);
}

/// Users other than root get the system's limit, whatever they request.
#[test]
#[cfg(target_os = "linux")]
fn buffers_beyond_the_limit_of_the_system_are_granted_up_to_it() {
    in_own_thread(async {
        crate::test_seccomp::refuse_socket_option(nix::libc::SO_RCVBUFFORCE);
        crate::test_seccomp::refuse_socket_option(nix::libc::SO_SNDBUFFORCE);
        let limit = |name: &str| {
            let text = std::fs::read_to_string(format!("/proc/sys/net/core/{name}")).unwrap();
            text.trim().parse::<usize>().unwrap()
        };
        let (receive, send) = (limit("rmem_max"), limit("wmem_max"));
        let mut options = options("127.0.0.1:0");
        options.buffers = BufferSizes { receive: receive + 1_000_000, send: send + 1_000_000 };
        let granted = UdpSocket::bind(&options).unwrap().capabilities();
        assert_eq!((granted.receive_buffer, granted.send_buffer), (receive, send));
    });
}

#[cfg(target_os = "linux")]
fn in_own_thread(test: impl Future<Output = ()> + Send + 'static) {
    let run = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
    std::thread::spawn(run).join().unwrap();
}

#[tokio::test]
async fn the_capabilities_report_what_was_granted() {
    let mut options = options("127.0.0.1:0");
    options.buffers.receive = 300_000;
    options.buffers.send = 200_000;
    let capabilities = UdpSocket::bind(&options).unwrap().capabilities();
    assert!(capabilities.send_segments >= 1 && capabilities.receive_segments >= 1);
    assert!((100_000..=300_000).contains(&capabilities.receive_buffer), "{capabilities:?}");
    assert!((100_000..=200_000).contains(&capabilities.send_buffer), "{capabilities:?}");
    assert_eq!(capabilities.device, DeviceBinding::NotRequested);
}

#[tokio::test]
async fn a_too_large_datagram_is_reported_as_such() {
    let (here, there) = (bound("127.0.0.1:0"), bound("127.0.0.1:0"));
    let payload = pattern(65_530);
    let error = here.try_send(&transmit(&here, &there, payload.len(), payload.len()), &payload).unwrap_err();
    assert_eq!(error.failure, SendFailure::TooLarge);
}

/// One of two ports has no listener. Datagrams to the other arrive, even while the ICMP error is reported.
#[cfg(all(target_os = "linux", not(manyway_portable)))]
#[tokio::test]
async fn an_undelivered_datagram_is_quoted_and_fails_no_other() {
    for wildcard in ["0.0.0.0:0", "[::]:0"] {
        let is_v6 = wildcard.starts_with('[');
        if is_v6 && !has_ipv6() {
            continue;
        }
        let (here, loopback) = (bound(wildcard), if is_v6 { "[::1]:0" } else { "127.0.0.1:0" });
        let (there, gone) = (bound(loopback), bound(loopback).local().address);
        let payload = pattern(100);
        let to = |remote| {
            let tuple = FourTuple::udp(here.local(), remote);
            Transmit { tuple, length: 100, segment: 100, ecn: Ecn::Ect0 }
        };
        let (into_the_void, to_there) = (to(gone), to(there.local().address));
        for _ in 0..5 {
            here.try_send(&into_the_void, &payload).unwrap();
            here.try_send(&to_there, &payload).unwrap();
        }
        assert_eq!(receive(&there, 5).await.concat(), payload.repeat(5));
        let told: Vec<_> = here.take_unreachable().collect();
        assert_eq!(
            told,
            [Unreachable {
                remote: gone,
                quoted: payload[..14].to_vec(),
                undelivered: Undelivered::PortClosed,
                lacks_neighbour: None,
            }]
        );
    }
}

#[tokio::test]
async fn a_source_address_that_is_gone_is_reported_unreachable_and_keeps_offload() {
    let socket = bound("0.0.0.0:0");
    let segments = socket.max_segments(1000);
    let local = LocalAddress { interface: 0, address: "192.0.2.77:1".parse().unwrap() };
    let tuple = FourTuple::udp(local, "127.0.0.1:9".parse().unwrap());
    let transmit = Transmit { tuple, length: 5000, segment: 1000, ecn: Ecn::Ect0 };
    let error = socket.try_send(&transmit, &pattern(5000)).unwrap_err();
    assert_eq!((error.failure, error.sent), (SendFailure::Unreachable, 0), "{error}");
    assert_eq!(socket.max_segments(1000), segments);
}

#[tokio::test]
async fn nothing_to_receive_would_block() {
    let socket = bound("127.0.0.1:0");
    let error = socket.try_receive(&mut ReceiveBuffer::new()).err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
}

#[tokio::test]
async fn the_last_segments_size_bounds_a_batch() {
    let socket = bound("127.0.0.1:0");
    assert_eq!(socket.max_segments(60_000), 1);
    assert_eq!(socket.max_segments(70_000), 1);
    assert!(socket.max_segments(0) >= 1);
    assert!(socket.max_segments(1200) * 1200 <= 65_507);
}

async fn batch_arrives(address: &str, segmentation: Segmentation) {
    let mut options = options(address);
    options.segmentation = segmentation;
    let here = UdpSocket::bind(&options).unwrap();
    let there = bound(address);
    // The last segment is shorter, as in real batches.
    let payload = pattern(39 * 1200 + 700);
    here.try_send(&transmit(&here, &there, payload.len(), 1200), &payload).unwrap();

    let mut buffer = ReceiveBuffer::new();
    let mut received = Vec::new();
    while received.len() < 40 {
        wait_readable(&there).await;
        let Some(rows) = ready(there.try_receive(&mut buffer)) else { continue };
        for mut row in rows {
            assert_eq!(row.tuple, FourTuple::udp(there.local(), here.local().address));
            assert_eq!(row.ecn, Ecn::Ect0);
            received.extend(row.datagrams().map(|datagram| datagram.to_vec()));
        }
    }
    assert!(received[..39].iter().all(|datagram| datagram.len() == 1200));
    assert_eq!(received[39].len(), 700);
    assert_eq!(received.concat(), payload);
}

async fn wildcard_answers(wildcard: &str, target: &str, client: &str) {
    let server = bound(wildcard);
    let client = bound(client);
    let target = SocketAddr::new(target.parse().unwrap(), server.local().address.port());
    let tuple = FourTuple::udp(client.local(), target);
    client.try_send(&Transmit { tuple, length: 4, segment: 4, ecn: Ecn::NotEct }, b"ask?").unwrap();

    let mut buffer = ReceiveBuffer::new();
    let request = loop {
        wait_readable(&server).await;
        if let Some(mut rows) = ready(server.try_receive(&mut buffer)) {
            break rows.next().unwrap().tuple;
        }
    };
    assert_eq!(request.local.address, target);
    server.try_send(&Transmit { tuple: request, length: 4, segment: 4, ecn: Ecn::Ce }, b"tell").unwrap();

    let (tuple, ecn) = loop {
        wait_readable(&client).await;
        if let Some(mut rows) = ready(client.try_receive(&mut buffer)) {
            let row = rows.next().unwrap();
            assert_eq!(row.payload, b"tell");
            break (row.tuple, row.ecn);
        }
    };
    assert_eq!((tuple.remote, ecn), (target, Ecn::Ce));
}

fn options(address: &str) -> BindOptions {
    BindOptions::new(LocalAddress { interface: 0, address: address.parse().unwrap() })
}

fn bound(address: &str) -> UdpSocket {
    UdpSocket::bind(&options(address)).unwrap()
}

fn transmit(from: &UdpSocket, to: &UdpSocket, length: usize, segment: usize) -> Transmit {
    let tuple = FourTuple::udp(from.local(), to.local().address);
    Transmit { tuple, length, segment, ecn: Ecn::Ect0 }
}

fn pattern(length: usize) -> Vec<u8> {
    (0..251).cycle().take(length).collect()
}

async fn receive(socket: &UdpSocket, count: usize) -> Vec<Vec<u8>> {
    let mut buffer = ReceiveBuffer::new();
    let mut received = Vec::new();
    while received.len() < count {
        wait_readable(socket).await;
        for mut row in ready(socket.try_receive(&mut buffer)).into_iter().flatten() {
            received.extend(row.datagrams().map(|datagram| datagram.to_vec()));
        }
    }
    received
}

async fn wait_readable(socket: &UdpSocket) {
    tokio::time::timeout(Duration::from_secs(5), socket.readable()).await.expect("datagrams arrive").unwrap();
}

fn ready<T>(result: io::Result<T>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        Err(error) => panic!("{error}"),
    }
}

fn has_ipv6() -> bool {
    let there = std::net::UdpSocket::bind((IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]), 0)).is_ok();
    if !there {
        skip_optional("this host has no IPv6 loopback");
    }
    there
}

/// What the kernel decides is what the protocol machine expects, for each kind of header.
#[cfg(all(target_os = "linux", not(manyway_portable)))]
#[tokio::test]
async fn sockets_that_share_a_port_get_the_datagrams_of_their_connection_ids() {
    use manyway_proto::Shard;

    const COUNT: usize = 5;
    let local = LocalAddress { interface: 0, address: "127.0.0.1:0".parse().unwrap() };
    let mut options = BindOptions::new(local);
    options.shared_by = COUNT;
    let mut sockets = vec![UdpSocket::bind(&options).unwrap()];
    options.local = sockets[0].local();
    sockets.extend((1..COUNT).map(|_| UdpSocket::bind(&options).unwrap()));
    let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let shard = Shard::new(0, COUNT).unwrap();
    let mut buffer = ReceiveBuffer::new();
    for first in [0x00, 0x05, 0x40, 0x7f, 0x80, 0xff] {
        for value in (0..=u8::MAX).step_by(9) {
            // Each byte differs, so that a wrong one leads elsewhere.
            let mut datagram: Vec<u8> = (0..40).map(|n: u8| value.wrapping_add(n.wrapping_mul(3))).collect();
            (datagram[0], datagram[1]) = (first, if first == 0 { 0 } else { value });
            sender.send_to(&datagram, options.local.address).unwrap();
            let expected = shard.of_datagram(&datagram);
            sockets[expected].readable().await.unwrap();
            let mut rows = sockets[expected].try_receive(&mut buffer).unwrap();
            assert_eq!(rows.next().unwrap().datagrams().next().unwrap(), datagram.as_slice());
        }
    }
    // Shorter than any packet: the first socket gets them, and nothing fails.
    for length in 1..=6 {
        sender.send_to(&vec![0x40; length], options.local.address).unwrap();
        sockets[0].readable().await.unwrap();
        assert!(sockets[0].try_receive(&mut buffer).is_ok());
    }
    assert!(UdpSocket::bind(&BindOptions::new(options.local)).is_err(), "no other may have the port");
}
