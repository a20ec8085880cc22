//! The state that a command publishes: one JSON document, the same for people and programs.

use serde::{Deserialize, Serialize};

/// A running command. Times in seconds, rates in bits a second of UDP payload: with headers and retransmissions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// Its process ID.
    pub pid: u32,
    /// Its verb, such as `send`.
    pub verb: String,
    /// Version of the program.
    pub version: String,
    /// How long it has run.
    pub seconds: f64,
    /// Files of the command itself.
    pub files: Option<FilesDocument>,
    /// The peers of its connections.
    pub peers: Vec<PeerDocument>,
}

/// A peer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PeerDocument {
    /// Its name at this end, if there is one.
    pub name: Option<String>,
    /// The wire protocol to it: `mmsp2` or `mmsp1`.
    pub wire: String,
    /// How long it has been connected.
    pub seconds: f64,
    /// Rate of sending to it, over all paths.
    pub sent_bits_per_second: Option<u64>,
    /// Rate of receiving from it.
    pub received_bits_per_second: Option<u64>,
    /// Files of this connection.
    pub files: Option<FilesDocument>,
    /// The paths to it.
    pub paths: Vec<PathDocument>,
}

/// One path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathDocument {
    /// Its number in its connection.
    pub path: u32,
    /// The local interface, if it is bound to one.
    pub interface: Option<String>,
    /// The local address.
    pub local: String,
    /// The peer's address.
    pub remote: String,
    /// What carries it: `udp` or `tcp`.
    #[serde(default)]
    pub carrier: String,
    /// Its state, as named in the specification.
    pub state: String,
    /// Round-trip time; `None` while no answer arrives.
    pub rtt: Option<f64>,
    /// The lost part of its packets; `None` if none were sent.
    pub loss: Option<f64>,
    /// Bytes sent since the start.
    pub bytes_sent: u64,
    /// Bytes received since the start.
    pub bytes_received: u64,
    /// Packets sent since the start.
    pub packets_sent: u64,
    /// Packets lost of them.
    pub packets_lost: u64,
    /// Current rate of sending.
    pub sent_bits_per_second: Option<u64>,
    /// Current rate of receiving.
    pub received_bits_per_second: Option<u64>,
    /// Whether it carries data, or would under load.
    #[serde(default)]
    pub used: bool,
    /// Why it does or does not, in the words of `manyway paths`.
    #[serde(default)]
    pub why: Option<String>,
}

/// The progress of files.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FilesDocument {
    /// Files and directories in total.
    pub files: u64,
    /// Those that arrived and were verified.
    pub files_done: u64,
    /// Those that failed.
    pub failed: u64,
    /// Bytes in total.
    pub bytes: u64,
    /// Bytes that are at the receiver.
    pub bytes_done: u64,
    /// A file in transfer.
    pub current: Option<String>,
}
