//! `tunnel` where TCP cannot be redirected to it, and it ends the connections itself.

use super::Machine;
use crate::common::lab::{Family, Lab};
use crate::common::program::{Running, have, wait_until};
use crate::egress::hosts::{HOST, serve_web};
use crate::egress::run::Scene;

/// An address of the server's host.
const HOST_V6: &str = "fd00:9::1";
/// Drops what is redirected to a listener on loopback.
pub(super) const WALL: &str = "table inet wall {\nchain i { type filter hook input priority 0; \
    ip daddr 127.0.0.1 tcp dport > 0 drop; ip6 daddr ::1 tcp dport > 0 drop; }\n}";
/// What the tunnel says then.
pub(super) const NOTE: &str = "The tunnel ends TCP itself";

/// A machine, and services at the server's side.
fn start() -> Option<(Machine, Running)> {
    let lab = Lab::start(2, Family::V4)?;
    if !have(&[("curl", "-V"), ("python3", "--version")]) {
        return None;
    }
    serve_web(&lab);
    lab.server.ip(&format!("addr add {HOST_V6}/128 dev lo nodad"));
    let service = Running::start({
        let mut command = lab.server.command("python3");
        command.args(["-u", "-c", &format!("{PATTERN}{SERVICE}"), HOST, HOST_V6]);
        command
    });
    service.wait_until("its start", || service.printed().contains("ready"));
    let server = lab.serve(&["--egress", "--allow", HOST, "--allow", HOST_V6]);
    Some((Machine(Scene { lab, server }), service))
}

impl Machine {
    /// Uploads and downloads of this many bytes, by connections one after the other and at the same time, and of those that
    /// are refused or forbidden the errors.
    fn talk(&self, size: usize) -> String {
        let script = format!("{PATTERN}{TALK}");
        self.client(&["python3", "-c", &script, &size.to_string(), HOST, HOST_V6])
    }
}

#[test]
fn behind_a_firewall_that_drops_redirected_connections_programs_reach_the_servers_side_by_either_version_of_ip()
 {
    let Some((machine, service)) = start() else { return };
    machine.0.lab.client.nft(WALL);
    let tunnel = machine.tunnel();
    assert!(tunnel.messages().contains(NOTE), "{}", tunnel.messages());
    assert!(tunnel.messages().contains("127.0.0.1 and 198.18.0.1"), "{}", tunnel.messages());
    assert!(machine.downloads_by(&machine.0.lab.client, &Scene::url(1_000_000)));
    let expected = "whole\nwhole\n100 whole\nECONNREFUSED\nEHOSTUNREACH\n";
    assert_eq!(machine.talk(3_000_000), expected, "{}\n{}", tunnel.messages(), service.messages());

    // Packets between the kernel and the tunnel are lost, as those of a LAN may be.
    machine.0.lab.client.nft(
        "table inet loss {\nchain i { type filter hook input priority 0; iifname manyway-tun numgen random mod 100 0 drop; }\n\
         chain o { type filter hook output priority 0; oifname manyway-tun numgen random mod 100 0 drop; }\n}",
    );
    assert_eq!(machine.talk(500_000), expected, "{}\n{}", tunnel.messages(), service.messages());

    // What is open at the end is reset.
    let open = Running::start({
        let mut command = machine.0.lab.client.command("python3");
        command.args(["-u", "-c", OPEN, HOST]);
        command
    });
    open.wait_until("its connection", || open.printed().contains("open"));
    tunnel.signal("TERM");
    tunnel.end().expect(0);
    assert!(open.end().expect(0).out.contains("ECONNRESET"));
    assert_eq!(machine.rules(), 0);
}

#[test]
fn programs_that_connect_during_the_self_test_are_served() {
    let Some(machine) = Machine::start() else { return };
    // The test of IPv6 takes its whole time then, that of IPv4 almost none.
    machine.0.lab.client.nft(
        "table inet wall {\nchain i { type filter hook input priority 0; ip6 daddr ::1 tcp dport > 0 drop; }\n}",
    );
    let tunnel = machine.start_tunnel(&[]);
    wait_until("the redirection", || {
        machine.client(&["nft", "list", "tables"]).contains("table inet manyway\n")
    });
    assert!(machine.downloads(), "{}", tunnel.messages());
    tunnel.wait_for(NOTE);
    assert!(machine.downloads(), "{}", tunnel.messages());
    tunnel.signal("TERM");
    tunnel.end().expect(0);
}

#[test]
fn without_redirection_by_nftables_the_tunnel_works_and_says_that_names_are_not_its_own() {
    let Some((machine, _service)) = start() else { return };
    // Of another owner.
    machine.0.lab.client.nft("table inet manyway {\nchain output { type nat hook output priority -100; }\n}");
    let tunnel = machine.tunnel();
    assert!(tunnel.messages().contains(NOTE), "{}", tunnel.messages());
    assert!(tunnel.messages().contains("names are asked where this machine asks"), "{}", tunnel.messages());
    assert_eq!(machine.talk(100_000), "whole\nwhole\n100 whole\nECONNREFUSED\nEHOSTUNREACH\n");
}

/// What both sides send.
const PATTERN: &str = "\
import errno, hashlib, socket, sys, threading
def pattern(size):
    return (bytes(range(251)) * (size // 251 + 1))[:size]
def read(c):
    parts = []
    while part := c.recv(65536):
        parts.append(part)
    return b''.join(parts)
";

/// Reads at port 7 of each address up to the half-close, and answers with the digest and as many bytes.
const SERVICE: &str = "\
def serve(c):
    data = read(c)
    c.sendall(hashlib.sha256(data).digest() + pattern(len(data)))
    c.close()
def accept(s):
    while True:
        threading.Thread(target=serve, args=(s.accept()[0],)).start()
for a in sys.argv[1:]:
    s = socket.create_server((a, 7), family=socket.AF_INET6 if ':' in a else socket.AF_INET, backlog=200)
    threading.Thread(target=accept, args=(s,)).start()
print('ready')
";

const TALK: &str = "\
def is_whole(host, size):
    s = socket.create_connection((host, 7), 40)
    data = pattern(size)
    s.sendall(data)
    s.shutdown(socket.SHUT_WR)
    answer = read(s)
    return answer == hashlib.sha256(data).digest() + data
size, hosts = int(sys.argv[1]), sys.argv[2:]
for host in hosts:
    print('whole' if is_whole(host, size) else 'damaged')
whole = []
def one(number):
    if is_whole(hosts[number % 2], 10000 + number):
        whole.append(number)
threads = [threading.Thread(target=one, args=(number,)) for number in range(100)]
for t in threads: t.start()
for t in threads: t.join()
print(len(whole), 'whole')
for destination in (hosts[0], 8), ('10.9.0.2', 80):
    print(errno.errorcode[socket.socket().connect_ex(destination)])
";

/// Holds a connection until it breaks.
const OPEN: &str = "\
import errno, socket, sys
s = socket.create_connection((sys.argv[1], 7), 20)
s.sendall(b'data')
print('open')
try:
    s.recv(1)
except OSError as error:
    print(errno.errorcode[error.errno])
";
