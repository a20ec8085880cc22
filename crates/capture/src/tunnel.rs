//! The traffic of a whole machine instead of a command's.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use crate::connections::Connections;
use crate::kernel;
use crate::netlink::{Netlink, Verb, ensure};
use crate::network::{
    MAIN_TABLE, Rule, V4, V6, address, index_of, link_up_with, listen, route, without_link_local,
};
use crate::nftables;
use crate::plan::{ADDRESS_V4, ADDRESS_V6, PROBE, RESOLVER, RESOLVER_V6, TUNNEL_DEVICE};
use crate::tun::Tun;

/// What goes by the tunnel.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TunnelConfig {
    /// Largest IP packet of the device, in bytes, from 1280 to 65 521; 1500 by default.
    pub mtu: u16,
    /// The networks that are reached by the tunnel; by default all.
    pub routes: Vec<IpNet>,
    /// Networks that are not, though they are part of those; by default none. Networks to which the machine has a route
    /// beside its default ones, such as its own, are reached by these in any case.
    pub bypass: Vec<IpNet>,
    /// Whether queries for names go to [`RESOLVER`] and [`RESOLVER_V6`], whatever name server they are for, as long as
    /// that is not on this machine. Default yes.
    pub resolves_names: bool,
}

impl Default for TunnelConfig {
    fn default() -> Self {
        let all = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
        let routes = all.map(|any| IpNet::new_assert(any, 0)).to_vec();
        Self { mtu: 1500, routes, bypass: Vec::new(), resolves_names: true }
    }
}

/// A TUN device for a whole machine, with the routes and rules that lead to it. Dropping it takes all of them back. If
/// the process is killed, the kernel does, but for rules that look into an empty table, which the next tunnel removes.
///
/// Needs `CAP_NET_ADMIN` over its network namespace, and Linux 5.12.
#[derive(Debug)]
pub struct Tunnel {
    config: TunnelConfig,
    device: u32,
    netlink: Netlink,
    /// The port of the listeners.
    port: u16,
    /// Whether IPv6 can be used.
    has_v6: bool,
    /// Keeps the rules of nftables.
    owner: Option<Netlink>,
}

/// Why there is no tunnel.
#[derive(Debug)]
pub struct TunnelError {
    what: &'static str,
    error: io::Error,
}

impl fmt::Display for TunnelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.error)
    }
}

impl std::error::Error for TunnelError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

fn failed(what: &'static str) -> impl FnOnce(io::Error) -> TunnelError {
    move |error| TunnelError { what, error }
}

impl Tunnel {
    /// Makes the device and the listeners. Nothing goes there before [`Tunnel::take_over`].
    ///
    /// # Errors
    /// The process lacks the right, there is a tunnel already, or the kernel lacks a part.
    pub fn open(config: TunnelConfig) -> Result<(Self, Connections, Tun), TunnelError> {
        let descriptor = kernel::open_tun(TUNNEL_DEVICE).map_err(|error| {
            #[expect(clippy::wildcard_enum_match_arm, reason = "the system has many more")]
            let what = match error.kind() {
                io::ErrorKind::PermissionDenied => {
                    "a TUN device needs root (or CAP_NET_ADMIN, and /dev/net/tun)"
                }
                io::ErrorKind::ResourceBusy => "another tunnel runs on this machine",
                io::ErrorKind::NotFound => "there is no /dev/net/tun (modprobe tun)",
                _ => "/dev/net/tun cannot be used",
            };
            failed(what)(error)
        })?;
        let device = index_of(TUNNEL_DEVICE).map_err(failed("the TUN device is gone"))?;
        let netlink = Netlink::open(None).map_err(failed("no netlink socket"))?;
        let (v4, v6, port) = listen().map_err(failed("no port can be opened on loopback"))?;
        let has_v6 = v6.is_some();
        let tunnel = Self { config, device, netlink, port, has_v6, owner: None };
        tunnel.configure().map_err(failed("the TUN device cannot be set up"))?;
        let connections = Connections::new(v4.into(), v6.map(Into::into)).map_err(failed("no runtime"))?;
        let tun = Tun::new(descriptor, tunnel.config.mtu).map_err(failed("no runtime"))?;
        Ok((tunnel, connections, tun))
    }

    /// Leads the traffic to the device.
    ///
    /// # Errors
    /// The kernel refuses a route or rule. What was done is taken back when the tunnel is dropped.
    pub fn take_over(&mut self) -> Result<(), TunnelError> {
        self.remove_rules();
        let names = self.config.resolves_names.then_some((RESOLVER, RESOLVER_V6));
        let redirected = nftables::redirect_while_open(self.device, self.port, names);
        self.owner = Some(redirected.map_err(failed(
            "TCP cannot be redirected by nftables (Linux 5.12 with NAT is needed, and no other table inet manyway)",
        ))?);
        self.restore().map(drop).map_err(failed("a route or rule cannot be set"))
    }

    /// Puts back what others removed since: addresses, routes and rules, as network managers do when they reload. Returns
    /// whether anything was missing. Costs some ten system calls.
    ///
    /// # Errors
    /// The kernel refuses one of them. If the device is there still ([`Tunnel::is_there`]), a later call may succeed.
    pub fn restore(&self) -> io::Result<bool> {
        // A device that was set down takes no route.
        self.put_back().or_else(|_| {
            self.configure()?;
            self.put_back().map(|_| true)
        })
    }

    /// Whether the device exists.
    pub fn is_there(&self) -> bool {
        index_of(TUNNEL_DEVICE).is_ok_and(|index| index == self.device)
    }

    fn put_back(&self) -> io::Result<bool> {
        let mut was_missing = self.ensure_addresses()?;
        let own = [RESOLVER.into(), PROBE.into(), IpAddr::V6(RESOLVER_V6)].map(IpNet::from).to_vec();
        let by_device = Some(self.device);
        for (networks, device) in
            [(&own, by_device), (&self.config.routes, by_device), (&self.config.bypass, None)]
        {
            for network in networks.iter().filter(|network| network.addr().is_ipv4() || self.has_v6) {
                was_missing |= ensure(&self.netlink, route(Verb::CreateNew, TABLE, *network, device))?;
            }
        }
        for rule in self.rules() {
            was_missing |= ensure(&self.netlink, rule.create())?;
        }
        Ok(was_missing)
    }

    fn configure(&self) -> io::Result<()> {
        if self.has_v6 {
            // Where this is refused, packets of neighbour discovery come out of the device and are dropped.
            let _ = self.netlink.request([without_link_local(self.device)]);
        }
        self.netlink.request([link_up_with(self.device, self.config.mtu)])?;
        self.ensure_addresses().map(drop)
    }

    fn ensure_addresses(&self) -> io::Result<bool> {
        let mut was_missing = ensure(&self.netlink, address(V4, self.device, &ADDRESS_V4.octets()))?;
        if self.has_v6 {
            was_missing |= ensure(&self.netlink, address(V6, self.device, &ADDRESS_V6.octets()))?;
        }
        Ok(was_missing)
    }

    /// More specific routes than default ones come first, then the tunnel; what it leaves out goes as without it.
    fn rules(&self) -> Vec<Rule> {
        let families = if self.has_v6 { &[V4, V6][..] } else { &[V4] };
        let of_family = |family: &u8| {
            [
                Rule { family: *family, priority: PRIORITY, table: MAIN_TABLE, leaves_default_out: true },
                Rule { family: *family, priority: PRIORITY + 1, table: TABLE, leaves_default_out: false },
            ]
        };
        families.iter().flat_map(of_family).collect()
    }

    /// Removes the rules, also those that a killed process left.
    fn remove_rules(&self) {
        for rule in self.rules() {
            for _ in 0..MOST_LEFT {
                if self.netlink.request([rule.delete()]).is_err() {
                    break;
                }
            }
        }
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        self.remove_rules();
    }
}

/// The routing table of the tunnel, and the priority of its rules: before that of the main table, 32766.
const TABLE: u32 = 4455;
const PRIORITY: u32 = 30_150;
/// Most rules of one kind that are removed.
const MOST_LEFT: usize = 16;
