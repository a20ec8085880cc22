//! The choice between UDP and TCP below the paths.

use std::fmt;
use std::str::FromStr;

use manyway_proto::ConfigError;

use crate::tcp::Proxy;

/// What carries the packets of paths. MMSP/1 goes over UDP, whatever is chosen.
///
/// ```
/// use manyway::CarrierChoice;
///
/// assert_eq!("tcp".parse(), Ok(CarrierChoice::Tcp));
/// assert_eq!(CarrierChoice::default().to_string(), "auto");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CarrierChoice {
    /// UDP, and TCP on each interface on which UDP does not work: a client connects by TCP 250 ms after UDP began there
    /// or stopped working, and ends the TCP connection when UDP has worked for 5 s. A server accepts both.
    #[default]
    Auto,
    /// UDP alone.
    Udp,
    /// TCP alone at a client. A server accepts both, and does not start if it can not accept TCP connections.
    Tcp,
}

impl CarrierChoice {
    /// Every choice.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Udp, Self::Tcp];

    /// Its name: `auto`, `udp` or `tcp`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        }
    }

    /// Whether a client may use UDP.
    pub(crate) fn uses_udp(self) -> bool {
        self != Self::Tcp
    }

    /// Whether a client may use TCP.
    pub(crate) fn uses_tcp(self) -> bool {
        self != Self::Udp
    }
}

impl fmt::Display for CarrierChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for CarrierChoice {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let found = Self::ALL.into_iter().find(|choice| choice.name() == text);
        found.ok_or_else(|| ConfigError {
            field: "carrier",
            reason: format!("must be udp, tcp or auto, not {text:?}"),
        })
    }
}

/// Settings of paths over TCP.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CarrierOptions {
    /// Whether TCP is used. Default [`CarrierChoice::Auto`].
    pub choice: CarrierChoice,
    /// The system's congestion control of TCP connections, such as `cubic`, `reno` or `bbr`; each end sets that of what
    /// it sends. Default `None`: the system's own. Linux only.
    pub congestion: Option<String>,
    /// An HTTP proxy through which a client's TCP connections go. UDP does not. Default `None`: directly.
    pub via: Option<Proxy>,
    /// A server's port for TCP within TLS, at the addresses where it listens; 443 looks like a web server. Default `None`.
    pub listen_tls: Option<u16>,
    /// The port of a server at which a client tries TCP within TLS where TCP alone does not work. `None` tries none. Default
    /// 443.
    pub tls_port: Option<u16>,
    /// TCP connections of a client on each interface that uses TCP, 1 to 16; a target rate
    /// ([`ReceiveStream::set_target_rate`](crate::ReceiveStream::set_target_rate)) changes the number. Both ends have to allow
    /// so many paths ([`path_limit`](manyway_proto::ConnectionConfig::path_limit)). Default 1.
    pub connections: u8,
}

impl Default for CarrierOptions {
    fn default() -> Self {
        Self {
            choice: CarrierChoice::default(),
            congestion: None,
            via: None,
            listen_tls: None,
            tls_port: Some(443),
            connections: 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_read_as_it_is_written_and_a_wrong_name_is_answered_with_the_right_ones() {
        for choice in CarrierChoice::ALL {
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
        let error = "sctp".parse::<CarrierChoice>().unwrap_err();
        assert_eq!(error.to_string(), "carrier must be udp, tcp or auto, not \"sctp\"");
    }
}
