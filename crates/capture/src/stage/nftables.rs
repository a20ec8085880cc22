//! The rule by which the kernel redirects TCP to a listener, written by netlink without the program `nft`:
//!
//! ```text
//! table inet manyway {
//!     chain output {
//!         type nat hook output priority -100;
//!         oif "manyway0" meta l4proto tcp redirect to :PORT
//!     }
//! }
//! ```
//!
//! Numbers are those of `linux/netfilter/nf_tables.h`; those in attributes have network byte order, those that are
//! compared with registers have the order of what is in them.

use std::io;

use rustix::net::netlink;

use super::netlink::{Attributes, Message, Netlink, Verb};

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
/// Outgoing device, and transport protocol.
const META_DEVICE: u32 = 5;
const META_PROTOCOL: u32 = 16;
const REGISTER: u32 = 1;
const EQUAL: u32 = 0;
/// The register has a port (`NF_NAT_RANGE_PROTO_SPECIFIED`).
const PORT_GIVEN: u32 = 2;

const TABLE: &[u8] = b"manyway\0";
const CHAIN: &[u8] = b"output\0";

/// Redirects each TCP connection that would leave by this device to a port of the loopback device. What does not leave
/// by it, such as connections to 127.0.0.1, is not touched.
pub(super) fn redirect(device: u32, port: u16) -> io::Result<()> {
    let hook = Attributes::default().with(1, &LOCAL_OUT.to_be_bytes()).with(2, &PRIORITY.to_be_bytes());
    let expressions = [
        meta(META_DEVICE),
        compare(&device.to_ne_bytes()),
        meta(META_PROTOCOL),
        compare(&[TCP]),
        immediate(&port.to_be_bytes()),
        redirection(),
    ];
    let expressions = expressions.iter().fold(Attributes::default(), |all, one| all.with_nested(1, one));
    Netlink::open(Some(netlink::NETFILTER))?.request([
        batch(BATCH_BEGIN),
        message(NEW_TABLE, Verb::Create).with(1, TABLE),
        message(NEW_CHAIN, Verb::Create)
            .with(1, TABLE)
            .with(3, CHAIN)
            .with_nested(4, &hook)
            .with(7, b"nat\0"),
        message(NEW_RULE, Verb::Append).with(1, TABLE).with(2, CHAIN).with_nested(4, &expressions),
        batch(BATCH_END),
    ])
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

/// Goes on only if the register has this value.
fn compare(value: &[u8]) -> Attributes {
    let settings = Attributes::default()
        .with(1, &REGISTER.to_be_bytes())
        .with(2, &EQUAL.to_be_bytes())
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

/// Redirects to the port in the register.
fn redirection() -> Attributes {
    let settings = Attributes::default().with(1, &REGISTER.to_be_bytes()).with(3, &PORT_GIVEN.to_be_bytes());
    expression(b"redir\0", &settings)
}
