//! What is measured, how long and how often.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Stop;
use crate::contender::{Through, Verb};

/// How [`run`](super::run) measures.
#[derive(Debug, Clone)]
pub struct CpuOptions {
    /// Duration of each measurement. Default 3 s, at least 100 ms.
    pub duration: Duration,
    /// Repetitions of each subject, interleaved. Default 5, at least 1.
    pub repetitions: u32,
    /// The subjects. Default all.
    pub subjects: Vec<Subject>,
    /// The program `manyway-peers`, which has the libraries of others. Default the one beside the lab, or else in PATH.
    pub peers: Option<PathBuf>,
    /// Ends the measurements soon.
    pub stop: Stop,
}

impl Default for CpuOptions {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(3),
            repetitions: 5,
            subjects: Subject::ALL.to_vec(),
            peers: None,
            stop: Stop::default(),
        }
    }
}

/// A measured subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// One Manyway connection, with the system's offloads: batches of datagrams in one call.
    Manyway,
    /// The same over one TCP connection of the system instead of UDP, in packets of up to 64 KiB.
    ManywayTcp,
    /// One Manyway connection over MMSP/1, in clear text, with the scheduler and the congestion control of MMSP/2.
    ManywayMmsp1,
    /// One TCP connection of a program inside of `manyway run`; the figures of processes are those of the program.
    Run,
    /// The same through `manyway tunnel`.
    Tunnel,
    /// The same over a tunnel by wireguard-go.
    #[serde(rename = "wireguard-go")]
    WireGuard,
    /// One connection of the QUIC library quinn, by `manyway-peers`.
    Quinn,
    /// One connection of the QUIC library s2n-quic, by `manyway-peers`.
    S2nQuic,
    /// One kernel TCP connection with packets of up to 64 KiB, segmented and coalesced by the system as by default.
    Tcp,
    /// One kernel TCP connection whose packets on the link have the size of the MTU: segmented by the system before
    /// they leave, and not coalesced on arrival. Needs `ethtool`.
    TcpWithoutOffload,
    /// Plain UDP, batches of datagrams in one call, no acknowledgements: the upper bound for a protocol over UDP.
    Udp,
}

impl Subject {
    /// All, in the order of the report.
    pub const ALL: [Self; 11] = [
        Self::Manyway,
        Self::ManywayTcp,
        Self::ManywayMmsp1,
        Self::Run,
        Self::Tunnel,
        Self::WireGuard,
        Self::Quinn,
        Self::S2nQuic,
        Self::Tcp,
        Self::TcpWithoutOffload,
        Self::Udp,
    ];

    /// The verb, or the peer, that carries the program.
    pub(super) fn through(self) -> Option<Through> {
        match self {
            Self::Run => Some(Through::new(Verb::Run)),
            Self::Tunnel => Some(Through::new(Verb::Tunnel)),
            Self::WireGuard => Some(Through::new(Verb::WireGuard)),
            Self::Manyway
            | Self::ManywayTcp
            | Self::ManywayMmsp1
            | Self::Quinn
            | Self::S2nQuic
            | Self::Tcp
            | Self::TcpWithoutOffload
            | Self::Udp => None,
        }
    }

    /// Whether this is a library of `manyway-peers`; its name there is the one that it has here.
    pub(super) fn is_peer(self) -> bool {
        matches!(self, Self::Quinn | Self::S2nQuic)
    }
}

impl FromStr for Subject {
    type Err = String;

    /// Parses a name as [`Display`](fmt::Display) writes it; the error lists all.
    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|subject| subject.to_string() == name);
        found.ok_or_else(|| format!("one of {}", Self::ALL.map(|subject| subject.to_string()).join(", ")))
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Manyway => "manyway",
            Self::ManywayTcp => "manyway-tcp",
            Self::ManywayMmsp1 => "manyway-mmsp1",
            Self::Run => "run",
            Self::Tunnel => "tunnel",
            Self::WireGuard => "wireguard-go",
            Self::Quinn => "quinn",
            Self::S2nQuic => "s2n-quic",
            Self::Tcp => "tcp",
            Self::TcpWithoutOffload => "tcp-without-offload",
            Self::Udp => "udp",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subject_is_found_by_its_name() {
        for subject in Subject::ALL {
            assert_eq!(subject.to_string().parse(), Ok(subject));
            assert_eq!(serde_json::to_value(subject).unwrap(), subject.to_string());
        }
        assert!("iperf".parse::<Subject>().unwrap_err().contains("manyway-tcp, manyway-mmsp1"));
    }
}
