//! Client and server move to other networks at the same moment; a third host keeps its address.

use std::time::{Duration, Instant};

use super::MB;
use super::modems::cable;
use crate::common::lab::{Family, Lab, Namespace};
use crate::common::program::{MANYWAY, Running, assert_same_content, make_file};

/// The address of the rendezvous server.
const MEET: &str = "10.9.9.9:4455";

/// A client, a server, and a host between them that forwards for networks 10.1.N.0/24 and 10.2.N.0/24.
struct Town {
    lab: Lab,
    hub: Namespace,
}

impl Town {
    fn start() -> Option<Self> {
        let lab = Lab::start(0, Family::V4)?;
        let hub = lab.host("hub");
        for (side, (host, near, far)) in [(1, (&lab.client, "va1", "ha")), (2, (&lab.server, "vb1", "hb"))] {
            cable((host, near), (&hub, far));
            for network in 0..4 {
                hub.ip(&format!("addr add 10.{side}.{network}.254/24 dev {far}"));
            }
            host.run("tc", &format!("qdisc replace dev {near} root tbf rate 20mbit burst 16k latency 50ms"));
        }
        hub.ip("addr add 10.9.9.9/32 dev lo");
        hub.set("ipv4/ip_forward", "1");
        let town = Self { lab, hub };
        town.arrive(0);
        Some(town)
    }

    fn ends(&self) -> [(&Namespace, &str, u8); 2] {
        [(&self.lab.server, "vb1", 2), (&self.lab.client, "va1", 1)]
    }

    /// Both ends get addresses of the network with this number.
    fn arrive(&self, network: u8) {
        for (host, interface, side) in self.ends() {
            host.ip(&format!("addr add 10.{side}.{network}.1/24 dev {interface}"));
            host.ip(&format!("route replace default via 10.{side}.{network}.254"));
        }
    }

    /// Both ends leave: neither has an address before the other has lost its own.
    fn leave(&self) {
        for (host, interface, _) in self.ends() {
            host.ip(&format!("addr flush dev {interface}"));
        }
    }

    fn rendezvous(&self, options: &[&str]) -> Running {
        let mut command = self.hub.command(MANYWAY);
        command.args(options).args(["rendezvous", "--listen", MEET]);
        let running = Running::start(command);
        running.wait_for("rendezvous on UDP");
        running
    }

    /// Waits until the client has sent this much more.
    fn until_more(&self, client: &Running, bytes: usize) -> Duration {
        let (start, before) = (Instant::now(), self.lab.client.sent("va1"));
        let bytes = u64::try_from(bytes).unwrap();
        client.wait_until("more data", || self.lab.client.sent("va1") > before + bytes);
        start.elapsed()
    }
}

#[test]
fn a_transfer_goes_on_when_both_ends_move_at_the_same_moment() {
    let Some(town) = Town::start() else { return };
    let meeting = town.rendezvous(&["--json"]);
    let server = town.lab.serve(&["--rendezvous", MEET]);
    make_file(&town.lab.here().join("big"), 20 * MB);
    let client = town.lab.start_client(&["-v", "send", "big", &server.ticket]);
    town.until_more(&client, 2 * MB);
    for network in 1..=3 {
        town.leave();
        town.arrive(network);
        let took = town.until_more(&client, MB);
        println!("a megabyte {took:?} after move {network}");
        assert!(took < Duration::from_secs(10), "{took:?}");
    }
    town.lab.unlimit();
    client.end().expect(0);
    assert_same_content(&town.lab.here().join("big"), &town.lab.there().join("big"));
    meeting.signal("INT");
    let meeting = meeting.end().expect(0);
    let counted = meeting.summary();
    assert!(counted["matched"].as_u64().unwrap() >= 3 && counted["refused"] == 0, "{counted}");
    assert_eq!(counted["connections"], 1, "{counted}");
}

#[test]
fn without_a_rendezvous_the_ends_do_not_find_each_other() {
    let Some(town) = Town::start() else { return };
    let server = town.lab.serve(&[]);
    make_file(&town.lab.here().join("big"), 20 * MB);
    let client = town.lab.start_client(&["-v", "send", "big", &server.ticket]);
    town.until_more(&client, 2 * MB);
    town.leave();
    town.arrive(1);
    std::thread::sleep(Duration::from_secs(1));
    let before = town.lab.client.sent("va1");
    std::thread::sleep(Duration::from_secs(4));
    let sent = town.lab.client.sent("va1") - before;
    assert!(sent < 50_000, "{sent} bytes: data goes on");
    client.signal("INT");
    client.end();
}

/// It is also named by the client's own option; its death has no effect.
#[test]
fn a_rendezvous_that_dies_does_no_harm() {
    let Some(town) = Town::start() else { return };
    let meeting = town.rendezvous(&[]);
    let server = town.lab.serve(&["--rendezvous", MEET]);
    make_file(&town.lab.here().join("big"), 20 * MB);
    let client = town.lab.start_client(&["-v", "--rendezvous", MEET, "send", "big", &server.ticket]);
    town.until_more(&client, 2 * MB);
    meeting.signal("KILL");
    town.until_more(&client, MB);
    town.lab.unlimit();
    client.end().expect(0);
    assert_same_content(&town.lab.here().join("big"), &town.lab.there().join("big"));
    town.lab
        .run_client(&["-q", "--rendezvous", "absent.invalid", "ping", "-c", "1", &server.ticket])
        .expect(2);
}
