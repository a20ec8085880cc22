//! The device by which whole packets go to other sites.

use std::io;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::error::{TunnelError, failed};
use crate::netlink::{Message, Netlink, Verb, ensure};
use crate::network::{
    MAIN_TABLE, V4, V6, address, forwards_v4, forwards_v6, index_of, link_up_with, may_use_v6, route,
    without_link_local,
};
use crate::plan::SITE_DEVICE;
use crate::tun::Tun;
use crate::tunnel::{let_forward, open_device};

/// What the device of a site has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteConfig {
    /// Largest packet, in bytes, at least 1280.
    pub mtu: u16,
    /// The addresses of this machine.
    pub addresses: Vec<IpAddr>,
    /// Networks that are reached by the device.
    pub routes: Vec<IpNet>,
    /// Networks behind this machine, for which it has to be a router.
    pub behind: Vec<IpNet>,
}

/// A TUN device in the main routing table, with addresses and routes. Dropping the [`Tun`] takes all of them back; if the
/// process is killed, the kernel does.
///
/// Needs `CAP_NET_ADMIN` over its network namespace.
#[derive(Debug)]
pub struct Site {
    config: SiteConfig,
    device: u32,
    netlink: Netlink,
    /// Whether IPv6 can be used.
    has_v6: bool,
}

impl Site {
    /// Makes the device.
    ///
    /// # Errors
    /// The process lacks the right, the machine has such a device or one of the routes already, or it does not forward
    /// packets for the networks behind it.
    pub fn open(config: SiteConfig) -> Result<(Self, Tun), TunnelError> {
        check_forwarding(&config.behind)?;
        let (descriptor, device) = open_device(SITE_DEVICE, "this machine has a network of sites already")?;
        let netlink = Netlink::open(None).map_err(failed("no netlink socket"))?;
        let site = Self { config, device, netlink, has_v6: may_use_v6() };
        if !site.config.behind.is_empty() {
            let_forward(SITE_DEVICE);
        }
        site.configure().map_err(failed("the TUN device cannot be set up"))?;
        for (network, message) in site.routes() {
            let taken = |error: io::Error| {
                let is_taken = error.kind() == io::ErrorKind::AlreadyExists;
                let why =
                    if is_taken { "is reached by another interface already" } else { "cannot be reached" };
                failed(format!("{network} {why}"))(error)
            };
            site.netlink.request([message]).map_err(taken)?;
        }
        let tun = Tun::new(descriptor, site.config.mtu).map_err(failed("no runtime"))?;
        Ok((site, tun))
    }

    /// Puts back what others removed since: addresses and routes, as network managers do when they reload. Returns whether
    /// anything was missing.
    ///
    /// # Errors
    /// The kernel refuses one of them. If the device is there still ([`Site::is_there`]), a later call may succeed.
    pub fn restore(&self) -> io::Result<bool> {
        // A device that was set down takes no route.
        self.put_back().or_else(|_| {
            self.configure()?;
            self.put_back().map(|_| true)
        })
    }

    /// Whether the device exists.
    pub fn is_there(&self) -> bool {
        index_of(SITE_DEVICE).is_ok_and(|index| index == self.device)
    }

    fn put_back(&self) -> io::Result<bool> {
        let mut was_missing = self.ensure_addresses()?;
        for (_, message) in self.routes() {
            was_missing |= ensure(&self.netlink, message)?;
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
        let mut was_missing = false;
        for own in self.config.addresses.iter().filter(|own| own.is_ipv4() || self.has_v6) {
            let message = match own {
                IpAddr::V4(own) => address(V4, self.device, &own.octets()),
                IpAddr::V6(own) => address(V6, self.device, &own.octets()),
            };
            was_missing |= ensure(&self.netlink, message)?;
        }
        Ok(was_missing)
    }

    fn routes(&self) -> impl Iterator<Item = (IpNet, Message)> + '_ {
        let usable = self.config.routes.iter().filter(|it| it.addr().is_ipv4() || self.has_v6);
        usable.map(|network| (*network, route(Verb::CreateNew, MAIN_TABLE, *network, self.device)))
    }
}

/// Checks that packets of the hosts behind this machine are forwarded. That is left to the administrator: a setting of
/// ours would stay when this process is killed. A single address may be this machine's own.
fn check_forwarding(behind: &[IpNet]) -> Result<(), TunnelError> {
    let has = |is_v4| {
        let mut wide = behind.iter().filter(|it| it.prefix_len() < it.max_prefix_len());
        wide.any(|it| it.addr().is_ipv4() == is_v4)
    };
    let needed = if has(true) && !forwards_v4("all") {
        "net.ipv4.ip_forward"
    } else if has(false) && !forwards_v6() {
        "net.ipv6.conf.all.forwarding"
    } else {
        return Ok(());
    };
    let what = "packets of hosts behind this machine are not forwarded";
    Err(failed(what)(io::Error::other(format!("`sysctl -w {needed}=1` changes that"))))
}
