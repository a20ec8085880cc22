//! What the namespace looks like.

use std::ffi::OsString;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

/// The name of the TUN device in the namespace of a command.
pub const DEVICE: &str = "manyway0";
/// The name of the TUN device of a tunnel. A transport that carries the tunnel's traffic must not use this device.
pub const TUNNEL_DEVICE: &str = "manyway-tun";
/// The name of the TUN device by which whole packets go to other sites. A transport that carries them must not use this
/// device either.
pub const SITE_DEVICE: &str = "manyway-site";
/// The command's IPv4 address, from the block for measurements between networks (RFC 2544), which is not
/// routed on the Internet.
pub const ADDRESS_V4: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// The command's IPv6 address, a unique local one (RFC 4193).
pub const ADDRESS_V6: Ipv6Addr = Ipv6Addr::new(0xfd6d, 0x77c4, 0x19a2, 0, 0, 0, 0, 1);
/// The name server that the command's `resolv.conf` names; queries to its port 53 arrive as any other packet and
/// connection.
pub const RESOLVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);

/// An address that is always reached by a tunnel: a connection to it shows whether TCP arrives.
pub const PROBE: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 3);
/// As [`PROBE`], over IPv6.
pub const PROBE_V6: Ipv6Addr = Ipv6Addr::new(0xfd6d, 0x77c4, 0x19a2, 0, 0, 0, 0, 3);
/// As [`RESOLVER`], over IPv6, for a tunnel.
pub const RESOLVER_V6: Ipv6Addr = Ipv6Addr::new(0xfd6d, 0x77c4, 0x19a2, 0, 0, 0, 0, 2);

/// The mark of packets that a tunnel leaves alone (`SO_MARK`): those of the transport that carries it, and its look-ups.
pub const TUNNEL_MARK: u32 = 0x4455;

/// The largest MTU of a TUN device, with which no datagram is cut into fragments, which are dropped.
pub const LARGEST_MTU: u16 = 65_521;

/// How to make the namespace.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// Largest IP packet of the device, in bytes, from 1280 (the least of IPv6) to 65 521; 1500 by default.
    pub mtu: u16,
    /// How to start the stage.
    pub launcher: Launcher,
}

impl Default for Config {
    fn default() -> Self {
        Self { mtu: 1500, launcher: Launcher::default() }
    }
}

/// A program that calls [`enter_stage`](crate::enter_stage), with arguments before those of the stage. It may also be
/// a wrapper, such as `setpriv`, that keeps file descriptors and becomes such a program by `exec`.
#[derive(Debug, Clone)]
pub struct Launcher {
    /// The program.
    pub program: PathBuf,
    /// Its first arguments.
    pub arguments: Vec<OsString>,
}

impl Default for Launcher {
    /// The program that is running.
    fn default() -> Self {
        Self { program: "/proc/self/exe".into(), arguments: Vec::new() }
    }
}
