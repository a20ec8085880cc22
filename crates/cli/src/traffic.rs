//! Rules for the traffic of programs: what goes first, and how long it is worth sending.

use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::str::FromStr;
use std::time::Duration;

use manyway_egress::{Destination, Host, NetPorts, Ports, Treatment};
use manyway_transfer::Urgency;
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

use crate::args::Protocol;
use crate::output::units::parse_duration;

/// What is known of a connection or a flow when it begins.
#[derive(Debug, Clone, Copy)]
pub struct Traffic<'a> {
    /// What carries it.
    pub protocol: Protocol,
    /// Where its first data go.
    pub destination: &'a Destination,
    /// The differentiated services code point (RFC 2474) of its first packet, where that is known.
    pub dscp: Option<u8>,
}

/// The treatment by the first of the rules that matches, or of the built-in ones behind them.
pub fn treatment(rules: &[TrafficRule], traffic: Traffic<'_>) -> Treatment {
    let own = rules.iter().find(|rule| rule.matches(traffic)).map(|rule| rule.treatment);
    own.unwrap_or_else(|| Treatment { class: usual_class(traffic), lifetime: None })
}

/// What programs mean by a code point (RFC 4594, RFC 8622).
fn usual_class(Traffic { protocol, dscp, .. }: Traffic<'_>) -> Option<Urgency> {
    match (protocol, dscp?) {
        (Protocol::Tcp, _) => None,
        // Telephony, signalling, conferences, network control.
        (Protocol::Udp, 46 | 44 | 40 | 34 | 36 | 38 | 48 | 56) => Some(Urgency::Interactive),
        (Protocol::Udp, CS1 | LOWER_EFFORT) => Some(Urgency::Bulk),
        (Protocol::Udp, _) => None,
    }
}

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
    fn matches(&self, Traffic { protocol, destination, dscp }: Traffic<'_>) -> bool {
        let is_inside = |net: &NetPorts| match destination.host() {
            Host::Ip(ip) => net.contains((*ip, destination.port()).into()),
            Host::Name(_) | Host::Resolver => false,
        };
        self.protocol.is_none_or(|of_rule| of_rule == protocol)
            && self.ports.contain(destination.port())
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
        treatment(rules, Traffic { protocol, destination: &destination, dscp })
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
    fn without_a_rule_the_code_point_decides_and_then_the_behaviour() {
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
