//! `manyway tunnel`: all traffic of a machine, which here is a network namespace.

use super::hosts::{HOST, WEB, serve_web, web_hash};
use super::run::{ASK, ECHO};
use crate::common::lab::{Family, Lab};
use crate::common::program::{MANYWAY, Running, Server, have, wait_until};

/// Bytes of a download.
const SIZE: u64 = 1_000_000;

struct Scene {
    lab: Lab,
    server: Server,
}

impl Scene {
    fn start() -> Option<Self> {
        let lab = Lab::start(2, Family::V4)?;
        if !have(&[("curl", "-V"), ("python3", "--version")]) {
            return None;
        }
        serve_web(&lab);
        let server = lab.serve(&["--egress", "--allow", HOST]);
        Some(Self { lab, server })
    }

    fn start_tunnel(&self) -> Running {
        self.lab.start_client(&["tunnel", &self.server.ticket])
    }

    fn tunnel(&self) -> Running {
        let tunnel = self.start_tunnel();
        tunnel.wait_for("the traffic of this machine goes by manyway-tun");
        tunnel
    }

    /// The output of a command at the client.
    fn client(&self, command: &[&str]) -> String {
        let done = self.lab.client.command(command[0]).args(&command[1..]).output().unwrap();
        String::from_utf8_lossy(&done.stdout).into_owned()
    }

    fn rules(&self) -> usize {
        self.client(&["ip", "rule"]).matches("4455").count()
    }

    /// Whether a program that knows nothing of Manyway downloads a file of the server's side.
    fn downloads(&self) -> bool {
        let file = self.lab.here().join("page");
        let _ = std::fs::remove_file(&file);
        let url = format!("http://{HOST}:{WEB}/{SIZE}");
        self.client(&["curl", "-sS", "-m", "10", "-o", file.to_str().unwrap(), &url]);
        std::fs::read(&file).is_ok_and(|bytes| blake3::hash(&bytes) == web_hash(SIZE))
    }
}

#[test]
fn programs_of_the_machine_reach_the_servers_side_and_manyways_own_packets_stay_out_of_the_tunnel() {
    let Some(scene) = Scene::start() else { return };
    assert!(!scene.downloads(), "no route leads there");
    let tunnel = scene.tunnel();
    assert!(scene.downloads());
    let echo = Running::start({
        let mut command = scene.lab.server.command("python3");
        command.args(["-u", "-c", ECHO, HOST]);
        command
    });
    echo.wait_until("its port", || !echo.printed().is_empty());
    let port = echo.printed().trim().to_owned();
    assert!(scene.client(&["python3", "-c", ASK, HOST, &port]).starts_with("HELLO\nforbidden\n"));
    // TCP ends in the kernel, so only the datagrams are packets of the device.
    let sent = scene.client(&["cat", "/sys/class/net/manyway-tun/statistics/tx_packets"]);
    assert!(sent.trim().parse::<u64>().unwrap() < 100, "{sent}");
    let status = scene.client(&[MANYWAY, "status"]);
    assert!(status.contains("tunnel") && !status.contains("manyway-tun"), "{status}");
    scene.start_tunnel().end().expect(1).says("another tunnel runs on this machine");

    tunnel.signal("TERM");
    tunnel.end().expect(0);
    assert_eq!(scene.rules(), 0);
    assert!(!scene.client(&["ip", "link"]).contains("manyway-tun"));
    assert!(!scene.downloads());
}

#[test]
fn routes_that_another_program_removes_are_set_again_and_a_killed_tunnel_leaves_nothing_that_matters() {
    let Some(scene) = Scene::start() else { return };
    let tunnel = scene.tunnel();
    let rules = scene.rules();
    scene.client(&["ip", "route", "flush", "table", "4455"]);
    scene.client(&["ip", "rule", "del", "table", "4455"]);
    tunnel.wait_for("were removed by another program, and set again");
    assert!(scene.rules() == rules && scene.downloads());

    tunnel.signal("KILL");
    wait_until("the end of the device", || !scene.client(&["ip", "link"]).contains("manyway-tun"));
    assert_eq!(scene.client(&["ip", "route", "show", "table", "4455"]), "");
    let next = scene.tunnel();
    assert!(scene.rules() == rules && scene.downloads());
    next.signal("INT");
    next.end().expect(0);
    assert_eq!(scene.rules(), 0);
}
