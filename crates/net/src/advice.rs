//! What the system of this host denies to the endpoint, and the commands that change it.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Most entries that are kept; a host with more has worse problems.
const MOST: usize = 64;

/// Something that the administrator of this host can improve, from [`Endpoint::advice`](crate::Endpoint::advice).
///
/// It prints as one sentence and, on lines of their own, the commands to run as root.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Advice {
    /// The system's limit for receive buffers is below the requested size: bursts lose packets.
    ReceiveBuffer {
        /// Requested bytes.
        wanted: usize,
        /// Granted bytes.
        granted: usize,
    },
    /// The system's limit for send buffers is below the requested size: fast paths wait more often.
    SendBuffer {
        /// Requested bytes.
        wanted: usize,
        /// Granted bytes.
        granted: usize,
    },
    /// The system refuses to bind a socket to its interface, so the routes decide where its packets leave. Without
    /// rules by source address all networks but one stay idle.
    NotTied {
        /// Name of the interface.
        interface: String,
        /// The local address on it.
        address: IpAddr,
        /// Its router, if the routes name one.
        gateway: Option<IpAddr>,
        /// Number of a routing table for it: 4455 plus the system's index of the interface.
        table: u32,
        /// The system's reason.
        reason: String,
    },
}

impl Advice {
    /// The commands to run as root on Linux; empty where no command is known.
    pub fn commands(&self) -> Vec<String> {
        match self {
            Self::ReceiveBuffer { wanted, .. } => vec![format!("sysctl -w net.core.rmem_max={wanted}")],
            Self::SendBuffer { wanted, .. } => vec![format!("sysctl -w net.core.wmem_max={wanted}")],
            Self::NotTied { interface, address, gateway, table, .. } => {
                let ip = if address.is_ipv4() { "ip" } else { "ip -6" };
                let via = gateway.map(|gateway| format!(" via {gateway}")).unwrap_or_default();
                vec![
                    format!("{ip} route replace default{via} dev {interface} table {table}"),
                    format!("{ip} rule add from {address} lookup {table}"),
                ]
            }
        }
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReceiveBuffer { wanted, granted } => write!(
                f,
                "the system limits the receive buffer to {granted} of {wanted} bytes, so that bursts get lost"
            )?,
            Self::SendBuffer { wanted, granted } => write!(
                f,
                "the system limits the send buffer to {granted} of {wanted} bytes, which slows fast paths"
            )?,
            Self::NotTied { interface, address, reason, .. } => write!(
                f,
                "the system refuses to tie a socket to {interface} ({reason}): its routes decide where packets from \
                 {address} leave, perhaps through another network"
            )?,
        }
        let commands = self.commands();
        if !commands.is_empty() {
            write!(f, "; as root:")?;
        }
        commands.iter().try_for_each(|command| write!(f, "\n  {command}"))
    }
}

/// The advice of a driver so far, shared with the handles of its endpoint.
#[derive(Debug, Clone, Default)]
pub(crate) struct AdviceBoard(Arc<Mutex<Vec<Advice>>>);

impl AdviceBoard {
    /// Adds an entry; returns false if it is present.
    pub(crate) fn add(&self, advice: Advice) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = known.len() < MOST && !known.contains(&advice);
        if is_new {
            known.push(advice);
        }
        is_new
    }

    pub(crate) fn all(&self) -> Vec<Advice> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_ends_with_the_exact_commands() {
        let buffer = Advice::ReceiveBuffer { wanted: 4_194_304, granted: 212_992 };
        assert_eq!(
            buffer.to_string(),
            "the system limits the receive buffer to 212992 of 4194304 bytes, so that bursts get lost; as root:\n  \
             sysctl -w net.core.rmem_max=4194304"
        );
        let mut untied = Advice::NotTied {
            interface: "wwan1".into(),
            address: "192.168.8.100".parse().unwrap(),
            gateway: Some("192.168.8.1".parse().unwrap()),
            table: 4460,
            reason: "Operation not permitted".into(),
        };
        assert_eq!(
            untied.commands(),
            [
                "ip route replace default via 192.168.8.1 dev wwan1 table 4460",
                "ip rule add from 192.168.8.100 lookup 4460"
            ]
        );
        if let Advice::NotTied { address, gateway, .. } = &mut untied {
            (*address, *gateway) = ("2001:db8::1".parse().unwrap(), None);
        }
        assert_eq!(
            untied.commands(),
            [
                "ip -6 route replace default dev wwan1 table 4460",
                "ip -6 rule add from 2001:db8::1 lookup 4460"
            ]
        );
    }

    #[test]
    fn the_same_advice_is_given_once() {
        let board = AdviceBoard::default();
        let advice = |granted| Advice::SendBuffer { wanted: 4_000_000, granted };
        assert!(board.add(advice(1)) && !board.add(advice(1)) && board.add(advice(2)));
        assert_eq!(board.all(), [advice(1), advice(2)]);
        assert_eq!((0..1000).filter(|granted| board.add(advice(*granted))).count(), MOST - 2);
        assert_eq!(board.all().len(), MOST);
    }
}
