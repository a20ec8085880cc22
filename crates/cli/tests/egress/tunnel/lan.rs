//! `tunnel --lan`: hosts behind the machine.

use std::ffi::OsStr;

use super::Machine;
use super::stack::{NOTE, WALL};
use crate::common::lab::{Family, Hole, Lab, Namespace};
use crate::common::program::{Running, have, wait_until};
use crate::egress::hosts::{HOST, WEB, serve_web, web_hash};
use crate::egress::run::{SIZE, Scene};

/// An address of the server's host.
const HOST_V6: &str = "fd00:9::1";

/// A machine with a host behind its interface `lan0`, whose only router it is, and services at the server's side.
struct Gateway {
    machine: Machine,
    host: Namespace,
    services: Running,
    _names: Running,
}

impl Gateway {
    fn start() -> Option<Self> {
        let lab = Lab::start(2, Family::V4)?;
        if !have(&[("curl", "-V"), ("python3", "--version")]) {
            return None;
        }
        serve_web(&lab);
        lab.server.ip(&format!("addr add {HOST_V6}/128 dev lo nodad"));
        let host = lab.host("h");
        lab.client.ip(&format!("link add lan0 type veth peer name eth0 netns {}", host.name));
        for (namespace, interface, number) in [(&lab.client, "lan0", 1), (&host, "eth0", 7)] {
            namespace.ip(&format!("addr add 192.168.5.{number}/24 dev {interface}"));
            namespace.ip(&format!("addr add fd00:5::{number}/64 dev {interface} nodad"));
            namespace.ip(&format!("link set {interface} up"));
        }
        host.ip("route add default via 192.168.5.1");
        host.ip("route add default via fd00:5::1");
        // Only the server's side has a name server; the host's does not exist.
        host.set_name_server("192.0.2.53");
        lab.server.set_name_server(HOST);
        let zone = lab.there().join("zone");
        std::fs::write(&zone, HOST).unwrap();
        let start = |script: &str, arguments: &[&OsStr]| {
            let mut command = lab.server.command("python3");
            command.args(["-u", "-c", script]).args(arguments);
            let running = Running::start(command);
            running.wait_until("its start", || running.printed().contains("ready"));
            running
        };
        let names = start(super::NAMES, &[HOST.as_ref(), zone.as_os_str()]);
        let services = start(SERVICES, &[HOST.as_ref(), HOST_V6.as_ref()]);
        let server = lab.serve(&["--egress", "--allow", HOST, "--allow", HOST_V6]);
        let machine = Machine(Scene { lab, server });
        Some(Self { machine, host, services, _names: names })
    }

    fn forward(&self, setting: &str) {
        self.machine.0.lab.client.set(setting, "1");
    }
}

#[test]
fn hosts_behind_the_machine_reach_the_servers_side_by_tcp_udp_and_names_and_keep_their_connections() {
    let Some(gateway) = Gateway::start() else { return };
    let Gateway { machine, host, .. } = &gateway;
    let lab = &machine.0.lab;
    let refused = || machine.start_tunnel(&["--lan", "lan0"]).end().expect(1);
    refused().says("sysctl -w net.ipv4.ip_forward=1");
    gateway.forward("ipv4/ip_forward");
    refused().says("sysctl -w net.ipv6.conf.all.forwarding=1");
    gateway.forward("ipv6/conf/all/forwarding");

    let tunnel = machine.tunnel_with(&["--lan", "lan0", "--kill-switch"]);
    assert!(machine.downloads() && machine.downloads_by(host, &Scene::url(SIZE)));
    assert!(machine.downloads_by(host, &format!("http://web.test:{WEB}/{SIZE}")), "{}", tunnel.messages());
    let asked = host.command("python3").args(["-c", ASK, HOST, HOST_V6]).output().unwrap();
    let printed = gateway.services.messages();
    assert_eq!(String::from_utf8_lossy(&asked.stdout), "HELLO HELLO 3000\nHELLO HELLO 1200\n", "{printed}");

    // A link dies in silence while the host downloads.
    lab.limit(1, 30);
    lab.limit(2, 30);
    let (size, file) = (8_000_000, lab.here().join("large"));
    let download = Running::start({
        let mut command = host.command("curl");
        command.args(["-sS", "-m", "50", "-o", file.to_str().unwrap(), &Scene::url(size)]);
        command
    });
    let sent = lab.server.sent("vb1");
    wait_until("data on the first link", || lab.server.sent("vb1") > sent + 500_000);
    lab.black_hole(1, Hole::Both);
    download.end().expect(0);
    assert_eq!(blake3::hash(&std::fs::read(&file).unwrap()), web_hash(size));
    lab.unlimit();

    // Without the tunnel the machine would forward what the host sends.
    lab.client.ip("route add default via 10.7.2.2");
    lab.server.ip("route add 192.168.5.0/24 via 10.7.2.1");
    tunnel.signal("KILL");
    wait_until("the end of the device", || !machine.client(&["ip", "link"]).contains("manyway-tun"));
    assert!(!machine.downloads_by(host, &Scene::url(SIZE)));
    lab.run_client(&["tunnel", "--clear"]).expect(0);
    assert!(machine.downloads_by(host, &Scene::url(SIZE)));
}

#[test]
fn hosts_behind_a_machine_whose_firewall_drops_redirected_connections_reach_the_servers_side() {
    let Some(gateway) = Gateway::start() else { return };
    let Gateway { machine, host, .. } = &gateway;
    gateway.forward("ipv4/ip_forward");
    gateway.forward("ipv6/conf/all/forwarding");
    machine.0.lab.client.nft(WALL);
    let tunnel = machine.tunnel_with(&["--lan", "lan0"]);
    assert!(tunnel.messages().contains(NOTE), "{}", tunnel.messages());
    assert!(machine.downloads_by(host, &format!("http://web.test:{WEB}/{SIZE}")), "{}", tunnel.messages());
    let asked = host.command("python3").args(["-c", ASK, HOST, HOST_V6]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&asked.stdout), "HELLO HELLO 3000\nHELLO HELLO 1200\n");
}

/// Answers in capitals over TCP and UDP at port 7 of each address; a datagram with a number gets as many bytes.
const SERVICES: &str = "\
import socket, sys, threading
def stream(s):
    while True:
        c, _ = s.accept()
        c.sendall(c.recv(100).upper())
        c.close()
def datagrams(s):
    while True:
        text, source = s.recvfrom(2000)
        s.sendto(b'x' * int(text) if text.isdigit() else text.upper(), source)
for a in sys.argv[1:]:
    family = socket.AF_INET6 if ':' in a else socket.AF_INET
    s = socket.socket(family, socket.SOCK_STREAM)
    s.bind((a, 7))
    s.listen()
    threading.Thread(target=stream, args=(s,)).start()
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.bind((a, 7))
    threading.Thread(target=datagrams, args=(s,)).start()
print('ready')
";

/// Asks each address over TCP and UDP. A datagram over IPv4 may be larger than the link's packets; it may be lost.
const ASK: &str = "\
import socket, sys
def ask(family, address, text):
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.settimeout(1)
    for _ in range(20):
        s.sendto(text, (address, 7))
        try:
            answer, source = s.recvfrom(9000)
            assert source[:2] == (address, 7), source
            return answer
        except TimeoutError:
            pass
for a in sys.argv[1:]:
    family, size = (socket.AF_INET6, 1200) if ':' in a else (socket.AF_INET, 3000)
    s = socket.create_connection((a, 7), 20)
    s.sendall(b'hello')
    print(s.recv(100).decode(), ask(family, a, b'hello').decode(), len(ask(family, a, b'%d' % size)))
";
