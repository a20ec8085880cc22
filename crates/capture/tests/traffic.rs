//! What a command sends arrives here, and answers reach it.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

use std::net::SocketAddr;
use std::time::Duration;

use manyway_capture::packet::{Packet, Unreachable};
use manyway_capture::{ADDRESS_V4, ADDRESS_V6, RESOLVER};
use socket2::SockRef;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::common::{PATIENCE, User, datagram, next, next_datagram};

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

#[tokio::test]
async fn tcp_connections_arrive_with_their_destination_over_ipv4_and_ipv6() {
    let script = "$PROGRAM connect 192.0.2.7:80; $PROGRAM connect [2001:db8::7]:443";
    let Some(inside) = User::Ordinary.run(script).await else { return };
    for (expected, source) in
        [("192.0.2.7:80", ADDRESS_V4.into()), ("[2001:db8::7]:443", std::net::IpAddr::from(ADDRESS_V6))]
    {
        let accepted = timeout(PATIENCE, inside.captured.connections.accept()).await.unwrap();
        let (mut socket, destination) = accepted.unwrap();
        assert_eq!((destination, socket.peer_addr().unwrap().ip()), (address(expected), source));
        let mut hello = [0; 5];
        socket.read_exact(&mut hello).await.unwrap();
        assert_eq!(&hello, b"hello");
        socket.write_all(format!("welcome to {expected}").as_bytes()).await.unwrap();
    }
    assert_eq!(inside.end().await, (0, "welcome to 192.0.2.7:80\nwelcome to [2001:db8::7]:443\n".to_owned()));
}

#[tokio::test]
async fn a_connection_that_is_reset_here_is_reset_at_the_command() {
    let Some(inside) = User::Ordinary.run("$PROGRAM connect 192.0.2.7:80").await else { return };
    let (socket, _) = timeout(PATIENCE, inside.captured.connections.accept()).await.unwrap().unwrap();
    SockRef::from(&socket).set_linger(Some(Duration::ZERO)).unwrap();
    drop(socket);
    let (status, text) = inside.end().await;
    assert!(status == 1 && text.contains("Connection reset"), "{status} {text}");
}

#[tokio::test]
async fn connections_within_the_namespace_stay_there_and_the_listener_serves_no_direct_ones() {
    // The only listener is ours; its port is the same for IPv4 and IPv6.
    let script = "for to in 127.0.0.1:9 [::1]:9 198.18.0.1:9; do $PROGRAM connect $to; done; \
                  hex=$(sed -n 's/^ *[0-9]*: 0100007F:\\(....\\) 00000000:0000 0A .*/\\1/p' /proc/net/tcp); \
                  port=$(printf %d 0x$hex); echo $port >$HERE/port; \
                  $PROGRAM connect 127.0.0.1:$port; $PROGRAM connect [::1]:$port";
    let Some(mut inside) = User::Ordinary.run(script).await else { return };
    let captured = &mut inside.captured;
    tokio::select! {
        accepted = captured.connections.accept() => panic!("{accepted:?}"),
        status = timeout(PATIENCE, captured.command.wait()) => assert_eq!(status.unwrap().unwrap(), 1),
    }
    let port = std::fs::read_to_string(inside.here.path().join("port")).unwrap().trim().parse().unwrap();
    // From outside of the namespace there is nothing at this port.
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
    let text = std::fs::read_to_string(inside.here.path().join("out")).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 5, "{text}");
    assert!(lines[..3].iter().all(|line| line.contains("Connection refused")), "{text}");
    assert!(lines[3..].iter().all(|line| line.contains("Connection reset")), "{text}");
}

#[tokio::test]
async fn datagrams_arrive_and_are_answered_over_ipv4_and_ipv6() {
    let script = "$PROGRAM ask 192.0.2.8:5000 question; $PROGRAM ask [2001:db8::8]:5001 question";
    let Some(inside) = User::Ordinary.run(script).await else { return };
    for expected in ["192.0.2.8:5000", "[2001:db8::8]:5001"] {
        let packet = next_datagram(&inside.captured.tun).await;
        let question = datagram(&packet);
        assert_eq!((question.destination, question.payload), (address(expected), &b"question"[..]));
        let mut answer = Vec::new();
        question.answer(b"answer").compose(&mut answer).unwrap();
        inside.captured.tun.send(&answer).await.unwrap();
    }
    assert_eq!(inside.end().await, (0, "answer\nanswer\n".to_owned()));
}

#[tokio::test]
async fn a_program_sees_why_its_datagram_does_not_arrive() {
    let cases = [
        ("192.0.2.8:1", Unreachable::Port, "Connection refused"),
        ("[2001:db8::8]:1", Unreachable::Port, "Connection refused"),
        ("192.0.2.8:2", Unreachable::Prohibited, "No route to host"),
        ("[2001:db8::8]:2", Unreachable::Prohibited, "Permission denied"),
        ("192.0.2.8:3", Unreachable::TooLarge(1280), "Message too long"),
    ];
    let script: String = cases.iter().map(|(to, ..)| format!("$PROGRAM ask {to} x;")).collect();
    let Some(inside) = User::Ordinary.run(&script).await else { return };
    for (_, reason, _) in cases {
        let packet = next_datagram(&inside.captured.tun).await;
        let mut answer = Vec::new();
        assert!(reason.compose(&packet, &mut answer));
        inside.captured.tun.send(&answer).await.unwrap();
    }
    let (_, text) = inside.end().await;
    for ((to, _, expected), line) in cases.iter().zip(text.lines()) {
        assert!(line.contains(expected), "{to}: {line}");
    }
    assert_eq!(text.lines().count(), cases.len(), "{text}");
}

#[tokio::test]
async fn echo_requests_need_no_privilege_and_are_answered() {
    let script = "$PROGRAM ping 192.0.2.9:0; $PROGRAM ping [2001:db8::9]:0";
    let Some(inside) = User::Ordinary.run(script).await else { return };
    for to in ["192.0.2.9", "2001:db8::9"] {
        let packet = next(&inside.captured.tun, |packet| matches!(packet, Packet::Echo(_))).await;
        let Ok(Packet::Echo(echo)) = Packet::parse(&packet) else { panic!("{packet:?}") };
        assert_eq!((echo.destination, echo.sequence, echo.payload), (to.parse().unwrap(), 7, &b"ping"[..]));
        let mut answer = Vec::new();
        echo.compose_reply(&mut answer).unwrap();
        inside.captured.tun.send(&answer).await.unwrap();
    }
    assert_eq!(inside.end().await, (0, "type 0 with ping\ntype 129 with ping\n".to_owned()));
}

/// The answer to a query: for an IPv4 address 192.0.2.99, for anything else none.
fn resolve(query: &[u8]) -> Vec<u8> {
    let end = 12 + query[12..].iter().position(|byte| *byte == 0).unwrap() + 5;
    let asks_for_v4 = query[end - 4..end] == [0, 1, 0, 1];
    let mut answer = query[..end].to_vec();
    answer[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, u8::from(asks_for_v4), 0, 0, 0, 0]);
    if asks_for_v4 {
        answer.extend([0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 99]);
    }
    answer
}

#[tokio::test]
async fn the_system_resolver_asks_the_name_server_behind_the_device() {
    let Some(mut inside) = User::Ordinary.run("$PROGRAM look-up www.manyway.example").await else { return };
    let captured = &mut inside.captured;
    let serve = async {
        loop {
            let packet = next_datagram(&captured.tun).await;
            let query = datagram(&packet);
            assert_eq!(query.destination, SocketAddr::from((RESOLVER, 53)));
            let mut answer = Vec::new();
            query.answer(&resolve(query.payload)).compose(&mut answer).unwrap();
            captured.tun.send(&answer).await.unwrap();
        }
    };
    tokio::select! {
        () = serve => {},
        status = captured.command.wait() => assert_eq!(status.unwrap(), 0),
    }
    assert_eq!(std::fs::read_to_string(inside.here.path().join("out")).unwrap(), "192.0.2.99:80\n");
}
