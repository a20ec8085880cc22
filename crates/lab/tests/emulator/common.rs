//! Two hosts, links between them, and sockets on both.

use std::net::{IpAddr, UdpSocket};
use std::sync::{LazyLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use manyway_lab::emulator::Emulator;
use manyway_lab::hosts::Hosts;
use manyway_lab::scenario::{Scenario, Side};
use manyway_lab::validation::datagrams::{self, Load};
pub(crate) use manyway_lab::validation::{datagrams::Arrived, open, side_by_side, socket};
use manyway_proto::Rate;
use manyway_sim::link::LinkConfig;
use manyway_sim::skipped::skip;

pub(crate) const MS: Duration = Duration::from_millis(1);

/// UDP payload of an IPv4 packet of 1500 bytes.
pub(crate) const FULL: usize = 1_472;

/// A running emulator between two hosts.
pub(crate) struct Bench {
    pub(crate) emulator: Emulator,
    pub(crate) hosts: Hosts,
    pub(crate) turn: Turn,
}

/// The permission to use the machine.
pub(crate) enum Turn {
    /// Exclusive: the test measures parts of a millisecond, or looks at the hosts of others.
    Alone(#[expect(dead_code, reason = "held until the test ends")] RwLockWriteGuard<'static, ()>),
    /// Shared with others of its kind: the test counts packets, or compares times of many milliseconds.
    Shared(#[expect(dead_code, reason = "held until the test ends")] RwLockReadGuard<'static, ()>),
}

static TURN: RwLock<()> = RwLock::new(());

impl Turn {
    /// Waits for all other tests; `None`, and the test counts as skipped, where hosts cannot be created.
    pub(crate) fn alone() -> Option<Self> {
        can_make_hosts().then(|| Self::Alone(TURN.write().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Waits for exclusive tests.
    pub(crate) fn shared() -> Option<Self> {
        can_make_hosts().then(|| Self::Shared(TURN.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

fn can_make_hosts() -> bool {
    // The check creates a namespace for a moment.
    static POSSIBLE: LazyLock<Result<(), String>> =
        LazyLock::new(|| Hosts::check().map_err(|reason| reason.to_string()));
    POSSIBLE.as_ref().map_err(skip).is_ok()
}

impl Bench {
    /// Starts the emulator alone on the machine.
    pub(crate) fn alone(scenario: &Scenario) -> Option<Self> {
        Turn::alone().map(|turn| Self::start(scenario, turn))
    }

    /// Starts the emulator beside others.
    pub(crate) fn shared(scenario: &Scenario) -> Option<Self> {
        Turn::shared().map(|turn| Self::start(scenario, turn))
    }

    fn start(scenario: &Scenario, turn: Turn) -> Self {
        let hosts = Hosts::make(scenario).unwrap();
        let emulator = Emulator::start(scenario, &hosts, 7).unwrap();
        Self { emulator, hosts, turn }
    }

    /// The first address of an interface.
    pub(crate) fn address(&self, side: Side, interface: usize) -> IpAddr {
        self.hosts.addresses(side, interface)[0]
    }

    /// A UDP socket at an interface, with a large receive buffer.
    pub(crate) fn socket(&self, side: Side, interface: usize) -> UdpSocket {
        self.socket_at(side, self.address(side, interface))
    }

    pub(crate) fn socket_at(&self, side: Side, address: IpAddr) -> UdpSocket {
        socket(&self.hosts, side, address).unwrap()
    }

    /// A socket at each end of an interface pair, connected to each other.
    pub(crate) fn pair(&self, interface: usize) -> (UdpSocket, UdpSocket) {
        let (near, far) = (self.socket(Side::Client, interface), self.socket(Side::Server, interface));
        near.connect(far.local_addr().unwrap()).unwrap();
        far.connect(near.local_addr().unwrap()).unwrap();
        (near, far)
    }

    /// Runs a shell command on a host and returns its output; it must succeed.
    pub(crate) fn run(&self, side: Side, command: &str) -> String {
        let output = self.hosts.command(side, "sh".as_ref()).args(["-c", command]).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{command}: {}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    }
}

/// Sends `count` numbered datagrams of `size` bytes, spread evenly over `time`, and returns what arrives until `wait`
/// after the last.
pub(crate) fn send_numbered(
    pair: (&UdpSocket, &UdpSocket),
    count: u64,
    size: usize,
    time: Duration,
    wait: Duration,
) -> Vec<Arrived> {
    datagrams::send(pair, Load { count, size, time, wait }).unwrap()
}

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

/// Repeats a measurement that may have been disturbed, at most five times; returns the right figure, or fails with all
/// the wrong ones.
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

/// One link.
pub(crate) fn single(config: &LinkConfig) -> Scenario {
    side_by_side(std::slice::from_ref(config))
}

pub(crate) fn mbit(megabits: u64) -> Rate {
    Rate::from_bits_per_second(megabits * 1_000_000)
}
