//! `tunnel --kill-switch`: what goes past the tunnel before, during and after it.

use super::Machine;
use crate::common::program::{Running, wait_until};
use crate::egress::run::{SIZE, Scene};

/// `ECONNREFUSED`: the other host has answered.
const REFUSED: &str = "111";

impl Machine {
    /// A machine that reaches the server's side without a tunnel, too.
    fn start_with_default_route() -> Option<Self> {
        let machine = Self::start()?;
        machine.0.lab.client.ip("route add default via 10.7.1.2");
        assert!(machine.downloads());
        Some(machine)
    }

    pub(super) fn rules_of_block(&self) -> String {
        self.client(&["nft", "list", "table", "inet", "manyway-block"])
    }

    /// Checks that nothing leaves but to the machine's own networks, also by sockets that are bound to an interface.
    #[track_caller]
    pub(super) fn assert_blocked(&self) {
        assert!(!self.downloads(), "{}", self.rules_of_block());
        assert!(!self.downloads_bound(), "{}", self.rules_of_block());
        let near = "import socket; print(socket.socket().connect_ex(('10.7.1.2', 1)))";
        assert_eq!(self.client(&["python3", "-c", near]).trim(), REFUSED);
    }

    fn downloads_bound(&self) -> bool {
        self.downloads_by(&self.0.lab.client, &format!("--interface va1 {}", Scene::url(SIZE)))
    }

    fn kill(&self, tunnel: &Running) {
        tunnel.signal("KILL");
        wait_until("the end of the device", || !self.client(&["ip", "link"]).contains("manyway-tun"));
    }
}

#[test]
fn a_tunnel_that_is_killed_in_any_phase_leaves_nothing_open_and_the_next_one_or_clear_ends_that() {
    let Some(machine) = Machine::start_with_default_route() else { return };
    // It does not get further than to connect.
    machine.0.server.running.suspend();
    let tunnel = machine.start_tunnel(&["--kill-switch"]);
    wait_until("the block", || machine.rules_of_block().contains("reject"));
    machine.assert_blocked();
    machine.kill(&tunnel);
    machine.assert_blocked();
    machine.0.server.running.signal("CONT");

    let tunnel = machine.tunnel_with(&["--kill-switch"]);
    assert!(machine.downloads() && !machine.downloads_bound());
    // Neither routes nor rules of routing are what keeps it closed.
    machine.client(&["ip", "rule", "flush"]);
    assert!(!machine.downloads_bound());
    machine.client(&["ip", "rule", "add", "lookup", "main", "priority", "32766"]);
    // A network that comes is free, and what another program has removed is set again.
    machine.client(&["ip", "address", "add", "10.8.8.1/24", "dev", "va1"]);
    machine.client(&["ip", "route", "add", "198.51.100.0/24", "via", "10.7.1.2"]);
    wait_until("the new network", || machine.rules_of_block().contains("10.8.8.0/24"));
    assert!(!machine.rules_of_block().contains("198.51.100.0"), "a public network");
    machine.client(&["nft", "delete", "table", "inet", "manyway-block"]);
    wait_until("the block", || machine.rules_of_block().contains("reject"));
    machine.kill(&tunnel);
    machine.assert_blocked();

    let tunnel = machine.tunnel();
    assert!(machine.downloads() && machine.rules_of_block().is_empty());
    machine.kill(&tunnel);
    assert!(machine.downloads());
}

#[test]
fn the_user_ends_the_block_by_ctrl_c_or_clear_and_any_other_end_leaves_it() {
    let Some(machine) = Machine::start_with_default_route() else { return };
    let tunnel = machine.tunnel_with(&["--kill-switch"]);
    tunnel.signal("INT");
    tunnel.end().expect(0);
    assert!(machine.downloads());

    let tunnel = machine.tunnel_with(&["--kill-switch"]);
    tunnel.signal("HUP");
    tunnel.end().expect(0).says("until `manyway tunnel --clear`");
    machine.assert_blocked();
    let clear = || machine.0.lab.run_client(&["tunnel", "--clear"]).expect(0);
    clear().says("nothing is blocked any more");
    assert!(machine.downloads());
    clear().says("nothing was blocked");

    let other = machine.0.lab.serve(&["--listen", "10.7.1.2:4466"]);
    let refused = machine.0.lab.run_client(&["tunnel", "--kill-switch", &other.ticket]);
    refused.expect(5).says("the server connects to nothing").says("until `manyway tunnel --clear`");
    machine.assert_blocked();
    clear();
}
