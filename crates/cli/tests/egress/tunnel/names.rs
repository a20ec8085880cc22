//! Names, and what `--bypass` and `--dns` lead past the tunnel.

use super::{Machine, NAMES};
use crate::common::lab::{Family, Lab};
use crate::common::program::{Running, have};
use crate::egress::hosts::{HOST, WEB, serve_web};
use crate::egress::run::{SIZE, Scene};

/// A name server, and the address that it has for every name.
struct NameServer {
    at: &'static str,
    answer: &'static str,
}

/// On the machine's own network.
const NEAR: NameServer = NameServer { at: "10.7.1.2", answer: "10.9.0.21" };
/// Behind the server, as is that which the server asks.
const FAR: NameServer = NameServer { at: "10.9.0.3", answer: "10.9.0.23" };
const OF_SERVER: NameServer = NameServer { at: HOST, answer: HOST };

/// A machine in a network with all these name servers.
pub(super) struct Named {
    pub(super) machine: Machine,
    _servers: Vec<Running>,
}

impl Named {
    fn start() -> Option<Self> {
        let lab = Lab::start(2, Family::V4)
            .filter(|_| have(&[("curl", "-V"), ("getent", "--version"), ("python3", "--version")]))?;
        serve_web(&lab);
        lab.server.ip(&format!("addr add {}/32 dev lo", FAR.at));
        lab.server.set_name_server(OF_SERVER.at);
        let servers = [NEAR, FAR, OF_SERVER].map(|NameServer { at, answer }| {
            let zone = lab.there().join(at);
            std::fs::write(&zone, answer).unwrap();
            let mut command = lab.server.command("python3");
            command.args(["-u", "-c", NAMES, at]).arg(zone);
            let server = Running::start(command);
            server.wait_until("its start", || server.printed().contains("ready"));
            server
        });
        let server = lab.serve(&["--egress", "--allow", HOST, "--allow", FAR.at]);
        Some(Self { machine: Machine(Scene { lab, server }), _servers: servers.into() })
    }

    /// The machine asks a name server beyond its router, through which it reaches the server's side without a tunnel, too.
    pub(super) fn start_with_default_route() -> Option<Self> {
        let named = Self::start()?;
        named.machine.0.lab.client.ip("route add default via 10.7.1.2");
        named.ask(&FAR);
        Some(named)
    }

    fn ask(&self, server: &NameServer) {
        self.machine.0.lab.client.set_name_server(server.at);
    }

    /// The address of a name at the machine; empty if it is not found.
    fn address(&self) -> String {
        let found = self.machine.client(&["getent", "ahostsv4", "web.test"]);
        found.split_whitespace().next().unwrap_or_default().to_owned()
    }

    pub(super) fn finds_names_itself(&self) -> bool {
        self.address() == FAR.answer
    }

    pub(super) fn finds_names_at_the_server(&self) -> bool {
        self.address() == OF_SERVER.answer
    }
}

#[test]
fn names_are_asked_at_the_server_or_with_dns_local_at_the_machines_own_name_servers_past_the_tunnel_or_by_it()
{
    let Some(named) = Named::start() else { return };
    let machine = &named.machine;
    named.ask(&NEAR);
    assert_eq!(named.address(), NEAR.answer);
    let tunnel = machine.tunnel();
    assert_eq!(named.address(), OF_SERVER.answer, "{}", tunnel.messages());
    assert!(machine.downloads_by(&machine.0.lab.client, &format!("http://web.test:{WEB}/{SIZE}")));
    named.ask(&FAR);
    assert_eq!(named.address(), OF_SERVER.answer, "{}", tunnel.messages());
    tunnel.signal("TERM");
    tunnel.end().expect(0);
    assert_eq!(named.address(), "", "no route leads there");

    let tunnel = machine.tunnel_with(&["--dns", "local"]);
    assert_eq!(named.address(), FAR.answer, "{}", tunnel.messages());
    named.ask(&NEAR);
    assert_eq!(named.address(), NEAR.answer, "{}", tunnel.messages());
    assert!(machine.downloads());
}

/// Packets to two hosts behind the server, by the device of the tunnel and by the links.
const COUNTERS: &str = "\
table inet count {
    counter tun_host {}
    counter links_host {}
    counter tun_far {}
    counter links_far {}
    chain out {
        type filter hook postrouting priority 300;
        oifname \"manyway-tun\" ip daddr 10.9.0.1 counter name tun_host
        oifname { \"va1\", \"va2\" } ip daddr 10.9.0.1 counter name links_host
        oifname \"manyway-tun\" ip daddr 10.9.0.3 counter name tun_far
        oifname { \"va1\", \"va2\" } ip daddr 10.9.0.3 counter name links_far
    }
}";

#[test]
fn what_bypass_names_is_reached_past_the_tunnel_and_its_neighbour_by_it() {
    let Some(named) = Named::start_with_default_route() else { return };
    let machine = &named.machine;
    machine.0.lab.client.nft(COUNTERS);
    let tunnel = machine.tunnel_with(&["--dns", "local"]);
    assert!(machine.downloads() && named.finds_names_itself(), "{}", tunnel.messages());
    assert_eq!((machine.counted("links_host"), machine.counted("links_far")), (0, 0));
    tunnel.signal("TERM");
    tunnel.end().expect(0);

    let far = machine.counted("tun_far");
    let tunnel = machine.tunnel_with(&["--dns", "local", "--bypass", HOST]);
    assert!(machine.downloads() && named.finds_names_itself(), "{}", tunnel.messages());
    assert!(machine.counted("links_host") > 0 && machine.counted("tun_far") > far);
    assert_eq!((machine.counted("tun_host"), machine.counted("links_far")), (0, 0));
}
