//! Tables of nftables, written by netlink without the program `nft`: by the rules the kernel passes TCP and queries for
//! names to this process ([`redirection`]), or blocks what would otherwise go past a tunnel ([`block`]).
//!
//! Numbers are those of `linux/netfilter/nf_tables.h`; those in attributes have network byte order, those that are
//! compared with registers have the order of what is in them.

pub(crate) mod block;
mod expressions;
pub(crate) mod redirection;

use std::io;

use rustix::net::netlink;

use self::expressions::Rule;
use crate::netlink::{Attributes, Message, Netlink, Verb};

const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NEW_TABLE: u16 = 0;
const GET_TABLE: u16 = 1;
const DELETE_TABLE: u16 = 2;
const NEW_CHAIN: u16 = 3;
const NEW_RULE: u16 = 6;
/// The number of `nf_tables` among the parts of netfilter.
const NF_TABLES: u16 = 10;
/// Both IPv4 and IPv6.
const INET: u8 = 1;

/// Where a chain is called from, at which priority, and what it does.
#[derive(Debug, Clone, Copy)]
struct Hook {
    place: u32,
    priority: i32,
    kind: &'static [u8],
}

impl Hook {
    /// Translates the destinations of packets: of those that arrive (`NF_INET_PRE_ROUTING`), and of those that this host
    /// sends (`NF_INET_LOCAL_OUT`), at `NF_IP_PRI_NAT_DST`.
    const ARRIVING: Self = Self { place: 0, priority: -100, kind: b"nat\0" };
    const SENT: Self = Self { place: 3, priority: -100, kind: b"nat\0" };
    /// Filters packets that pass through this host (`NF_INET_FORWARD`), and those that it sends, at `NF_IP_PRI_FILTER`.
    const FILTER_FORWARDED: Self = Self { place: 2, priority: 0, kind: b"filter\0" };
    const FILTER_SENT: Self = Self { place: 3, priority: 0, kind: b"filter\0" };
}

/// Rules in order. Without a hook others jump to them.
#[derive(Debug)]
struct Chain {
    name: &'static [u8],
    hook: Option<Hook>,
    rules: Vec<Rule>,
}

/// The messages that make a table with its chains.
fn table(name: &[u8], flags: u32, chains: &[Chain]) -> Vec<Message> {
    let mut messages = vec![new_table(name, Verb::Create, flags)];
    messages.extend(chains.iter().map(|chain| {
        let message = message(NEW_CHAIN, Verb::Create).with(1, name).with(3, chain.name);
        let Some(Hook { place, priority, kind }) = chain.hook else { return message };
        let hook = Attributes::default().with(1, &place.to_be_bytes()).with(2, &priority.to_be_bytes());
        message.with_nested(4, &hook).with(7, kind)
    }));
    for chain in chains {
        messages.extend(chain.rules.iter().map(|rule| {
            let expressions = rule.iter().fold(Attributes::default(), |all, one| all.with_nested(1, one));
            message(NEW_RULE, Verb::Append).with(1, name).with(2, chain.name).with_nested(4, &expressions)
        }));
    }
    messages
}

fn new_table(name: &[u8], verb: Verb, flags: u32) -> Message {
    message(NEW_TABLE, verb).with(1, name).with(2, &flags.to_be_bytes())
}

fn delete_table(name: &[u8]) -> Message {
    message(DELETE_TABLE, Verb::Set).with(1, name)
}

/// Whether there is such a table.
fn has_table(name: &[u8]) -> io::Result<bool> {
    match open()?.request([message(GET_TABLE, Verb::Set).with(1, name)]) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// A socket for requests.
fn open() -> io::Result<Netlink> {
    Netlink::open(Some(netlink::NETFILTER))
}

/// Does what the messages ask for: all of it at the same moment, or nothing.
fn commit(netlink: &Netlink, messages: Vec<Message>) -> io::Result<()> {
    // The last message is acknowledged when all are done, and the first failure is reported before. That of each would
    // overflow the socket.
    let last = messages.len().saturating_sub(1);
    let silent = |(index, message): (usize, Message)| {
        if index == last { message } else { message.unacknowledged() }
    };
    let begin = std::iter::once(batch(BATCH_BEGIN));
    netlink.request(begin.chain(messages.into_iter().enumerate().map(silent)).chain([batch(BATCH_END)]))
}

/// `struct nfgenmsg` names the family, or the part of netfilter that a batch is for.
fn message(kind: u16, verb: Verb) -> Message {
    Message::new((NF_TABLES << 8) | kind, verb, &[INET, 0, 0, 0])
}

fn batch(kind: u16) -> Message {
    let [high, low] = NF_TABLES.to_be_bytes();
    Message::new(kind, Verb::Mark, &[0, 0, high, low])
}
