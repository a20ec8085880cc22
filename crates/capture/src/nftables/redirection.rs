//! Passes TCP and queries for names to this process:
//!
//! ```text
//! table inet manyway {
//!     chain output {
//!         type nat hook output priority -100;
//!         oif "manyway0" meta l4proto tcp redirect to :PORT
//!     }
//! }
//! ```

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::expressions::{
    Rule, accept, all, arrives_by_name, does_not_leave_by, is_for_another_host, is_marked, is_of, is_tcp,
    is_tcp_query, is_udp_query, leaves_by, redirect_to, route_leads_to, translate_to,
};
use super::{Chain, Hook, commit, open, table};
use crate::netlink::Netlink;
use crate::network::{LOOPBACK, V4, V6};
use crate::plan::TUNNEL_MARK;

const TABLE: &[u8] = b"manyway\0";
const OUTPUT: &[u8] = b"output\0";
const ARRIVING: &[u8] = b"prerouting\0";
/// The table goes with the socket that made it (`NFT_TABLE_F_OWNER`, Linux 5.12).
const OWNED: u32 = 2;

/// Redirects each TCP connection that would leave by this device to a port of the loopback device. What does not leave
/// by it, such as connections to 127.0.0.1, is not touched. The rule stays.
pub(crate) fn redirect(device: u32, port: u16) -> io::Result<()> {
    commit(&open()?, table(TABLE, 0, &[sent(vec![tcp_to(device, port)])]))
}

/// What a tunnel redirects of a machine.
#[derive(Debug)]
pub(crate) struct Redirection {
    /// The port for TCP that would leave by the device. Without it TCP leaves, also that of LANs.
    pub(crate) port: Option<u16>,
    /// Whither DNS queries go that leave this host; those over TCP go to the ports, if there are some. Without name servers
    /// they are not touched.
    pub(crate) name_servers: Option<(Ipv4Addr, Ipv6Addr)>,
    /// Devices behind which hosts are, and the port for their connections: what they send to another host, and what this
    /// one would send by the device.
    pub(crate) lans: Vec<(String, u16)>,
}

impl Redirection {
    fn chains(&self, device: u32) -> Vec<Chain> {
        let mut output = vec![all([is_marked(TUNNEL_MARK), accept()])];
        if let Some(servers) = self.name_servers {
            output.extend(queries(&does_not_leave_by(LOOPBACK), servers, self.port));
        }
        output.extend(self.port.map(|port| tcp_to(device, port)));
        let mut chains = vec![sent(output)];
        if !self.lans.is_empty() {
            let rules = self.lans.iter().flat_map(|(lan, port)| self.of_lan(lan, device, *port)).collect();
            chains.push(Chain { name: ARRIVING, hook: Some(Hook::ARRIVING), rules });
        }
        chains
    }

    fn of_lan(&self, lan: &str, device: u32, port: u16) -> Vec<Rule> {
        let (arrives, port) = (arrives_by_name(lan), self.port.map(|_| port));
        let mut rules = Vec::new();
        if let Some(servers) = self.name_servers {
            rules.extend(queries(&all([arrives.clone(), is_for_another_host()]), servers, port));
        }
        rules.extend(port.map(|port| all([arrives, is_tcp(), route_leads_to(device), redirect_to(port)])));
        rules
    }
}

/// Redirects what would leave by a device. Packets with [`TUNNEL_MARK`] are left alone.
///
/// The rules go when the result is dropped, also when this process is killed.
pub(crate) fn redirect_while_open(device: u32, what: &Redirection) -> io::Result<Netlink> {
    let netlink = open()?;
    commit(&netlink, table(TABLE, OWNED, &what.chains(device)))?;
    Ok(netlink)
}

fn sent(rules: Vec<Rule>) -> Chain {
    Chain { name: OUTPUT, hook: Some(Hook::SENT), rules }
}

/// TCP that would leave by a device, to a port of this host.
fn tcp_to(device: u32, port: u16) -> Rule {
    all([leaves_by(device), is_tcp(), redirect_to(port)])
}

/// Queries for names to other name servers; those over TCP go to a port of this host, if there is one.
fn queries(condition: &Rule, (v4, v6): (Ipv4Addr, Ipv6Addr), port: Option<u16>) -> Vec<Rule> {
    let to = |family, address: &[u8], query: Rule| {
        all([condition.clone(), is_of(family), query, translate_to(family, address)])
    };
    let mut rules = vec![to(V4, &v4.octets(), is_udp_query()), to(V6, &v6.octets(), is_udp_query())];
    match port {
        Some(port) => rules.push(all([condition.clone(), is_tcp_query(), redirect_to(port)])),
        None => rules.extend([to(V4, &v4.octets(), is_tcp_query()), to(V6, &v6.octets(), is_tcp_query())]),
    }
    rules
}
