//! `manyway tunnel`: all traffic of a machine, which here is a network namespace.

use super::hosts::{HOST, web_hash};
use super::run::{ASK, ECHO, PING, SIZE, Scene};
use crate::common::program::{MANYWAY, Running, have, wait_until};

/// A [`Scene`](super::run::Scene) whose client is the machine.
struct Machine(Scene);

impl Machine {
    fn start() -> Option<Self> {
        Scene::start().filter(|_| have(&[("python3", "--version")])).map(Self)
    }

    fn start_tunnel(&self) -> Running {
        self.0.lab.start_client(&["tunnel", &self.0.server.ticket])
    }

    fn tunnel(&self) -> Running {
        let tunnel = self.start_tunnel();
        tunnel.wait_for("the traffic of this machine goes by manyway-tun");
        tunnel
    }

    /// The output of a command at the client.
    fn client(&self, command: &[&str]) -> String {
        let done = self.0.lab.client.command(command[0]).args(&command[1..]).output().unwrap();
        String::from_utf8_lossy(&done.stdout).into_owned()
    }

    fn rules(&self) -> usize {
        self.client(&["ip", "rule"]).matches("4455").count()
    }

    /// Whether a program that knows nothing of Manyway downloads a file of the server's side.
    fn downloads(&self) -> bool {
        let file = self.0.lab.here().join("page");
        let _ = std::fs::remove_file(&file);
        let url = Scene::url(SIZE);
        self.client(&["curl", "-sS", "-m", "10", "-o", file.to_str().unwrap(), &url]);
        std::fs::read(&file).is_ok_and(|bytes| blake3::hash(&bytes) == web_hash(SIZE))
    }
}

#[test]
fn programs_of_the_machine_reach_the_servers_side_and_manyways_own_packets_stay_out_of_the_tunnel() {
    let Some(machine) = Machine::start() else { return };
    assert!(!machine.downloads(), "no route leads there");
    let tunnel = machine.tunnel();
    assert!(machine.downloads());
    let echo = Running::start({
        let mut command = machine.0.lab.server.command("python3");
        command.args(["-u", "-c", ECHO, HOST]);
        command
    });
    echo.wait_until("its port", || !echo.printed().is_empty());
    let port = echo.printed().trim().to_owned();
    assert!(machine.client(&["python3", "-c", ASK, HOST, &port]).starts_with("HELLO\nrefused\nforbidden\n"));
    for network in [&machine.0.lab.server, &machine.0.lab.client] {
        network.set("ipv4/ping_group_range", "0 2147483647");
    }
    assert_eq!(machine.client(&["python3", "-c", PING, HOST]), "7 content, 8 content\n");
    // TCP ends in the kernel, so only the others are packets of the device.
    let sent = machine.client(&["cat", "/sys/class/net/manyway-tun/statistics/tx_packets"]);
    assert!(sent.trim().parse::<u64>().unwrap() < 100, "{sent}");
    let status = machine.client(&[MANYWAY, "status"]);
    assert!(status.contains("tunnel") && !status.contains("manyway-tun"), "{status}");
    machine.start_tunnel().end().expect(1).says("another tunnel runs on this machine");

    tunnel.signal("TERM");
    tunnel.end().expect(0);
    assert_eq!(machine.rules(), 0);
    assert!(!machine.client(&["ip", "link"]).contains("manyway-tun"));
    assert!(!machine.downloads());
}

#[test]
fn routes_that_another_program_removes_are_set_again_and_a_killed_tunnel_leaves_nothing_that_matters() {
    let Some(machine) = Machine::start() else { return };
    let tunnel = machine.tunnel();
    let rules = machine.rules();
    machine.client(&["ip", "route", "flush", "table", "4455"]);
    machine.client(&["ip", "rule", "del", "table", "4455"]);
    tunnel.wait_for("were removed by another program, and set again");
    assert!(machine.rules() == rules && machine.downloads());

    tunnel.signal("KILL");
    wait_until("the end of the device", || !machine.client(&["ip", "link"]).contains("manyway-tun"));
    assert_eq!(machine.client(&["ip", "route", "show", "table", "4455"]), "");
    let next = machine.tunnel();
    assert!(machine.rules() == rules && machine.downloads());
    next.signal("INT");
    next.end().expect(0);
    assert_eq!(machine.rules(), 0);
}
