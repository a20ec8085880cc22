//! `manyway tunnel`: all traffic of a machine, which here is a network namespace.

mod kill_switch;
mod killed;
mod lan;
mod names;
mod sleep;
mod stack;

use std::time::{Duration, Instant};

use manyway_sim::nightly::is_nightly;

use crate::common::lab::{Family, Lab, Namespace};
use crate::common::program::{MANYWAY, Running, Server, have, wait_until};
use crate::egress::hosts::{HOST, serve_web, web_hash};
use crate::egress::run::{ASK, ECHO, PING, SIZE, Scene};

/// A [`Scene`](crate::egress::run::Scene) whose client is the machine.
struct Machine(Scene);

impl Machine {
    fn start() -> Option<Self> {
        Scene::start().filter(|_| have(&[("python3", "--version")])).map(Self)
    }

    fn start_tunnel(&self, options: &[&str]) -> Running {
        self.0.lab.start_client(&[&["tunnel", &self.0.server.ticket], options].concat())
    }

    fn tunnel(&self) -> Running {
        self.tunnel_with(&[])
    }

    fn tunnel_with(&self, options: &[&str]) -> Running {
        let tunnel = self.start_tunnel(options);
        tunnel.wait_for("goes by manyway-tun until Ctrl-C");
        tunnel
    }

    /// The output of a command at the client.
    fn client(&self, command: &[&str]) -> String {
        let done = self.0.lab.client.command(command[0]).args(&command[1..]).output().unwrap();
        String::from_utf8_lossy(&done.stdout).into_owned()
    }

    /// Packets of one of [`COUNTERS`].
    fn counted(&self, name: &str) -> u64 {
        let text = self.client(&["nft", "list", "counter", "inet", "count", name]);
        let words: Vec<_> = text.split_whitespace().collect();
        let at = words.iter().position(|word| *word == "packets").unwrap_or_else(|| panic!("{name}: {text}"));
        words[at + 1].parse().unwrap()
    }

    fn rules(&self) -> usize {
        self.client(&["ip", "rule"]).matches("4455").count()
    }

    /// How long it takes from these commands of `ip` until routes and rules are there again, and carry a download.
    fn time_without(&self, removal: &[&str], rules: usize) -> Duration {
        removal.iter().for_each(|command| drop(self.0.lab.client.ip(command)));
        let removed = Instant::now();
        wait_until("routes and rules", || {
            self.client(&["ip", "route", "show", "table", "4455"]).contains("default")
                && self.rules() == rules
        });
        assert!(self.downloads());
        removed.elapsed()
    }

    /// Whether a program that knows nothing of Manyway downloads a file of the server's side.
    fn downloads(&self) -> bool {
        self.downloads_by(&self.0.lab.client, &Scene::url(SIZE))
    }

    /// Whether such a program at this host does, with these options and URL.
    fn downloads_by(&self, host: &Namespace, words: &str) -> bool {
        let file = self.0.lab.here().join("page");
        let _ = std::fs::remove_file(&file);
        let mut curl = host.command("curl");
        curl.args(["-sS", "-m", "10", "-o", file.to_str().unwrap()]).args(words.split(' ')).output().unwrap();
        std::fs::read(&file).is_ok_and(|bytes| blake3::hash(&bytes) == web_hash(SIZE))
    }
}

/// Counts packets that leave by the device of the tunnel to a host behind the server, and to the server itself, which are
/// Manyway's own; and the latter by the links.
const COUNTERS: &str = "\
table inet count {
    counter tun_host {}
    counter tun_server {}
    counter links_server {}
    chain out {
        type filter hook postrouting priority 300;
        oifname \"manyway-tun\" ip daddr 10.9.0.1 counter name tun_host
        oifname \"manyway-tun\" ip daddr { 10.7.1.2, 10.7.2.2 } counter name tun_server
        oifname { \"va1\", \"va2\" } ip daddr { 10.7.1.2, 10.7.2.2 } counter name links_server
    }
}";

#[test]
fn a_machine_without_tun_devices_hears_what_it_lacks_and_nothing_is_changed() {
    let Some(machine) = Machine::start() else { return };
    let script = "mount -t tmpfs none /dev/net; exec \"$@\"";
    let mut command = machine.0.lab.client.command("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"]);
    command.args([MANYWAY, "tunnel", &machine.0.server.ticket]);
    Running::start(command).end().expect(1).says("error: there is no /dev/net/tun (modprobe tun)");
    assert_eq!(machine.rules(), 0);
    assert!(!machine.client(&["nft", "list", "ruleset"]).contains("manyway"));
}

#[test]
fn programs_of_the_machine_reach_the_servers_side_and_manyways_own_packets_stay_out_of_the_tunnel() {
    let Some(machine) = Machine::start() else { return };
    assert!(!machine.downloads(), "no route leads there");
    machine.0.lab.client.nft(COUNTERS);
    let tunnel = machine.tunnel();
    assert!(machine.downloads());
    let echo = Running::start({
        let mut command = machine.0.lab.server.command("python3");
        command.args(["-u", "-c", ECHO, HOST]);
        command
    });
    echo.wait_until("its port", || !echo.printed().is_empty());
    let port = echo.printed().trim().to_owned();
    assert!(
        machine
            .client(&["python3", "-c", ASK, HOST, &port])
            .starts_with("HELLO\nHELLO\nrefused\nforbidden\n")
    );
    for network in [&machine.0.lab.server, &machine.0.lab.client] {
        network.set("ipv4/ping_group_range", "0 2147483647");
    }
    assert_eq!(machine.client(&["python3", "-c", PING, HOST]), "7 content, 8 content\n");
    // The programs' packets, and Manyway's own.
    assert!(machine.counted("tun_host") > 0 && machine.counted("links_server") > 0);
    assert_eq!(machine.counted("tun_server"), 0);
    let status = machine.client(&[MANYWAY, "status"]);
    assert!(status.contains("tunnel") && !status.contains("manyway-tun"), "{status}");
    machine.start_tunnel(&[]).end().expect(1).says("another tunnel runs on this machine");

    tunnel.signal("TERM");
    tunnel.end().expect(0);
    assert_eq!(machine.rules(), 0);
    assert!(!machine.client(&["ip", "link"]).contains("manyway-tun"));
    assert!(!machine.downloads());
}

#[test]
fn a_machine_reaches_hosts_by_ipv4_over_links_that_have_ipv6_alone() {
    let Some(machine) = Scene::over(Family::V6).filter(|_| have(&[("python3", "--version")])).map(Machine)
    else {
        return;
    };
    assert_eq!(machine.client(&["ip", "-4", "address", "show", "scope", "global"]), "");
    let echo = Running::start({
        let mut command = machine.0.lab.server.command("python3");
        command.args(["-u", "-c", ECHO, HOST]);
        command
    });
    echo.wait_until("its port", || !echo.printed().is_empty());
    let tunnel = machine.tunnel();
    assert!(machine.downloads(), "{}", tunnel.messages());
    let asked = machine.client(&["python3", "-c", ASK, HOST, echo.printed().trim()]);
    assert!(asked.starts_with("HELLO\nHELLO\nrefused\nforbidden\n"), "{asked} {}", tunnel.messages());
}

#[test]
fn routes_that_another_program_removes_are_set_again_and_a_killed_tunnel_leaves_nothing_that_matters() {
    let Some(machine) = Machine::start() else { return };
    let tunnel = machine.tunnel();
    let rules = machine.rules();
    // As those of the kernel they are left alone by systemd-networkd.
    assert_eq!(machine.client(&["ip", "-d", "rule"]).matches("lookup 4455 proto kernel").count(), rules);
    let removals: [&[&str]; 2] = [
        &["route flush table 4455", "rule del table 4455"],
        &["address flush dev manyway-tun", "link set manyway-tun down"],
    ];
    for removal in removals {
        // A busy machine only ever adds to a time.
        let times: Vec<_> = (0..3).map(|_| machine.time_without(removal, rules)).collect();
        assert!(times.iter().any(|time| *time < Duration::from_secs(2)), "{removal:?} {times:?}");
    }
    tunnel.wait_for("were removed by another program, and set again");
    // One link gets another address, and the other is away for a while, and with it for a moment every network.
    let client = &machine.0.lab.client;
    client.ip("link set va2 down");
    client.ip("address del 10.7.1.1/24 dev va1");
    client.ip("address add 10.7.1.9/24 dev va1");
    assert!(machine.downloads());
    client.ip("link set va1 down");
    client.ip("link set va2 up");
    assert!(machine.downloads());

    tunnel.signal("KILL");
    wait_until("the end of the device", || !machine.client(&["ip", "link"]).contains("manyway-tun"));
    assert_eq!(machine.client(&["ip", "route", "show", "table", "4455"]), "");
    let next = machine.tunnel();
    assert!(machine.rules() == rules && machine.downloads());
    next.signal("INT");
    next.end().expect(0);
    assert_eq!(machine.rules(), 0);
}

// Five minutes, so it runs by night. The connection lasts for one of them without a network.
#[test]
fn when_a_network_comes_back_after_five_minutes_programs_are_served_within_two_seconds() {
    if !is_nightly() {
        return;
    }
    let Some(machine) = Machine::start() else { return };
    let tunnel = machine.tunnel();
    let client = &machine.0.lab.client;
    client.ip("link set va1 down");
    client.ip("link set va2 down");
    let gone = Instant::now();
    std::thread::sleep(Duration::from_secs(60));
    tunnel.wait_for("no working path to the peer for too long; connecting again");
    std::thread::sleep(Duration::from_secs(300).saturating_sub(gone.elapsed()));
    client.ip("link set va1 up");
    let start = Instant::now();
    assert!(machine.downloads(), "{}", tunnel.messages());
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}

// As a machine that was suspended, but for the clock of the tunnel, which goes on.
#[test]
fn a_tunnel_that_was_stopped_for_longer_than_the_idle_timeout_serves_programs_within_two_seconds() {
    let Some(machine) = Machine::start() else { return };
    let tunnel = machine.tunnel();
    assert!(machine.downloads());
    // A busy machine only ever adds to a time.
    let mut times: Vec<Duration> = Vec::new();
    while times.len() < 3 && times.last().is_none_or(|time| *time >= Duration::from_secs(2)) {
        tunnel.suspend();
        std::thread::sleep(Duration::from_secs(32));
        tunnel.signal("CONT");
        let start = Instant::now();
        assert!(machine.downloads(), "{}", tunnel.messages());
        times.push(start.elapsed());
    }
    assert!(times.last().is_some_and(|time| *time < Duration::from_secs(2)), "{times:?}");
}

#[test]
fn settings_that_would_make_a_tunnel_fail_in_silence_are_named() {
    let Some(machine) = Machine::start() else { return };
    let client = &machine.0.lab.client;
    client.set("ipv4/conf/all/rp_filter", "1");
    let refused = machine.start_tunnel(&[]).end().expect(1);
    refused.says("strict reverse-path filtering is on: sysctl -w net.ipv4.conf.va");
    client.set("ipv4/conf/all/rp_filter", "2");
    client.nft(
        "table inet wall {\nchain i { type filter hook input priority 0; ip6 daddr ::1 tcp dport > 0 drop; \
         iifname manyway-tun meta l4proto tcp drop; }\n}",
    );
    let refused = machine.start_tunnel(&[]).end().expect(1);
    refused.says("the addresses ::1 and fd6d:77c4:19a2::1 (see").says("as packets of manyway-tun either");
    assert_eq!(machine.rules(), 0);
}

#[test]
fn a_server_that_moves_is_found_by_its_name_and_on_port_53_past_the_tunnel() {
    let Some(lab) = Lab::start(2, Family::V4).filter(|_| have(&[("curl", "-V"), ("python3", "--version")]))
    else {
        return;
    };
    serve_web(&lab);
    // The only name server is asked over the second link, and says what is in its file now.
    lab.client.set_hosts("127.0.0.1 localhost\n");
    lab.client.set_name_server("10.7.2.2");
    let zone = lab.there().join("zone");
    std::fs::write(&zone, "10.7.1.2").unwrap();
    let mut names = lab.server.command("python3");
    names.args(["-u", "-c", NAMES, "10.7.2.2", zone.to_str().unwrap()]);
    let names = Running::start(names);
    names.wait_until("the name server", || names.printed().contains("ready"));

    let server = serve_at(&lab, "10.7.1.2");
    let mut machine = Machine(Scene { lab, server });
    let tunnel = machine.tunnel();
    assert!(machine.downloads());
    machine.0.lab.server.ip("addr add 10.7.1.7/24 dev vb1");
    std::fs::write(&zone, "10.7.1.7").unwrap();
    let moved = serve_at(&machine.0.lab, "10.7.1.7");
    std::mem::replace(&mut machine.0.server, moved).stop().expect(0);
    tunnel.wait_for("connected again");
    assert!(machine.downloads());
}

/// Serves at port 53 of this address, always with the same keys, and a ticket that names `moving.test`.
fn serve_at(lab: &Lab, address: &str) -> Server {
    lab.server.set_hosts(&format!("{address} moving.test\n"));
    let listen = format!("{address}:53");
    let options = ["--egress", "--allow", HOST, "--listen", &listen, "--advertise", "moving.test:53"];
    let mut command = lab.serving(&lab.there(), &options);
    command.env("MANYWAY_HOME", lab.there().join("home"));
    Server::start(command)
}

/// A name server that knows one IPv4 address, that in a file.
const NAMES: &str = "\
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((sys.argv[1], 53))
print('ready')
while True:
    query, source = s.recvfrom(2000)
    end = query.index(0, 12) + 5
    is_a = query[end - 4:end - 2] == b'\\0\\1'
    address = socket.inet_aton(open(sys.argv[2]).read())
    record = b'\\xc0\\x0c\\0\\1\\0\\1\\0\\0\\0\\1\\0\\4' + address if is_a else b''
    s.sendto(query[:2] + b'\\x81\\x80\\0\\1' + bytes([0, is_a]) + b'\\0' * 4 + query[12:end] + record, source)
";
