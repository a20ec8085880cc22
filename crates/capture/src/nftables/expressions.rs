//! What rules consist of.

use ipnet::IpNet;

use crate::netlink::Attributes;
use crate::network::{V4, V6};

/// A rule: what a packet must be, and what is done with it.
pub(super) type Rule = Vec<Attributes>;

/// Mark, incoming and outgoing device by index and by name, network protocol, and transport protocol.
const META_MARK: u32 = 3;
const META_OUT: u32 = 5;
const META_IN_NAME: u32 = 6;
const META_OUT_NAME: u32 = 7;
const META_FAMILY: u32 = 15;
const META_PROTOCOL: u32 = 16;
/// Where a field of a packet is counted from.
const NETWORK: u32 = 1;
const TRANSPORT: u32 = 2;
/// The registers of verdicts and of values.
const VERDICT: u32 = 0;
const REGISTER: u32 = 1;
/// `NF_ACCEPT` and `NFT_JUMP`.
const ACCEPT: u32 = 1;
const JUMP: u32 = (-3_i32).cast_unsigned();
/// How a register compares with a value.
const EQUAL: u32 = 0;
const UNEQUAL: u32 = 1;
const AT_LEAST: u32 = 5;
/// Translates the destination.
const DESTINATION: u32 = 1;
/// The register has a port (`NF_NAT_RANGE_PROTO_SPECIFIED`).
const PORT_GIVEN: u32 = 2;
/// An error of ICMP for either family, and that it is forbidden by an administrator.
const ICMP_OF_EITHER: u32 = 2;
const PROHIBITED: u8 = 3;
/// A look-up of the packet's destination among the routes: the device that it yields, and the type of the address.
const OF_DESTINATION: u32 = 2;
const DEVICE: u32 = 1;
const ADDRESS_TYPE: u32 = 3;
/// `RTN_LOCAL`.
const OWN_ADDRESS: u32 = 2;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// Ports of DNS and DHCP.
const DNS: u16 = 53;
const DHCP: [u16; 2] = [68, 67];
/// Offsets of the addresses in the IP headers.
const DESTINATION_V4: u32 = 16;
const DESTINATION_V6: u32 = 24;

/// All conditions of several rules, and what to do then.
pub(super) fn all(parts: impl IntoIterator<Item = Rule>) -> Rule {
    parts.into_iter().flatten().collect()
}

pub(super) fn is_marked(mark: u32) -> Rule {
    vec![meta(META_MARK), compare(EQUAL, &mark.to_ne_bytes())]
}

/// Whether a packet leaves by this device.
pub(super) fn leaves_by(device: u32) -> Rule {
    vec![meta(META_OUT), compare(EQUAL, &device.to_ne_bytes())]
}

pub(super) fn does_not_leave_by(device: u32) -> Rule {
    vec![meta(META_OUT), compare(UNEQUAL, &device.to_ne_bytes())]
}

/// As [`leaves_by`], whatever index the device has.
pub(super) fn leaves_by_name(device: &str) -> Rule {
    vec![meta(META_OUT_NAME), compare(EQUAL, &name(device))]
}

pub(super) fn arrives_by_name(device: &str) -> Rule {
    vec![meta(META_IN_NAME), compare(EQUAL, &name(device))]
}

/// `IFNAMSIZ` bytes.
fn name(device: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(device.bytes()).for_each(|(place, byte)| *place = byte);
    bytes
}

/// Whether this host would send a packet with this destination by the device.
pub(super) fn route_leads_to(device: u32) -> Rule {
    vec![fib(DEVICE), compare(EQUAL, &device.to_ne_bytes())]
}

/// Whether the destination is another host.
pub(super) fn is_for_another_host() -> Rule {
    vec![fib(ADDRESS_TYPE), compare(UNEQUAL, &OWN_ADDRESS.to_ne_bytes())]
}

pub(super) fn is_of(family: u8) -> Rule {
    vec![meta(META_FAMILY), compare(EQUAL, &[family])]
}

pub(super) fn is_tcp() -> Rule {
    vec![meta(META_PROTOCOL), compare(EQUAL, &[TCP])]
}

/// Queries for names over UDP.
pub(super) fn is_udp_query() -> Rule {
    vec![meta(META_PROTOCOL), compare(EQUAL, &[UDP]), payload(TRANSPORT, 2, 2), to_dns()]
}

/// Connections to name servers.
pub(super) fn is_tcp_query() -> Rule {
    all([is_tcp(), vec![payload(TRANSPORT, 2, 2), to_dns()]])
}

fn to_dns() -> Attributes {
    compare(EQUAL, &DNS.to_be_bytes())
}

/// What a client of DHCP sends to its server.
pub(super) fn is_dhcp() -> Rule {
    let ports = DHCP.map(u16::to_be_bytes).concat();
    vec![meta(META_PROTOCOL), compare(EQUAL, &[UDP]), payload(TRANSPORT, 0, 4), compare(EQUAL, &ports)]
}

/// Destinations that no router passes on: multicast and broadcast of IPv4, link-local and multicast of IPv6.
pub(super) fn stays_near(family: u8) -> Rule {
    let (offset, least) = if family == V4 { (DESTINATION_V4, 224) } else { (DESTINATION_V6, 0xFE) };
    all([is_of(family), vec![payload(NETWORK, offset, 1), compare(AT_LEAST, &[least])]])
}

/// Whether the destination is in the network.
pub(super) fn goes_to(network: IpNet) -> Rule {
    let (family, offset, address, mask) = match network {
        IpNet::V4(v4) => (V4, DESTINATION_V4, v4.network().octets().to_vec(), v4.netmask().octets().to_vec()),
        IpNet::V6(v6) => (V6, DESTINATION_V6, v6.network().octets().to_vec(), v6.netmask().octets().to_vec()),
    };
    let length = u32::from(network.max_prefix_len()) / 8;
    all([is_of(family), vec![payload(NETWORK, offset, length), masked(&mask), compare(EQUAL, &address)]])
}

/// Ends the chain and those that jumped to it.
pub(super) fn accept() -> Rule {
    verdict(&Attributes::default().with(1, &ACCEPT.to_be_bytes()))
}

/// Goes on with another chain, and then with the next rule.
pub(super) fn jump(chain: &[u8]) -> Rule {
    verdict(&Attributes::default().with(1, &JUMP.to_be_bytes()).with(2, chain))
}

fn verdict(verdict: &Attributes) -> Rule {
    let settings = Attributes::default()
        .with(1, &VERDICT.to_be_bytes())
        .with_nested(2, &Attributes::default().with_nested(2, verdict));
    vec![expression(b"immediate\0", &settings)]
}

/// Answers by ICMP that it is forbidden.
pub(super) fn reject() -> Rule {
    let settings = Attributes::default().with(1, &ICMP_OF_EITHER.to_be_bytes()).with(2, &[PROHIBITED]);
    vec![expression(b"reject\0", &settings)]
}

/// Redirects to a port of this host.
pub(super) fn redirect_to(port: u16) -> Rule {
    let settings = Attributes::default().with(1, &REGISTER.to_be_bytes()).with(3, &PORT_GIVEN.to_be_bytes());
    vec![immediate(&port.to_be_bytes()), expression(b"redir\0", &settings)]
}

/// Sends to another address.
pub(super) fn translate_to(family: u8, address: &[u8]) -> Rule {
    let settings = Attributes::default()
        .with(1, &DESTINATION.to_be_bytes())
        .with(2, &u32::from(family).to_be_bytes())
        .with(3, &REGISTER.to_be_bytes());
    vec![immediate(address), expression(b"nat\0", &settings)]
}

fn expression(name: &[u8], settings: &Attributes) -> Attributes {
    Attributes::default().with(1, name).with_nested(2, settings)
}

fn numbered(numbers: impl IntoIterator<Item = u32>) -> Attributes {
    (1..).zip(numbers).fold(Attributes::default(), |all, (kind, value)| all.with(kind, &value.to_be_bytes()))
}

/// Loads a property of the packet into the register.
fn meta(key: u32) -> Attributes {
    expression(b"meta\0", &numbered([REGISTER, key]))
}

/// Loads the result of a look-up among the routes into the register, 0 if there is none.
fn fib(result: u32) -> Attributes {
    expression(b"fib\0", &numbered([REGISTER, result, OF_DESTINATION]))
}

/// Loads bytes of the packet into the register.
fn payload(from: u32, offset: u32, length: u32) -> Attributes {
    expression(b"payload\0", &numbered([REGISTER, from, offset, length]))
}

/// Leaves the bits of the mask in the register.
fn masked(mask: &[u8]) -> Attributes {
    let length = u32::try_from(mask.len()).unwrap_or_default();
    let none = vec![0; mask.len()];
    let settings = numbered([REGISTER, REGISTER, length])
        .with_nested(4, &Attributes::default().with(1, mask))
        .with_nested(5, &Attributes::default().with(1, &none));
    expression(b"bitwise\0", &settings)
}

/// Goes on only if the register compares so with this value.
fn compare(how: u32, value: &[u8]) -> Attributes {
    let settings = numbered([REGISTER, how]).with_nested(3, &Attributes::default().with(1, value));
    expression(b"cmp\0", &settings)
}

/// Loads a value into the register.
fn immediate(value: &[u8]) -> Attributes {
    let settings = numbered([REGISTER]).with_nested(2, &Attributes::default().with(1, value));
    expression(b"immediate\0", &settings)
}
