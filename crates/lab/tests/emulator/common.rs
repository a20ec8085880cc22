//! Two hosts, links between them, and sockets on both.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use manyway_lab::emulator::Emulator;
use manyway_lab::hosts::Hosts;
use manyway_lab::scenario::{Checksum, Interface, Link, Route, Scenario, Side};
use manyway_proto::Rate;
use manyway_sim::link::{DelayModel, LinkConfig, QueueConfig, QueueLimit};

pub(crate) const MS: Duration = Duration::from_millis(1);

/// UDP payload of an IPv4 packet of 1500 bytes.
pub(crate) const FULL: usize = 1_472;

/// A running emulator between two hosts.
pub(crate) struct Bench {
    pub(crate) emulator: Emulator,
    pub(crate) hosts: Hosts,
    /// The tests measure time: one at a time.
    pub(crate) turn: MutexGuard<'static, ()>,
}

static TURN: Mutex<()> = Mutex::new(());

/// Waits for the other tests; `None`, with the reason printed, where hosts cannot be made.
pub(crate) fn turn() -> Option<MutexGuard<'static, ()>> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Err(reason) = Hosts::check() {
        assert!(std::env::var_os("MANYWAY_REQUIRE_NAMESPACES").is_none(), "{reason}");
        println!("skipped: {reason}");
        return None;
    }
    Some(turn)
}

impl Bench {
    /// Starts the emulator, or prints why it cannot.
    pub(crate) fn start(scenario: &Scenario) -> Option<Self> {
        let turn = turn()?;
        let hosts = Hosts::make(scenario).unwrap();
        let emulator = Emulator::start(scenario, &hosts, 7).unwrap();
        Some(Self { emulator, hosts, turn })
    }

    /// The first address of an interface.
    pub(crate) fn address(&self, side: Side, interface: usize) -> IpAddr {
        self.hosts.addresses(side, interface)[0]
    }

    /// A UDP socket at an interface, with a large buffer for what arrives.
    pub(crate) fn socket(&self, side: Side, interface: usize) -> UdpSocket {
        self.socket_at(side, self.address(side, interface))
    }

    pub(crate) fn socket_at(&self, side: Side, address: IpAddr) -> UdpSocket {
        let bind = || UdpSocket::bind(SocketAddr::new(address, 0)).unwrap();
        let socket = self.hosts.inside(side, bind).unwrap();
        rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 64 << 20).unwrap();
        socket
    }

    /// A socket at each end of an interface pair, connected to each other.
    pub(crate) fn pair(&self, interface: usize) -> (UdpSocket, UdpSocket) {
        let (near, far) = (self.socket(Side::Client, interface), self.socket(Side::Server, interface));
        near.connect(far.local_addr().unwrap()).unwrap();
        far.connect(near.local_addr().unwrap()).unwrap();
        (near, far)
    }

    /// Runs a shell command on a host and gives what it printed; it must succeed.
    pub(crate) fn run(&self, side: Side, command: &str) -> String {
        let output = self.hosts.command(side, "sh".as_ref()).args(["-c", command]).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{command}: {}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    }
}

/// A datagram that arrived.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Arrived {
    pub(crate) number: u64,
    /// From sending to arriving.
    pub(crate) delay: Duration,
    pub(crate) sent_at: Instant,
    pub(crate) at: Instant,
    /// Bits that differ from those sent, behind number and moment.
    pub(crate) flipped: u32,
}

/// Sends `count` numbered datagrams of `size` bytes, spread evenly over `time`, and gives what arrives until `wait` after
/// the last. What is behind number and moment is `FILLING`.
pub(crate) fn send_numbered(
    pair: (&UdpSocket, &UdpSocket),
    count: u64,
    size: usize,
    time: Duration,
    wait: Duration,
) -> Vec<Arrived> {
    let (from, to) = pair;
    // Stragglers of an earlier call would be counted.
    to.set_nonblocking(true).unwrap();
    while to.recv(&mut [0; 16]).is_ok() {}
    to.set_nonblocking(false).unwrap();
    let start = Instant::now();
    to.set_read_timeout(Some(MS * 20)).unwrap();
    thread::scope(|scope| {
        let receiver = scope.spawn(move || receive_numbered(to, start, start + time + wait));
        let mut datagram = vec![FILLING; size.max(16)];
        for number in 0..count {
            let due = start + time.mul_f64(number as f64 / count as f64);
            // Sleeping takes its time, so what is due within a millisecond goes at once.
            if let Some(rest) = due.checked_duration_since(Instant::now()).filter(|rest| *rest > MS) {
                thread::sleep(rest);
            }
            datagram[..8].copy_from_slice(&number.to_be_bytes());
            let since = u64::try_from(start.elapsed().as_nanos()).unwrap();
            datagram[8..16].copy_from_slice(&since.to_be_bytes());
            // An interface that is down refuses.
            let _ = from.send(&datagram);
        }
        receiver.join().unwrap()
    })
}

fn receive_numbered(to: &UdpSocket, start: Instant, end: Instant) -> Vec<Arrived> {
    let mut arrived = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let received = to.recv(&mut buffer);
        let at = Instant::now();
        if let Some(datagram) =
            received.ok().and_then(|length| buffer.get(..length)).filter(|got| got.len() >= 16)
        {
            arrived.push(read_numbered(datagram, start, at));
        }
        if at > end {
            return arrived;
        }
    }
}

fn read_numbered(datagram: &[u8], start: Instant, at: Instant) -> Arrived {
    let number = u64::from_be_bytes(datagram[..8].try_into().unwrap());
    let since = u64::from_be_bytes(datagram[8..16].try_into().unwrap());
    let sent_at = start + Duration::from_nanos(since.min(1 << 60));
    let flipped = datagram[16..].iter().map(|byte| (byte ^ FILLING).count_ones()).sum();
    Arrived { number, delay: at.saturating_duration_since(sent_at), sent_at, at, flipped }
}

const FILLING: u8 = 0xA5;

/// Whether a datagram sent at one socket arrives at the other within a quarter of a second.
pub(crate) fn passes(from: &UdpSocket, to: &UdpSocket) -> bool {
    static NUMBER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    let text = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed).to_string();
    if from.send(text.as_bytes()).is_err() {
        return false;
    }
    to.set_read_timeout(Some(MS * 250)).unwrap();
    let mut buffer = [0; 100];
    // Earlier ones may have been late.
    while let Ok(length) = to.recv(&mut buffer) {
        if &buffer[..length] == text.as_bytes() {
            return true;
        }
    }
    false
}

/// Repeats a measurement that something else on the machine may have disturbed, at most five times; gives the figure
/// that is right, or fails with all that were wrong.
#[track_caller]
pub(crate) fn measured<T: std::fmt::Debug>(
    is_right: impl Fn(&T) -> bool,
    mut measure: impl FnMut() -> T,
) -> T {
    let mut wrong = Vec::new();
    for _ in 0..5 {
        let figure = measure();
        if is_right(&figure) {
            return figure;
        }
        println!("once more: {figure:?}");
        wrong.push(figure);
    }
    panic!("{wrong:?}");
}

pub(crate) fn median<T: Ord + Copy>(figures: impl IntoIterator<Item = T>) -> T {
    let mut figures: Vec<T> = figures.into_iter().collect();
    figures.sort_unstable();
    figures[figures.len() / 2]
}

/// A scenario with a link of its own between interface n of the client and interface n of the server.
pub(crate) fn scenario(links: Vec<(LinkConfig, LinkConfig)>) -> Scenario {
    let interface = |name: String| Interface { name, addresses: Vec::new(), mtu: 1500, nat: None, cost: 0 };
    let count = links.len();
    Scenario {
        name: "test".into(),
        title: String::new(),
        group: String::new(),
        source: String::new(),
        duration: Duration::from_secs(15),
        client: (0..count).map(|place| interface(format!("near{place}"))).collect(),
        server: (0..count).map(|place| interface(format!("far{place}"))).collect(),
        links: (links.into_iter().enumerate())
            .map(|(place, (up, down))| Link {
                name: format!("link{place}"),
                up,
                down,
                checksum: Checksum::Stale,
            })
            .collect(),
        routes: (0..count)
            .map(|place| Route {
                name: format!("near{place}"),
                client: place,
                server: place,
                links: vec![place],
                shares: Vec::new(),
            })
            .collect(),
        traffic: Vec::new(),
        events: Vec::new(),
    }
}

/// One link, the same both ways.
pub(crate) fn single(config: &LinkConfig) -> Scenario {
    scenario(vec![both(config)])
}

/// The same link both ways.
pub(crate) fn both(config: &LinkConfig) -> (LinkConfig, LinkConfig) {
    (config.clone(), config.clone())
}

pub(crate) fn mbit(megabits: u64) -> Rate {
    Rate::from_bits_per_second(megabits * 1_000_000)
}

/// A link without a limit to its rate.
pub(crate) fn open(delay: Duration) -> LinkConfig {
    LinkConfig::default()
        .with_delay(DelayModel::constant(delay))
        .with_queue(QueueConfig::drop_tail(QueueLimit::Unlimited))
}
