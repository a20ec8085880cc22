//! Connections over loopback sockets: how they begin, live and end.

#![expect(clippy::unwrap_used, reason = "these are tests")]

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::common::{
    Pair, Relay, SECRET, address, client, client_from, identity, pattern, read_all, server, soon, ticket,
    within,
};
use manyway::{
    ClosedBy, ConnectError, Connection, ConnectionConfig, ConnectionError, Endpoint, EndpointOptions, Event,
    HostPort, Identity, PathReason, PathState, ReadError, ServerOptions, Ticket, WriteError,
};

fn closed(by: ClosedBy, code: u64, reason: &str) -> ConnectionError {
    ConnectionError::Closed { by, code, reason: reason.into() }
}

#[tokio::test]
async fn a_close_tells_the_peer_code_and_reason() {
    let pair = Pair::new().await;
    assert_eq!(pair.connected.close_reason(), None);
    let end = soon(pair.connected.close(7, "enough")).await;
    assert_eq!(end, closed(ClosedBy::Us, 7, "enough"));
    assert_eq!(soon(pair.accepted.closed()).await, closed(ClosedBy::Peer, 7, "enough"));
    assert_eq!(pair.accepted.close_reason(), Some(closed(ClosedBy::Peer, 7, "enough")));
    assert_eq!(soon(pair.connected.open()).await.unwrap_err(), end);
    assert_eq!(soon(pair.connected.accept()).await.unwrap_err(), end);
    assert_eq!(soon(pair.connected.info()).await.unwrap_err(), end);
    assert_eq!(soon(pair.connected.close(8, "again")).await, end);
}

/// Much more than the protocol machine accepts at once: the writers' queues are full, too.
#[tokio::test]
async fn what_was_written_before_a_close_arrives() {
    let pair = Pair::new().await;
    let data = pattern(9_000_000);
    let mut readers = Vec::new();
    let mut writers = Vec::new();
    for _ in 0..3 {
        let ((mut send, receive), (_peer_send, mut peer_receive)) = pair.stream().await;
        send.write_chunk(data.clone().into()).await.unwrap();
        send.finish().unwrap();
        writers.push((send, receive));
        readers.push(tokio::spawn(async move { read_all(&mut peer_receive).await }));
    }
    let end = within(30, pair.connected.close(0, "done")).await;
    assert_eq!(end, closed(ClosedBy::Us, 0, "done"));
    for reader in readers {
        assert!(soon(reader).await.unwrap() == data);
    }
}

#[tokio::test]
async fn bytes_of_an_unfinished_stream_arrive_before_the_close_but_no_end() {
    let pair = Pair::new().await;
    let ((mut send, _r), (_s, mut receive)) = pair.stream().await;
    send.write_chunk("half a sen".into()).await.unwrap();
    soon(pair.connected.close(3, "")).await;
    assert_eq!(
        soon(send.write_chunk("tence".into())).await,
        Err(WriteError::Connection(closed(ClosedBy::Us, 3, "")))
    );
    assert_eq!(soon(receive.read_chunk(100)).await.unwrap().unwrap(), "half a sen");
    let end = ReadError::Connection(closed(ClosedBy::Peer, 3, ""));
    assert_eq!(soon(receive.read_chunk(100)).await, Err(end));
}

#[tokio::test]
async fn streams_not_accepted_before_the_close_can_still_be_read() {
    let pair = Pair::new().await;
    for number in 0..5_u8 {
        let (mut send, _) = soon(pair.connected.open()).await.unwrap();
        send.write_chunk(vec![number].into()).await.unwrap();
        send.finish().unwrap();
    }
    soon(pair.connected.close(0, "")).await;
    soon(pair.accepted.closed()).await;
    for number in 0..5_u8 {
        let (_, mut receive) = soon(pair.accepted.accept()).await.unwrap();
        assert_eq!(soon(read_all(&mut receive)).await, [number]);
    }
    assert!(soon(pair.accepted.accept()).await.is_err());
}

#[tokio::test]
async fn the_last_handle_closes_the_connection_and_written_data_arrives() {
    let Pair { server: _server, client, accepted, connected } = Pair::new().await;
    let (mut send, receive) = soon(connected.open()).await.unwrap();
    let data = pattern(2_000_000);
    send.write_chunk(data.clone().into()).await.unwrap();
    send.finish().unwrap();
    drop((client, connected, receive));
    let (_s, mut peer_receive) = soon(accepted.accept()).await.unwrap();
    drop(send);
    assert!(soon(read_all(&mut peer_receive)).await == data);
    assert_eq!(soon(accepted.closed()).await, closed(ClosedBy::Peer, 0, ""));
}

#[tokio::test]
async fn a_connection_outlives_the_handle_of_its_endpoint() {
    let Pair { server, client, accepted, connected } = Pair::new().await;
    drop((server, client));
    let (mut send, _r) = soon(connected.open()).await.unwrap();
    send.write_chunk("still here".into()).await.unwrap();
    send.finish().unwrap();
    let (_s, mut receive) = soon(accepted.accept()).await.unwrap();
    assert_eq!(soon(read_all(&mut receive)).await, b"still here");
}

#[tokio::test]
async fn an_endpoint_closes_all_its_connections() {
    let server = server(ConnectionConfig::default());
    let ticket = ticket(&[address(&server)]);
    let client = client(ConnectionConfig::default());
    let mut ends = Vec::new();
    for _ in 0..50 {
        let (connected, accepted) =
            soon(async { tokio::join!(client.connect(&ticket), server.accept()) }).await;
        ends.push((connected.unwrap(), accepted.unwrap()));
    }
    let started = Instant::now();
    soon(server.close(5, "maintenance")).await;
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    for (connected, accepted) in &ends {
        assert_eq!(soon(accepted.closed()).await, closed(ClosedBy::Us, 5, "maintenance"));
        assert_eq!(soon(connected.closed()).await, closed(ClosedBy::Peer, 5, "maintenance"));
    }
    assert!(soon(server.accept()).await.is_none());
    soon(server.close(5, "again")).await;
    soon(client.close(0, "")).await;
    let refused = soon(client.connect(&ticket)).await;
    assert!(matches!(refused, Err(ConnectError::EndpointClosed)), "{refused:?}");
    // Handles of an endpoint that has ended fail at once.
    let (connected, _) = &ends[0];
    assert!(soon(connected.open()).await.is_err());
    assert!(soon(connected.info()).await.is_err());
}

#[tokio::test]
async fn the_end_of_an_endpoint_waits_for_data_in_flight() {
    let pair = Pair::new().await;
    let ((mut send, _r), (_s, mut receive)) = pair.stream().await;
    let data = pattern(6_000_000);
    send.write_chunk(data.clone().into()).await.unwrap();
    send.finish().unwrap();
    let reader = tokio::spawn(async move { read_all(&mut receive).await });
    within(30, pair.client.close(0, "")).await;
    assert!(soon(reader).await.unwrap() == data);
}

#[tokio::test]
async fn an_endpoint_that_closes_without_patience_aborts_and_gives_the_reason() {
    let mut server = ConnectionConfig::default();
    server.streams.stream_receive_window = 64 * 1024;
    server.streams.connection_receive_window = 64 * 1024;
    server.streams.max_window = 64 * 1024;
    let pair = Pair::with(server, ConnectionConfig::default()).await;
    let ((mut send, _r), (_s, _unread)) = pair.stream().await;
    // Until the peer's credit and this end's queue are used up.
    let second = Duration::from_secs(1);
    while tokio::time::timeout(second, send.write_chunk(pattern(100_000).into())).await.is_ok() {}
    let in_order = pair.client.close(0, "in time");
    let at_once = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        pair.client.close_within(7, "now", Duration::ZERO).await;
    };
    // The peer does not read, so closing in order would take 30 s.
    within(5, async { tokio::join!(in_order, at_once) }).await;
    let end = soon(pair.accepted.closed()).await;
    assert_eq!(end, ConnectionError::AbortedByPeer { code: 0x1007, reason: "now".to_owned() });
}

#[tokio::test]
async fn a_peer_that_vanishes_is_given_up_after_the_idle_time() {
    let mut config = ConnectionConfig::default();
    config.idle_timeout = Duration::from_secs(1);
    // A path that is found dead before would use the longer timeout without a path.
    config.no_path_timeout = Duration::from_secs(1);
    let server = server(config.clone());
    let relay = Relay::new(address(&server)).await;
    let client = client(config);
    let ticket = ticket(&[relay.address]);
    let (connected, accepted) = soon(async { tokio::join!(client.connect(&ticket), server.accept()) }).await;
    let (connected, accepted) = (connected.unwrap(), accepted.unwrap());
    let (mut send, mut receive) = soon(connected.open()).await.unwrap();
    relay.set_passing(false);
    send.write_chunk("into the dark".into()).await.unwrap();
    let end = soon(connected.closed()).await;
    assert!(matches!(end, ConnectionError::IdleTimeout | ConnectionError::NoPath), "{end}");
    assert_eq!(soon(receive.read_chunk(1)).await, Err(ReadError::Connection(end.clone())));
    assert_eq!(soon(send.delivered()).await, Err(WriteError::Connection(end)));
    assert!(!matches!(soon(accepted.closed()).await, ConnectionError::Closed { .. }));
}

#[tokio::test]
async fn a_server_with_another_key_is_refused() {
    let server = server(ConnectionConfig::default());
    let client = client(ConnectionConfig::default());
    let other = Identity::from_seed(&[8; 32]).public_key().hash();
    let wrong = Ticket::new(other, SECRET, vec![HostPort::from(address(&server))]).unwrap();
    let error = soon(client.connect(&wrong)).await.unwrap_err();
    let ConnectError::Failed(ConnectionError::Authentication { .. }) = error else { panic!("{error}") };
}

#[tokio::test]
async fn a_client_without_the_secret_is_refused() {
    let server = server(ConnectionConfig::default());
    let client = client(ConnectionConfig::default());
    let hosts = vec![HostPort::from(address(&server))];
    let wrong = Ticket::new(identity().public_key().hash(), [1; 16], hosts).unwrap();
    let outcome = soon(client.connect(&wrong)).await;
    // The client may learn of it only after its own side is complete.
    let error = match outcome {
        Err(ConnectError::Failed(error)) => error,
        Ok(connection) => soon(connection.closed()).await,
        Err(other) => panic!("{other}"),
    };
    assert!(matches!(error, ConnectionError::Authentication { .. }), "{error}");
    assert!(tokio::time::timeout(Duration::from_millis(200), server.accept()).await.is_err());
}

#[tokio::test]
async fn the_handshake_times_out_without_an_answer() {
    let mut config = ConnectionConfig::default();
    config.connect_timeout = Duration::from_millis(600);
    let silent = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let client = client(config);
    let started = Instant::now();
    let error = soon(client.connect(&ticket(&[silent.local_addr().unwrap()]))).await.unwrap_err();
    let ConnectError::Failed(ConnectionError::ConnectTimeout) = error else { panic!("{error}") };
    assert!(started.elapsed() >= Duration::from_millis(600) && started.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn a_handshake_without_a_waiting_caller_is_aborted() {
    let silent = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let client = client(ConnectionConfig::default());
    let ticket = ticket(&[silent.local_addr().unwrap()]);
    assert!(tokio::time::timeout(Duration::from_millis(100), client.connect(&ticket)).await.is_err());
    let started = Instant::now();
    soon(client.close(0, "")).await;
    assert!(started.elapsed() < Duration::from_secs(1));
    let mut heard = 0;
    let mut buffer = [0; 2000];
    while tokio::time::timeout(Duration::from_millis(50), silent.recv_from(&mut buffer)).await.is_ok() {
        heard += 1;
    }
    assert!(heard < 10, "{heard} datagrams in 100 ms");
}

#[tokio::test]
async fn the_first_address_that_answers_is_taken() {
    let server = server(ConnectionConfig::default());
    let silent = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let client = client(ConnectionConfig::default());
    let started = Instant::now();
    let ticket = ticket(&[silent.local_addr().unwrap(), address(&server)]);
    let connection = soon(client.connect(&ticket)).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    let info = soon(connection.info()).await.unwrap();
    assert_eq!(info.paths[0].statistics.tuple.remote, address(&server));
}

/// Number of bytes that each path of a connection sent, by the address of this host.
async fn sent(connection: &Connection) -> Vec<(SocketAddr, PathState, u64)> {
    let info = soon(connection.info()).await.unwrap();
    let paths = info.paths.iter().map(|path| path.statistics);
    paths.map(|path| (path.tuple.local.address, path.state, path.bytes_sent.get())).collect()
}

async fn until_active(connection: &Connection, count: usize) {
    soon(async {
        while sent(connection).await.iter().filter(|path| path.1 == PathState::Active).count() != count {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

async fn upload(connection: &Connection, accepted: &Connection, bytes: usize) {
    let data = pattern(bytes);
    let (mut send, _r) = soon(connection.open()).await.unwrap();
    let copy = data.clone();
    let writer = tokio::spawn(async move {
        send.write_chunk(copy.into()).await.unwrap();
        send.finish().unwrap();
        send.delivered().await.unwrap();
    });
    let (_s, mut receive) = soon(accepted.accept()).await.unwrap();
    assert!(within(30, read_all(&mut receive)).await == data);
    soon(writer).await.unwrap();
}

const TWO: [[u8; 4]; 2] = [[127, 0, 1, 1], [127, 0, 2, 1]];

/// Loopback addresses stand for two interfaces; the round-robin scheduler uses both.
async fn two_paths() -> Pair {
    let mut config = ConnectionConfig::default();
    config.set_scheduler("round-robin").unwrap();
    let pair = Pair::of(server(ConnectionConfig::default()), client_from(config, &TWO)).await;
    until_active(&pair.connected, 2).await;
    pair
}

#[tokio::test]
async fn both_addresses_carry_data() {
    let pair = two_paths().await;
    upload(&pair.connected, &pair.accepted, 20_000_000).await;
    let paths = sent(&pair.connected).await;
    assert_eq!(paths.len(), 2);
    assert!(paths.iter().all(|(_, _, bytes)| *bytes > 2_000_000), "{paths:?}");
    let at_server = soon(pair.accepted.info()).await.unwrap();
    assert!(at_server.paths.iter().all(|path| path.statistics.bytes_received.get() > 2_000_000));
}

#[tokio::test]
async fn the_data_of_a_path_that_the_application_closes_moves_to_the_others() {
    let pair = two_paths().await;
    let ((mut send, _r), (_s, mut receive)) = pair.stream().await;
    let data = pattern(20_000_000);
    send.write_chunk(data.clone().into()).await.unwrap();
    send.finish().unwrap();
    let first = soon(pair.connected.paths()).await.unwrap().swap_remove(0);
    assert!(soon(first.info()).await.unwrap().is_some());
    let (changed, ()) = soon(async { tokio::join!(first.changed(), async { first.close() }) }).await;
    assert_eq!(changed.unwrap().state, PathState::Closed);
    assert!(within(30, read_all(&mut receive)).await == data);
    assert_eq!(soon(first.info()).await.unwrap(), None);
}

/// Whether the event reports that the path to `remote` carries no data any more.
fn leaves(event: &Event, remote: SocketAddr) -> bool {
    matches!(event, Event::Path(event)
        if event.tuple.remote == remote && matches!(event.state, PathState::Suspect | PathState::Dead))
}

/// Two relays stand for two networks: one falls silent and comes back.
#[tokio::test]
async fn a_silent_path_is_left_and_used_again_when_it_returns() {
    let server = server(ConnectionConfig::default());
    let relays = [
        Relay::new(address(&server)).await,
        Relay::at("127.0.0.2:0".parse().unwrap(), address(&server)).await,
    ];
    let mut config = ConnectionConfig::default();
    config.keep_alive = Some(Duration::from_millis(200));
    let client = client_from(config, &TWO);
    let ticket = ticket(&[relays[0].address, relays[1].address]);
    let (connected, accepted) = soon(async { tokio::join!(client.connect(&ticket), server.accept()) }).await;
    let (connected, accepted) = (connected.unwrap(), accepted.unwrap());
    let mut events = connected.events();
    until_active(&connected, 2).await;
    // Either network may carry either path: silence the one that carries the first.
    let info = soon(connected.info()).await.unwrap();
    let remote = info.paths[0].statistics.tuple.remote;
    let other_remote = info.paths[1].statistics.tuple.remote;
    let relay = relays.iter().find(|relay| relay.address == remote).unwrap();
    relay.set_passing(false);
    upload(&connected, &accepted, 3_000_000).await;
    if other_remote != remote {
        soon(async { while !leaves(&events.recv().await.unwrap(), remote) {} }).await;
    }
    relay.set_passing(true);
    upload(&connected, &accepted, 3_000_000).await;
    until_active(&connected, 2).await;
}

#[tokio::test]
async fn events_report_paths_and_the_end() {
    let mut config = ConnectionConfig::default();
    config.set_scheduler("round-robin").unwrap();
    let pair = Pair::of(server(ConnectionConfig::default()), client_from(config, &TWO)).await;
    let mut events = pair.connected.events();
    until_active(&pair.connected, 2).await;
    let path = soon(pair.connected.paths()).await.unwrap().swap_remove(1);
    path.close();
    let mut states = Vec::new();
    soon(async {
        while !states.contains(&PathState::Closed) {
            if let Event::Path(event) = events.recv().await.unwrap() {
                states.push(event.state);
            }
        }
    })
    .await;
    soon(pair.connected.close(1, "bye")).await;
    let mut last = None;
    while !matches!(last, Some(Event::Closed(_))) {
        last = Some(soon(events.recv()).await.unwrap());
    }
    let end = Event::Closed(closed(ClosedBy::Us, 1, "bye"));
    assert_eq!(last, Some(end.clone()));
    let late = soon(async { pair.connected.events().recv().await }).await;
    assert_eq!(late, Ok(end), "a listener that comes after the end");
}

#[tokio::test]
async fn statistics_count_what_was_sent_and_received() {
    let pair = Pair::new().await;
    upload(&pair.connected, &pair.accepted, 5_000_000).await;
    // The received count is read first: more may be sent between the two reads.
    let far = soon(pair.accepted.info()).await.unwrap();
    let near = soon(pair.connected.info()).await.unwrap();
    let (near, far) = (near.paths[0].statistics, far.paths[0].statistics);
    assert_eq!(near.state, PathState::Active);
    // Loopback carries datagrams of 65 000 bytes.
    assert!(near.bytes_sent.get() > 5_000_000 && near.packets_sent > 5_000_000 / 65_000);
    assert!(far.bytes_received.get() > 5_000_000 && far.bytes_received.get() <= near.bytes_sent.get());
    assert!(near.minimum_rtt > Duration::ZERO && near.minimum_rtt < Duration::from_secs(1));
    assert_eq!(near.tuple.remote, far.tuple.local.address);
    assert!(pair.accepted.peer_key().is_some());
}

/// Counts packets on an idle connection: its own keep-alive and nothing else. A server that listens on the unspecified
/// address learns its own only from what arrives there.
#[tokio::test]
async fn the_first_path_of_a_server_on_all_addresses_stays_active_from_the_beginning() {
    let mut options = ServerOptions::new(identity(), &SECRET);
    options.listen = vec!["0.0.0.0:0".parse().unwrap()];
    let mut server = EndpointOptions::default();
    server.server = Some(options);
    let server = Endpoint::bind(server).unwrap();
    let ticket = ticket(&[SocketAddr::from(([127, 0, 0, 1], address(&server).port()))]);
    let client = client(ConnectionConfig::default());
    let (connected, accepted) = soon(async { tokio::join!(client.connect(&ticket), server.accept()) }).await;
    let (connected, accepted) = (connected.unwrap(), accepted.unwrap());
    let (mut send, _receive) = soon(connected.open()).await.unwrap();
    soon(send.write_chunk("!".into())).await.unwrap();
    soon(accepted.accept()).await.unwrap();
    let path = soon(accepted.info()).await.unwrap().paths[0].statistics;
    assert_eq!((path.state, path.reason), (PathState::Active, PathReason::Connected));
}

#[tokio::test]
async fn an_idle_connection_is_silent() {
    let server = server(ConnectionConfig::default());
    let relay = Relay::new(address(&server)).await;
    let client = client(ConnectionConfig::default());
    let ticket = ticket(&[relay.address]);
    let (connected, accepted) = soon(async { tokio::join!(client.connect(&ticket), server.accept()) }).await;
    upload(&connected.unwrap(), &accepted.unwrap(), 1000).await;
    drop((server, client));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = relay.upward.load(Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(relay.upward.load(Ordering::Relaxed), before);
}

/// A client that is not accepted blocks no thread, and a server that ends does not wait for it.
#[tokio::test]
async fn clients_that_are_not_accepted_are_closed_with_the_endpoint() {
    let server = server(ConnectionConfig::default());
    let client = client(ConnectionConfig::default());
    let ticket = ticket(&[address(&server)]);
    let connection = soon(client.connect(&ticket)).await.unwrap();
    // The server completes its side of the handshake a moment later.
    tokio::time::sleep(Duration::from_millis(100)).await;
    soon(server.close(4, "no time")).await;
    assert_eq!(soon(connection.closed()).await, closed(ClosedBy::Peer, 4, "no time"));
}

#[tokio::test]
async fn an_address_that_is_taken_is_named() {
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let held = std::net::UdpSocket::bind(taken).unwrap();
    let mut options = EndpointOptions::default();
    let mut server = ServerOptions::new(identity(), &SECRET);
    server.listen = vec![held.local_addr().unwrap()];
    options.server = Some(server);
    let error = Endpoint::bind(options).unwrap_err();
    assert!(error.to_string().contains(&taken.to_string()), "{error}");
    let nowhere = client_from(ConnectionConfig::default(), &[[192, 0, 2, 99]]);
    let error = soon(nowhere.connect(&ticket(&[taken]))).await.unwrap_err();
    assert!(matches!(error, ConnectError::Socket(_)), "{error}");
}

/// Panics, like a bug, when a second client shows its key.
#[derive(Debug, Default)]
struct Failing(std::sync::atomic::AtomicU32);

impl manyway::Authoriser for Failing {
    fn is_authorised(&self, _: &manyway::PublicKey) -> bool {
        assert_eq!(self.0.fetch_add(1, Ordering::Relaxed), 0, "this panic is a part of the test");
        true
    }
}

#[tokio::test]
async fn a_panic_of_the_driver_ends_its_connections_instead_of_hanging_them() {
    let mut options = EndpointOptions::default();
    let mut settings = ServerOptions::new(identity(), &SECRET);
    settings.listen = vec!["127.0.0.1:0".parse().unwrap()];
    settings.authoriser = std::sync::Arc::new(Failing::default());
    options.server = Some(settings);
    let pair = Pair::of(Endpoint::bind(options).unwrap(), client(ConnectionConfig::default())).await;
    let ((_s, _r), (mut peer_send, mut peer_receive)) = pair.stream().await;
    let waiting = tokio::spawn(async move { peer_receive.read_chunk(1).await });
    let mut config = ConnectionConfig::default();
    config.connect_timeout = Duration::from_millis(300);
    let other = client(config);
    // Its own side of the handshake may or may not complete before.
    let _ = soon(other.connect(&ticket(&[address(&pair.server)]))).await;
    assert!(soon(waiting).await.unwrap().is_err());
    assert!(soon(peer_send.delivered()).await.is_err());
    let end = soon(pair.accepted.closed()).await;
    assert_eq!(end, closed(ClosedBy::Us, 0, "the driver failed"));
    assert!(soon(pair.accepted.open()).await.is_err() && soon(pair.accepted.accept()).await.is_err());
    assert!(soon(pair.server.accept()).await.is_none());
    soon(pair.server.close(0, "")).await;
}

#[tokio::test]
async fn a_ping_is_answered_and_can_be_cancelled() {
    let pair = Pair::new().await;
    let path = soon(pair.connected.paths()).await.unwrap().remove(0);
    assert!(soon(path.ping()).await.unwrap().is_some_and(|rtt| rtt < Duration::from_secs(5)));
    // A ping without a waiting caller does not disturb later ones.
    drop(tokio::time::timeout(Duration::ZERO, path.ping()).await);
    let many: Vec<_> = (0..20).map(|_| path.ping()).collect();
    for ping in many {
        assert!(soon(ping).await.unwrap().is_some());
    }
    path.close();
    assert_eq!(soon(path.ping()).await.unwrap(), None);
}

#[tokio::test]
async fn a_report_names_the_path_in_use_and_the_congestion_control_can_change() {
    let pair = Pair::new().await;
    let report = soon(pair.connected.report()).await.unwrap();
    let used: Vec<_> = report.iter().filter(|row| row.why.is_used()).collect();
    assert_eq!(used.len(), 1, "{report:?}");
    assert!(used.iter().all(|row| row.path.is_some() && row.remote.is_some()), "{report:?}");
    assert!(soon(pair.connected.set_congestion("new-reno")).await.unwrap());
    assert!(!soon(pair.connected.set_congestion("magic")).await.unwrap());
    assert_eq!(soon(pair.connected.info()).await.unwrap().statistics.congestion, "new-reno");
}

// spec 7.44
#[cfg(all(target_os = "linux", not(manyway_portable)))]
#[tokio::test]
async fn a_closed_port_ends_an_attempt_at_once_and_is_named() {
    use manyway::{EndpointOptions, ServerTrust, Undelivered};
    let closed = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let client = Endpoint::bind(EndpointOptions::default()).unwrap();
    let began = Instant::now();
    let hosts = [HostPort::from(closed)];
    let error = client.connect_to(&hosts, ServerTrust::AnyKey, &identity()).await.unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let expected = ConnectionError::Unreachable { remote: closed, undelivered: Undelivered::PortClosed };
    assert!(matches!(&error, ConnectError::Failed(reason) if *reason == expected), "{error:?}");
}
