//! What moving packets costs: the links against a bare copy from one device to the other.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use manyway_proto::{ByteCount, Rate};
use manyway_sim::link::{LinkConfig, RateModel};
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::time::Timespec;

use super::clock::processor_time;
use super::{Emulator, priority};
use crate::hosts::Hosts;
use crate::scenario::{Checksum, Interface, Link, Route, Side};
use crate::{LabError, Scenario};

/// Three measurements of the same run, each with IP packets of 1500 bytes in one direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speed {
    /// A thread that does nothing but read from one device and write to the other, as fast as it can.
    pub copy: Load,
    /// The emulator over a link without limits, as fast as it can.
    pub links: Load,
    /// The emulator over a link of 1 Gbit/s, offered a little more.
    pub gigabit: Load,
}

/// What a thread moved, and what of a core that took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// Packets given to the receiving host.
    pub packets: u64,
    /// Their bytes a second.
    pub rate: Rate,
    /// Processor time of the thread, with what the system does in its calls: all that the sending of a packet to the
    /// receiving host's socket takes.
    pub busy: Duration,
    /// How long it ran.
    pub time: Duration,
}

impl Load {
    /// Packets a second.
    pub fn packets_per_second(&self) -> f64 {
        self.packets as f64 / self.time.as_secs_f64()
    }

    /// Processor time over time.
    pub fn core_share(&self) -> f64 {
        self.busy.as_secs_f64() / self.time.as_secs_f64()
    }

    /// What one whole core would move, in packets a second.
    pub fn packets_per_core_second(&self) -> f64 {
        self.packets as f64 / self.busy.as_secs_f64()
    }

    fn new(packets: u64, busy: Duration, time: Duration) -> Self {
        Self { packets, rate: ByteCount(packets * PACKET).per(time), busy, time }
    }
}

/// Measures for `time` each.
///
/// # Errors
/// As [`Hosts::make`] and [`Emulator::start`].
pub fn speed(time: Duration) -> Result<Speed, LabError> {
    let gigabit = Rate::from_bits_per_second(1_000_000_000);
    Ok(Speed {
        copy: copy(time)?,
        links: links(time, RateModel::Unlimited)?,
        gigabit: links(time, RateModel::Fixed(gigabit))?,
    })
}

/// Bytes of an IP packet, and of its UDP payload.
const PACKET: u64 = 1_500;
const PAYLOAD: usize = 1_472;
/// Packets in a millisecond at 5 % more than 1 Gbit/s.
const GIGABIT_MILLISECOND: u32 = 88;

fn copy(time: Duration) -> Result<Load, LabError> {
    let hosts = Hosts::make(&scenario(RateModel::Unlimited))?;
    let [from, to] = hosts.devices() else {
        return Err(LabError::System("two devices were expected".into()));
    };
    let end = AtomicBool::new(false);
    thread::scope(|scope| {
        let copier = scope.spawn(|| move_bare(from, to, &end));
        let sent = flood(&hosts, time, None);
        end.store(true, Ordering::Relaxed);
        let moved = copier.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
        let (packets, busy) = moved.map_err(|error| LabError::Io { doing: "copying".into(), error })?;
        Ok(Load::new(packets, busy, sent?))
    })
}

fn links(time: Duration, rate: RateModel) -> Result<Load, LabError> {
    let burst = (rate != RateModel::Unlimited).then_some(GIGABIT_MILLISECOND);
    let scenario = scenario(rate);
    let hosts = Hosts::make(&scenario)?;
    let emulator = Emulator::start(&scenario, &hosts, 1)?;
    let before = emulator.control().snapshot()?;
    let time = flood(&hosts, time, burst)?;
    let after = emulator.finish()?.totals;
    let received = after.interfaces.last().map_or(0, |interface| interface.received.packets);
    Ok(Load::new(received, after.busy.saturating_sub(before.busy), time))
}

/// Sends packets from client to server, `burst` in each millisecond or as fast as it goes; gives the time that took.
fn flood(hosts: &Hosts, time: Duration, burst: Option<u32>) -> Result<Duration, LabError> {
    let failed = |error| LabError::Io { doing: "sending".into(), error };
    let [client, server] = [Side::Client, Side::Server].map(|side| hosts.addresses(side, 0).first().copied());
    let (Some(client), Some(server)) = (client, server) else { return Ok(Duration::ZERO) };
    let bind = |address| move || UdpSocket::bind(SocketAddr::new(address, 0));
    let receiver = hosts.inside(Side::Server, bind(server))?.map_err(failed)?;
    let sender = hosts.inside(Side::Client, bind(client))?.map_err(failed)?;
    sender.connect(receiver.local_addr().map_err(failed)?).map_err(failed)?;
    let payload = [0; PAYLOAD];
    let start = Instant::now();
    let mut next = start;
    while start.elapsed() < time {
        for _ in 0..burst.unwrap_or(GIGABIT_MILLISECOND) {
            sender.send(&payload).map_err(failed)?;
        }
        if burst.is_some() {
            next += Duration::from_millis(1);
            thread::sleep(next.saturating_duration_since(Instant::now()));
        }
    }
    Ok(start.elapsed())
}

/// Copies packets until `end`; gives their number and the thread's processor time.
fn move_bare(from: &OwnedFd, to: &OwnedFd, end: &AtomicBool) -> io::Result<(u64, Duration)> {
    priority::raise();
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, from, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
    let mut ready = Vec::with_capacity(1);
    let mut packet = vec![0; 1 << 16];
    let tenth = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    let (mut packets, before) = (0, processor_time());
    while !end.load(Ordering::Relaxed) {
        ready.clear();
        epoll::wait(&epoll, spare_capacity(&mut ready), Some(&tenth))?;
        while let Ok(length) = rustix::io::read(from, packet.as_mut_slice()) {
            let is_taken = rustix::io::write(to, packet.get(..length).unwrap_or_default()).is_ok();
            packets += u64::from(is_taken && length == PAYLOAD + 28);
        }
    }
    Ok((packets, processor_time().saturating_sub(before)))
}

/// An interface at each host, and a link between them.
fn scenario(rate: RateModel) -> Scenario {
    let interface =
        |name: &str| Interface { name: name.into(), addresses: Vec::new(), mtu: 1500, nat: None, cost: 0 };
    let config = LinkConfig::default().with_rate(rate);
    Scenario {
        name: "speed".into(),
        title: "One link in one direction".into(),
        group: "bench".into(),
        source: String::new(),
        duration: Duration::ZERO,
        client: vec![interface("near")],
        server: vec![interface("far")],
        links: vec![Link {
            name: "link".into(),
            up: config.clone(),
            down: config,
            checksum: Checksum::Stale,
        }],
        routes: vec![Route { name: "near".into(), client: 0, server: 0, links: vec![0], shares: Vec::new() }],
        traffic: Vec::new(),
        events: Vec::new(),
    }
}
