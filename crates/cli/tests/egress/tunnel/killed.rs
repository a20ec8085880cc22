//! A tunnel that is killed in each phase of its life: what is left of its routes, rules and names.

use super::Machine;
use super::names::Named;
use crate::common::program::{Running, wait_until};

/// The redirection of IPv6 arrives nowhere, so that the self-test takes its whole time.
const WALL: &str = "table inet wall {\nchain i { type filter hook input priority 0; \
    ip6 daddr ::1 tcp dport > 0 drop; }\n}";

/// In which a tunnel is killed.
#[derive(Debug, Clone, Copy)]
enum Phase {
    Connecting,
    SelfTest,
    Running,
    Ending,
}

const PHASES: [Phase; 4] = [Phase::Connecting, Phase::SelfTest, Phase::Running, Phase::Ending];

impl Named {
    /// Starts a tunnel and kills it.
    fn kill_in(&self, phase: Phase, options: &[&str]) {
        let Machine(scene) = &self.machine;
        let server = &scene.server.running;
        let tunnel = match phase {
            Phase::Connecting => {
                server.suspend();
                let tunnel = self.machine.start_tunnel(options);
                wait_until("the device", || self.has_device());
                let blocks = options.contains(&"--kill-switch");
                wait_until("the block", || self.machine.rules_of_block().contains("reject") == blocks);
                tunnel
            }
            Phase::SelfTest => {
                scene.lab.client.nft(WALL);
                let tunnel = self.machine.start_tunnel(options);
                wait_until("the redirection", || self.has_redirection());
                assert!(!tunnel.printed().contains("until Ctrl-C"), "{}", tunnel.messages());
                tunnel
            }
            Phase::Running => {
                let tunnel = self.machine.tunnel_with(options);
                assert!(self.machine.downloads() && self.finds_names_at_the_server());
                tunnel
            }
            Phase::Ending => {
                let tunnel = self.machine.tunnel_with(options);
                // It takes its leave of a server that does not answer.
                server.suspend();
                tunnel.signal("TERM");
                tunnel.wait_for(": closing");
                tunnel
            }
        };
        assert!(tunnel.is_running(), "{phase:?}: {}", tunnel.messages());
        self.kill(&tunnel);
        server.signal("CONT");
        if let Phase::SelfTest = phase {
            scene.lab.client.run("nft", "delete table inet wall");
        }
    }

    fn kill(&self, tunnel: &Running) {
        tunnel.signal("KILL");
        wait_until("the end of the process", || !tunnel.is_running());
        wait_until("the end of the device", || !self.has_device());
        wait_until("the end of the redirection", || !self.has_redirection());
        assert_eq!(self.machine.client(&["ip", "route", "show", "table", "4455"]), "");
        assert_eq!(self.machine.client(&["ip", "-6", "route", "show", "table", "4455"]), "");
    }

    fn has_device(&self) -> bool {
        self.machine.client(&["ip", "link"]).contains("manyway-tun")
    }

    fn has_redirection(&self) -> bool {
        self.machine.client(&["nft", "list", "tables"]).contains("table inet manyway\n")
    }

    /// Whether the machine reaches hosts and finds names as it did before any tunnel.
    fn is_as_before(&self) -> bool {
        self.machine.downloads() && self.finds_names_itself()
    }

    /// Whether a tunnel works now, and takes back all that one before it left.
    fn next_tunnel_cleans_up(&self) -> bool {
        let tunnel = self.machine.tunnel();
        let works = self.machine.downloads() && self.finds_names_at_the_server();
        tunnel.signal("TERM");
        tunnel.end().expect(0);
        works && self.machine.rules() == 0 && self.is_as_before()
    }
}

#[test]
fn a_machine_has_its_routes_and_names_again_in_whatever_phase_its_tunnel_is_killed() {
    let Some(named) = Named::start_with_default_route() else { return };
    assert!(named.is_as_before());
    for phase in PHASES {
        named.kill_in(phase, &[]);
        assert!(named.is_as_before(), "{phase:?}");
        assert!(named.next_tunnel_cleans_up(), "{phase:?}");
    }
}

#[test]
fn with_the_kill_switch_neither_hosts_nor_names_are_reached_in_whatever_phase_the_tunnel_is_killed() {
    let Some(named) = Named::start_with_default_route() else { return };
    for phase in PHASES {
        named.kill_in(phase, &["--kill-switch"]);
        named.machine.assert_blocked();
        assert!(!named.finds_names_itself() && !named.finds_names_at_the_server(), "{phase:?}");
        named.machine.0.lab.run_client(&["tunnel", "--clear"]).expect(0);
        assert!(named.is_as_before(), "{phase:?}");
    }
    assert!(named.next_tunnel_cleans_up());
}
