//! Links on loopback: real UDP sockets, and between them a thread for each link that delays, limits and drops.
//!
//! Link N joins the client's address `127.0.N.1` with the server. The client sends to [`LinkHandle::front`]; packets
//! from another address than the link's own are dropped, as on a cable. The server sees each client socket as a socket
//! of its own at `127.0.N.2` and answers there. The server must not advertise its real address, or the client would
//! bypass the links.
//!
//! Addresses `127.0.N.1` exist without configuration on Linux and Windows, not on macOS.

mod figures;
mod relay;

pub use figures::{Direction, Figures, SERIES_BIN};

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::link_spec::LinkSpec;
use relay::Relay;

/// Settings of an emulator.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct EmulatorConfig {
    /// Queue of each direction of each link, as time at its rate. Default 100 ms.
    pub queue: Duration,
    /// Seed of the random losses. Default 1.
    pub seed: u64,
}

impl Default for EmulatorConfig {
    fn default() -> Self {
        Self { queue: Duration::from_millis(100), seed: 1 }
    }
}

/// Some links to one server. Dropping it stops their threads.
#[derive(Debug)]
pub struct Emulator {
    links: Vec<LinkHandle>,
    threads: Vec<JoinHandle<()>>,
    started: Instant,
}

impl Emulator {
    /// Most links of one emulator.
    pub const MAX_LINKS: usize = 32;

    /// Binds the addresses of the links, which lead nowhere until [`Fronts::start`].
    ///
    /// # Errors
    /// No or too many links, or the system refuses the sockets.
    pub fn bind(specs: &[LinkSpec], config: EmulatorConfig) -> io::Result<Fronts> {
        if specs.is_empty() || specs.len() > Self::MAX_LINKS {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "1 to 32 links"));
        }
        let mut links = Vec::new();
        for (number, spec) in (1_u8..).zip(specs) {
            let client = IpAddr::V4(Ipv4Addr::new(127, 0, number, 1));
            let front = UdpSocket::bind((Ipv4Addr::new(127, 0, number, 2), 0))?;
            let control = Arc::new(Control::default());
            let handle = LinkHandle { client, front: front.local_addr()?, spec: *spec, control };
            links.push((handle, front));
        }
        Ok(Fronts { links, config })
    }

    /// Starts the links to `server`, which must be an IPv4 address of this host.
    ///
    /// # Errors
    /// No or too many links, or the system refuses the sockets or threads.
    pub fn start(specs: &[LinkSpec], server: SocketAddr, config: EmulatorConfig) -> io::Result<Self> {
        Self::bind(specs, config)?.start(server)
    }

    /// The links in the order of their specifications; handles stay valid, without effect, after the end.
    pub fn links(&self) -> &[LinkHandle] {
        &self.links
    }

    /// When bin 0 of every series began.
    pub fn started(&self) -> Instant {
        self.started
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        for link in &self.links {
            link.control.is_stopped.store(true, Ordering::Relaxed);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Links that have addresses but lead nowhere yet: a server can advertise them before it exists.
#[derive(Debug)]
pub struct Fronts {
    links: Vec<(LinkHandle, UdpSocket)>,
    config: EmulatorConfig,
}

impl Fronts {
    /// The addresses of the server over each link, for the client.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.links.iter().map(|(link, _)| link.front).collect()
    }

    /// Starts the links to `server`, which must be an IPv4 address of this host.
    ///
    /// # Errors
    /// The address is of another kind, or the system refuses the threads.
    pub fn start(self, server: SocketAddr) -> io::Result<Emulator> {
        if !server.is_ipv4() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "links lead to an IPv4 address"));
        }
        let mut emulator = Emulator { links: Vec::new(), threads: Vec::new(), started: Instant::now() };
        for (number, (handle, front)) in (1..).zip(self.links) {
            let relay = Relay::new(&handle, front, server, self.config, emulator.started)?;
            emulator.links.push(handle);
            let thread = std::thread::Builder::new().name(format!("link-{number}"));
            emulator.threads.push(thread.spawn(move || relay.run())?);
        }
        Ok(emulator)
    }
}

/// One link: its addresses, its switch, its counters.
#[derive(Debug, Clone)]
pub struct LinkHandle {
    client: IpAddr,
    front: SocketAddr,
    spec: LinkSpec,
    control: Arc<Control>,
}

impl LinkHandle {
    /// The only source address that the link carries to the server.
    pub fn client(&self) -> IpAddr {
        self.client
    }

    /// The address of the server over this link, for the client.
    pub fn front(&self) -> SocketAddr {
        self.front
    }

    /// The specification of the link.
    pub fn spec(&self) -> LinkSpec {
        self.spec
    }

    /// Cuts the link: within 5 ms it silently drops everything, including packets in flight.
    pub fn cut(&self) {
        self.control.is_cut.store(true, Ordering::Relaxed);
    }

    /// Restores the link within 5 ms.
    pub fn restore(&self) {
        self.control.is_cut.store(false, Ordering::Relaxed);
    }

    /// Whether the link is cut.
    pub fn is_cut(&self) -> bool {
        self.control.is_cut.load(Ordering::Relaxed)
    }

    /// The counters of one direction, at most 5 ms old.
    pub fn figures(&self, direction: Direction) -> Figures {
        self.control.figures(direction).lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What a link's thread shares with its handles.
#[derive(Debug, Default)]
struct Control {
    is_cut: AtomicBool,
    is_stopped: AtomicBool,
    up: Mutex<Figures>,
    down: Mutex<Figures>,
}

impl Control {
    fn figures(&self, direction: Direction) -> &Mutex<Figures> {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }
}

#[cfg(test)]
mod tests;
