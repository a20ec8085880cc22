//! UDP that is blocked by a firewall, before a connection and during one, between two network namespaces.

use std::time::{Duration, Instant};

use super::tests_in_namespace::There;
use crate::test_namespace::{in_namespace, ip, wait_for_carrier};
use crate::{
    CarrierChoice, Connection, Endpoint, EndpointOptions, HostPort, Identity, PairMode, PathState, Rate,
    ServerOptions, TargetRate, Ticket,
};

const LONG: Duration = Duration::from_secs(30);

fn run(test: &str, body: impl Future<Output = ()>) {
    in_namespace(&format!("driver::tcp_in_namespace::{test}"), || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.unwrap().block_on(async { tokio::time::timeout(LONG, body).await.expect("in time") });
    });
}

/// Adds rules to a table of this namespace.
fn nft(rules: &str) {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let mut child = Command::new("nft").args(["-f", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(rules.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "{rules}");
}

/// Drops UDP that comes in over an interface, without any error.
fn block_udp(interface: &str) {
    nft(&format!(
        "table inet {interface} {{\nchain inbound {{\ntype filter hook input priority 0;\niifname {interface} meta l4proto udp drop\n}}\n}}"
    ));
}

fn permit_udp(interface: &str) {
    nft(&format!("delete table inet {interface}"));
}

struct Ends {
    there: There,
    server: Endpoint,
    client: Endpoint,
    ticket: Ticket,
}

impl Ends {
    /// A server behind so many links, and a client.
    fn new(links: u8, choice: CarrierChoice) -> Self {
        Self::with(links, choice, 1)
    }

    /// The same, with so many TCP connections on each interface, and room for more.
    fn with(links: u8, choice: CarrierChoice, connections: u8) -> Self {
        let there = There::new();
        (1..=links).for_each(|link| there.lay_cable(link));
        let identity = Identity::from_seed(&[1; 32]);
        let server = ServerOptions::new(identity.clone(), &[2; 16]);
        let mut options = EndpointOptions { server: Some(server), ..EndpointOptions::default() };
        options.connection.path_limit = 15;
        let server = there.run(move || Endpoint::bind(options)).unwrap();
        let mut options = EndpointOptions::default();
        options.carriers.choice = choice;
        options.carriers.connections = connections;
        options.connection.path_limit = 15;
        let client = Endpoint::bind(options).unwrap();
        let hosts: Vec<HostPort> =
            (1..=links).map(|link| format!("10.98.{link}.2").parse().unwrap()).collect();
        let ticket = Ticket::new(identity.public_key().hash(), [2; 16], hosts).unwrap();
        Self { there, server, client, ticket }
    }

    /// Over TCP alone, with no address in two pairs. The client knows the server's address on the first link.
    fn disjoint(there: There) -> Self {
        let identity = Identity::from_seed(&[1; 32]);
        let server = ServerOptions::new(identity.clone(), &[2; 16]);
        let server = EndpointOptions { server: Some(server), ..EndpointOptions::default() };
        let server = there.run(move || Endpoint::bind(server)).unwrap();
        let mut client = EndpointOptions::default();
        client.carriers.choice = CarrierChoice::Tcp;
        client.connection.pairs = PairMode::Disjoint;
        let client = Endpoint::bind(client).unwrap();
        let hosts = vec!["10.98.1.2".parse().unwrap()];
        let ticket = Ticket::new(identity.public_key().hash(), [2; 16], hosts).unwrap();
        Self { there, server, client, ticket }
    }

    async fn connect(&self) -> (Connection, Connection) {
        let (connected, accepted) = tokio::join!(self.client.connect(&self.ticket), self.server.accept());
        (connected.unwrap(), accepted.unwrap())
    }
}

/// Waits until exactly these paths work: pairs of interface and carrier.
async fn until_working(connection: &Connection, wanted: &[(&str, &str)]) {
    let start = Instant::now();
    loop {
        let info = connection.info().await.unwrap();
        let active = info.paths.iter().filter(|path| path.statistics.state == PathState::Active);
        let mut found: Vec<_> = active
            .map(|path| {
                (path.interface.clone().unwrap_or_default(), path.statistics.tuple.carrier.to_string())
            })
            .collect();
        found.sort();
        if found.iter().map(|(interface, carrier)| (interface.as_str(), carrier.as_str())).eq(wanted.to_vec())
        {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(12), "{found:?} instead of {wanted:?}: {info:#?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Sends while `during` runs; returns the longest time in which nothing arrived.
async fn longest_stall(from: &Connection, to: &Connection, during: impl Future<Output = ()>) -> Duration {
    let (mut send, _) = from.open().await.unwrap();
    let writer = tokio::spawn(async move {
        while send.write_chunk(vec![0x5a; 20_000].into()).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    let (_, mut receive) = to.accept().await.unwrap();
    let reader = tokio::spawn(async move {
        let (mut longest, mut last) = (Duration::ZERO, Instant::now());
        while let Ok(Some(chunk)) = receive.read_chunk(usize::MAX).await {
            assert!(chunk.iter().all(|byte| *byte == 0x5a));
            longest = longest.max(last.elapsed());
            last = Instant::now();
            if writer.is_finished() {
                break;
            }
        }
        (longest, writer)
    });
    during.await;
    from.close(0, "").await;
    let (longest, _) = reader.await.unwrap();
    longest
}

#[test]
fn a_client_connects_by_tcp_where_a_firewall_drops_udp_and_moves_to_udp_when_it_does_not() {
    run("a_client_connects_by_tcp_where_a_firewall_drops_udp_and_moves_to_udp_when_it_does_not", async {
        let ends = Ends::new(2, CarrierChoice::Auto);
        block_udp("mwhere1");
        block_udp("mwhere2");
        let start = Instant::now();
        let (connected, _accepted) = ends.connect().await;
        let took = start.elapsed();
        println!("connected after {took:?}");
        until_working(&connected, &[("mwhere1", "tcp"), ("mwhere2", "tcp")]).await;
        permit_udp("mwhere2");
        until_working(&connected, &[("mwhere1", "tcp"), ("mwhere2", "udp")]).await;
        permit_udp("mwhere1");
        until_working(&connected, &[("mwhere1", "udp"), ("mwhere2", "udp")]).await;
        drop(ends.there);
    });
}

#[test]
fn a_transfer_goes_on_over_tcp_when_udp_is_blocked_in_the_middle() {
    run("a_transfer_goes_on_over_tcp_when_udp_is_blocked_in_the_middle", async {
        let ends = Ends::new(1, CarrierChoice::Auto);
        let (connected, accepted) = ends.connect().await;
        until_working(&connected, &[("mwhere1", "udp")]).await;
        let silence = longest_stall(&connected, &accepted, async {
            block_udp("mwhere1");
            ends.there.run(|| block_udp("mwthere1"));
            until_working(&connected, &[("mwhere1", "tcp")]).await;
            tokio::time::sleep(Duration::from_millis(300)).await;
        })
        .await;
        println!("longest stall {silence:?}");
        // A loaded host may take some time on top of the half second that it takes here.
        assert!(silence < Duration::from_secs(5), "{silence:?}");
    });
}

#[test]
fn a_tcp_connection_in_a_black_hole_is_replaced_when_packets_pass_again() {
    run("a_tcp_connection_in_a_black_hole_is_replaced_when_packets_pass_again", async {
        let ends = Ends::new(1, CarrierChoice::Tcp);
        let (connected, accepted) = ends.connect().await;
        until_working(&connected, &[("mwhere1", "tcp")]).await;
        let before = connected.info().await.unwrap().paths[0].statistics.tuple;
        let silence = longest_stall(&connected, &accepted, async {
            // This connection is cut for ever, others are not.
            let port = before.local.address.port();
            nft(&format!(
                "table inet hole {{\nchain inbound {{\ntype filter hook input priority 0;\ntcp dport {port} drop\n}}\n}}"
            ));
            loop {
                let paths = connected.info().await.unwrap().paths;
                let is_new = |path: &crate::PathInfo| {
                    path.statistics.tuple != before && path.statistics.state == PathState::Active
                };
                if paths.iter().any(is_new) {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        })
        .await;
        println!("longest stall {silence:?}");
    });
}

#[test]
fn several_tcp_connections_share_an_interface_and_a_receiving_server_asks_for_more_and_for_fewer() {
    let test =
        "several_tcp_connections_share_an_interface_and_a_receiving_server_asks_for_more_and_for_fewer";
    run(test, async {
        let ends = Ends::with(1, CarrierChoice::Tcp, 2);
        let (connected, accepted) = ends.connect().await;
        until_working(&connected, &[("mwhere1", "tcp"); 2]).await;
        let (mut send, _) = connected.open().await.unwrap();
        let writer =
            tokio::spawn(async move { while send.write_chunk(vec![0; 20_000].into()).await.is_ok() {} });
        let (_, mut receive) = accepted.accept().await.unwrap();
        let mut target = TargetRate::new(Rate::from_bits_per_second(50_000_000));
        target.connections = 4;
        receive.set_target_rate(Some(target)).unwrap();
        let reader = tokio::spawn(async move {
            let start = Instant::now();
            while let Ok(Some(_)) = receive.read_chunk(usize::MAX).await {
                if start.elapsed() > Duration::from_secs(3) {
                    break;
                }
            }
            receive
        });
        until_working(&connected, &[("mwhere1", "tcp"); 4]).await;
        let mut receive = reader.await.unwrap();
        receive.set_target_rate(None).unwrap();
        until_working(&connected, &[("mwhere1", "tcp"); 2]).await;
        writer.abort();
        drop(receive);
    });
}

#[test]
fn a_receiver_holds_its_target_over_tcp_although_a_segment_each_round_trip_would_be_more() {
    run("a_receiver_holds_its_target_over_tcp_although_a_segment_each_round_trip_would_be_more", async {
        let ends = Ends::with(1, CarrierChoice::Tcp, 3);
        let (connected, accepted) = ends.connect().await;
        until_working(&connected, &[("mwhere1", "tcp"); 3]).await;
        let (mut send, _) = accepted.open().await.unwrap();
        let writer =
            tokio::spawn(async move { while send.write_chunk(vec![0; 20_000].into()).await.is_ok() {} });
        let (_, mut receive) = connected.accept().await.unwrap();
        let mut target = TargetRate::new(Rate::from_bits_per_second(8_000_000));
        target.connections = 3;
        receive.set_target_rate(Some(target)).unwrap();
        let mut count_until = async |time: Duration| {
            let (start, mut bytes) = (Instant::now(), 0);
            while start.elapsed() < time {
                bytes += receive.read_chunk(usize::MAX).await.unwrap().unwrap().len();
            }
            u64::try_from(bytes).unwrap() * 1000 / u64::try_from(start.elapsed().as_millis()).unwrap()
        };
        // What the kernel received before it knew of the target comes first.
        let start = Instant::now();
        while count_until(Duration::from_secs(1)).await > 1_050_000 {
            assert!(start.elapsed() < Duration::from_secs(20), "the target has no effect");
        }
        let rate = count_until(Duration::from_secs(4)).await;
        let report = connected.info().await.unwrap().statistics.target.unwrap();
        println!("{rate} bytes a second; {report:?}");
        // A loaded host may take some of it away.
        assert!((500_000..=1_050_000).contains(&rate), "{rate}: {report:?}");
        writer.abort();
    });
}

/// AMS over TCP: one link has IPv4 alone, the other one IPv6 alone.
#[test]
fn disjoint_pairs_of_both_families_carry_a_transfer_over_tcp_and_one_goes_on_alone() {
    run("disjoint_pairs_of_both_families_carry_a_transfer_over_tcp_and_one_goes_on_alone", async {
        let there = There::new();
        there.lay_cable(1);
        ip(&format!("link add mwhere2 type veth peer name mwthere2 netns {}", there.thread));
        ip("address add fd98::1/64 dev mwhere2 nodad");
        ip("link set dev mwhere2 up");
        there.run(|| {
            ip("address add fd98::2/64 dev mwthere2 nodad");
            ip("link set dev mwthere2 up");
        });
        wait_for_carrier("mwhere2");
        let ends = Ends::disjoint(there);
        let (connected, accepted) = ends.connect().await;
        until_working(&connected, &[("mwhere1", "tcp"), ("mwhere2", "tcp")]).await;
        let paths = connected.info().await.unwrap().paths;
        for path in &paths {
            let tuple = path.statistics.tuple;
            let is_v6 = path.interface.as_deref() == Some("mwhere2");
            assert_eq!((tuple.local.address.is_ipv6(), tuple.remote.is_ipv6()), (is_v6, is_v6), "{tuple}");
        }
        let silence = longest_stall(&connected, &accepted, async {
            ip("address delete 10.98.1.1/24 dev mwhere1");
            until_working(&connected, &[("mwhere2", "tcp")]).await;
            tokio::time::sleep(Duration::from_millis(300)).await;
            let paths = connected.info().await.unwrap().paths;
            let sent = |path: &crate::PathInfo| path.statistics.bytes_sent.get();
            assert!(
                paths.iter().any(|path| path.interface.as_deref() == Some("mwhere2") && sent(path) > 100_000)
            );
        })
        .await;
        println!("longest stall {silence:?}");
    });
}

/// AMS over TCP, figure 10: each end gets its second address during the connection, and the client's leads nowhere before.
#[test]
fn a_client_connects_to_an_address_that_its_server_gets_and_advertises_later() {
    run("a_client_connects_to_an_address_that_its_server_gets_and_advertises_later", async {
        let there = There::new();
        for link in [1, 2] {
            there.lay_cable(link);
            // An address that becomes ready later would be a reason of its own to connect again.
            ip(&format!("-6 address flush dev mwhere{link}"));
        }
        there.run(|| ip("address delete 10.98.2.2/24 dev mwthere2"));
        let ends = Ends::disjoint(there);
        let (connected, _accepted) = ends.connect().await;
        until_working(&connected, &[("mwhere1", "tcp")]).await;
        // The attempts over the addresses of the beginning are over.
        tokio::time::sleep(Duration::from_millis(1500)).await;
        ends.there.run(|| ip("address add 10.98.2.2/24 dev mwthere2"));
        until_working(&connected, &[("mwhere1", "tcp"), ("mwhere2", "tcp")]).await;
    });
}
