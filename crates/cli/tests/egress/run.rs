//! `manyway run`: commands whose only network is a server's.

use std::path::Path;
use std::time::Duration;

use super::hosts::{HOST, WEB, serve_web, web_hash};
use crate::common::lab::{Family, Lab};
use crate::common::program::{MANYWAY, Running, Server, have, wait_until};
use crate::common::pty::AtScreen;

/// Bytes of a download.
pub(super) const SIZE: u64 = 1_000_000;

pub(super) struct Scene {
    pub(super) lab: Lab,
    pub(super) server: Server,
}

impl Scene {
    pub(super) fn start() -> Option<Self> {
        Self::over(Family::V4)
    }

    /// With links of this family.
    pub(super) fn over(family: Family) -> Option<Self> {
        let lab = Lab::start(2, family)?;
        if !have(&[("curl", "-V")]) {
            return None;
        }
        serve_web(&lab);
        let server = lab.serve(&["--egress", "--allow", HOST]);
        Some(Self { lab, server })
    }

    /// Starts a command at the client.
    fn run(&self, command: &[&str]) -> Running {
        self.lab.start_client(&[&["run", &self.server.ticket, "--"], command].concat())
    }

    pub(super) fn url(path: u64) -> String {
        format!("http://{HOST}:{WEB}/{path}")
    }
}

#[test]
fn a_command_connects_from_the_server_and_ends_the_command_with_its_status() {
    let Some(scene) = Scene::start() else { return };
    let file = scene.lab.here().join("page");
    let fetch = |to: &str| ["curl", "-sS", "-m", "20", "-o", file.to_str().unwrap(), to].map(str::to_owned);
    let run = |command: &[String]| {
        let words: Vec<_> = command.iter().map(String::as_str).collect();
        scene.run(&words).end()
    };
    // Without Manyway this host is not reached: no route leads to it.
    let direct = scene.lab.client.command("curl").args(["-sS", "-m", "5", &Scene::url(1)]).output().unwrap();
    assert_ne!(direct.status.code(), Some(0), "{direct:?}");
    let done = run(&fetch(&Scene::url(SIZE)));
    assert_eq!((done.code, done.out.as_str(), done.err.as_str()), (Some(0), "", ""), "{done:?}");
    assert_eq!(blake3::hash(&std::fs::read(&file).unwrap()), web_hash(SIZE));
    // The server forbids the destination: the program sees a reset, while it connects (7) or later (56); the user sees
    // the reason.
    let done = run(&fetch("http://10.9.0.2:80/"));
    assert!(
        matches!(done.code, Some(7 | 56)) && done.err.contains("forbidden by the rules of the server"),
        "{done:?}"
    );
    let done = scene.run(&["no-such-program"]).end();
    assert!(done.code == Some(127) && done.err.contains("no-such-program: command not found"), "{done:?}");
    let done = scene.run(&["sh", "-c", "echo printed; kill -KILL $$"]).end();
    assert_eq!((done.code, done.out.as_str()), (Some(137), "printed\n"), "{done:?}");
}

#[test]
fn a_command_reaches_hosts_by_ipv4_over_links_that_have_ipv6_alone() {
    let Some(scene) = Scene::over(Family::V6) else { return };
    let file = scene.lab.here().join("page");
    let fetch = ["curl", "-sS", "-m", "20", "-o", file.to_str().unwrap(), &Scene::url(SIZE)];
    scene.run(&fetch).end().expect(0);
    assert_eq!(blake3::hash(&std::fs::read(&file).unwrap()), web_hash(SIZE));
}

#[test]
fn run_says_how_a_server_without_egress_must_be_started() {
    let Some(lab) = Lab::start(1, Family::V4) else { return };
    let server = lab.serve(&[]);
    lab.run_client(&["run", &server.ticket, "--", "true"]).expect(5).says("manyway serve --egress");
}

#[test]
fn datagrams_of_a_command_reach_the_servers_side_and_its_resolver_is_inside_the_namespace() {
    let Some(scene) = Scene::start() else { return };
    if !have(&[("python3", "--version")]) {
        return;
    }
    let echo = Running::start({
        let mut command = scene.lab.server.command("python3");
        command.args(["-u", "-c", ECHO, HOST]);
        command
    });
    echo.wait_until("its port", || !echo.printed().is_empty());
    let port = echo.printed().trim().to_owned();
    // An allowed destination, also behind a forbidden one, a port where nothing listens, a forbidden one, and the name
    // server that the namespace names.
    let done = scene.run(&["python3", "-c", ASK, HOST, &port]).end();
    assert_eq!(
        (done.code, done.out.as_str()),
        (Some(0), "HELLO\nHELLO\nrefused\nforbidden\nnameserver 198.18.0.2\n"),
        "{done:?}"
    );
}

/// Answers datagrams with their text in capitals, and prints its port.
pub(super) const ECHO: &str = "\
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((sys.argv[1], 0))
print(s.getsockname()[1])
while True:
    text, source = s.recvfrom(2000)
    s.sendto(text.upper(), source)
";

/// Asks the first destination until it answers, again from sockets that send to a forbidden one before, and others until the
/// kernel reports that they refuse, or are forbidden.
pub(super) const ASK: &str = "\
import socket, sys, time
end = time.time() + 20
for before in (), ('10.9.0.2',):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(2)
    while time.time() < end:
        for host in (*before, sys.argv[1]):
            s.sendto(b'hello', (host, int(sys.argv[2])))
        try:
            print(s.recv(100).decode())
            break
        except TimeoutError:
            pass
for host, expected in ((sys.argv[1], 'refused'), ('10.9.0.2', 'forbidden')):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(0.2)
    s.connect((host, 5300))
    while time.time() < end:
        try:
            s.send(b'hello')
            s.recv(100)
        except TimeoutError:
            pass
        except OSError as error:
            print('refused' if isinstance(error, ConnectionRefusedError) else 'forbidden')
            break
print(open('/etc/resolv.conf').read().strip().splitlines()[-1])
";

#[test]
fn ping_reaches_hosts_over_ipv4_and_ipv6_and_hears_of_errors_unless_the_system_of_the_server_forbids_it() {
    let Some(lab) = Lab::start(2, Family::V4) else { return };
    if !have(&[("python3", "--version")]) {
        return;
    }
    for address in ["10.9.0.1/32", "10.9.0.4/32", "fd09::1/128"] {
        lab.server.ip(&format!("addr add {address} dev lo"));
    }
    lab.server.ip("route add unreachable 10.9.0.5");
    // As a router does that finds no host.
    lab.server.nft(
        "add table ip t; add chain ip t in { type filter hook input priority 0; }; \
         add rule ip t in ip daddr 10.9.0.4 icmp type echo-request reject with icmp type host-unreachable",
    );
    let server = lab.serve(&["--egress", "--allow", "10.9.0.0/24", "--allow", "fd09::1", "-vv"]);
    let ping = |hosts: &[&str]| {
        lab.start_client(&[&["run", &server.ticket, "--", "python3", "-c", PING], hosts].concat()).end()
    };
    let done = ping(&[HOST, HOST]);
    assert_eq!((done.code, done.out.as_str()), (Some(0), "No route to host\nNo route to host\n"), "{done:?}");
    assert_eq!(done.err.matches("ping_group_range").count(), 1, "{done:?}");
    server.running.wait_for("ping_group_range");

    lab.server.set("ipv4/ping_group_range", "0 2147483647");
    let done = ping(&[HOST, "fd09::1", "10.9.0.4", "10.9.0.5", "10.10.0.1"]);
    let expected =
        "7 content, 8 content\n7 content, 8 content\nNo route to host\nNo route to host\nNo route to host\n";
    assert_eq!((done.code, done.out.as_str()), (Some(0), expected), "{done:?}");

    // One socket asks a forbidden host before another, as fping does.
    let done =
        lab.start_client(&["run", &server.ticket, "--", "python3", "-c", PING_BOTH, "10.10.0.1", HOST]).end();
    assert_eq!((done.code, done.out.as_str()), (Some(0), "10.9.0.1\n"), "{done:?}");

    // In the same scene: a datagram that its program marks as a call.
    lab.start_client(&["run", &server.ticket, "--", "python3", "-c", CALL, HOST]).end().expect(0);
    server.running.wait_for("class: Some(Interactive)");
}

/// Sends a datagram with the DSCP EF, until the kernel reports that nothing listens.
const CALL: &str = "\
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 46 << 2)
s.settimeout(0.2)
s.connect((sys.argv[1], 5300))
for _ in range(50):
    try:
        s.send(b'hello')
        s.recv(100)
    except TimeoutError:
        pass
    except ConnectionRefusedError:
        break
else:
    sys.exit(1)
";

/// Sends an echo request to each host from one socket, and prints who replies first.
const PING_BOTH: &str = "\
import socket, struct, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
s.settimeout(10)
for host in sys.argv[1:]:
    s.sendto(struct.pack('!BBHHH', 8, 0, 0, 0, 1), (host, 0))
print(s.recvfrom(100)[1][0])
";

/// Sends two echo requests to each host, and prints the replies, or the error that the kernel reports.
pub(super) const PING: &str = "\
import os, socket, struct, sys
for host in sys.argv[1:]:
    if ':' in host:
        s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM, socket.IPPROTO_ICMPV6)
        kind = 128
    else:
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
        kind = 8
        # IP_RECVERR: also errors that may pass.
        s.setsockopt(socket.IPPROTO_IP, 11, 1)
    s.settimeout(10)
    s.connect((host, 0))
    try:
        replies = []
        for sequence in 7, 8:
            s.send(struct.pack('!BBHHH', kind, 0, 0, 0, sequence) + b'content')
            reply = s.recv(100)
            # The kernel has found this socket by the identifier.
            replies.append(str(struct.unpack('!H', reply[6:8])[0]) + ' ' + reply[8:].decode())
        print(', '.join(replies))
    except OSError as error:
        print(os.strerror(error.errno) if error.errno else error)
";

#[test]
fn a_signal_to_manyway_is_passed_on_and_the_command_decides_when_to_end() {
    let Some(scene) = Scene::start() else { return };
    let running = scene.run(&[
        "sh",
        "-c",
        "trap 'echo stopping; exit 5' TERM; echo ready; while :; do sleep 0.02; done",
    ]);
    running.wait_until("the command", || running.printed().contains("ready"));
    running.signal("TERM");
    let done = running.end();
    assert_eq!((done.code, done.out.as_str()), (Some(5), "ready\nstopping\n"), "{done:?}");
}

#[test]
fn ctrl_c_reaches_the_command_once_and_does_not_end_manyway() {
    let Some(scene) = Scene::start() else { return };
    let go = scene.lab.here().join("go");
    let script = format!(
        "n=0; trap 'n=$((n+1)); echo caught' INT; echo ready; until [ -e {} ]; do sleep 0.02; done; exit 4$n",
        go.display()
    );
    let mut command = scene.lab.client.command(MANYWAY);
    command
        .args(["run", &scene.server.ticket, "--", "sh", "-c", &script])
        .env("MANYWAY_HOME", scene.lab.here());
    let mut screen = AtScreen::start(&command, 80);
    screen.wait_until("the command", |text| text.contains("ready"));
    screen.write("\x03");
    screen.wait_until("the signal", |text| text.contains("caught"));
    // A second one, passed on by manyway, would come now.
    std::thread::sleep(Duration::from_millis(200));
    std::fs::write(&go, "").unwrap();
    assert_eq!(screen.end().0, Some(41));
}

/// Counts SIGHUP in one file, though it may be ignored at the start, until another one exists.
const HUPS: &str = "\
import os, signal, sys, time
count = 0
def caught(*_):
    global count
    count += 1
    open(sys.argv[1], 'w').write(str(count))
signal.signal(signal.SIGHUP, caught)
print('ready', flush=True)
while not os.path.exists(sys.argv[2]):
    time.sleep(0.02)
";

#[test]
fn a_closed_terminal_is_told_to_the_command_once_and_an_ignored_sighup_not_at_all() {
    let Some(scene) = Scene::start().filter(|_| have(&[("python3", "--version")])) else { return };
    let (count, go) = (scene.lab.here().join("count"), scene.lab.here().join("go"));
    let counted = || std::fs::read_to_string(&count).unwrap_or_default();
    let shell = |script: &str| {
        let mut command = scene.lab.client.command("sh");
        command.args(["-c", script, MANYWAY, "run", &scene.server.ticket, "--", "python3", "-c", HUPS]);
        command.args([&count, &go]).env("MANYWAY_HOME", scene.lab.here());
        command
    };
    // The shell leads the session; with its end, the system takes the terminal away from it and the others.
    let screen = AtScreen::start(&shell("\"$0\" \"$@\"; true"), 80);
    screen.wait_until("the command", |text| text.contains("ready"));
    drop(screen);
    wait_until("the signal", || !counted().is_empty());
    // A second one, passed on by manyway, would come now.
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(counted(), "1");
    std::fs::remove_file(&count).unwrap();

    let ignoring = Running::start(shell("trap '' HUP; exec \"$0\" \"$@\""));
    ignoring.wait_until("the command", || ignoring.printed().contains("ready"));
    ignoring.signal("HUP");
    std::thread::sleep(Duration::from_millis(200));
    std::fs::write(&go, "").unwrap();
    ignoring.end().expect(0);
    assert_eq!(counted(), "");
}

#[test]
fn a_command_whose_manyway_was_killed_has_no_way_out() {
    let Some(scene) = Scene::start() else { return };
    let (go, out) = (scene.lab.here().join("go"), scene.lab.here().join("out"));
    // An address of the client's own network, which every other process there reaches.
    let near = "http://10.7.1.2:4455/";
    let script = format!(
        "echo ready; until [ -e {} ]; do sleep 0.02; done; curl -sS -m 5 {near} >{1} 2>&1; echo $? >>{1}",
        go.display(),
        out.display(),
    );
    let running = scene.run(&["sh", "-c", &script]);
    running.wait_until("the command", || running.printed().contains("ready"));
    running.signal("KILL");
    wait_until("the end of manyway", || !running.is_running());
    std::fs::write(&go, "").unwrap();
    let text = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    wait_until("the command", || text(&out).ends_with("7\n"));
    assert!(
        text(&out).contains("Couldn't connect") || text(&out).contains("Could not connect"),
        "{}",
        text(&out)
    );
}
