//! What both ends send, count and report, whatever the library.

use std::error::Error;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use serde::{Deserialize, Serialize};

use crate::order::Packets;

pub type Failure = Box<dyn Error>;

/// A self-signed certificate and its key, in PEM.
#[derive(Debug)]
pub struct Identity {
    pub certificate: String,
    pub key: String,
}

impl Identity {
    pub fn new() -> Result<Self, Failure> {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
        Ok(Self { certificate: made.cert.pem(), key: made.signing_key.serialize_pem() })
    }
}

/// The first line of a receiver, with all that a sender needs. The certificate is the only one that the sender accepts.
#[derive(Debug, Serialize, Deserialize)]
pub struct Announcement {
    pub address: SocketAddr,
    pub certificate: String,
    /// How long the receiver will send, if it is a server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

impl Announcement {
    pub fn make(address: SocketAddr, identity: &Identity, serves: Option<Duration>) -> Result<(), Failure> {
        let seconds = serves.map(|duration| duration.as_secs_f64());
        say(&Self { address, certificate: identity.certificate.clone(), seconds })
    }
}

/// The first line of a sender: the traffic begins.
#[derive(Debug, Serialize)]
struct Begun {
    begun: bool,
}

/// The last line of a receiver.
#[derive(Debug, Serialize)]
pub struct Received {
    /// Bytes that the application got, in order and without a gap.
    received: u64,
    /// From the first of them to the last.
    seconds: f64,
    /// Processor time of the process, user and system, from the connection to the last byte.
    cpu: f64,
}

/// The last line of a client of a server.
#[derive(Debug, Serialize)]
pub struct Fetched {
    #[serde(flatten)]
    pub received: Received,
    #[serde(flatten)]
    pub packets: Packets,
}

/// The last line of a sender.
#[derive(Debug, Serialize)]
pub struct Sent {
    /// Bytes that were written; the receiver confirmed as many.
    sent: u64,
    /// Processor time of the process, user and system, from the first byte to the confirmation.
    cpu: f64,
}

/// The last line of a server.
#[derive(Debug, Serialize)]
pub struct Served {
    /// Packets of QUIC that it sent.
    pub packets: u64,
    /// Those of them that it declared lost. One that arrives much later than others that were sent after it counts, too.
    pub lost: u64,
}

/// Counts what arrives.
#[derive(Debug)]
pub struct Arrivals {
    cpu: f64,
    bytes: u64,
    first: Option<Instant>,
}

impl Arrivals {
    pub fn begin() -> Self {
        Self { cpu: processor_time(), bytes: 0, first: None }
    }

    pub fn add(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.first.get_or_insert_with(Instant::now);
    }

    /// The confirmation for the sender, after the last byte.
    pub fn confirmation(&self) -> Bytes {
        Bytes::copy_from_slice(&self.bytes.to_be_bytes())
    }

    /// After the last byte.
    pub fn report(&self) -> Received {
        let seconds = self.first.map_or(Duration::ZERO, |first| first.elapsed()).as_secs_f64();
        Received { received: self.bytes, seconds, cpu: processor_time() - self.cpu }
    }
}

/// What is sent, and until when.
#[derive(Debug)]
pub struct Departures {
    cpu: f64,
    bytes: u64,
    until: Instant,
    piece: Bytes,
}

impl Departures {
    /// Says that the traffic begins.
    pub fn begin(duration: Duration) -> Result<Self, Failure> {
        // As long a piece as the lab's own sender writes.
        let piece: Vec<u8> = (0..PIECE).map(|at| (at.wrapping_mul(0x9E37_79B1) >> 13) as u8).collect();
        say(&Begun { begun: true })?;
        let until = Instant::now() + duration;
        Ok(Self { cpu: processor_time(), bytes: 0, until, piece: piece.into() })
    }

    /// The next piece to write, until the time is over.
    pub fn piece(&self) -> Option<Bytes> {
        (Instant::now() < self.until).then(|| self.piece.clone())
    }

    pub fn add(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// After the confirmation.
    pub fn report(&self, confirmation: &[u8]) -> Result<Sent, Failure> {
        let confirmed = u64::from_be_bytes(confirmation.try_into()?);
        if confirmed != self.bytes {
            return Err(format!("only {confirmed} of {} bytes arrived", self.bytes).into());
        }
        Ok(Sent { sent: self.bytes, cpu: processor_time() - self.cpu })
    }
}

/// Prints a line of JSON.
pub fn say(line: &impl Serialize) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(line)?)?;
    Ok(out.flush()?)
}

/// In seconds.
fn processor_time() -> f64 {
    getrusage(UsageWho::RUSAGE_SELF).map_or(0.0, |usage| {
        let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
        micros as f64 / 1e6
    })
}

/// The name in the certificate.
pub const NAME: &str = "peer.invalid";
/// Length of a confirmation in bytes.
pub const CONFIRMATION: usize = 8;
const PIECE: usize = 128 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_reports_only_what_was_confirmed() {
        let mut departures = Departures::begin(Duration::from_secs(60)).unwrap();
        let mut arrivals = Arrivals::begin();
        departures.add(departures.piece().unwrap().len());
        assert!(departures.report(&arrivals.confirmation()).is_err());
        arrivals.add(PIECE);
        assert_eq!(departures.report(&arrivals.confirmation()).unwrap().sent, PIECE as u64);
        assert!(departures.report(b"soon").is_err());
    }

    #[test]
    fn the_time_ends_the_pieces() {
        assert!(Departures::begin(Duration::ZERO).unwrap().piece().is_none());
    }
}
