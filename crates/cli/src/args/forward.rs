//! `manyway forward`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

use clap::Args;
use manyway_egress::Destination;

use crate::output::address;

/// Arguments of `forward`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct ForwardArgs {
    /// The server, started with --egress: ticket, @FILE containing it, saved name, or HOST:PORT
    #[arg(value_name = "TICKET")]
    pub server: String,
    /// Listen on PORT here, and connect to HOST:HOSTPORT from the server; repeatable
    #[arg(
        short = 'L',
        long = "local",
        required_unless_present = "remote",
        value_name = "[BIND:]PORT:HOST:HOSTPORT[/udp]"
    )]
    pub local: Vec<ForwardRule>,
    /// Let the server listen on PORT, and connect to HOST:HOSTPORT from here; repeatable
    #[arg(short = 'R', long = "remote", value_name = "[BIND:]PORT:HOST:HOSTPORT[/udp]")]
    pub remote: Vec<ForwardRule>,
}

/// Where to listen, and what is behind it: as for `ssh -L` and `ssh -R`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardRule {
    /// Where programs connect to; port 0 leaves it to the system.
    pub listen: SocketAddr,
    /// Where the other side connects to.
    pub destination: Destination,
    /// What is forwarded.
    pub protocol: Protocol,
}

/// A transport protocol of programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Connections of TCP.
    Tcp,
    /// Datagrams of UDP.
    Udp,
}

impl Protocol {
    /// Its name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

impl FromStr for ForwardRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (text, protocol) = match text.rsplit_once('/') {
            None => (text, Protocol::Tcp),
            Some((rest, "tcp")) => (rest, Protocol::Tcp),
            Some((rest, "udp")) => (rest, Protocol::Udp),
            Some((_, other)) => return Err(format!("{other:?} is no protocol: write /tcp or /udp")),
        };
        let (bind, port, destination) = match parts(text).as_slice() {
            [port, host, host_port] => ("127.0.0.1", *port, (*host, *host_port)),
            [bind, port, host, host_port] => (*bind, *port, (*host, *host_port)),
            _ => {
                return Err("write it like 8080:example.org:80, 0.0.0.0:8080:example.org:80 or \
                            [::1]:8080:[2001:db8::7]:80"
                    .to_owned());
            }
        };
        let address = match bind.trim_start_matches('[').trim_end_matches(']') {
            "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
            "*" | "" => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            address => address.parse().map_err(|_| format!("{bind:?} is no address to listen on"))?,
        };
        let port = port.parse().map_err(|_| format!("{port} is not a port number (0 to 65535)"))?;
        let (host, host_port) = destination;
        let host_port =
            host_port.parse().map_err(|_| format!("{host_port} is not a port number (1 to 65535)"))?;
        let destination = Destination::parse(host, host_port).map_err(|error| error.to_string())?;
        if protocol == Protocol::Udp && address.is_unspecified() {
            return Err("answers to datagrams leave from one address: name it instead of all".to_owned());
        }
        Ok(Self { listen: SocketAddr::new(address, port), destination, protocol })
    }
}

impl fmt::Display for ForwardRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", address(self.listen), self.destination)?;
        match self.protocol {
            Protocol::Tcp => Ok(()),
            Protocol::Udp => f.write_str("/udp"),
        }
    }
}

/// The parts between colons outside brackets.
fn parts(text: &str) -> Vec<&str> {
    let mut is_inside = false;
    text.split(|character| {
        is_inside = match character {
            '[' => true,
            ']' => false,
            _ => is_inside,
        };
        character == ':' && !is_inside
    })
    .collect()
}

const EXAMPLES: &str = "\
Examples:
  manyway forward @home.ticket -L 8080:example.org:80
  manyway forward home -L 2222:127.0.0.1:22 -L 5432:db.internal:5432
  manyway forward home -L [::1]:8080:[2001:db8::7]:80
  manyway forward home -L 51820:vpn.example.org:51820/udp
  manyway forward home -R 0.0.0.0:8080:127.0.0.1:80
  manyway forward home -R 192.0.2.7:51820:127.0.0.1:51820/udp

BIND defaults to 127.0.0.1. The server must allow private destinations: \
manyway serve --egress --allow 127.0.0.1:22. For -R the ticket needs \
a right: manyway keys add ticket NAME --listen 0.0.0.0:8080.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forward_is_read_as_ssh_reads_it() {
        for (text, shown) in [
            ("8080:example.org:80", "127.0.0.1:8080 -> example.org:80"),
            ("0.0.0.0:8080:192.0.2.7:80", "0.0.0.0:8080 -> 192.0.2.7:80"),
            ("*:8080:example.org:80", "0.0.0.0:8080 -> example.org:80"),
            ("localhost:0:example.org:80", "127.0.0.1:0 -> example.org:80"),
            ("[::1]:8080:[2001:db8::7]:80", "[::1]:8080 -> [2001:db8::7]:80"),
            ("8080:[2001:db8::7]:80", "127.0.0.1:8080 -> [2001:db8::7]:80"),
            ("5300:192.0.2.7:53/udp", "127.0.0.1:5300 -> 192.0.2.7:53/udp"),
            ("8080:192.0.2.7:80/tcp", "127.0.0.1:8080 -> 192.0.2.7:80"),
            ("8080:bücher.example:80", "127.0.0.1:8080 -> xn--bcher-kva.example:80"),
        ] {
            assert_eq!(text.parse::<ForwardRule>().unwrap().to_string(), shown);
        }
        for wrong in [
            "",
            "8080",
            "8080:example.org",
            "x:example.org:80",
            "8080:example.org:0",
            "8080:example.org:http",
            "8080:2001:db8::7:80",
            "nowhere:8080:example.org:80",
            "65536:example.org:80",
            "8080:example.org:80/sctp",
            "*:8080:example.org:80/udp",
        ] {
            assert!(wrong.parse::<ForwardRule>().is_err(), "{wrong}");
        }
    }
}
