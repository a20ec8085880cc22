//! Links on loopback: real UDP sockets, and between them a thread for each link that delays, limits and drops.
//!
//! Link N joins the client's address `127.0.N.1` with the server. The client sends to [`LinkHandle::front`]; packets
//! from another address than the link's own are dropped, as on a cable. The server sees each client socket as a socket
//! of its own at `127.0.N.2` and answers there. The server must not advertise its real address, or the client would
//! bypass the links.
//!
//! Addresses `127.0.N.1` exist without configuration on Linux and Windows, not on macOS.

mod config;
mod figures;
mod link;
mod relay;

pub use config::EmulatorConfig;
pub use figures::{Direction, Figures, SERIES_BIN};
pub use link::LinkHandle;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::thread::JoinHandle;
use std::time::Instant;

use super::link_spec::LinkSpec;
use relay::Relay;

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
            links.push((LinkHandle::new(client, front.local_addr()?, *spec), front));
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
            link.stop();
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
        self.links.iter().map(|(link, _)| link.front()).collect()
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

#[cfg(test)]
mod tests;
