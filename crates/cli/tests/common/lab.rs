//! Two network namespaces joined by links, for tests as root.
//!
//! Link N is a pair of interfaces: `vaN` with 10.7.N.1 and `fd00:7:N::1` in the client's namespace, `vbN` with 10.7.N.2
//! and `fd00:7:N::2` in the server's. Everything is removed when the [`Lab`] is dropped, even if the test fails;
//! leftovers of a killed test program are removed by the next one.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use manyway_sim::skipped::skip;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tempfile::TempDir;

use crate::common::program::{Finished, MANYWAY, Running, Server, wait_until};

/// A client and a server with links between them, and a directory for each.
pub(crate) struct Lab {
    pub(crate) client: Namespace,
    pub(crate) server: Namespace,
    name: String,
    family: Family,
    files: TempDir,
}

/// The address families of the links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
    Both,
}

/// The end of a link that silently drops incoming packets: neither end's system reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hole {
    Both,
    Back,
}

impl Lab {
    /// Creates this many links; `None`, and the test counts as skipped, where that is impossible.
    pub(crate) fn start(links: u8, family: Family) -> Option<Self> {
        if let Err(reason) = is_possible() {
            skip(reason);
            return None;
        }
        static LEFTOVERS: Once = Once::new();
        LEFTOVERS.call_once(remove_leftovers);
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        let (client, server) = (Namespace::new(format!("{name}a")), Namespace::new(format!("{name}b")));
        let files = TempDir::new().unwrap();
        for side in ["client", "server"] {
            std::fs::create_dir(files.path().join(side)).unwrap();
        }
        let lab = Self { client, server, name, family, files };
        (1..=links).for_each(|link| lab.add_link(link));
        Some(lab)
    }

    /// Makes a further host.
    pub(crate) fn host(&self, suffix: &str) -> Namespace {
        Namespace::new(format!("{}{suffix}", self.name))
    }

    /// Adds a link and waits until it carries packets.
    pub(crate) fn add_link(&self, link: u8) {
        let (near, far) = (format!("va{link}"), format!("vb{link}"));
        let (a, b) = (&self.client.name, &self.server.name);
        run(Command::new("ip")
            .args(["link", "add", &near, "netns", a, "type", "veth", "peer"])
            .args(["name", &far, "netns", b]));
        for (namespace, interface, host) in [(&self.client, &near, 1), (&self.server, &far, 2)] {
            if self.family != Family::V6 {
                namespace.ip(&format!("addr add 10.7.{link}.{host}/24 dev {interface}"));
            }
            if self.family != Family::V4 {
                namespace.ip(&format!("addr add fd00:7:{link}::{host}/64 dev {interface} nodad"));
            }
            namespace.ip(&format!("link set {interface} up"));
        }
        self.wait_for_carrier(link);
    }

    pub(crate) fn wait_for_carrier(&self, link: u8) {
        for (namespace, interface) in
            [(&self.client, format!("va{link}")), (&self.server, format!("vb{link}"))]
        {
            wait_until("the carrier", || {
                namespace.ip(&format!("link show {interface}")).contains("state UP")
            });
        }
    }

    /// Limits a link in both directions.
    pub(crate) fn limit(&self, link: u8, megabits: u32) {
        for (namespace, interface) in
            [(&self.client, format!("va{link}")), (&self.server, format!("vb{link}"))]
        {
            namespace.run(
                "tc",
                &format!("qdisc replace dev {interface} root tbf rate {megabits}mbit burst 16k latency 50ms"),
            );
        }
    }

    /// Removes the limit of every link, so that the rest of a transfer takes no time.
    pub(crate) fn unlimit(&self) {
        for namespace in [&self.client, &self.server] {
            namespace.unlimit();
        }
    }

    /// Makes a link a black hole, without any error.
    pub(crate) fn black_hole(&self, link: u8, hole: Hole) {
        self.client.nft(&dropping(&format!("va{link}")));
        if hole == Hole::Both {
            self.server.nft(&dropping(&format!("vb{link}")));
        }
    }

    /// Makes links black holes in both directions.
    pub(crate) fn black_holes(&self, links: &[u8]) {
        links.iter().for_each(|link| self.black_hole(*link, Hole::Both));
    }

    /// Drops UDP of one family on every link, without any error.
    pub(crate) fn drop_udp(&self, family: Family) {
        let protocol = if family == Family::V4 { "ipv4" } else { "ipv6" };
        for end in [&self.client, &self.server] {
            end.nft(&format!(
                "table inet hole {{\nchain {protocol} {{ type filter hook input priority 0; \
                 meta nfproto {protocol} meta l4proto udp drop; }}\n}}"
            ));
        }
    }

    /// Ends every black hole.
    pub(crate) fn release(&self) {
        self.client.nft("flush ruleset");
        self.server.nft("flush ruleset");
    }

    /// The client's directory.
    pub(crate) fn here(&self) -> PathBuf {
        self.files.path().join("client")
    }

    /// The directory that the server serves.
    pub(crate) fn there(&self) -> PathBuf {
        self.files.path().join("server")
    }

    /// Starts a server for [`Lab::there`].
    pub(crate) fn serve(&self, arguments: &[&str]) -> Server {
        Server::start(self.serving(&self.there(), arguments))
    }

    /// The command that [`Lab::serve`] runs. Unless `arguments` choose a carrier, TCP is off: it would carry data where a
    /// test blocks UDP.
    pub(crate) fn serving(&self, directory: &Path, arguments: &[&str]) -> Command {
        let mut command = self.server.command(MANYWAY);
        command.arg("serve").arg("--dir").arg(directory).args(arguments);
        if !arguments.iter().any(|argument| ["--carrier", "--wire"].contains(argument)) {
            command.args(["--carrier", "udp"]);
        }
        command
    }

    /// Starts `manyway` at the client, in its directory.
    pub(crate) fn start_client(&self, arguments: &[&str]) -> Running {
        let mut command = self.client.command(MANYWAY);
        command.current_dir(self.here()).args(arguments);
        Running::start(command)
    }

    /// Runs `manyway` at the client to its end.
    pub(crate) fn run_client(&self, arguments: &[&str]) -> Finished {
        self.start_client(arguments).end()
    }
}

/// A network namespace; dropping it removes it.
pub(crate) struct Namespace {
    pub(crate) name: String,
}

impl Namespace {
    fn new(name: String) -> Self {
        run(Command::new("ip").args(["netns", "add", &name]));
        let namespace = Self { name };
        namespace.ip("link set lo up");
        namespace
    }

    /// A program inside.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }

    /// Runs a program inside to its end; it must succeed.
    pub(crate) fn run(&self, program: &str, arguments: &str) -> String {
        run(self.command(program).args(arguments.split_whitespace()))
    }

    pub(crate) fn ip(&self, arguments: &str) -> String {
        run(Command::new("ip").args(["-n", &self.name]).args(arguments.split_whitespace()))
    }

    /// Runs code in this network; its sockets stay there.
    pub(crate) fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let network = File::open(format!("/run/netns/{}", self.name)).unwrap();
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                work()
            });
            worker.join().unwrap()
        })
    }

    /// Writes a system setting below `/proc/sys/net`.
    pub(crate) fn set(&self, setting: &str, value: &str) {
        self.inside(|| std::fs::write(format!("/proc/sys/net/{setting}"), value)).unwrap();
    }

    pub(crate) fn nft(&self, script: &str) {
        let mut child = self.command("nft").args(["-f", "-"]).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "nft: {script}");
    }

    /// Removes the limit of every interface that has one.
    pub(crate) fn unlimit(&self) {
        let queues = self.run("tc", "qdisc show");
        for words in queues.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()) {
            if let ["qdisc", "tbf", _, "dev", interface, ..] = words[..] {
                self.run("tc", &format!("qdisc delete dev {interface} root"));
            }
        }
    }

    /// Bytes that an interface sent so far. Starts no process, since tests ask until a figure is reached.
    pub(crate) fn sent(&self, interface: &str) -> u64 {
        let table = self.inside(|| std::fs::read_to_string("/proc/thread-self/net/dev")).unwrap();
        let mut rows = table.lines().filter_map(|row| row.trim_start().split_once(':'));
        let (_, figures) = rows.find(|(name, _)| *name == interface).unwrap();
        // Eight figures of what it received precede.
        figures.split_whitespace().nth(8).unwrap().parse().unwrap()
    }

    /// Writes `/etc/hosts` for programs inside.
    pub(crate) fn set_hosts(&self, text: &str) {
        self.write("hosts", text);
    }

    /// Names the name server of programs inside.
    pub(crate) fn set_name_server(&self, address: &str) {
        self.write("resolv.conf", &format!("nameserver {address}\n"));
    }

    fn write(&self, name: &str, text: &str) {
        let directory = self.settings();
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join(name), text).unwrap();
    }

    fn settings(&self) -> PathBuf {
        Path::new("/etc/netns").join(&self.name)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "delete", &self.name]).output();
        let _ = std::fs::remove_dir_all(self.settings());
    }
}

/// Rules that drop incoming packets of an interface; those of several interfaces add up.
fn dropping(interface: &str) -> String {
    format!(
        "table inet hole {{\nchain {interface} {{ type filter hook input priority 0; iifname \"{interface}\" drop; }}\n}}"
    )
}

fn is_possible() -> Result<(), String> {
    let id = Command::new("id").arg("-u").output().map_err(|error| error.to_string())?;
    if id.stdout.trim_ascii() != b"0" {
        return Err("network namespaces need root".to_owned());
    }
    for (program, argument) in [("ip", "-V"), ("tc", "-V"), ("nft", "-v")] {
        Command::new(program).arg(argument).output().map_err(|error| format!("{program}: {error}"))?;
    }
    let name = format!("{PREFIX}{}-try{:?}", std::process::id(), std::thread::current().id());
    let name: String = name.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
    let made =
        Command::new("ip").args(["netns", "add", &name]).output().map_err(|error| error.to_string())?;
    let _ = Command::new("ip").args(["netns", "delete", &name]).output();
    if made.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&made.stderr).into_owned()) }
}

/// Removes the namespaces of test programs that are gone, and kills what still runs in them.
fn remove_leftovers() {
    let list = run(Command::new("ip").args(["netns", "list"]));
    for name in list.lines().filter_map(|line| line.split_whitespace().next()) {
        let Some(rest) = name.strip_prefix(PREFIX) else { continue };
        let owner = rest.split('-').next().unwrap_or_default();
        if owner.parse::<u32>().is_err() || Path::new("/proc").join(owner).exists() {
            continue;
        }
        for process in run(Command::new("ip").args(["netns", "pids", name])).split_whitespace() {
            let _ = Command::new("kill").args(["-s", "KILL", process]).output();
        }
        drop(Namespace { name: name.to_owned() });
    }
}

#[track_caller]
fn run(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert!(status.success(), "{command:?}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

/// Prefix of the names of all these namespaces; the process ID follows.
const PREFIX: &str = "mwt";
