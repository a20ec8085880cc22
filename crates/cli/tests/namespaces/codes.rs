//! Sender and receiver of a code, each behind a NAT, and a rendezvous server in the middle.

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
                 table ip filter {{\nchain in {{ type filter hook input priority 0; iifname wan drop; }}\n}}",
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

    /// Offers a file of the server's host, and waits for the code.
    fn offer(&self) -> (Running, String) {
        let mut command = self.lab.server.command(MANYWAY);
        command.current_dir(self.lab.there()).args(["send", "big", "--rendezvous", MEET]);
        let offer = Running::start(command);
        let mut code = None;
        offer.wait_until("the code", || {
            code = offer.printed().lines().next().map(str::to_owned);
            code.is_some()
        });
        (offer, code.unwrap())
    }

    fn transfer(&self) {
        make_file(&self.lab.there().join("big"), 500_000);
        let (sender, code) = self.offer();
        self.lab.run_client(&["get", &code, "--rendezvous", MEET]).expect(0);
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
    let (sender, code) = nats.offer();
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
