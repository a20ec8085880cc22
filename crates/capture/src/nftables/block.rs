//! The switch that blocks what would go by a tunnel, with or without one:
//!
//! ```text
//! table inet manyway-block {
//!     chain output {
//!         type filter hook output priority 0;
//!         meta mark 0x4455 accept
//!         oif "lo" accept
//!         jump blocked
//!     }
//!     chain forward {
//!         type filter hook forward priority 0;
//!         iifname LAN jump blocked
//!     }
//!     chain blocked {
//!         oifname "manyway-tun" accept
//!         ip daddr DIRECT accept
//!         ip daddr TUNNELLED reject
//!     }
//! }
//! ```
//!
//! The table stays when its process ends. It needs neither the routes nor the rules of the tunnel, so that none of them
//! opens it by its absence, and it holds for sockets that are bound to an interface.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::expressions::{
    accept, all, arrives_by_name, goes_to, is_dhcp, is_marked, jump, leaves_by, leaves_by_name, reject,
    stays_near,
};
use super::{Chain, Hook, commit, delete_table, has_table, new_table, open, table};
use crate::netlink::Verb;
use crate::network::{LOOPBACK, V4, V6};
use crate::plan::{RESOLVER, RESOLVER_V6, TUNNEL_DEVICE, TUNNEL_MARK};

const TABLE: &[u8] = b"manyway-block\0";
const OUTPUT: &[u8] = b"output\0";
const FORWARD: &[u8] = b"forward\0";
const BLOCKED: &[u8] = b"blocked\0";

/// Blocks what this host, and hosts behind the devices `lans`, send to the networks of `tunnelled` past the tunnel, but
/// not to those of `direct`. There is no moment without a block if there was one before.
pub(crate) fn close(tunnelled: &[IpNet], direct: &[IpNet], lans: &[String]) -> io::Result<()> {
    let output =
        vec![all([is_marked(TUNNEL_MARK), accept()]), all([leaves_by(LOOPBACK), accept()]), jump(BLOCKED)];
    let mut blocked = vec![
        all([leaves_by_name(TUNNEL_DEVICE), accept()]),
        all([stays_near(V4), accept()]),
        all([stays_near(V6), accept()]),
        all([is_dhcp(), accept()]),
    ];
    // Redirected packets are still known by the device that they would have left by.
    let redirected: [IpAddr; 4] =
        [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into(), RESOLVER.into(), RESOLVER_V6.into()];
    let open_to = direct.iter().copied().chain(redirected.map(IpNet::from));
    blocked.extend(open_to.map(|network| all([goes_to(network), accept()])));
    blocked.extend(tunnelled.iter().map(|network| all([goes_to(*network), reject()])));
    let forward = lans.iter().map(|lan| all([arrives_by_name(lan), jump(BLOCKED)])).collect();
    let chains = [
        Chain { name: OUTPUT, hook: Some(Hook::FILTER_SENT), rules: output },
        Chain { name: FORWARD, hook: Some(Hook::FILTER_FORWARDED), rules: forward },
        Chain { name: BLOCKED, hook: None, rules: blocked },
    ];
    // Only a table that exists can be deleted.
    let mut messages = vec![new_table(TABLE, Verb::Create, 0), delete_table(TABLE)];
    messages.extend(table(TABLE, 0, &chains));
    commit(&open()?, messages)
}

/// Whether it is closed.
pub(crate) fn is_closed() -> io::Result<bool> {
    has_table(TABLE)
}

/// Opens it, and tells whether it was closed.
pub(crate) fn open_again() -> io::Result<bool> {
    match commit(&open()?, vec![delete_table(TABLE)]) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
