//! `serve --tun` and `tunnel --site`: whole packets between a host behind the client and the server's network.

use manyway::Ticket;

use crate::common::lab::{Family, Hole, Lab, Namespace};
use crate::common::program::{Running, Server, have, wait_until};
use crate::egress::hosts::{HOST, serve_web};

/// A client with a host behind its interface `lan0`, whose only router it is.
struct Sites {
    lab: Lab,
    host: Namespace,
}

impl Sites {
    fn start() -> Option<Self> {
        let lab = Lab::start(2, Family::V4)?;
        if !have(&[("python3", "--version")]) {
            return None;
        }
        let host = lab.host("h");
        lab.client.ip(&format!("link add lan0 type veth peer name eth0 netns {}", host.name));
        for (namespace, interface, number) in [(&lab.client, "lan0", 1), (&host, "eth0", 7)] {
            namespace.ip(&format!("addr add 192.168.5.{number}/24 dev {interface}"));
            namespace.ip(&format!("addr add fd00:5::{number}/64 dev {interface} nodad"));
            namespace.ip(&format!("link set {interface} up"));
        }
        host.ip("route add default via 192.168.5.1");
        host.ip("route add default via fd00:5::1");
        Some(Self { lab, host })
    }

    /// Starts a server that lasts with these options.
    fn serve(&self, options: &[&str]) -> Server {
        let mut command = self.lab.serving(&self.lab.there(), options);
        command.env("MANYWAY_HOME", self.lab.there().join("home"));
        Server::start(command)
    }

    fn join(&self, server: &Server, options: &[&str]) -> Running {
        self.lab.start_client(&[&["tunnel", &server.ticket, "--site"], options].concat())
    }

    fn python(namespace: &Namespace, script: &str, arguments: &[&str]) -> Running {
        let mut command = namespace.command("python3");
        command.args(["-u", "-c", script]).args(arguments);
        Running::start(command)
    }
}

/// The interfaces and routes of a host that belong to sites.
fn traces(namespace: &Namespace) -> String {
    let all = namespace.ip("link")
        + &namespace.ip("route show table all")
        + &namespace.ip("-6 route show table all");
    all.lines().filter(|line| line.contains("manyway-site")).map(|line| format!("{line}\n")).collect()
}

const NETWORKS: [&str; 4] = ["--tun", "10.99.0.0/24", "--tun", "fd00:99::/64"];
const BEHIND: [&str; 4] = ["--tun-behind", "default=192.168.5.0/24", "--tun-behind", "default=fd00:5::/64"];
const ANNOUNCED: [&str; 4] = ["--announce", "192.168.5.0/24", "--announce", "fd00:5::/64"];

#[test]
fn any_protocol_goes_between_a_host_behind_the_client_and_the_server_over_two_links_and_one_alone() {
    let Some(sites) = Sites::start() else { return };
    let Sites { lab, host } = &sites;
    let options = [&NETWORKS[..], &BEHIND].concat();
    let server = sites.serve(&options);
    server.running.wait_for("this host is 10.99.0.1/24, fd00:99::1/64 by manyway-site");
    let refused = || sites.join(&server, &ANNOUNCED).end().expect(1);
    refused().says("sysctl -w net.ipv4.ip_forward=1");
    lab.client.set("ipv4/ip_forward", "1");
    refused().says("sysctl -w net.ipv6.conf.all.forwarding=1");
    lab.client.set("ipv6/conf/all/forwarding", "1");

    let joined = || {
        let site = sites.join(&server, &ANNOUNCED);
        site.wait_for("TCP between sites travels as packets");
        site
    };
    let site = joined();
    // What addresses a server has for sites is no place to reach it at.
    let hosts: Vec<String> =
        server.ticket.parse::<Ticket>().unwrap().hosts().iter().map(ToString::to_string).collect();
    assert_eq!(hosts, ["10.7.1.2:4455", "10.7.2.2:4455"]);
    let services = Sites::python(&lab.server, SERVICES, &[]);
    services.wait_until("its start", || services.printed().contains("ready"));
    host.ip("addr add 192.168.6.7/32 dev lo");
    lab.limit(1, 20);
    lab.limit(2, 20);
    let asking = Sites::python(host, ASK, &[]);
    let (begin, sent) = (lab.client.sent("va1"), || lab.client.sent("va1"));
    asking.wait_until("data on the first link", || sent() > begin + 1_000_000);
    lab.black_hole(1, Hole::Both);
    let asked = asking.end().expect(0);
    lab.unlimit();
    let expected = "10.99.0.1: ping udp 253\nfd00:99::1: ping udp 253\ntcp 4000000\ntoo large\nlost\n";
    assert_eq!(asked.out, expected, "{}\n{}", asked.err, server.running.messages());
    server.running.wait_for("packets from 192.168.6.7, which is no address of this client");
    let printed = services.printed();
    assert!(printed.contains("segments of 1360\n") && !printed.contains("192.168.6.7"), "{printed}");
    lab.release();

    // Another program removes what leads to the network.
    lab.client.ip("route del 10.99.0.0/24");
    lab.client.ip("address flush dev manyway-site");
    site.wait_for("were removed by another program, and set again");
    let asked = |what: &str| lab.client.ip(&format!("{what} show dev manyway-site"));
    assert!(asked("route").contains("10.99.0.0/24") && asked("address").contains("10.99.0."));

    // A server that is started again knows its client again.
    server.stop().expect(0);
    assert_eq!(traces(&lab.server), "");
    let server = sites.serve(&options);
    let messages = site.messages();
    let (_, own) = messages.split_once("this machine is ").unwrap();
    let (own, _) = own.split_once(" by manyway-site").unwrap();
    server
        .running
        .wait_for(&format!("joined the network of sites: {own} with 192.168.5.0/24, fd00:5::/64 behind it"));
    site.signal("TERM");
    site.end().expect(0);
    server.running.wait_for("parted from the network of sites");
    assert_eq!(traces(&lab.client), "");

    let site = sites.join(&server, &ANNOUNCED);
    wait_until("the route", || traces(&lab.client).contains("10.99.0.0/24"));
    for killed in [site.id(), server.running.id()] {
        assert!(
            std::process::Command::new("kill")
                .args(["-KILL", &killed.to_string()])
                .status()
                .unwrap()
                .success()
        );
    }
    for end in [&lab.client, &lab.server] {
        wait_until("the end of the device", || traces(end).is_empty());
    }
}

#[test]
fn networks_that_are_taken_or_not_permitted_are_refused_with_what_to_do() {
    let Some(sites) = Sites::start() else { return };
    let Sites { lab, .. } = &sites;
    let refused = |options: &[&str]| Running::start(lab.serving(&lab.there(), options)).end().expect(2);
    refused(&["--tun", "10.7.1.0/24"]).says("10.7.1.0/24 is taken by vb1 here (route 10.7.1.0/24)");
    refused(&["--tun", "198.51.100.0/24"]).says("198.51.100.0/24 is not private");
    refused(&["--tun", "10.99.0.0/31"]).says("write it like 10.99.0.0/24");
    let without = lab.serve(&[]);
    sites.join(&without, &[]).end().expect(5).says("manyway serve --tun NET");
    without.stop().expect(0);
    for namespace in [&lab.client, &lab.server] {
        namespace.set("ipv4/ip_forward", "1");
    }

    let server = sites.serve(&[
        "--tun",
        "10.99.0.0/30",
        "--tun-announce",
        "10.7.2.0/24",
        "--tun-announce",
        "9.0.0.0/8",
        "--egress",
        "--allow",
        HOST,
    ]);
    // The server tells no client to come to its address for sites.
    lab.client.ip("route add default via 10.7.2.2");
    let paths = lab.run_client(&["paths", &server.ticket, "--json"]).expect(0);
    assert!(paths.out.contains("10.7.2.2:4455") && !paths.out.contains("10.99.0.1"), "{}", paths.out);
    let not_permitted = sites.join(&server, &["--announce", "192.168.5.0/24"]).end().expect(5);
    not_permitted.says("--tun-behind default=192.168.5.0/24 permits this network");
    sites.join(&server, &["--lan", "lan0"]).end().expect(2).says("--route says what does");
    let site = sites.join(&server, &["--json"]);
    site.wait_until("its start", || site.printed().contains('}'));
    let facts: serde_json::Value = serde_json::from_str(site.printed().trim()).unwrap();
    assert_eq!(facts["addresses"], serde_json::json!(["10.99.0.2/30"]));
    // The client has a route of its own to the one network, and no server may have all of the other.
    assert_eq!(facts["networks"], serde_json::json!(["10.99.0.0/30"]));
    sites.join(&server, &[]).end().expect(5).says("no address of 10.99.0.0/30 is free");
    assert!(traces(&lab.client).contains("10.99.0.0/30"), "the first one stays");
    site.signal("INT");
    site.end().expect(0);

    // Together with a tunnel, which ends TCP to what the server dials.
    serve_web(lab);
    let both = sites.join(&server, &["--route", "10.9.0.0/16"]);
    both.wait_for("TCP between sites travels as packets");
    let asked = Sites::python(&lab.client, BOTH, &[]).end().expect(0);
    assert_eq!(asked.out, "1000\nrefused\n", "{}", both.messages());
    both.signal("TERM");
    both.end().expect(0);
    assert_eq!(traces(&lab.client), "");
}

/// Downloads by TCP from the server's side, and asks a port of the server's host where nothing listens.
const BOTH: &str = "\
import socket, urllib.request
print(len(urllib.request.urlopen('http://10.9.0.1:8080/1000', timeout=20).read()))
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(0.5)
s.connect(('10.99.0.1', 9))
for _ in range(20):
    try:
        s.send(b'x')
        s.recv(9)
    except ConnectionRefusedError:
        print('refused')
        break
    except TimeoutError:
        pass
";

/// Answers UDP and protocol 253 in capitals, and TCP with the number of its bytes, at the server's addresses; prints whom it hears,
/// and the segment size that a connection offers.
const SERVICES: &str = "\
import socket, threading
def datagrams(s, is_raw):
    while True:
        text, source = s.recvfrom(4000)
        print(source[0])
        s.sendto((text[20:] if is_raw and ':' not in source[0] else text).upper(), source)
def streams(s):
    while True:
        c, _ = s.accept()
        size = 0
        while part := c.recv(65536):
            size += len(part)
        c.sendall(str(size).encode())
        c.close()
for family, address in (socket.AF_INET, '10.99.0.1'), (socket.AF_INET6, 'fd00:99::1'):
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.bind((address, 7))
    threading.Thread(target=datagrams, args=(s, False)).start()
    s = socket.socket(family, socket.SOCK_RAW, 253)
    s.bind((address, 0))
    threading.Thread(target=datagrams, args=(s, True)).start()
def openings(s):
    while True:
        packet = s.recv(4000)
        # SYN without ACK; the segment size is the first option.
        if packet[33] & 18 == 2:
            print('segments of', int.from_bytes(packet[42:44], 'big'))
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP)
threading.Thread(target=openings, args=(s,)).start()
s = socket.create_server(('10.99.0.1', 7))
threading.Thread(target=streams, args=(s,)).start()
print('ready')
";

/// Asks both addresses by each protocol, sends 4 MB by TCP, a datagram that is too large, and one from another address.
const ASK: &str = "\
import errno, socket, struct, time
def checksum(data):
    total = sum(struct.unpack('!%dH' % (len(data) // 2), data))
    total = (total >> 16) + (total & 0xffff)
    return ~(total + (total >> 16)) & 0xffff
def ask(s, to, text, expected):
    s.settimeout(1)
    for _ in range(20):
        s.sendto(text, to)
        try:
            while True:
                if s.recvfrom(4000)[0].endswith(expected):
                    return True
        except TimeoutError:
            pass
for family, address in (socket.AF_INET, '10.99.0.1'), (socket.AF_INET6, 'fd00:99::1'):
    done = []
    if family == socket.AF_INET:
        s = socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_ICMP)
        echo = struct.pack('!BBHHH', 8, 0, 0, 4711, 1) + b'content!'
        echo = echo[:2] + struct.pack('!H', checksum(echo)) + echo[4:]
        reply = b'\\0' + echo[1:2] + struct.pack('!H', checksum(b'\\0' + echo[1:2] + b'\\0\\0' + echo[4:])) + echo[4:]
    else:
        s = socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
        echo = struct.pack('!BBHHH', 128, 0, 0, 4711, 1) + b'content!'
        reply = echo[4:]
    done += ['ping'] * bool(ask(s, (address, 0), echo, reply))
    done += ['udp'] * bool(ask(socket.socket(family, socket.SOCK_DGRAM), (address, 7), b'hello', b'HELLO'))
    done += ['253'] * bool(ask(socket.socket(family, socket.SOCK_RAW, 253), (address, 0), b'hello', b'HELLO'))
    print(address + ':', *done)
s = socket.create_connection(('10.99.0.1', 7), 20)
s.settimeout(40)
s.sendall(bytes(4000000))
s.shutdown(socket.SHUT_WR)
print('tcp', s.recv(100).decode())
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
# IP_MTU_DISCOVER, IP_PMTUDISC_DO
s.setsockopt(socket.IPPROTO_IP, 10, 2)
for _ in range(100):
    try:
        s.sendto(bytes(1472), ('10.99.0.1', 7))
        time.sleep(0.02)
    except OSError as error:
        assert error.errno == errno.EMSGSIZE, error
        print('too large')
        break
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('192.168.6.7', 0))
for _ in range(5):
    s.sendto(b'spoofed', ('10.99.0.1', 7))
print('lost')
";
