//! Two hosts joined by a veth pair, and one measurement between them.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use manyway_sim::pair::Side;

use super::peers::Peers;
use super::sample::Sample;
use super::{CpuOptions, Subject, machine};
use crate::Stop;
use crate::agent::document::{Assignment, CarrierSpec, Exchange, Load, ManywaySpec, Pair, Report, TcpSpec};
use crate::contender::{Carrier, PathDetection, Through, Verb, Wire};
use crate::error::LabError;
use crate::hosts::Hosts;
use crate::real::peer;
use crate::real::process::Trouble;
use crate::real::session::Session;
use crate::real::through::{self, Verbs, beside};
use crate::scenario::{Ending, Scenario};

/// The hosts, with their interfaces configured.
pub(super) struct Stage {
    hosts: Hosts,
    program: PathBuf,
    /// The command whose verbs carry programs.
    manyway: PathBuf,
    /// The libraries of others, or why there are none.
    peers: Result<Peers, String>,
    duration: Duration,
    stop: Stop,
    /// Whether offload can be disabled.
    has_switch: bool,
}

/// What came of a measurement.
#[derive(Debug)]
pub(super) enum Measured {
    /// Figures, with a remark for the reader.
    Sample(Sample, Option<String>),
    /// A program of others failed: the reason.
    LeftOut(String),
}

impl Stage {
    pub(super) fn make(program: &Path, options: &CpuOptions) -> Result<Self, LabError> {
        let hosts = Hosts::make(&bare())?;
        let (client, server) = (hosts.name(Side::Client), hosts.name(Side::Server));
        ip(&[
            "link", "add", DEVICE, "netns", client, "type", "veth", "peer", "name", DEVICE, "netns", server,
        ])?;
        for (namespace, address) in [(client, CLIENT), (server, SERVER)] {
            ip(&["-n", namespace, "address", "add", &format!("{address}/24"), "dev", DEVICE])?;
            ip(&["-n", namespace, "link", "set", DEVICE, "mtu", &MTU.to_string(), "up"])?;
        }
        await_carrier(client)?;
        await_carrier(server)?;
        Ok(Self {
            hosts,
            program: program.to_owned(),
            manyway: beside(program),
            peers: Peers::find(program, options.peers.as_deref()),
            duration: options.duration.max(SHORTEST),
            stop: options.stop.clone(),
            has_switch: Command::new("ethtool").arg("--version").output().is_ok(),
        })
    }

    /// Duration of a measurement.
    pub(super) fn duration(&self) -> Duration {
        self.duration
    }

    /// Measures a subject once.
    pub(super) fn measure(&self, subject: Subject) -> Result<Measured, LabError> {
        self.set_offload(subject)?;
        match carrier(subject) {
            Some(carrier) => self.by_agents(subject, &carrier),
            None => self.by_peers(subject),
        }
    }

    /// The processes are two of the program of others.
    fn by_peers(&self, subject: Subject) -> Result<Measured, LabError> {
        let at = |side, program: &Path| self.hosts.command(side, program);
        let with = (IpAddr::V4(SERVER), self.duration);
        let left_out = |reason: &str| Measured::LeftOut(format!("{subject} is left out: {reason}"));
        let peers = match &self.peers {
            Ok(peers) => peers,
            Err(reason) => return Ok(left_out(reason)),
        };
        match peers.measure(&subject.to_string(), with, &at, &self.stop) {
            Ok(sample) => Ok(Measured::Sample(sample, Some(peers.versions()))),
            Err(Trouble::Failure(text)) => Ok(left_out(&text)),
            Err(Trouble::Lab(error)) => Err(error),
        }
    }

    /// The processes are agents of the lab.
    fn by_agents(&self, subject: Subject, carrier: &CarrierSpec) -> Result<Measured, LabError> {
        let assignment = |side| self.assignment(side, carrier.clone());
        let verbs = subject.through().map(|through| {
            let exchanges = assignment(Side::Client).exchanges;
            let route = (IpAddr::V4(CLIENT), IpAddr::V4(SERVER));
            Verbs::start(&self.hosts, &self.manyway, (through, &exchanges, route), &self.stop).map_err(
                |trouble| match trouble {
                    Trouble::Failure(text) => LabError::System(format!("{subject}: {text}")),
                    Trouble::Lab(error) => error,
                },
            )
        });
        let verbs = verbs.transpose()?;
        let command = |side| match &verbs {
            Some(verbs) if side == Side::Client => verbs.command(&self.hosts, &self.program),
            Some(_) | None => self.hosts.command(side, &self.program),
        };
        let start = |side| (command(side), assignment(side));
        let mut session = Session::start(start(Side::Client), start(Side::Server), &self.stop)?;
        let packets = self.received()?;
        let mut worked = Duration::ZERO;
        if session.set_up()? {
            let before = machine::busy_time();
            session.run(Instant::now())?;
            worked = machine::busy_time().saturating_sub(before);
        }
        let packets = packets.until(&self.received()?);
        let end = session.close();
        if let Some(failure) = end.failure {
            let words = verbs.map(|verbs| verbs.words()).unwrap_or_default();
            return Err(LabError::System(format!("{subject}: {failure} {words}")));
        }
        let (Some(client), Some(server)) = (end.client, end.server) else {
            return Err(LabError::System(format!("{subject}: an end did not report")));
        };
        let sample = sample(&client, &server, worked)
            .ok_or_else(|| LabError::System(format!("{subject}: nothing arrived")))?;
        Ok(Measured::Sample(sample, remark(subject, packets)))
    }

    fn assignment(&self, side: Side, carrier: CarrierSpec) -> Assignment {
        let load = Load::Bulk { size: None, rate: None, chunk: None };
        Assignment {
            end: side.into(),
            carrier,
            exchanges: vec![Exchange { up: true, down: false, load }],
            dealing: None,
            duration: self.duration,
            end_at: self.duration + GRACE,
            seed: 0,
        }
    }

    /// Why a subject cannot be measured here.
    pub(super) fn lacks(&self, subject: Subject) -> Option<String> {
        if let Some(through) = subject.through() {
            return through::check(&self.manyway, &through)
                .err()
                .map(|reason| format!("{subject} is left out: {reason}"));
        }
        if subject.is_peer() {
            return match &self.peers {
                Ok(peers) if peers.has(&subject.to_string()) => None,
                Ok(_) => Some(format!("{subject} is left out: the program of the peers is without it")),
                // The same for all of them, and told once.
                Err(reason) => Some(format!("quinn and s2n-quic are left out: {reason}")),
            };
        }
        let needs_switch = subject == Subject::TcpWithoutOffload && !self.has_switch;
        needs_switch.then(|| {
            "kernel TCP without offload is left out: `ethtool`, which switches it off, is not installed"
                .to_owned()
        })
    }

    /// Enables packets of 64 KiB from host to host, or makes the system segment them before they leave.
    fn set_offload(&self, subject: Subject) -> Result<(), LabError> {
        if !self.has_switch {
            return Ok(());
        }
        let state = if subject == Subject::TcpWithoutOffload { "off" } else { "on" };
        for side in [Side::Client, Side::Server] {
            let mut command = self.hosts.command(side, Path::new("ethtool"));
            let output = command.args(["-K", DEVICE, "tso", state, "gso", state]).output();
            let output = output.map_err(|error| LabError::System(format!("ethtool: {error}")))?;
            if !output.status.success() {
                let text = String::from_utf8_lossy(&output.stderr);
                return Err(LabError::System(format!("ethtool -K {DEVICE}: {}", text.trim())));
            }
        }
        Ok(())
    }

    /// Data that the receiver's interface has accepted so far.
    fn received(&self) -> Result<Counts, LabError> {
        let text = ip(&["-n", self.hosts.name(Side::Server), "-j", "-s", "link", "show", DEVICE])?;
        let json: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        let count = |name| json.pointer(&format!("/0/stats64/rx/{name}")).and_then(serde_json::Value::as_u64);
        Ok(Counts { packets: count("packets").unwrap_or(0), bytes: count("bytes").unwrap_or(0) })
    }
}

/// What an interface took.
#[derive(Debug, Clone, Copy)]
struct Counts {
    packets: u64,
    bytes: u64,
}

impl Counts {
    fn until(self, later: &Self) -> Self {
        Self {
            packets: later.packets.saturating_sub(self.packets),
            bytes: later.bytes.saturating_sub(self.bytes),
        }
    }
}

/// What carries the traffic of a subject between agents of the lab; `None` for one that has a program of its own.
fn carrier(subject: Subject) -> Option<CarrierSpec> {
    let server = IpAddr::V4(SERVER);
    let manyway = ManywaySpec { remotes: vec![server], discover: true, paths: 1, ..ManywaySpec::default() };
    let sockets = |verb| through::sockets(&Through::new(verb), (IpAddr::V4(CLIENT), server));
    Some(match subject {
        Subject::Manyway => CarrierSpec::Manyway(manyway),
        Subject::ManywayTcp => CarrierSpec::Manyway(ManywaySpec { carrier: Carrier::Tcp, ..manyway }),
        Subject::ManywayMmsp1 => CarrierSpec::Manyway(ManywaySpec {
            wire: Wire::Mmsp1,
            detection: PathDetection::Fast,
            scheduler: Some("earliest".to_owned()),
            congestion: Some("bbr".to_owned()),
            ..manyway
        }),
        Subject::Run => CarrierSpec::Sockets(sockets(Verb::Run)),
        Subject::Tunnel => CarrierSpec::Sockets(sockets(Verb::Tunnel)),
        Subject::WireGuard => CarrierSpec::Sockets(sockets(Verb::WireGuard)),
        Subject::Tcp | Subject::TcpWithoutOffload => CarrierSpec::Tcp(TcpSpec {
            congestion: "cubic".to_owned(),
            pairs: vec![Pair { client: IpAddr::V4(CLIENT), server }],
            multipath: None,
        }),
        Subject::Udp => CarrierSpec::Udp { remote: server, segment: MTU - 28 },
        Subject::Quinn | Subject::S2nQuic => return None,
    })
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn sample(client: &Report, server: &Report, worked: Duration) -> Option<Sample> {
    let arrivals = &server.received.first()?.as_ref()?.arrivals;
    let sent = client.sent.first().copied().flatten()?;
    let bytes = arrivals.total().get() as f64;
    if arrivals.total().get() == 0 {
        return None;
    }
    let cost = |time: Duration| time.as_secs_f64() / bytes * 1e9;
    Some(Sample {
        gigabits: arrivals.goodput().bits_per_second() as f64 / 1e9,
        sender: cost(client.cpu),
        receiver: cost(server.cpu),
        machine: cost(worked),
        lost: (1.0 - bytes / sent as f64).max(0.0),
    })
}

/// Packets larger than the link's MTU are those that offload leaves unsegmented between two namespaces.
fn remark(subject: Subject, taken: Counts) -> Option<String> {
    if subject == Subject::WireGuard {
        return Some(format!(
            "{}; its project published 7.3 Gbit/s over 8 cores for a newer one, with offload of segmentation",
            peer::wireguard_version()
        ));
    }
    let mean = taken.bytes.checked_div(taken.packets)?;
    (subject == Subject::TcpWithoutOffload && mean > u64::from(MTU) + ETHERNET).then(|| {
        format!("offload could not be switched off for {subject}: packets had {mean} bytes on average")
    })
}

/// Hosts without interfaces.
fn bare() -> Scenario {
    Scenario {
        name: "cpu".to_owned(),
        title: String::new(),
        group: String::new(),
        source: String::new(),
        duration: Duration::ZERO,
        client: Vec::new(),
        server: Vec::new(),
        links: Vec::new(),
        routes: Vec::new(),
        cross_routes: Vec::new(),
        traffic: Vec::new(),
        cross_traffic: Vec::new(),
        events: Vec::new(),
        ending: Ending::Complete,
        damage: None,
    }
}

fn ip(arguments: &[&str]) -> Result<String, LabError> {
    let failed = |error| LabError::Io { doing: "running ip".to_owned(), error };
    let output = Command::new("ip").args(arguments).output().map_err(failed)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Err(LabError::System(format!("ip refuses ({}): {}", arguments.join(" "), words.trim())))
}

/// Waits until the system has noticed that both ends of the cable are up, for at most [`CARRIER_TIME`].
fn await_carrier(namespace: &str) -> Result<(), LabError> {
    let until = Instant::now() + CARRIER_TIME;
    while !ip(&["-n", namespace, "link", "show", DEVICE])?.contains("state UP") && Instant::now() < until {
        std::thread::sleep(CARRIER_STEP);
    }
    Ok(())
}

/// On a busy machine it takes a second.
const CARRIER_TIME: Duration = Duration::from_secs(5);
const CARRIER_STEP: Duration = Duration::from_millis(10);

/// Largest IP packet of the link.
pub(super) const MTU: u16 = 1500;
const DEVICE: &str = "cable";
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 89, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 89, 0, 2);
const ETHERNET: u64 = 18;
const SHORTEST: Duration = Duration::from_millis(100);
/// Time for data in flight.
const GRACE: Duration = Duration::from_secs(1);
