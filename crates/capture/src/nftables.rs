//! Rules by which the kernel passes TCP, and queries for names, to this process; written by netlink without the program
//! `nft`:
//!
//! ```text
//! table inet manyway {
//!     chain output {
//!         type nat hook output priority -100;
//!         meta mark 0x4455 accept
//!         oif "manyway0" meta l4proto tcp redirect to :PORT
//!     }
//! }
//! ```
//!
//! Numbers are those of `linux/netfilter/nf_tables.h`; those in attributes have network byte order, those that are
//! compared with registers have the order of what is in them.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use rustix::net::netlink;

use crate::netlink::{Attributes, Message, Netlink, Verb};
use crate::network::{LOOPBACK, V4, V6};
use crate::plan::TUNNEL_MARK;

const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NEW_TABLE: u16 = 0;
const NEW_CHAIN: u16 = 3;
const NEW_RULE: u16 = 6;
/// The number of `nf_tables` among the parts of netfilter.
const NF_TABLES: u16 = 10;
/// Both IPv4 and IPv6.
const INET: u8 = 1;
const LOCAL_OUT: u32 = 3;
/// Where destinations are translated (`NF_IP_PRI_NAT_DST`).
const PRIORITY: i32 = -100;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// Mark, outgoing device, network protocol, and transport protocol.
const META_MARK: u32 = 3;
const META_DEVICE: u32 = 5;
const META_FAMILY: u32 = 15;
const META_PROTOCOL: u32 = 16;
/// Where a field of a packet is counted from.
const TRANSPORT: u32 = 2;
/// The registers of verdicts and of values.
const VERDICT: u32 = 0;
const REGISTER: u32 = 1;
/// `NF_ACCEPT`.
const ACCEPT: u32 = 1;
const EQUAL: u32 = 0;
const UNEQUAL: u32 = 1;
/// Translates the destination.
const DESTINATION: u32 = 1;
/// The table goes with the socket that made it (`NFT_TABLE_F_OWNER`, Linux 5.12).
const OWNED: u32 = 2;
/// The register has a port (`NF_NAT_RANGE_PROTO_SPECIFIED`).
const PORT_GIVEN: u32 = 2;

const TABLE: &[u8] = b"manyway\0";
const CHAIN: &[u8] = b"output\0";

/// A rule: what a packet must be, and what is done with it.
type Rule = Vec<Attributes>;

/// Redirects each TCP connection that would leave by this device to a port of the loopback device. What does not leave
/// by it, such as connections to 127.0.0.1, is not touched. The rule stays.
pub(crate) fn redirect(device: u32, port: u16) -> io::Result<()> {
    install(&Netlink::open(Some(netlink::NETFILTER))?, 0, [tcp_to(device, port)])
}

/// As [`redirect`]. With name servers, DNS queries that leave this host are redirected, too: over UDP to these servers, over
/// TCP to the port. Packets with [`TUNNEL_MARK`] are left alone.
///
/// The rules go when the result is dropped, also when this process is killed.
pub(crate) fn redirect_while_open(
    device: u32,
    port: u16,
    name_servers: Option<(Ipv4Addr, Ipv6Addr)>,
) -> io::Result<Netlink> {
    let netlink = Netlink::open(Some(netlink::NETFILTER))?;
    let mut rules = vec![vec![meta(META_MARK), compare(EQUAL, &TUNNEL_MARK.to_ne_bytes()), accept()]];
    if let Some((v4, v6)) = name_servers {
        rules.push(both(queries(V4, UDP), translation(V4, &v4.octets())));
        rules.push(both(queries(V6, UDP), translation(V6, &v6.octets())));
        rules.push(both(queries(V4, TCP), redirection(port)));
        rules.push(both(queries(V6, TCP), redirection(port)));
    }
    rules.push(tcp_to(device, port));
    install(&netlink, OWNED, rules)?;
    Ok(netlink)
}

fn install(netlink: &Netlink, flags: u32, rules: impl IntoIterator<Item = Rule>) -> io::Result<()> {
    let hook = Attributes::default().with(1, &LOCAL_OUT.to_be_bytes()).with(2, &PRIORITY.to_be_bytes());
    let mut messages = vec![
        batch(BATCH_BEGIN),
        message(NEW_TABLE, Verb::Create).with(1, TABLE).with(2, &flags.to_be_bytes()),
        message(NEW_CHAIN, Verb::Create)
            .with(1, TABLE)
            .with(3, CHAIN)
            .with_nested(4, &hook)
            .with(7, b"nat\0"),
    ];
    messages.extend(rules.into_iter().map(|rule| {
        let expressions = rule.iter().fold(Attributes::default(), |all, one| all.with_nested(1, one));
        message(NEW_RULE, Verb::Append).with(1, TABLE).with(2, CHAIN).with_nested(4, &expressions)
    }));
    messages.push(batch(BATCH_END));
    netlink.request(messages)
}

fn both(mut condition: Rule, action: Rule) -> Rule {
    condition.extend(action);
    condition
}

/// TCP that would leave by a device, to a port of this host.
fn tcp_to(device: u32, port: u16) -> Rule {
    let condition = vec![
        meta(META_DEVICE),
        compare(EQUAL, &device.to_ne_bytes()),
        meta(META_PROTOCOL),
        compare(EQUAL, &[TCP]),
    ];
    both(condition, redirection(port))
}

/// Queries for names that leave this host.
fn queries(family: u8, protocol: u8) -> Rule {
    vec![
        meta(META_DEVICE),
        compare(UNEQUAL, &LOOPBACK.to_ne_bytes()),
        meta(META_FAMILY),
        compare(EQUAL, &[family]),
        meta(META_PROTOCOL),
        compare(EQUAL, &[protocol]),
        payload(TRANSPORT, 2, 2),
        compare(EQUAL, &DNS.to_be_bytes()),
    ]
}

/// `struct nfgenmsg` names the family, or the part of netfilter that a batch is for.
fn message(kind: u16, verb: Verb) -> Message {
    Message::new((NF_TABLES << 8) | kind, verb, &[INET, 0, 0, 0])
}

fn batch(kind: u16) -> Message {
    let [high, low] = NF_TABLES.to_be_bytes();
    Message::new(kind, Verb::Mark, &[0, 0, high, low])
}

fn expression(name: &[u8], settings: &Attributes) -> Attributes {
    Attributes::default().with(1, name).with_nested(2, settings)
}

/// Loads a property of the packet into the register.
fn meta(key: u32) -> Attributes {
    let settings = Attributes::default().with(1, &REGISTER.to_be_bytes()).with(2, &key.to_be_bytes());
    expression(b"meta\0", &settings)
}

/// Loads bytes of the packet into the register.
fn payload(from: u32, offset: u32, length: u32) -> Attributes {
    let settings = [REGISTER, from, offset, length];
    let settings = (1..)
        .zip(settings)
        .fold(Attributes::default(), |all, (kind, value)| all.with(kind, &value.to_be_bytes()));
    expression(b"payload\0", &settings)
}

/// Goes on only if the register compares so with this value.
fn compare(how: u32, value: &[u8]) -> Attributes {
    let settings = Attributes::default()
        .with(1, &REGISTER.to_be_bytes())
        .with(2, &how.to_be_bytes())
        .with_nested(3, &Attributes::default().with(1, value));
    expression(b"cmp\0", &settings)
}

/// Loads a value into the register.
fn immediate(value: &[u8]) -> Attributes {
    let settings = Attributes::default()
        .with(1, &REGISTER.to_be_bytes())
        .with_nested(2, &Attributes::default().with(1, value));
    expression(b"immediate\0", &settings)
}

/// Ends the chain for the packet.
fn accept() -> Attributes {
    let verdict = Attributes::default().with(1, &ACCEPT.to_be_bytes());
    let settings = Attributes::default()
        .with(1, &VERDICT.to_be_bytes())
        .with_nested(2, &Attributes::default().with_nested(2, &verdict));
    expression(b"immediate\0", &settings)
}

/// Redirects to a port of this host.
fn redirection(port: u16) -> Rule {
    let settings = Attributes::default().with(1, &REGISTER.to_be_bytes()).with(3, &PORT_GIVEN.to_be_bytes());
    vec![immediate(&port.to_be_bytes()), expression(b"redir\0", &settings)]
}

/// Sends to another address.
fn translation(family: u8, address: &[u8]) -> Rule {
    let settings = Attributes::default()
        .with(1, &DESTINATION.to_be_bytes())
        .with(2, &u32::from(family).to_be_bytes())
        .with(3, &REGISTER.to_be_bytes());
    vec![immediate(address), expression(b"nat\0", &settings)]
}

/// Port of DNS.
const DNS: u16 = 53;
