//! The traffic of a whole machine instead of a command's.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

use ipnet::IpNet;

use crate::connections::Connections;
use crate::error::{TunnelError, failed};
use crate::kernel;
use crate::netlink::{Netlink, Verb, ensure};
use crate::network::{
    MAIN_TABLE, Rule, V4, V6, address, delete_rule, forwards_v4, forwards_v6, has_wide_v6, index_of,
    link_up_with, listen, listen_on, route, set, without_link_local,
};
use crate::nftables::redirection::{Redirection, redirect_while_open};
use crate::plan::{ADDRESS_V4, ADDRESS_V6, PROBE, PROBE_V6, RESOLVER, RESOLVER_V6, TUNNEL_DEVICE};
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
    /// Interfaces behind which hosts are whose traffic goes by the tunnel, too; by default none. Their TCP connections are
    /// accepted by this machine, everything else is forwarded, for which the machine has to be a router.
    pub lans: Vec<String>,
}

impl Default for TunnelConfig {
    fn default() -> Self {
        let all = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
        let routes = all.map(|any| IpNet::new_assert(any, 0)).to_vec();
        Self { mtu: 1500, routes, bypass: Vec::new(), resolves_names: true, lans: Vec::new() }
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
    /// The port of the listeners, and of those for each LAN.
    port: u16,
    lan_ports: Vec<u16>,
    /// Whether IPv6 can be used.
    has_v6: bool,
    /// Keeps the rules of nftables.
    owner: Option<Netlink>,
}

impl Tunnel {
    /// Makes the device and the listeners. Nothing goes there before [`Tunnel::take_over`].
    ///
    /// # Errors
    /// The process lacks the right, there is a tunnel already, or the kernel lacks a part.
    pub fn open(config: TunnelConfig) -> Result<(Self, Connections, Tun), TunnelError> {
        let (descriptor, device) = open_device(TUNNEL_DEVICE, "another tunnel runs on this machine")?;
        let netlink = Netlink::open(None).map_err(failed("no netlink socket"))?;
        let (v4, v6, port) = listen().map_err(failed("no port can be opened on loopback"))?;
        let has_v6 = v6.is_some();
        let mut listeners = vec![v4];
        listeners.extend(v6);
        let mut lan_ports = Vec::new();
        for lan in &config.lans {
            let (v4, v6, port) = listen_on(lan).map_err(failed(format!("no port can be opened on {lan}")))?;
            listeners.push(v4);
            listeners.extend(v6);
            lan_ports.push(port);
        }
        let tunnel = Self { config, device, netlink, port, lan_ports, has_v6, owner: None };
        tunnel.configure().map_err(failed("the TUN device cannot be set up"))?;
        tunnel.config.lans.iter().try_for_each(|lan| check_lan(lan, has_v6))?;
        let connections =
            Connections::new(listeners.into_iter().map(Into::into)).map_err(failed("no runtime"))?;
        let tun = Tun::new(descriptor, tunnel.config.mtu).map_err(failed("no runtime"))?;
        Ok((tunnel, connections, tun))
    }

    /// Leads the traffic to the device.
    ///
    /// # Errors
    /// The kernel refuses a route or rule. What was done is taken back when the tunnel is dropped.
    pub fn take_over(&mut self) -> Result<(), TunnelError> {
        self.remove_rules();
        self.restore().map(drop).map_err(failed("a route or rule cannot be set"))
    }

    /// Passes TCP connections and queries for names to the listeners and to [`RESOLVER`], before they become packets of
    /// the device. To be called before [`Tunnel::take_over`].
    ///
    /// # Errors
    /// The kernel refuses: then TCP comes out of the device as packets, and queries go where the machine sends them.
    pub fn redirect(&mut self) -> Result<(), TunnelError> {
        self.redirect_tcp_to(Some(self.port)).map_err(failed(
            "TCP cannot be redirected by nftables (Linux 5.12 with NAT is needed, and no other table inet manyway)",
        ))
    }

    /// As [`Tunnel::redirect`], for queries for names alone, if the settings want it; ends the redirection of TCP, which
    /// comes out of the device as packets from now on.
    ///
    /// # Errors
    /// As [`Tunnel::redirect`].
    pub fn redirect_names(&mut self) -> Result<(), TunnelError> {
        if !self.config.resolves_names {
            self.owner = None;
            return Ok(());
        }
        self.redirect_tcp_to(None).map_err(failed("queries for names cannot be redirected by nftables"))
    }

    fn redirect_tcp_to(&mut self, port: Option<u16>) -> io::Result<()> {
        // The table goes with its owner.
        self.owner = None;
        let name_servers = self.config.resolves_names.then_some((RESOLVER, RESOLVER_V6));
        let lans = self.config.lans.iter().cloned().zip(self.lan_ports.iter().copied()).collect();
        self.owner = Some(redirect_while_open(self.device, &Redirection { port, name_servers, lans })?);
        Ok(())
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

    /// Addresses that exist in the tunnel alone, one of each family that this machine uses: a connection to one shows
    /// whether TCP arrives.
    pub fn probes(&self) -> Vec<IpAddr> {
        let v6 = self.has_v6.then_some(PROBE_V6.into());
        std::iter::once(PROBE.into()).chain(v6).collect()
    }

    /// Whether the device exists.
    pub fn is_there(&self) -> bool {
        index_of(TUNNEL_DEVICE).is_ok_and(|index| index == self.device)
    }

    fn put_back(&self) -> io::Result<bool> {
        let mut was_missing = self.ensure_addresses()?;
        let own: [IpAddr; 4] = [RESOLVER.into(), PROBE.into(), RESOLVER_V6.into(), PROBE_V6.into()];
        let own = own.map(IpNet::from);
        for network in own.iter().chain(&self.config.routes).filter(|network| self.can_use(network)) {
            was_missing |= ensure(&self.netlink, route(Verb::CreateNew, TABLE, *network, self.device))?;
        }
        for rule in self.rules() {
            was_missing |= ensure(&self.netlink, rule.create())?;
        }
        Ok(was_missing)
    }

    fn can_use(&self, network: &IpNet) -> bool {
        network.addr().is_ipv4() || self.has_v6
    }

    fn configure(&self) -> io::Result<()> {
        if !self.config.lans.is_empty() {
            let_forward(TUNNEL_DEVICE);
        }
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

    /// What is left out comes first, then more specific routes than default ones, then the tunnel.
    fn rules(&self) -> Vec<Rule> {
        let mut rules = Vec::new();
        for family in [V4, V6].into_iter().filter(|family| *family == V4 || self.has_v6) {
            for from in std::iter::once("lo").chain(self.config.lans.iter().map(String::as_str)) {
                let rule = |step, to, table, leaves_default_out| {
                    let (priority, from) = (PRIORITY + step, from.to_owned());
                    Rule { family, priority, from, to, table, leaves_default_out }
                };
                let bypass = self.config.bypass.iter().filter(|to| to.addr().is_ipv4() == (family == V4));
                rules.extend(bypass.map(|to| rule(0, Some(*to), MAIN_TABLE, false)));
                rules.push(rule(1, None, MAIN_TABLE, true));
                rules.push(rule(2, None, TABLE, false));
            }
        }
        rules
    }

    /// Removes the rules, also those that a killed process left.
    fn remove_rules(&self) {
        for (family, step) in
            [V4, V6].into_iter().flat_map(|family| (0..STEPS).map(move |step| (family, step)))
        {
            for _ in 0..MOST_LEFT {
                if self.netlink.request([delete_rule(family, PRIORITY + step)]).is_err() {
                    break;
                }
            }
        }
    }
}

/// Makes a TUN device; `busy` says what has it already.
pub(crate) fn open_device(name: &str, busy: &'static str) -> Result<(OwnedFd, u32), TunnelError> {
    let descriptor = kernel::open_tun(name).map_err(|error| {
        #[expect(clippy::wildcard_enum_match_arm, reason = "the system has many more")]
        let what = match error.kind() {
            io::ErrorKind::PermissionDenied => "a TUN device needs root (or CAP_NET_ADMIN, and /dev/net/tun)",
            io::ErrorKind::ResourceBusy => busy,
            io::ErrorKind::NotFound => "there is no /dev/net/tun (modprobe tun)",
            _ => "/dev/net/tun cannot be used",
        };
        failed(what)(error)
    })?;
    let device = index_of(name).map_err(failed("the TUN device is gone"))?;
    Ok((descriptor, device))
}

/// Lets packets that arrive by a device of ours be forwarded; the setting goes with the device.
pub(crate) fn let_forward(device: &str) {
    for family in ["ipv4", "ipv6"] {
        set(&format!("/proc/sys/net/{family}/conf/{device}/forwarding"), "1");
    }
}

/// Checks that packets of the hosts behind an interface are forwarded. That is left to the administrator: a setting of
/// ours would stay when this process is killed.
fn check_lan(lan: &str, has_v6: bool) -> Result<(), TunnelError> {
    let needed = if !(forwards_v4(lan) && forwards_v4(TUNNEL_DEVICE)) {
        "net.ipv4.ip_forward"
    } else if has_v6 && has_wide_v6(lan) && !forwards_v6() {
        "net.ipv6.conf.all.forwarding"
    } else {
        return Ok(());
    };
    let what = format!("packets of hosts behind {lan} are not forwarded");
    Err(failed(what)(io::Error::other(format!("`sysctl -w {needed}=1` changes that"))))
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        self.remove_rules();
    }
}

/// The routing table of the tunnel, and the priority of its rules: before that of the main table, 32766.
const TABLE: u32 = 4455;
const PRIORITY: u32 = 30_150;
/// Priorities from there on.
const STEPS: u32 = 3;
/// Most rules of one priority that are removed.
const MOST_LEFT: usize = 1024;
