//! Datagram sizes on real interfaces, between network namespaces.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::tests_in_namespace::There;
use crate::test_namespace::{in_namespace, ip, wait_for_carrier};
use crate::{Connection, Endpoint, EndpointOptions, HostPort, Identity, PathState, ServerOptions, Ticket};

/// What a transfer between two hosts needs.
pub(super) struct Ends {
    client: Endpoint,
    server: Endpoint,
    pub(super) connection: Connection,
    accepted: Connection,
}

impl Ends {
    async fn connect(server: &There, address: &str) -> Self {
        Self::connect_with(EndpointOptions::default(), server, address).await
    }

    pub(super) async fn connect_with(client: EndpointOptions, server: &There, address: &str) -> Self {
        let identity = Identity::from_seed(&[1; 32]);
        let options = EndpointOptions {
            server: Some(ServerOptions::new(identity.clone(), &[2; 16])),
            ..EndpointOptions::default()
        };
        let server = server.run(move || Endpoint::bind(options)).unwrap();
        let client = Endpoint::bind(client).unwrap();
        let hosts: Vec<HostPort> = vec![address.parse().unwrap()];
        let ticket = Ticket::new(identity.public_key().hash(), [2; 16], hosts).unwrap();
        let connect = async { client.connect(&ticket).await.unwrap() };
        let accept = async { server.accept().await.unwrap() };
        let (connection, accepted) = tokio::join!(connect, accept);
        Self { connection, accepted, client, server }
    }

    /// Sends this many megabytes from the client to the server and waits until all have arrived.
    pub(super) async fn transfer(&self, megabytes: usize) {
        let (mut send, _receive) = self.connection.open().await.unwrap();
        let writer = async {
            for _ in 0..megabytes {
                send.write_chunk(vec![7; 1_000_000].into()).await.unwrap();
            }
            send.finish().unwrap();
        };
        let reader = async {
            let (_send, mut receive) = self.accepted.accept().await.unwrap();
            let mut read = 0;
            while let Some(chunk) = receive.read_chunk(usize::MAX).await.unwrap() {
                read += chunk.len();
            }
            read
        };
        let both = async { tokio::join!(writer, reader).1 };
        let read =
            tokio::time::timeout(Duration::from_secs(30), both).await.expect("the transfer stands still");
        assert_eq!(read, megabytes * 1_000_000);
    }

    pub(super) async fn close(self) {
        self.connection.close(0, "").await;
        self.client.close(0, "").await;
        self.server.close(0, "").await;
    }
}

/// Waits until the only path of a connection uses a datagram size in this range.
async fn until_size(connection: &Connection, wanted: std::ops::RangeInclusive<u16>) {
    let start = Instant::now();
    loop {
        let info = connection.info().await.unwrap();
        let path = info.paths[0].statistics;
        if wanted.contains(&path.datagram) && path.state == PathState::Active {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(10), "{info:#?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(super) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.unwrap().block_on(test);
}

#[test]
fn a_veth_of_9000_bytes_carries_8972_and_a_change_of_its_size_is_followed() {
    let name =
        "driver::sizes_in_namespace::a_veth_of_9000_bytes_carries_8972_and_a_change_of_its_size_is_followed";
    in_namespace(name, || run(jumbo()));
}

async fn jumbo() {
    let there = There::new();
    ip(&format!("link add mwj type veth peer name mwk netns {}", there.thread));
    ip("address add 10.98.1.1/24 dev mwj");
    ip("link set dev mwj mtu 9000 up");
    there.run(|| {
        ip("address add 10.98.1.2/24 dev mwk");
        ip("link set dev mwk mtu 9000 up");
    });
    wait_for_carrier("mwj");
    let ends = Ends::connect(&there, "10.98.1.2").await;
    for connection in [&ends.connection, &ends.accepted] {
        until_size(connection, 8972..=8972).await;
    }
    ends.transfer(20).await;
    // Smaller while it runs …
    ip("link set dev mwj mtu 1500");
    there.run(|| ip("link set dev mwk mtu 1500"));
    for connection in [&ends.connection, &ends.accepted] {
        until_size(connection, 1472..=1472).await;
    }
    ends.transfer(5).await;
    // … and larger again.
    ip("link set dev mwj mtu 4000");
    there.run(|| ip("link set dev mwk mtu 4000"));
    for connection in [&ends.connection, &ends.accepted] {
        until_size(connection, 3972..=3972).await;
    }
    ends.transfer(5).await;
    ends.close().await;
}

#[test]
fn a_transfer_outlives_a_router_that_drops_large_packets_and_tells_nobody() {
    let name =
        "driver::sizes_in_namespace::a_transfer_outlives_a_router_that_drops_large_packets_and_tells_nobody";
    in_namespace(name, || run(black_hole()));
}

async fn black_hole() {
    let (router, server) = (There::new(), There::new());
    ip(&format!("link add mwr0 type veth peer name mwr1 netns {}", router.thread));
    ip("address add 10.98.1.1/24 dev mwr0");
    ip("link set dev mwr0 mtu 9000 up");
    ip("route add 10.98.2.0/24 via 10.98.1.2");
    let far = server.thread.clone();
    router.run(move || {
        ip(&format!("link add mwr2 type veth peer name mwr3 netns {far}"));
        ip("address add 10.98.1.2/24 dev mwr1");
        ip("address add 10.98.2.1/24 dev mwr2");
        ip("link set dev mwr1 mtu 9000 up");
        ip("link set dev mwr2 mtu 9000 up");
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
        nft("table inet silence {\nchain out { type filter hook output priority 0; ip protocol icmp drop; }\n}");
    });
    server.run(|| {
        ip("address add 10.98.2.2/24 dev mwr3");
        ip("link set dev mwr3 mtu 9000 up");
        ip("route add 10.98.1.0/24 via 10.98.2.1");
        wait_for_carrier("mwr3");
    });
    wait_for_carrier("mwr0");
    let ends = Ends::connect(&server, "10.98.2.2").await;
    until_size(&ends.connection, 8972..=8972).await;
    ends.transfer(20).await;
    // The client's own interface still carries 9000 bytes; only the router knows the smaller MTU, and its ICMP error is
    // dropped.
    router.run(|| ip("link set dev mwr2 mtu 1400"));
    ends.transfer(20).await;
    until_size(&ends.connection, 1200..=1372).await;
    ends.close().await;
}

fn nft(script: &str) {
    let mut child = Command::new("nft").args(["-f", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "nft: {script}");
}
