//! Rules for the traffic of programs: what goes first, and how long it is worth sending.

use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use manyway_egress::{Destination, Header, Host, NetPorts, Ports, Treatment};
use manyway_transfer::Urgency;
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

use crate::args::Protocol;
use crate::output::units::parse_duration;

/// What is known of a connection or a flow when it begins, or of a packet.
#[derive(Debug, Clone, Copy)]
pub struct Traffic {
    /// What carries it; `None` for another protocol.
    protocol: Option<Protocol>,
    /// Where its first data go; a name has no address here.
    ip: Option<IpAddr>,
    /// 0 without one.
    port: u16,
    /// The differentiated services code point (RFC 2474) of its first packet, where that is known.
    dscp: Option<u8>,
}

impl Traffic {
    /// A connection or a flow to a destination.
    pub fn new(protocol: Protocol, destination: &Destination, dscp: Option<u8>) -> Self {
        let ip = match destination.host() {
            Host::Ip(ip) => Some(*ip),
            Host::Name(_) | Host::Resolver => None,
        };
        Self { protocol: Some(protocol), ip, port: destination.port(), dscp }
    }
}

/// The treatment by the first of the rules that matches, or of the built-in ones behind them.
pub fn treatment(rules: &[TrafficRule], traffic: Traffic) -> Treatment {
    by_rules(rules, &[traffic], traffic.dscp)
}

/// As [`treatment`], of a packet between sites. Which end has begun is not known, so either may be the one of the rule.
pub fn packet_treatment(rules: &[TrafficRule], packet: &[u8]) -> Treatment {
    let Some(header) = Header::parse(packet) else { return Treatment::default() };
    let protocol = match header.protocol {
        TCP => Some(Protocol::Tcp),
        UDP => Some(Protocol::Udp),
        _ => None,
    };
    let [from, to] = header.ports.unwrap_or_default();
    let end = |ip, port| Traffic { protocol, ip: Some(ip), port, dscp: Some(header.dscp) };
    by_rules(rules, &[end(header.destination, to), end(header.source, from)], Some(header.dscp))
}

fn by_rules(rules: &[TrafficRule], ends: &[Traffic], dscp: Option<u8>) -> Treatment {
    let own = rules.iter().find(|rule| ends.iter().any(|end| rule.matches(*end)));
    own.map_or_else(|| Treatment { class: usual_class(ends, dscp), lifetime: None }, |rule| rule.treatment)
}

/// The class without a rule: what the program marks counts more than its port. `None` leaves it to the behaviour.
fn usual_class(ends: &[Traffic], dscp: Option<u8>) -> Option<Urgency> {
    class_of_code_point(dscp).or_else(|| ends.iter().find_map(|end| class_of_port(*end)))
}

/// The class of services that carry little and whose answers a user waits for, and of copies in the background. The list is
/// short, since behaviour tells more than a port: a shell and a copy over SSH have the same one.
fn class_of_port(Traffic { protocol, port, .. }: Traffic) -> Option<Urgency> {
    match (protocol?, port) {
        // DNS, also over TLS; SIP, also over TLS.
        (_, 53 | 853 | 5060) | (Protocol::Tcp, 5061) => Some(Urgency::Interactive),
        // NTP: a late answer makes the clock wrong.
        (Protocol::Udp, 123) => Some(Urgency::Interactive),
        // FTP's data, rsync.
        (Protocol::Tcp, 20 | 873) => Some(Urgency::Bulk),
        _ => None,
    }
}

/// What programs mean by a code point (RFC 4594, RFC 8622).
fn class_of_code_point(dscp: Option<u8>) -> Option<Urgency> {
    match dscp? {
        // Telephony, signalling, conferences, network control.
        46 | 44 | 40 | 34 | 36 | 38 | 48 | 56 => Some(Urgency::Interactive),
        CS1 | LOWER_EFFORT => Some(Urgency::Bulk),
        _ => None,
    }
}

/// Numbers of protocols in IP packets.
const TCP: u8 = 6;
const UDP: u8 = 17;

const CS1: u8 = 8;
const LOWER_EFFORT: u8 = 1;

/// `[[rule]]` of the settings: a condition, of which every part has to hold, and a treatment.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Fields")]
pub struct TrafficRule {
    protocol: Option<Protocol>,
    ports: Ports,
    /// A name is in no network.
    to: Option<NetPorts>,
    dscp: Option<u8>,
    treatment: Treatment,
}

impl TrafficRule {
    fn matches(&self, Traffic { protocol, ip, port, dscp }: Traffic) -> bool {
        let is_inside = |net: &NetPorts| ip.is_some_and(|ip| net.contains((ip, port).into()));
        self.protocol.is_none_or(|of_rule| protocol == Some(of_rule))
            && self.ports.contain(port)
            && self.to.as_ref().is_none_or(is_inside)
            && self.dscp.is_none_or(|of_rule| dscp == Some(of_rule))
    }
}

/// The keys of a rule.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Fields {
    proto: Option<Protocol>,
    #[serde(default, deserialize_with = "number_or_text")]
    port: Option<Ports>,
    #[serde(default, deserialize_with = "number_or_text")]
    to: Option<NetPorts>,
    #[serde(default, deserialize_with = "number_or_text")]
    dscp: Option<CodePoint>,
    class: Option<ClassName>,
    #[serde(default, deserialize_with = "number_or_text")]
    lifetime: Option<Lifetime>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ClassName {
    Interactive,
    Deadline,
    Bulk,
}

impl TryFrom<Fields> for TrafficRule {
    type Error = &'static str;

    fn try_from(
        Fields { proto: protocol, port, to, dscp, class, lifetime }: Fields,
    ) -> Result<Self, Self::Error> {
        let class = class.map(|class| match class {
            ClassName::Interactive => Urgency::Interactive,
            ClassName::Deadline => Urgency::Deadline,
            ClassName::Bulk => Urgency::Bulk,
        });
        if class.is_none() && lifetime.is_none() {
            return Err("a rule needs a class, a lifetime, or both");
        }
        let is_of_datagrams = dscp.is_some() || lifetime.is_some() || class == Some(Urgency::Deadline);
        if is_of_datagrams && protocol != Some(Protocol::Udp) {
            return Err("dscp, lifetime and class = \"deadline\" need proto = \"udp\"");
        }
        Ok(Self {
            protocol,
            ports: port.unwrap_or(Ports::All),
            to,
            dscp: dscp.map(|point| point.0),
            treatment: Treatment { class, lifetime: lifetime.map(|lifetime| lifetime.0) },
        })
    }
}

/// A differentiated services code point: a number, or a name of the field's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CodePoint(u8);

impl FromStr for CodePoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no DSCP: write 0 to 63, cs0 to cs7, af11 to af43, ef, va or le");
        let name = text.to_ascii_lowercase();
        let digit = |byte: u8| byte.wrapping_sub(b'0');
        let point = match name.as_bytes() {
            b"ef" => 46,
            b"va" => 44,
            b"le" => LOWER_EFFORT,
            [b'c', b's', class @ b'0'..=b'7'] => 8 * digit(*class),
            [b'a', b'f', class @ b'1'..=b'4', drop @ b'1'..=b'3'] => 8 * digit(*class) + 2 * digit(*drop),
            _ => name.parse().map_err(|_| wrong())?,
        };
        if point < 64 { Ok(Self(point)) } else { Err(wrong()) }
    }
}

/// How long a datagram is worth sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lifetime(Duration);

impl FromStr for Lifetime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let lifetime = parse_duration(text).map_err(|error| error.to_string())?;
        if (SHORTEST..=LONGEST).contains(&lifetime) {
            Ok(Self(lifetime))
        } else {
            Err(format!("{text:?} is no lifetime: write 10ms to 10s"))
        }
    }
}

/// Less than any network needs.
const SHORTEST: Duration = Duration::from_millis(10);
/// Nothing that a program sends by UDP waits longer for its answer.
const LONGEST: Duration = Duration::from_secs(10);

/// Reads a value that is a number or a text.
fn number_or_text<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    struct Either<T>(PhantomData<T>);

    impl<T: FromStr<Err: Display>> Visitor<'_> for Either<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a number or a text")
        }

        fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
            self.visit_str(&number.to_string())
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
            text.parse().map_err(E::custom)
        }
    }

    deserializer.deserialize_any(Either(PhantomData)).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rules of a file.
    fn rules(text: &str) -> Vec<TrafficRule> {
        #[derive(Deserialize)]
        struct File {
            rule: Vec<TrafficRule>,
        }
        toml::from_str::<File>(text).unwrap().rule
    }

    fn treated(rules: &[TrafficRule], protocol: Protocol, to: &str, dscp: Option<u8>) -> Treatment {
        let destination = Destination::parse_pair(to).unwrap();
        treatment(rules, Traffic::new(protocol, &destination, dscp))
    }

    const UDP: Protocol = Protocol::Udp;
    const TCP: Protocol = Protocol::Tcp;

    #[test]
    fn the_first_rule_whose_every_part_holds_decides() {
        let rules = rules(
            "[[rule]]\nproto = \"udp\"\nport = 5004\nclass = \"deadline\"\nlifetime = \"150ms\"\n\
             [[rule]]\nproto = \"udp\"\nport = \"5000-5100\"\nto = \"10.0.0.0/8\"\nlifetime = \"2s\"\n\
             [[rule]]\nproto = \"udp\"\ndscp = \"ef\"\nclass = \"bulk\"\n\
             [[rule]]\nport = \"22,873\"\nclass = \"bulk\"\n\
             [[rule]]\nto = \"[2001:db8::/32]:22\"\nclass = \"interactive\"\n",
        );
        let of =
            |class, lifetime: Option<u64>| Treatment { class, lifetime: lifetime.map(Duration::from_millis) };
        for (protocol, to, dscp, expected) in [
            (UDP, "10.1.2.3:5004", None, of(Some(Urgency::Deadline), Some(150))),
            (TCP, "10.1.2.3:5004", None, of(None, None)),
            (UDP, "10.1.2.3:5005", None, of(None, Some(2000))),
            (UDP, "11.1.2.3:5005", None, of(None, None)),
            (UDP, "host.example:5005", None, of(None, None)),
            (UDP, "11.1.2.3:9", Some(46), of(Some(Urgency::Bulk), None)),
            (UDP, "[2001:db8::1]:873", None, of(Some(Urgency::Bulk), None)),
            (TCP, "[2001:db8::1]:22", None, of(Some(Urgency::Bulk), None)),
        ] {
            assert_eq!(treated(&rules, protocol, to, dscp), expected, "{to}");
        }
        assert_eq!(treated(&rules[4..], TCP, "[2001:db8::1]:22", None).class, Some(Urgency::Interactive));
    }

    #[test]
    fn without_a_rule_the_code_point_decides_then_the_port_and_then_the_behaviour() {
        for (dscp, expected) in [
            (Some(46), Some(Urgency::Interactive)),
            (Some(40), Some(Urgency::Interactive)),
            (Some(8), Some(Urgency::Bulk)),
            (Some(1), Some(Urgency::Bulk)),
            (Some(0), None),
            (None, None),
        ] {
            assert_eq!(treated(&[], UDP, "10.1.2.3:5004", dscp).class, expected, "{dscp:?}");
        }
        assert_eq!(treated(&[], TCP, "10.1.2.3:22", None), Treatment::default());
        for (protocol, to, dscp, expected) in [
            (UDP, "10.1.2.3:53", None, Some(Urgency::Interactive)),
            (TCP, "10.1.2.3:853", None, Some(Urgency::Interactive)),
            (TCP, "sip.example:5061", None, Some(Urgency::Interactive)),
            (UDP, "10.1.2.3:5061", None, None),
            (UDP, "10.1.2.3:123", None, Some(Urgency::Interactive)),
            (TCP, "host.example:873", None, Some(Urgency::Bulk)),
            (UDP, "10.1.2.3:53", Some(8), Some(Urgency::Bulk)),
        ] {
            assert_eq!(treated(&[], protocol, to, dscp).class, expected, "{to}");
        }
        let own = rules("[[rule]]\nport = 53\nclass = \"bulk\"\n");
        assert_eq!(treated(&own, UDP, "10.1.2.3:53", None).class, Some(Urgency::Bulk));
    }

    #[test]
    fn a_packet_between_sites_is_treated_by_either_of_its_ends_and_by_its_code_point() {
        let rules = rules(
            "[[rule]]\nproto = \"udp\"\nport = 5004\nclass = \"deadline\"\nlifetime = \"150ms\"\n\
             [[rule]]\nto = \"10.1.0.9\"\nclass = \"bulk\"\n",
        );
        let packet = |protocol, ends: [u8; 2], ports: [u16; 2], dscp: u8| {
            let [from, to] = ends.map(|last| [10, 1, 0, last]);
            let [source, destination] = ports.map(u16::to_be_bytes);
            let start = [0x45, dscp << 2, 0, 28, 0, 0, 0, 0, 64, protocol, 0, 0];
            [&start[..], &from, &to, &source, &destination, &[0; 4]].concat()
        };
        let deadline =
            Treatment { class: Some(Urgency::Deadline), lifetime: Some(Duration::from_millis(150)) };
        let of = |class| Treatment { class, lifetime: None };
        for (bytes, expected) in [
            (packet(17, [1, 2], [40_000, 5004], 0), deadline),
            (packet(17, [2, 1], [5004, 40_000], 0), deadline),
            (packet(6, [2, 1], [5004, 40_000], 0), of(None)),
            (packet(1, [9, 1], [5004, 5004], 0), of(Some(Urgency::Bulk))),
            (packet(6, [1, 9], [22, 22], 46), of(Some(Urgency::Bulk))),
            (packet(6, [1, 2], [22, 22], 46), of(Some(Urgency::Interactive))),
            (vec![0; 3], of(None)),
        ] {
            assert_eq!(packet_treatment(&rules, &bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn code_points_have_their_names() {
        for (text, point) in [("ef", 46), ("CS5", 40), ("af41", 34), ("af13", 14), ("le", 1), ("63", 63)] {
            assert_eq!(text.parse(), Ok(CodePoint(point)), "{text}");
        }
        for wrong in ["", "64", "cs8", "af14", "af50", "-1", "af4", "voice"] {
            assert!(wrong.parse::<CodePoint>().is_err(), "{wrong}");
        }
    }
}
