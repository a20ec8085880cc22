//! Accounting of traffic over interfaces, and the quota.

use std::fmt;
use std::io;

use manyway_proto::{ByteCount, Date};

/// Counts traffic over interfaces, and grants the remaining quota. Without a ledger
/// ([`EndpointOptions::ledger`](crate::EndpointOptions::ledger)) nothing is counted or limited.
///
/// Every UDP datagram of the endpoint counts, with its IP and UDP headers, in both directions: data, copies,
/// acknowledgements, probes. Packets that never leave this host do not count.
///
/// An interface without quota is treated as removed: its paths close, no new ones are opened, and nothing is sent or
/// received over it. A connection without another interface ends with the code [`CAP_REACHED`]. The ledger is called
/// again from time to time, and the interface is used again once it has quota.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use manyway::{Allowance, ByteCount, EndpointOptions, Ledger};
///
/// /// A gigabyte over each `wwan0` of this process.
/// #[derive(Debug, Default)]
/// struct OneGigabyte(AtomicU64);
///
/// impl Ledger for OneGigabyte {
///     fn spend(&self, interface: &str, bytes: ByteCount) -> std::io::Result<Option<Allowance>> {
///         if interface != "wwan0" {
///             return Ok(None);
///         }
///         let cap = ByteCount(1_000_000_000);
///         let spent = self.0.fetch_add(bytes.get(), Ordering::Relaxed) + bytes.get();
///         Ok(Some(Allowance { cap, left: cap - ByteCount(spent), renewal: None }))
///     }
/// }
///
/// let mut options = EndpointOptions::default();
/// options.ledger = Some(std::sync::Arc::new(OneGigabyte::default()));
/// ```
pub trait Ledger: fmt::Debug + Send + Sync {
    /// Reports the bytes that were transferred over an interface, 0 for a mere query, and returns what is left; `None`
    /// for an interface without a limit, which is not queried again.
    ///
    /// The thread that handles the packets calls it once a second for each interface in use, and more often near the
    /// end of the quota: it must not block.
    ///
    /// # Errors
    /// If the bytes cannot be recorded now, such as [`WouldBlock`](io::ErrorKind::WouldBlock) while another process
    /// writes: nothing was recorded, and the same bytes and further ones are reported again soon. With any other error
    /// before the first result, the interface is taken to have no quota until there is one.
    fn spend(&self, interface: &str, bytes: ByteCount) -> io::Result<Option<Allowance>>;
}

/// The quota of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// Total until the next renewal.
    pub cap: ByteCount,
    /// The part that is left.
    pub left: ByteCount,
    /// The day of the renewal, if any; for people.
    pub renewal: Option<Date>,
}

/// The code with which an endpoint closes a connection that has no interface left because of a [`Ledger`]; the reason
/// names the interface and the day of renewal.
pub const CAP_REACHED: u64 = 5;
