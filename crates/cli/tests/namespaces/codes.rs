//! Sender and receiver of a code, each behind a NAT, and a rendezvous server in the middle.

use std::io::{Read as _, Write as _, copy};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread::spawn;
use std::time::Duration;

use super::modems::cable;
use crate::common::lab::{Family, Lab, Namespace};
use crate::common::program::{MANYWAY, Running, assert_same_content, make_file};

/// The address of the rendezvous server.
const MEET: &str = "11.9.9.9:4455";

/// Two hosts with private addresses, and their NATs.
struct Nats {
    lab: Lab,
    hub: Namespace,
    routers: [Namespace; 2],
}

impl Nats {
    /// Each NAT translates as its rule says, and drops what comes unasked, as those of homes do.
    fn start(rules: [&str; 2]) -> Option<Self> {
        let lab = Lab::start(0, Family::V4)?;
        let (hub, routers) = (lab.host("hub"), [lab.host("r1"), lab.host("r2")]);
        hub.ip("addr add 11.9.9.9/32 dev lo");
        hub.set("ipv4/ip_forward", "1");
        for (side, (host, router)) in [&lab.client, &lab.server].into_iter().zip(&routers).enumerate() {
            let side = side + 1;
            cable((host, "home"), (router, "lan"));
            cable((router, "wan"), (&hub, &format!("far{side}")));
            host.ip(&format!("addr add 10.0.{side}.2/24 dev home"));
            router.ip(&format!("addr add 10.0.{side}.1/24 dev lan"));
            host.ip(&format!("route add default via 10.0.{side}.1"));
            router.ip(&format!("addr add 11.0.{side}.2/24 dev wan"));
            hub.ip(&format!("addr add 11.0.{side}.1/24 dev far{side}"));
            router.ip(&format!("route add default via 11.0.{side}.1"));
            router.set("ipv4/ip_forward", "1");
            router.nft(&format!(
                "table ip nat {{\nchain post {{ type nat hook postrouting priority 100; oifname wan {}; }}\n}}\n\
                 table ip filter {{\nchain in {{ type filter hook input priority 0; iifname wan ct state != established drop; }}\n}}",
                rules[side - 1]
            ));
        }
        Some(Self { lab, hub, routers })
    }

    fn rendezvous(&self, options: &[&str]) -> Running {
        let mut command = self.hub.command(MANYWAY);
        command.args(["rendezvous", "--listen", MEET]).args(options);
        let running = Running::start(command);
        running.wait_for("rendezvous on UDP");
        running
    }

    /// The network behind this NAT lets no UDP through, without any error.
    fn block_udp(&self, side: usize) {
        self.routers[side].nft(
            "table ip blocking {\nchain pass {\ntype filter hook forward priority 0\nmeta l4proto udp drop\n}\n}",
        );
    }

    /// The default route of both hosts leads to a router that forwards nothing, and their home network is the second
    /// choice.
    fn lose_default_routes(&self) {
        let void = self.lab.host("void");
        for (side, host) in [&self.lab.client, &self.lab.server].into_iter().enumerate() {
            let side = side + 1;
            cable((host, "dead"), (&void, &format!("dead{side}")));
            void.ip(&format!("addr add 10.9.{side}.1/24 dev dead{side}"));
            host.ip(&format!("addr add 10.9.{side}.2/24 dev dead"));
            host.ip(&format!("route replace default via 10.9.{side}.1"));
            host.ip(&format!("route add default via 10.0.{side}.1 metric 100"));
        }
    }

    /// Offers a file of the server's host, and waits for the code.
    fn offer(&self, options: &[&str]) -> (Running, String) {
        let mut command = self.lab.server.command(MANYWAY);
        command.current_dir(self.lab.there()).args(["send", "big", "--rendezvous", MEET]).args(options);
        let offer = Running::start(command);
        let mut code = None;
        offer.wait_until("the code", || {
            code = offer.printed().lines().next().map(str::to_owned);
            code.is_some()
        });
        let code = code.unwrap();
        assert!(code.contains('-'), "no short code: {code}");
        (offer, code)
    }

    fn transfer(&self) {
        self.transfer_with([&[], &[]]);
    }

    /// The options of the receiver come first.
    fn transfer_with(&self, [here, there]: [&[&str]; 2]) {
        make_file(&self.lab.there().join("big"), 500_000);
        let (sender, code) = self.offer(there);
        self.lab.run_client(&[&["get", &code, "--rendezvous", MEET], here].concat()).expect(0);
        sender.end().expect(0);
        assert_same_content(&self.lab.here().join("big"), &self.lab.there().join("big"));
    }
}

// spec 10.27
#[test]
fn where_one_nat_changes_ports_the_rendezvous_server_relays_if_it_may() {
    let Some(nats) = Nats::start(["masquerade", "masquerade random"]) else { return };
    let meeting = nats.rendezvous(&["--relay", "--json"]);
    nats.transfer();
    meeting.signal("INT");
    let counted = meeting.end().expect(0).summary();
    let relayed = counted["forwarded_bytes"].as_u64().unwrap();
    assert!((500_000..700_000).contains(&relayed), "{counted}");
}

// spec 10.26
#[test]
fn two_hosts_behind_nats_that_keep_ports_reach_each_other_by_a_code() {
    let Some(nats) = Nats::start(["masquerade", "masquerade"]) else { return };
    let _meeting = nats.rendezvous(&[]);
    nats.transfer();
}

// spec 10.48, 10.49, 10.50, 10.52, 10.53
#[test]
fn where_udp_is_blocked_letters_and_packets_go_over_tcp() {
    // Behind both NATs, and behind that of the sender alone.
    for blocked in [&[0, 1][..], &[1]] {
        let Some(nats) = Nats::start(["masquerade", "masquerade random"]) else { return };
        let meeting = nats.rendezvous(&["--relay", "--json"]);
        for side in blocked {
            nats.block_udp(*side);
        }
        nats.transfer();
        meeting.signal("INT");
        let counted = meeting.end().expect(0).summary();
        let relayed = counted["forwarded_bytes"].as_u64().unwrap();
        assert!((500_000..700_000).contains(&relayed), "{counted}");
    }
}

// spec 10.57
#[test]
fn a_code_goes_over_any_interface_that_works_although_the_default_route_leads_nowhere() {
    for blocks_udp in [false, true] {
        let Some(nats) = Nats::start(["masquerade", "masquerade random"]) else { return };
        nats.lose_default_routes();
        let _meeting = nats.rendezvous(&["--relay"]);
        if blocks_udp {
            [0, 1].iter().for_each(|side| nats.block_udp(*side));
        }
        nats.transfer_with([&["-I", "home"], &[]]);
    }
}

#[test]
fn a_code_goes_through_http_proxies_where_nothing_else_passes() {
    let Some(nats) = Nats::start(["masquerade", "masquerade"]) else { return };
    let _meeting = nats.rendezvous(&["--relay"]);
    for (side, router) in nats.routers.iter().enumerate() {
        router.set("ipv4/ip_forward", "0");
        proxy(router, ([10, 0, u8::try_from(side).unwrap() + 1, 1], 3128).into());
    }
    nats.transfer_with([&["--via", "http://10.0.1.1:3128"], &["--via", "http://10.0.2.1:3128"]]);
}

/// An HTTP proxy at this address of a host, until the test program ends.
fn proxy(host: &Namespace, address: SocketAddr) {
    host.inside(|| {
        let listener = TcpListener::bind(address).unwrap();
        spawn(move || {
            for client in listener.incoming() {
                spawn(move || pass_on(client.unwrap()));
            }
        });
    });
}

/// Connects a client of a proxy to where it wants; closes its connection if that is not reached.
fn pass_on(mut client: TcpStream) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).unwrap();
        request.extend(byte);
    }
    let request = String::from_utf8(request).unwrap();
    let to = request.strip_prefix("CONNECT ").unwrap().split(' ').next().unwrap().parse().unwrap();
    let Ok(server) = TcpStream::connect_timeout(&to, Duration::from_secs(2)) else { return };
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
    for (mut from, mut to) in [(client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client)] {
        spawn(move || {
            let _ = copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        });
    }
}

// spec 10.45, 10.46
#[test]
fn a_relayed_connection_moves_to_a_direct_path_when_one_works() {
    const SIZE: usize = 10_000_000;
    let Some(nats) = Nats::start(["masquerade", "masquerade"]) else { return };
    let meeting = nats.rendezvous(&["--relay", "--relay-rate", "10M", "--json"]);
    nats.hub.nft(
        "table ip blocking {\nchain pass {\ntype filter hook forward priority 0\niifname far1 oifname far2 drop\n}\n}",
    );
    make_file(&nats.lab.there().join("big"), SIZE);
    let (sender, code) = nats.offer(&[]);
    let receiver = nats.lab.start_client(&["get", &code, "--rendezvous", MEET]);
    let sent = || nats.hub.sent("far1");
    receiver.wait_until("data over the relay", || sent() > 1_000_000);
    nats.hub.nft("delete table ip blocking");
    receiver.end().expect(0);
    sender.end().expect(0);
    assert_same_content(&nats.lab.here().join("big"), &nats.lab.there().join("big"));
    meeting.signal("INT");
    let counted = meeting.end().expect(0).summary();
    let relayed = counted["forwarded_bytes"].as_u64().unwrap();
    assert!((500_000..8_000_000).contains(&relayed), "{counted}");
}
