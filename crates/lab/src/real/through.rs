//! What carries programs: a server with `--egress` and a verb of `manyway` at the client, or a peer at both ends.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use manyway_sim::pair::Side;

use super::copies::copies;
use super::helper::Helper;
use super::peer::{self, Route};
use super::process::Trouble;
use crate::agent::document::{Exchange, Load, SocketsSpec};
use crate::contender::{Program, Through, Verb};
use crate::cpu::Peers;
use crate::error::LabError;
use crate::hosts::Hosts;
use crate::measures::count;
use crate::stop::Stop;

/// The verbs of a run. Dropping them ends their processes.
pub(crate) struct Verbs {
    through: Through,
    manyway: PathBuf,
    home: Home,
    /// Empty for a peer.
    ticket: String,
    /// The server, and the client unless it starts the program itself.
    ends: Vec<Helper>,
    /// Where the client logs its connection: its copies are counted.
    log: Option<PathBuf>,
}

impl Verbs {
    /// Starts both ends, and waits until programs can use them.
    pub(crate) fn start(
        hosts: &Hosts,
        manyway: &Path,
        (through, exchanges, route): (Through, &[Exchange], Route),
        stop: &Stop,
    ) -> Result<Self, Trouble> {
        hosts.ip(Side::Server, &format!("address replace {DESTINATION}/32 dev lo")).map_err(Trouble::Lab)?;
        let home = Home::make(hosts.name(Side::Client)).map_err(Trouble::Lab)?;
        let logs = through.program == Program::Srt && !through.verb.is_peer();
        let log = logs.then(|| home.0.join("log"));
        let of_peer = match through.verb {
            Verb::Direct => Some(Vec::new()),
            Verb::Ssh => Some(peer::ssh(hosts, &home.0, route, PROXY, stop)?.into()),
            Verb::WireGuard => Some(peer::wireguard(hosts, &home.0, route, DESTINATION, stop)?.into()),
            Verb::Forward | Verb::Proxy | Verb::Run | Verb::Tunnel => None,
        };
        if let Some(ends) = of_peer {
            let (manyway, ticket) = (manyway.to_owned(), String::new());
            return Ok(Self { through, manyway, home, ticket, ends, log });
        }
        let at = |side| {
            let mut command = hosts.command(side, manyway);
            home.settle(&mut command);
            command.args(["--json", "--quiet"]);
            command
        };
        let mut serve = at(Side::Server);
        serve.args(["serve", "--ephemeral", "--read-only", "--egress"]).arg("--dir").arg(&home.0);
        serve.args(["--allow", &DESTINATION.to_string()]);
        let mut server = Helper::start("manyway serve", serve)?;
        let announced = server.line(PATIENCE, stop)?;
        let ticket = ticket(&announced)
            .ok_or_else(|| Trouble::Failure(format!("manyway serve prints no ticket: {announced:.80}")))?;
        let mut ends = vec![server];
        if let Some(arguments) = arguments(through, exchanges) {
            let mut command = at(Side::Client);
            command.arg(through.verb.name()).arg(&ticket).args(arguments).args(logging(log.as_deref()));
            let mut client = Helper::start(through.verb.name(), command)?;
            client.line(PATIENCE, stop)?;
            ends.push(client);
        }
        Ok(Self { through, manyway: manyway.to_owned(), home, ticket, ends, log })
    }

    /// The command by which iperf3 at the client is carried.
    pub(super) fn iperf3(&self, hosts: &Hosts) -> Result<Command, Trouble> {
        if !self.through.verb.is_proxy() {
            return Ok(self.command(hosts, "iperf3"));
        }
        let file = self.home.0.join("proxychains");
        let settings = format!("strict_chain\nquiet_mode\n[ProxyList]\nsocks5 127.0.0.1 {PROXY}\n");
        let io = |error| Trouble::Lab(LabError::Io { doing: format!("writing {}", file.display()), error });
        fs::write(&file, settings).map_err(io)?;
        let mut command = self.command(hosts, BY_PROXY);
        command.arg("-q").arg("-f").arg(&file).arg("iperf3");
        Ok(command)
    }

    /// The command by which a program at the client is carried.
    pub(crate) fn command(&self, hosts: &Hosts, program: impl AsRef<OsStr>) -> Command {
        if self.through.verb != Verb::Run {
            return hosts.command(Side::Client, Path::new(program.as_ref()));
        }
        let mut command = hosts.command(Side::Client, &self.manyway);
        self.home.settle(&mut command);
        command.args(["--quiet", "run", &self.ticket]).args(logging(self.log.as_deref()));
        command.arg("--").arg(program);
        command
    }

    /// A directory for files of the run.
    pub(super) fn place(&self) -> &Path {
        &self.home.0
    }

    /// The program with QUIC libraries of others.
    pub(super) fn peers(&self) -> PathBuf {
        Peers::program(&self.manyway)
    }

    /// Ends both ends; returns what the log of the client tells of copies, if there is one, where the path from the local
    /// address `failed` failed.
    pub(super) fn end(&mut self, failed: Option<IpAddr>) -> Result<BTreeMap<&'static str, f64>, String> {
        let (Some(log), Some(failed)) = (&self.log, failed) else { return Ok(BTreeMap::new()) };
        // The client writes the last records at its end.
        if let [_, client] = self.ends.as_mut_slice() {
            client.interrupt(PATIENCE);
        }
        let copies = copies(log, failed)?;
        Ok(BTreeMap::from([("copies", count(copies.of_failed)), ("other copies", count(copies.others))]))
    }

    /// What they said for people, which is errors.
    pub(crate) fn words(&self) -> String {
        let words = self.ends.iter().map(Helper::words).filter(|words| !words.is_empty());
        words.collect::<Vec<_>>().join("; ")
    }
}

/// The sockets of a program that a verb carries, or what is in its place over this route.
pub(crate) fn sockets(through: &Through, (_, server): Route) -> SocketsSpec {
    let destination = if through.verb == Verb::Direct { server } else { DESTINATION.into() };
    let destination = SocketAddr::new(destination, PORT);
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    SocketsSpec {
        listen: destination,
        connect: match through.verb {
            Verb::Forward => SocketAddr::new(loopback, PORT),
            Verb::Proxy | Verb::Run | Verb::Tunnel | Verb::Ssh | Verb::WireGuard | Verb::Direct => {
                destination
            }
        },
        proxy: through.verb.is_proxy().then_some(SocketAddr::new(loopback, PROXY)),
        flows: through.flows,
    }
}

/// The command `manyway` beside the lab.
pub(crate) fn beside(lab: &Path) -> PathBuf {
    lab.with_file_name("manyway")
}

/// Whether this machine has what a contender needs.
///
/// # Errors
/// What is missing, and how to get it.
pub(crate) fn check(manyway: &Path, through: &Through) -> Result<(), String> {
    if !through.verb.is_peer() && !manyway.exists() {
        return Err(format!("there is no {}: build the command beside the lab", manyway.display()));
    }
    let program: &[_] = match through.program {
        Program::Own => &[],
        Program::Iperf3 if through.verb.is_proxy() => &[("iperf3", "--version"), (BY_PROXY, "-h")],
        Program::Iperf3 | Program::Curl => &[(through.program.name(), "--version")],
        Program::Srt => &[(SRT, "-version")],
        Program::Quinn => {
            let peers = Peers::find(manyway, None)?;
            return if peers.has("quinn") { Ok(()) } else { Err("manyway-peers has no quinn".to_owned()) };
        }
    };
    for (program, argument) in peer::programs(through.verb).iter().chain(program) {
        if let Err(error) = Command::new(program).arg(argument).output() {
            return Err(format!("{program}, which it needs, can not be run here ({error})"));
        }
    }
    Ok(())
}

/// The arguments with which the client logs its connection.
fn logging(log: Option<&Path>) -> impl Iterator<Item = &OsStr> {
    log.into_iter().flat_map(|log| ["--qlog".as_ref(), log.as_os_str()])
}

/// The arguments of a verb that runs beside the program, after the ticket.
fn arguments(through: Through, exchanges: &[Exchange]) -> Option<Vec<String>> {
    match through.verb {
        Verb::Run | Verb::Ssh | Verb::WireGuard | Verb::Direct => None,
        Verb::Proxy => Some(vec!["--listen".to_owned(), format!("127.0.0.1:{PROXY}")]),
        Verb::Tunnel => Some(vec!["--route".to_owned(), format!("{DESTINATION}/32")]),
        Verb::Forward => {
            let rule = |port: u16, end: &str| {
                ["-L".to_owned(), format!("127.0.0.1:{port}:{DESTINATION}:{port}{end}")]
            };
            if through.program.uses_udp() {
                return Some(rule(PORT, "/udp").into());
            }
            let datagrams = (0..)
                .zip(exchanges)
                .filter(|(_, exchange)| matches!(exchange.load, Load::Messages { lifetime: Some(_), .. }));
            let datagrams = datagrams.flat_map(|(number, _)| rule(PORT.saturating_add(number), "/udp"));
            Some(rule(PORT, "").into_iter().chain(datagrams).collect())
        }
    }
}

/// The ticket in what a server announces.
fn ticket(line: &str) -> Option<String> {
    let document: serde_json::Value = serde_json::from_str(line).ok()?;
    document.get("ticket")?.as_str().map(str::to_owned)
}

impl Drop for Verbs {
    fn drop(&mut self) {
        self.ends.clear();
        if self.through.verb == Verb::WireGuard {
            peer::remove_sockets();
        }
    }
}

/// A directory for keys and settings that no user has. Dropping it removes it.
struct Home(PathBuf);

impl Home {
    /// `name` is one that no other run has.
    fn make(name: &str) -> Result<Self, LabError> {
        let path = std::env::temp_dir().join(name);
        let io = |error| LabError::Io { doing: format!("making {}", path.display()), error };
        fs::create_dir_all(&path).map_err(io)?;
        Ok(Self(path))
    }

    fn settle(&self, command: &mut Command) {
        command.env("MANYWAY_HOME", &self.0).env_remove("MANYWAY_LOG");
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // What is left is in the directory of temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Lets a program that knows no proxy use one, by taking the place of functions of the C library.
pub(super) const BY_PROXY: &str = "proxychains4";
/// The program for SRT of Debian's package `srt-tools`.
pub(super) const SRT: &str = "srt-live-transmit";
/// An address of the server's host to which no link leads.
pub(super) const DESTINATION: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
/// Where programs listen there.
pub(super) const PORT: u16 = 47_000;
/// Where the proxy listens.
pub(super) const PROXY: u16 = 1080;
/// Time for a verb to connect.
const PATIENCE: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forward_has_a_port_for_tcp_and_one_for_each_exchange_of_datagrams() {
        let messages = |lifetime| Load::Messages { size: 100, interval: PATIENCE, lifetime };
        let exchange = |load| Exchange { up: true, down: true, load };
        let loads = [messages(None), messages(Some(PATIENCE)), messages(None), messages(Some(PATIENCE))];
        let words = arguments(Through::new(Verb::Forward), &loads.map(exchange)).unwrap();
        let rules: Vec<&str> = words.iter().map(String::as_str).filter(|word| *word != "-L").collect();
        assert_eq!(
            rules,
            [
                "127.0.0.1:47000:10.99.0.1:47000",
                "127.0.0.1:47001:10.99.0.1:47001/udp",
                "127.0.0.1:47003:10.99.0.1:47003/udp",
            ]
        );
        assert_eq!(arguments(Through::new(Verb::Run), &[]), None);
        let quinn = Through { program: Program::Quinn, ..Through::new(Verb::Forward) };
        assert_eq!(arguments(quinn, &[]).unwrap(), ["-L", "127.0.0.1:47000:10.99.0.1:47000/udp"]);
    }

    #[test]
    fn the_ticket_of_a_server_is_found() {
        assert_eq!(ticket(r#"{"ticket":"mw1x","listening":[]}"#).as_deref(), Some("mw1x"));
        assert_eq!((ticket("mw1x"), ticket(r#"{"ticket":null}"#)), (None, None));
    }
}
