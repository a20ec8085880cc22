//! Connections over MMSP/1, beside MMSP/2 and instead of it.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::net::SocketAddr;
use std::time::Duration;

use crate::common::{Pair, SECRET, address, client, client_from, identity, pattern, read_all, soon, ticket};
use manyway::{
    BindFailure, ClosedBy, ConnectError, ConnectionConfig, ConnectionError, Endpoint, EndpointOptions,
    HostPort, MessageOptions, Mmsp1Options, PathState, ServerOptions, Wire, WriteError,
};

fn options(from: &str, listen: &[&str]) -> EndpointOptions {
    let mut settings = Mmsp1Options::new(from.parse().unwrap());
    settings.listen = listen.iter().map(|address| address.parse().unwrap()).collect();
    let mut options = EndpointOptions::default();
    options.mmsp1 = Some(settings);
    options
}

/// A server that takes only MMSP/1, from these addresses.
pub(crate) fn server(from: &str, listen: &[&str]) -> Endpoint {
    Endpoint::bind(options(from, listen)).unwrap()
}

/// A server that takes MMSP/2 with the ticket, and MMSP/1 from these addresses.
fn server_of_both(from: &str) -> Endpoint {
    let mut options = options(from, &[]);
    let mut settings = ServerOptions::new(identity(), &SECRET);
    settings.listen = vec!["127.0.0.1:0".parse().unwrap()];
    options.server = Some(settings);
    Endpoint::bind(options).unwrap()
}

pub(crate) fn hosts(server: &Endpoint) -> Vec<HostPort> {
    server.local_addresses().iter().map(|local| HostPort::from(local.address)).collect()
}

async fn pair(server: Endpoint, client: Endpoint) -> Pair {
    let hosts = hosts(&server);
    let (connected, accepted) =
        soon(async { tokio::join!(client.connect_mmsp1(&hosts), server.accept()) }).await;
    Pair { connected: connected.unwrap(), accepted: accepted.unwrap(), server, client }
}

fn impatient() -> ConnectionConfig {
    let mut config = Wire::Mmsp1.config();
    config.connect_timeout = Duration::from_secs(1);
    config
}

#[tokio::test]
async fn bytes_go_both_ways_and_the_close_tells_its_code() {
    let pair = pair(server("127.0.0.1", &["127.0.0.1:0"]), client(Wire::Mmsp1.config())).await;
    let ends = [&pair.connected, &pair.accepted];
    assert!(ends.iter().all(|end| end.wire() == Wire::Mmsp1 && end.peer_key().is_none()));
    for [from, to] in [ends, [&pair.accepted, &pair.connected]] {
        let data = pattern(3_000_000);
        let (mut send, mut answer) = soon(from.open()).await.unwrap();
        let writing = async {
            send.write_chunk(data.clone().into()).await.unwrap();
            send.finish().unwrap();
            read_all(&mut answer).await
        };
        let echoing = async {
            let (mut send, mut receive) = to.accept().await.unwrap();
            let all = read_all(&mut receive).await;
            send.write_chunk(all.into()).await.unwrap();
            send.finish().unwrap();
        };
        let (echoed, ()) = soon(async { tokio::join!(writing, echoing) }).await;
        assert!(echoed == data);
    }
    soon(pair.connected.close(0, "done")).await;
    let error = soon(pair.accepted.closed()).await;
    assert!(matches!(error, ConnectionError::Closed { by: ClosedBy::Peer, .. }), "{error}");
    soon(pair.client.close(0, "")).await;
    soon(pair.server.close(0, "")).await;
}

#[tokio::test]
async fn messages_keep_their_boundaries() {
    let pair = pair(server("127.0.0.1", &["127.0.0.1:0"]), client(Wire::Mmsp1.config())).await;
    assert!(pair.connected.max_message().unwrap() >= 100_000);
    let (mut send, _) = soon(pair.connected.open()).await.unwrap();
    let sizes = [1, 1000, 5000, 100_000];
    for size in sizes {
        soon(send.send_message(pattern(size).into(), MessageOptions::default())).await.unwrap();
    }
    send.finish().unwrap();
    let (mut other, _) = soon(pair.connected.open()).await.unwrap();
    let empty = soon(other.send_message("".into(), MessageOptions::default())).await;
    assert_eq!(empty, Err(WriteError::EmptyMessage));
    let reserved = MessageOptions::default().protocol(0x4d57_0001);
    let reserved = soon(other.send_message("x".into(), reserved)).await;
    assert_eq!(reserved, Err(WriteError::ReservedProtocol(0x4d57_0001)));
    let (_, mut receive) = soon(pair.accepted.accept()).await.unwrap();
    for size in sizes {
        let message = soon(receive.receive_message()).await.unwrap().unwrap();
        assert!(message.data == pattern(size));
    }
    assert!(soon(receive.receive_message()).await.unwrap().is_none());
}

/// A peer that fails before its first message or byte drops the stream; the other end must not wait for it.
#[tokio::test]
async fn a_stream_that_is_dropped_before_anything_was_sent_is_abandoned_at_the_peer() {
    let pair = pair(server("127.0.0.1", &["127.0.0.1:0"]), client(Wire::Mmsp1.config())).await;
    for [from, to] in [[&pair.accepted, &pair.connected], [&pair.connected, &pair.accepted]] {
        let (mut send, receive) = soon(from.open()).await.unwrap();
        let refused = soon(send.send_message("".into(), MessageOptions::default())).await;
        assert_eq!(refused, Err(WriteError::EmptyMessage));
        drop((send, receive));
        let (_, mut receive) = soon(to.accept()).await.unwrap();
        let outcome = soon(receive.receive_message()).await;
        assert!(outcome.is_err(), "{outcome:?}");
    }
}

#[tokio::test]
async fn a_server_of_both_wires_takes_each_client_over_its_own() {
    let server = server_of_both("127.0.0.1");
    let (older, newer) = (client(Wire::Mmsp1.config()), client(ConnectionConfig::default()));
    let hosts = hosts(&server);
    let ticket = ticket(&[address(&server)]);
    let clients =
        async { (older.connect_mmsp1(&hosts).await.unwrap(), newer.connect(&ticket).await.unwrap()) };
    let (older, newer) = soon(clients).await;
    let mut wires = Vec::new();
    for _ in 0..2 {
        let accepted = soon(server.accept()).await.unwrap();
        assert_eq!(accepted.peer_key().is_some(), accepted.wire() == Wire::Mmsp2);
        wires.push(accepted.wire());
    }
    wires.sort_unstable();
    assert_eq!((wires.as_slice(), older.wire(), newer.wire()), (&Wire::ALL[..], Wire::Mmsp1, Wire::Mmsp2));
}

#[tokio::test]
async fn a_client_from_an_address_that_is_not_named_gets_no_answer() {
    let server = server("127.0.0.2,fd00::/8", &["127.0.0.1:0"]);
    let stranger = client(impatient());
    let error = soon(stranger.connect_mmsp1(&hosts(&server))).await.unwrap_err();
    assert!(matches!(error, ConnectError::Failed(ConnectionError::ConnectTimeout)), "{error}");
    // The same server takes those from a named one.
    pair(server, client_from(impatient(), &[[127, 0, 0, 2]])).await;
}

#[tokio::test]
async fn a_server_takes_mmsp1_only_if_it_was_told_to() {
    let server = crate::common::server(ConnectionConfig::default());
    let error = soon(client(impatient()).connect_mmsp1(&hosts(&server))).await.unwrap_err();
    assert!(matches!(error, ConnectError::Failed(ConnectionError::ConnectTimeout)), "{error}");
}

/// Everything that a client of MMSP/2 sends to such a server is a packet of MMSP/2.
#[tokio::test]
async fn a_client_never_falls_back_to_mmsp1() {
    let server = server("127.0.0.1", &["127.0.0.1:0"]);
    let mut config = ConnectionConfig::default();
    config.connect_timeout = Duration::from_secs(2);
    let tap = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let both = ticket(&[address(&server), tap.local_addr().unwrap()]);
    let client = client(config);
    let connecting = client.connect(&both);
    let watching = async {
        let (mut buffer, mut seen) = ([0; 2000], 0);
        while let Ok(Ok(_)) = tokio::time::timeout(Duration::from_millis(2500), tap.recv(&mut buffer)).await {
            assert_ne!(buffer[0] >> 6, 0);
            seen += 1;
        }
        seen
    };
    let (connected, seen) = soon(async { tokio::join!(connecting, watching) }).await;
    connected.unwrap_err();
    assert!(seen > 0);
    let none = tokio::time::timeout(Duration::from_millis(100), server.accept()).await;
    assert!(none.is_err());
}

#[tokio::test]
async fn both_ends_use_one_port_on_all_their_addresses() {
    let listen = ["127.0.0.1:0", "127.0.0.3:0"];
    let server = server("127.0.0.0/8", &listen);
    let port = |address: SocketAddr| address.port();
    let ports: Vec<u16> = server.local_addresses().iter().map(|local| port(local.address)).collect();
    assert!(matches!(ports.as_slice(), [one, other] if one == other), "{ports:?}");
    let pair = pair(server, client_from(Wire::Mmsp1.config(), &[[127, 0, 0, 1], [127, 0, 0, 2]])).await;
    let paths = soon(async {
        loop {
            let info = pair.connected.info().await.unwrap();
            let works = |path: &&manyway::PathInfo| path.statistics.state == PathState::Active;
            if info.paths.iter().filter(works).count() >= 2 {
                return info.paths;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    let paths = paths.await;
    let tuples: Vec<_> = paths.iter().map(|path| path.statistics.tuple).collect();
    assert!(tuples.windows(2).all(|two| port(two[0].local.address) == port(two[1].local.address)));
    assert!(
        tuples.iter().any(|tuple| tuple.local.address.ip() != tuples[0].local.address.ip()),
        "{tuples:?}"
    );

    let error = Endpoint::bind(options("127.0.0.1", &["127.0.0.1:4001", "127.0.0.2:4002"])).unwrap_err();
    assert!(matches!(&error, BindFailure::Config(error) if error.field == "listen"), "{error}");
}
