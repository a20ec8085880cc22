//! Paths over TCP connections on loopback, alone and where UDP is not answered.
#![expect(clippy::unwrap_used, reason = "these are tests")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use manyway::{
    CarrierChoice, ConnectError, Connection, Endpoint, EndpointOptions, LocalAddress, Locals, PathState,
    Role, ServerOptions,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::watch;

use crate::common::{SECRET, address, identity, pattern, read_all, soon, ticket, within};

fn server(choice: CarrierChoice) -> Endpoint {
    let mut server = ServerOptions::new(identity(), &SECRET);
    server.listen = vec!["127.0.0.1:0".parse().unwrap()];
    let mut options = EndpointOptions::default();
    options.server = Some(server);
    options.carriers.choice = choice;
    Endpoint::bind(options).unwrap()
}

fn client(choice: CarrierChoice) -> Endpoint {
    let mut options = EndpointOptions::default();
    let local = LocalAddress { interface: 0, address: "127.0.0.1:0".parse().unwrap() };
    options.locals = Locals::Fixed(vec![(local, Role::Primary)]);
    options.carriers.choice = choice;
    Endpoint::bind(options).unwrap()
}

/// An address whose TCP port leads to a server, and whose UDP port drops everything.
struct Filtered {
    address: SocketAddr,
    /// Counts how often all connections were to be reset.
    resets: watch::Sender<u32>,
    _udp: UdpSocket,
}

impl Filtered {
    async fn new(server: SocketAddr) -> Self {
        let (listener, udp) = loop {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            if let Ok(udp) = UdpSocket::bind(listener.local_addr().unwrap()).await {
                break (listener, udp);
            }
        };
        let address = listener.local_addr().unwrap();
        let (resets, receiver) = watch::channel(0);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(forward(client, server, receiver.clone()));
            }
        });
        Self { address, resets, _udp: udp }
    }

    fn reset(&self) {
        self.resets.send_modify(|count| *count += 1);
    }
}

async fn forward(mut client: TcpStream, server: SocketAddr, mut resets: watch::Receiver<u32>) {
    let Ok(mut server) = TcpStream::connect(server).await else { return };
    resets.mark_unchanged();
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
        _ = resets.changed() => {
            client.set_zero_linger().unwrap();
            server.set_zero_linger().unwrap();
        }
    }
}

async fn carriers(connection: &Connection) -> Vec<(String, PathState)> {
    let paths = connection.info().await.unwrap().paths;
    paths.iter().map(|path| (path.statistics.tuple.carrier.to_string(), path.statistics.state)).collect()
}

/// Sends bytes from one end to the other and compares them.
async fn transfer(from: &Connection, to: &Connection, size: usize) {
    let content = Arc::new(pattern(size));
    let (mut send, _) = from.open().await.unwrap();
    let sent = Arc::clone(&content);
    let write = async move {
        send.write_chunk(sent.as_slice().to_vec().into()).await.unwrap();
        send.finish().unwrap();
        send.delivered().await.unwrap();
    };
    let read = async {
        let (_, mut receive) = to.accept().await.unwrap();
        read_all(&mut receive).await
    };
    let ((), read) = within(60, async { tokio::join!(write, read) }).await;
    assert!(read == *content, "{} of {size} bytes arrived", read.len());
}

async fn connect(server: &Endpoint, client: &Endpoint, to: SocketAddr) -> (Connection, Connection) {
    let ticket = ticket(&[to]);
    let (connected, accepted) = soon(async { tokio::join!(client.connect(&ticket), server.accept()) }).await;
    (connected.unwrap(), accepted.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn tcp_alone_carries_every_byte_in_both_directions() {
    let (server, client) = (server(CarrierChoice::Tcp), client(CarrierChoice::Tcp));
    let (connected, accepted) = connect(&server, &client, address(&server)).await;
    assert_eq!(carriers(&connected).await, [("tcp".to_owned(), PathState::Active)]);
    transfer(&connected, &accepted, 20_000_000).await;
    transfer(&accepted, &connected, 20_000_000).await;
    let paths = connected.info().await.unwrap().paths;
    assert!(paths.iter().all(|path| path.statistics.packets_lost == 0), "{paths:?}");
    connected.close(0, "").await;
    soon(client.close(0, "")).await;
    soon(server.close(0, "")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn udp_is_used_where_both_answer() {
    let (server, client) = (server(CarrierChoice::Auto), client(CarrierChoice::Auto));
    let (connected, accepted) = connect(&server, &client, address(&server)).await;
    transfer(&connected, &accepted, 1_000_000).await;
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(carriers(&connected).await, [("udp".to_owned(), PathState::Active)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_connects_by_tcp_where_udp_is_not_answered() {
    let (server, client) = (server(CarrierChoice::Auto), client(CarrierChoice::Auto));
    let filtered = Filtered::new(address(&server)).await;
    let start = Instant::now();
    let (connected, accepted) = connect(&server, &client, filtered.address).await;
    println!("connected after {:?}", start.elapsed());
    let carriers = carriers(&connected).await;
    assert!(carriers.contains(&("tcp".to_owned(), PathState::Active)), "{carriers:?}");
    transfer(&connected, &accepted, 5_000_000).await;
    transfer(&accepted, &connected, 5_000_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_tcp_connection_is_replaced_and_loses_nothing() {
    for choice in [CarrierChoice::Auto, CarrierChoice::Tcp] {
        let (server, client) = (server(CarrierChoice::Auto), client(choice));
        let filtered = Filtered::new(address(&server)).await;
        let (connected, accepted) = connect(&server, &client, filtered.address).await;
        let resets = async {
            for _ in 0..3 {
                tokio::time::sleep(Duration::from_millis(40)).await;
                filtered.reset();
                tokio::time::sleep(Duration::from_millis(600)).await;
            }
        };
        tokio::join!(transfer(&connected, &accepted, 60_000_000), resets);
        transfer(&accepted, &connected, 1_000_000).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_tcp_a_client_does_not_reach_a_server_whose_udp_is_blocked() {
    let (server, mut options) = (server(CarrierChoice::Auto), EndpointOptions::default());
    options.carriers.choice = CarrierChoice::Udp;
    options.connection.connect_timeout = Duration::from_secs(1);
    let client = Endpoint::bind(options).unwrap();
    let filtered = Filtered::new(address(&server)).await;
    soon(client.connect(&ticket(&[filtered.address]))).await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_takes_no_tcp_refuses_it_and_the_client_says_so() {
    let (server, client) = (server(CarrierChoice::Udp), client(CarrierChoice::Tcp));
    let error = soon(client.connect(&ticket(&[address(&server)]))).await.unwrap_err();
    assert!(matches!(error, ConnectError::Tcp { .. }), "{error:?}");
    assert!(error.to_string().starts_with("no TCP connection to 127.0.0.1:"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tcp_connection_that_proves_nothing_is_closed_after_three_seconds() {
    let (server, client) = (server(CarrierChoice::Auto), client(CarrierChoice::Tcp));
    let mut silent = TcpStream::connect(address(&server)).await.unwrap();
    let mut noisy = TcpStream::connect(address(&server)).await.unwrap();
    noisy.write_all(&[0, 9, 0xc0, 1, 2, 3, 4, 5, 6, 7, 8, 0xff]).await.unwrap();
    let start = Instant::now();
    let (connected, accepted) = connect(&server, &client, address(&server)).await;
    let mut buffer = [0; 100];
    soon(silent.read(&mut buffer)).await.unwrap_err();
    soon(noisy.read(&mut buffer)).await.unwrap_err();
    assert!(start.elapsed() > Duration::from_secs(2), "{:?}", start.elapsed());
    transfer(&connected, &accepted, 100_000).await;
}

/// Of so many idle connections from each of these hosts, the number that the server has ended.
async fn ended_of_idle(server: &Endpoint, hosts: std::ops::Range<u8>, each: usize) -> usize {
    let mut idle = Vec::new();
    for host in hosts {
        for _ in 0..each {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.bind(SocketAddr::from(([127, 0, 0, host], 0))).unwrap();
            idle.push(socket.connect(address(server)).await.unwrap());
        }
    }
    // The server accepts those before this one first.
    let client = client(CarrierChoice::Tcp);
    let (connected, accepted) = connect(server, &client, address(server)).await;
    transfer(&connected, &accepted, 100_000).await;
    let has_ended =
        |it: &&TcpStream| it.try_read(&mut [0]).is_err_and(|e| e.kind() != std::io::ErrorKind::WouldBlock);
    idle.iter().filter(has_ended).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_tcp_connections_are_bounded_and_keep_no_client_out() {
    let ended = ended_of_idle(&server(CarrierChoice::Auto), 1..2, 300).await;
    assert!(
        ended >= 300 - 64,
        "a host has at most 64 that belong to no connection, and {ended} of 300 have ended"
    );
    let ended = ended_of_idle(&server(CarrierChoice::Auto), 2..8, 60).await;
    assert!(ended >= 360 - 256, "all hosts have at most 256, and {ended} of 360 have ended");
}

#[tokio::test]
async fn a_taken_tcp_port_stops_a_server_that_is_to_use_tcp_and_no_other() {
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let bind = |choice| {
        let mut server = ServerOptions::new(identity(), &SECRET);
        server.listen = vec![held.local_addr().unwrap()];
        let mut options = EndpointOptions::default();
        options.server = Some(server);
        options.carriers.choice = choice;
        Endpoint::bind(options)
    };
    let error = bind(CarrierChoice::Tcp).unwrap_err();
    assert!(matches!(error, manyway::BindFailure::Tcp { .. }), "{error}");
    assert_eq!(bind(CarrierChoice::Auto).unwrap().tcp_addresses(), []);
}

/// An HTTP proxy that passes every connection on, or refuses all.
async fn proxy(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") && client.read_buf(&mut request).await.unwrap_or(0) > 0
                {
                }
                let request = String::from_utf8(request).unwrap();
                let to: SocketAddr = request.split(' ').nth(1).unwrap().parse().unwrap();
                client.write_all(answer.as_bytes()).await.unwrap();
                if answer.contains("200")
                    && let Ok(mut server) = TcpStream::connect(to).await
                {
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                }
            });
        }
    });
    format!("http://{address}")
}

fn client_via(proxy: &str) -> Endpoint {
    let mut options = EndpointOptions::default();
    let local = LocalAddress { interface: 0, address: "127.0.0.1:0".parse().unwrap() };
    options.locals = Locals::Fixed(vec![(local, Role::Primary)]);
    options.carriers.choice = CarrierChoice::Tcp;
    options.carriers.via = Some(proxy.parse().unwrap());
    Endpoint::bind(options).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn tcp_goes_through_an_http_proxy_and_every_byte_arrives() {
    let server = server(CarrierChoice::Tcp);
    let client = client_via(&proxy("HTTP/1.1 200 Connection established\r\n\r\n").await);
    let (connected, accepted) = connect(&server, &client, address(&server)).await;
    assert_eq!(connected.info().await.unwrap().paths[0].statistics.tuple.remote, address(&server));
    transfer(&connected, &accepted, 2_000_000).await;
    transfer(&accepted, &connected, 2_000_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_refuses_is_the_reason_of_the_error() {
    let server = server(CarrierChoice::Tcp);
    let client = client_via(&proxy("HTTP/1.1 403 Forbidden\r\n\r\n").await);
    let ticket = ticket(&[address(&server)]);
    let error = soon(client.connect(&ticket)).await.unwrap_err();
    assert!(error.to_string().contains("it refuses with \"HTTP/1.1 403 Forbidden\""), "{error}");
    let nowhere = format!("http://127.0.0.1:{}", free_port().await);
    let error = soon(client_via(&nowhere).connect(&ticket)).await.unwrap_err();
    assert!(error.to_string().contains(&format!("the proxy {nowhere}: ")), "{error}");
}

/// A TCP port of loopback that is free now.
async fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port()
}

fn server_with_tls(port: u16) -> Endpoint {
    let mut server = ServerOptions::new(identity(), &SECRET);
    server.listen = vec!["127.0.0.1:0".parse().unwrap()];
    let mut options = EndpointOptions::default();
    options.server = Some(server);
    options.carriers.listen_tls = Some(port);
    Endpoint::bind(options).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn tcp_within_tls_is_used_where_tcp_alone_is_refused() {
    let port = free_port().await;
    let server = server_with_tls(port);
    let mut options = EndpointOptions::default();
    let local = LocalAddress { interface: 0, address: "127.0.0.1:0".parse().unwrap() };
    options.locals = Locals::Fixed(vec![(local, Role::Primary)]);
    options.carriers.choice = CarrierChoice::Tcp;
    options.carriers.tls_port = Some(port);
    let client = Endpoint::bind(options).unwrap();
    let filtered = SocketAddr::from(([127, 0, 0, 1], free_port().await));
    let (connected, accepted) = connect(&server, &client, filtered).await;
    assert_eq!(connected.info().await.unwrap().paths[0].statistics.tuple.remote.port(), port);
    transfer(&connected, &accepted, 5_000_000).await;
    transfer(&accepted, &connected, 5_000_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_begins_no_tls_handshake_is_let_go_and_keeps_no_other_out() {
    let port = free_port().await;
    let _server = server_with_tls(port);
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut idle = Vec::new();
    for _ in 0..80 {
        idle.push(TcpStream::connect(address).await.unwrap());
    }
    let mut nothing = [0];
    for stream in &mut idle {
        let ended = within(10, stream.read(&mut nothing)).await;
        assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
    }
}
