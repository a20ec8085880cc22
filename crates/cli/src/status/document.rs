//! What a command tells of itself: one JSON document, the same for people and programs.

use serde::{Deserialize, Serialize};

/// A running command. Times in seconds, rates in bits a second of UDP payload: with headers and repeats.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// Number of its process.
    pub pid: u32,
    /// What it does, such as `send`.
    pub verb: String,
    /// Version of the program.
    pub version: String,
    /// How long it has run.
    pub seconds: f64,
    /// Files of the command itself.
    pub files: Option<FilesDocument>,
    /// The other ends of its connections.
    pub peers: Vec<PeerDocument>,
}

/// The other end of a connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PeerDocument {
    /// The name by which this end knows it, if there is one.
    pub name: Option<String>,
    /// How long it has been connected.
    pub seconds: f64,
    /// What this end sends to it, over all paths.
    pub sent_bits_per_second: Option<u64>,
    /// What this end receives from it.
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
    /// The own interface, where it is bound to one.
    pub interface: Option<String>,
    /// The own address.
    pub local: String,
    /// The peer's address.
    pub remote: String,
    /// Its state, in the word of the specification.
    pub state: String,
    /// Round-trip time; `None` while nothing answers.
    pub rtt: Option<f64>,
    /// The part of its packets that was lost; `None` if none were sent.
    pub loss: Option<f64>,
    /// Bytes sent since the start.
    pub bytes_sent: u64,
    /// Bytes received since the start.
    pub bytes_received: u64,
    /// Packets sent since the start.
    pub packets_sent: u64,
    /// Packets lost of them.
    pub packets_lost: u64,
    /// What is sent on it now.
    pub sent_bits_per_second: Option<u64>,
    /// What is received on it now.
    pub received_bits_per_second: Option<u64>,
}

/// How far files have come.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FilesDocument {
    /// Files and directories in all.
    pub files: u64,
    /// Those that arrived and were verified.
    pub files_done: u64,
    /// Those that failed.
    pub failed: u64,
    /// Bytes in all.
    pub bytes: u64,
    /// Bytes that are at the receiver.
    pub bytes_done: u64,
    /// A file that is on its way.
    pub current: Option<String>,
}
