//! Packets per core: the links compared with a bare copy from one device to the other.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use manyway_proto::Rate;
use manyway_sim::link::{LinkConfig, RateModel};
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::time::Timespec;

use super::trial::Trial;
use super::{Figure, Property, side_by_side};
use crate::emulator::{Emulator, processor_time, raise_priority};
use crate::hosts::Hosts;
use crate::measures::count;
use crate::scenario::Side;
use crate::{LabError, Scenario};

/// Packets that a thread moved, and its processor time.
#[derive(Debug, Clone, Copy)]
struct Load {
    /// Packets delivered to the receiving host.
    packets: u64,
    /// Processor time of the thread, including the system's work in its calls: all of the delivery of a packet to the
    /// receiving host's socket.
    busy: Duration,
    /// Duration.
    time: Duration,
}

impl Load {
    fn bits(&self) -> f64 {
        count(self.packets * PACKET * 8)
    }
}

/// Packets of 1500 bytes in one direction at full speed: through a thread that only reads from one device and writes to
/// the other, and through the links; then over a link of 1 Gbit/s, offered a little more.
pub(super) fn figures(trial: Trial<'_>) -> Result<Vec<Figure>, LabError> {
    let time = trial.extent.of(Duration::from_secs(3));
    let links = |rate| trial.stop.check().and_then(|()| links(time, rate));
    let [bare, open, gigabit] = [
        copy(time)?,
        links(RateModel::Unlimited)?,
        links(RateModel::Fixed(Rate::from_bits_per_second(1_000_000_000)))?,
    ];
    let gigabits = |setting, load: &Load| {
        let rate = load.bits() / load.time.as_secs_f64() / 1e9;
        Figure::new(Property::Speed, setting, "Gbit/s", rate)
    };
    let share = 100.0 * gigabit.busy.as_secs_f64() / gigabit.time.as_secs_f64();
    let whole = open.bits() / open.busy.as_secs_f64() / 1e9;
    Ok(vec![
        gigabits("bare copy, unlimited", &bare),
        gigabits("link without limit", &open).at_least(1.0),
        // The thread may have to wait for the sender.
        Figure::new(Property::Speed, "link without limit, a whole core", "Gbit/s", whole).at_least(1.0),
        gigabits("link of 1 Gbit/s", &gigabit).near(1.0, 0.01),
        Figure::new(Property::Speed, "link of 1 Gbit/s, of a core", "%", share),
    ])
}

/// Bytes of an IP packet, and of its UDP payload.
const PACKET: u64 = 1_500;
const PAYLOAD: usize = 1_472;
/// Packets in a millisecond at 5 % more than 1 Gbit/s.
const GIGABIT_MILLISECOND: u32 = 88;

fn copy(time: Duration) -> Result<Load, LabError> {
    let hosts = Hosts::make(&one(RateModel::Unlimited))?;
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
        Ok(Load { packets, busy, time: sent? })
    })
}

fn links(time: Duration, rate: RateModel) -> Result<Load, LabError> {
    let burst = (rate != RateModel::Unlimited).then_some(GIGABIT_MILLISECOND);
    let scenario = one(rate);
    let hosts = Hosts::make(&scenario)?;
    let emulator = Emulator::start(&scenario, &hosts, 1)?;
    let before = emulator.control().snapshot()?;
    let time = flood(&hosts, time, burst)?;
    let after = emulator.finish()?.totals;
    let received = after.interfaces.last().map_or(0, |interface| interface.received.packets);
    Ok(Load { packets: received, busy: after.busy.saturating_sub(before.busy), time })
}

fn one(rate: RateModel) -> Scenario {
    side_by_side(&[LinkConfig::default().with_rate(rate)])
}

/// Sends packets from client to server, `burst` in each millisecond or at full speed; returns the duration.
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

/// Copies packets until `end`; returns their number and the thread's processor time.
fn move_bare(from: &OwnedFd, to: &OwnedFd, end: &AtomicBool) -> io::Result<(u64, Duration)> {
    raise_priority();
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
