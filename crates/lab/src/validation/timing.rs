//! Arrival times: rates and delays.

use std::net::UdpSocket;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use manyway_proto::Rate;
use manyway_sim::link::{DeliveryTrace, Jitter, LinkConfig, Order, RateModel};

use super::datagrams::{self, Arrived, Load};
use super::stage::{Stage, failed, open};
use super::theory;
use super::trial::Trial;
use super::{Extent, Figure, Property};
use crate::LabError;
use crate::emulator::raise_priority;
use crate::measures::{count, megabits};

/// UDP payload of an IPv4 packet of 1500 bytes, and the packet.
const FULL: usize = 1_472;
const PACKET: f64 = 1_500.0;
const MS: Duration = Duration::from_millis(1);

pub(super) fn rates(trial: Trial<'_>) -> Result<Vec<Figure>, LabError> {
    let mut figures = Vec::new();
    for (megabits, millis) in [(1, 3_000), (10, 1_500), (100, 1_000)] {
        let rate = Rate::from_bits_per_second(megabits * 1_000_000);
        let stage = full(RateModel::Fixed(rate), trial)?;
        for (way, pair) in [("up", (&stage.near, &stage.far)), ("down", (&stage.far, &stage.near))] {
            trial.stop.check()?;
            let goodput = goodput(pair, rate, trial.extent.of(millis * MS))?;
            figures.push(rate_figure(Property::Rate, format!("{megabits} Mbit/s {way}"), rate, goodput));
        }
    }
    Ok(figures)
}

pub(super) fn trace(trial: Trial<'_>) -> Result<Vec<Figure>, LabError> {
    let trace = DeliveryTrace::from_mahimahi("1\n2\n2\n7\n10\n");
    let trace = trace.map_err(|error| LabError::System(error.to_string()))?;
    let rate = trace.mean_rate();
    let stage = full(RateModel::Trace(Arc::new(trace)), trial)?;
    let goodput = goodput((&stage.near, &stage.far), rate, trial.extent.of(4_000 * MS))?;
    let setting = "packets at 1, 2, 2, 7 and 10 ms";
    Ok(vec![rate_figure(Property::Trace, setting.to_owned(), rate, goodput)])
}

/// A link with a queue so long that a pause of the sender does not empty it.
fn full(rate: RateModel, trial: Trial<'_>) -> Result<Stage, LabError> {
    trial.stage(&LinkConfig::default().with_rate(rate).with_queue_time(200 * MS))
}

/// Sends at one and a half times the rate; returns the IP bits a second from the first to the last datagram that
/// arrived.
fn goodput(pair: (&UdpSocket, &UdpSocket), rate: Rate, time: Duration) -> Result<f64, LabError> {
    let offered = (rate * time).get() * 3 / 2 / 1_500;
    let load = Load { count: offered, size: FULL, time, wait: 100 * MS };
    let arrived = datagrams::send(pair, load).map_err(failed)?;
    let (Some(first), Some(last)) = (arrived.first(), arrived.last()) else { return Ok(0.0) };
    let bytes = (items(&arrived) - 1.0) * PACKET;
    // A single one has no rate.
    Ok(bytes * 8.0 / (last.at - first.at).max(MS).as_secs_f64())
}

/// Within one percent.
fn rate_figure(property: Property, setting: String, rate: Rate, goodput: f64) -> Figure {
    let theory = megabits(rate);
    Figure::new(property, setting, "Mbit/s", goodput / 1e6).near(theory, theory / 100.0)
}

pub(super) fn delay(trial: Trial<'_>) -> Result<Vec<Figure>, LabError> {
    const ONE_WAY: Duration = Duration::from_millis(10);
    const BARE: &str = "2 × 10 ms over a thread that sleeps";
    let stage = trial.stage(&open(ONE_WAY))?;
    let trips = match trial.extent {
        Extent::Full => 100,
        Extent::Quick => 50,
    };
    let ideal = millis(2 * ONE_WAY);
    let emulated = round_trip(&stage.near, &stage.far, trips)?;
    trial.stop.check()?;
    let bare = bare_round_trip(ONE_WAY, trips)?;
    let figure = |setting, time| Figure::new(Property::Delay, setting, "ms", millis(time));
    Ok(vec![
        figure("2 × 10 ms", emulated).between(ideal, (ideal, ideal + EXCESS)),
        // The time that this machine takes to wake threads.
        Figure { theory: Some(ideal), ..figure(BARE, bare) },
    ])
}

/// How far the median round-trip time may exceed that of the links, in milliseconds.
const EXCESS: f64 = 0.4;

/// The median.
fn round_trip(near: &UdpSocket, far: &UdpSocket, count: u32) -> Result<Duration, LabError> {
    for socket in [near, far] {
        socket.set_read_timeout(Some(200 * MS)).map_err(failed)?;
    }
    let echo = || {
        let mut buffer = [0; 64];
        while far.recv(&mut buffer).is_ok() {
            drop(far.send(&buffer));
        }
    };
    let trip = |_| {
        let start = Instant::now();
        near.send(&[1; 64]).ok()?;
        near.recv(&mut [0; 64]).ok().map(|_| start.elapsed())
    };
    let mut trips: Vec<Duration> = thread::scope(|scope| {
        scope.spawn(echo);
        (0..count).filter_map(trip).collect()
    });
    trips.sort_unstable();
    let lost = || LabError::System("not one round trip was completed".into());
    trips.get(trips.len() / 2).copied().ok_or_else(lost)
}

/// The same over loopback and a thread that delays each datagram by the time of the link, with the emulator's priority.
fn bare_round_trip(one_way: Duration, count: u32) -> Result<Duration, LabError> {
    let connected = || {
        let (one, other) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
        one.connect(other.local_addr()?)?;
        other.connect(one.local_addr()?)?;
        other.set_read_timeout(Some(200 * MS))?;
        Ok((one, other))
    };
    let ((near, near_relay), (far, far_relay)) = (connected().map_err(failed)?, connected().map_err(failed)?);
    let relay = || {
        raise_priority();
        let mut buffer = [0; 64];
        let mut pass = |from: &UdpSocket, to: &UdpSocket| {
            from.recv(&mut buffer)?;
            thread::sleep(one_way);
            to.send(&buffer)
        };
        while pass(&near_relay, &far_relay).and_then(|_| pass(&far_relay, &near_relay)).is_ok() {}
    };
    thread::scope(|scope| {
        scope.spawn(relay);
        round_trip(&near, &far, count)
    })
}

pub(super) fn queue(trial: Trial<'_>) -> Result<Vec<Figure>, LabError> {
    let (rate, delay, queue) = (Rate::from_bits_per_second(10_000_000), 5 * MS, 50 * MS);
    let stage = trial.stage(&LinkConfig::new(rate, delay).with_queue_time(queue))?;
    // One and a half times the rate.
    let time = trial.extent.of(1_000 * MS);
    let load = Load { count: (rate * time).get() / 1_000, size: FULL, time, wait: 100 * MS };
    let arrived = stage.send(load)?;
    // At first the queue fills.
    let mut delays: Vec<f64> = arrived.iter().skip(200).map(|arrived| millis(arrived.delay)).collect();
    delays.sort_by(f64::total_cmp);
    let median = delays.get(delays.len() / 2).copied().unwrap_or(f64::INFINITY);
    let (theory, packet) = (millis(delay + queue), PACKET * 8.0 / 10e3);
    let bounds = (theory - packet, theory + packet + EXCESS);
    let figure = Figure::new(Property::Queue, "50 ms and 5 ms at 10 Mbit/s", "ms", median);
    Ok(vec![figure.between(theory, bounds)])
}

pub(super) fn jitter(trial: Trial<'_>) -> Result<Vec<Figure>, LabError> {
    const SPREAD: Duration = Duration::from_millis(10);
    const DEVIATION: Duration = Duration::from_millis(5);
    let time = trial.extent.of(2_000 * MS);
    let sent = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let arrivals = |jitter, order| {
        let stage = trial.stage(&open(40 * MS).with_jitter(jitter, order))?;
        stage.send(Load { count: sent, size: 100, time, wait: 200 * MS })
    };
    let (even, normal) = (Jitter::Uniform(SPREAD), Jitter::Normal(DEVIATION));
    let [free, kept, normal] =
        [(even, Order::Free), (even, Order::Kept), (normal, Order::Free)].map(|law| arrivals(law.0, law.1));
    let (free, kept, normal) = (free?, kept?, normal?);
    let varied = |setting, arrived: &[Arrived], theory: f64, kurtosis| {
        let tolerance = 3.0 * theory * theory::deviation_of_deviation(count(sent), kurtosis);
        Figure::new(Property::Jitter, setting, "ms", deviation(arrived)).near(theory, tolerance)
    };
    let overtaking = theory::overtaking(SPREAD, MS);
    let tolerance = 3.0 * theory::deviation_of_share(overtaking, count(sent), 0.0);
    let passing = |setting, arrived: &[Arrived]| {
        Figure::new(Property::Jitter, setting, "%", 100.0 * overtaken(arrived))
    };
    Ok(vec![
        varied("± 10 ms, its deviation", &free, theory::uniform_deviation(SPREAD) * 1e3, 1.8),
        varied("normal, its deviation", &normal, millis(DEVIATION), 3.0),
        passing("± 10 ms, who overtakes", &free).near(100.0 * overtaking, 100.0 * tolerance),
        passing("± 10 ms, order kept", &kept).near(0.0, 0.0),
    ])
}

/// The standard deviation of the delays, in milliseconds; infinite if nothing arrived.
fn deviation(arrived: &[Arrived]) -> f64 {
    if arrived.is_empty() {
        return f64::INFINITY;
    }
    let delays = || arrived.iter().map(|arrived| millis(arrived.delay));
    let mean = delays().sum::<f64>() / items(arrived);
    (delays().map(|delay| (delay - mean).powi(2)).sum::<f64>() / items(arrived)).sqrt()
}

/// The share of datagrams that arrived before the one sent before them; infinite if nothing arrived.
fn overtaken(arrived: &[Arrived]) -> f64 {
    if arrived.is_empty() {
        return f64::INFINITY;
    }
    let mut in_order = arrived.to_vec();
    in_order.sort_by_key(|arrived| arrived.number);
    let overtook = |pair: &&[Arrived]| matches!(pair, [before, after] if after.at < before.at);
    count(u64::try_from(in_order.windows(2).filter(overtook).count()).unwrap_or(0)) / items(arrived)
}

fn items(arrived: &[Arrived]) -> f64 {
    count(u64::try_from(arrived.len()).unwrap_or(u64::MAX))
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
