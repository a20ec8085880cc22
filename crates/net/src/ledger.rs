//! How much may go over an interface, and who keeps count of it.

use std::fmt;
use std::io;

use manyway_proto::{ByteCount, Date};

/// Keeps count of what goes over interfaces, and says how much more may. Without one
/// ([`EndpointOptions::ledger`](crate::EndpointOptions::ledger)) nothing is counted or limited.
///
/// What is counted is every UDP datagram of the endpoint with its IP and UDP headers, in both directions: data, copies,
/// acknowledgements, probes. Packets that never leave this host are not.
///
/// An interface without anything left is as good as gone: its paths close, new ones are not opened, and nothing is sent
/// or heard over it. A connection that has no other interface ends with the code [`CAP_REACHED`]. The ledger is asked again
/// now and then, and the interface is used again once there is something left.
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
    /// Takes so many bytes more that went over an interface, none for a mere question, and says what is left; `None` for
    /// an interface without a limit, which is not asked about again.
    ///
    /// It is called by the thread that handles the packets, once a second for each interface in use and more often near
    /// the end: it must not wait for anybody.
    ///
    /// # Errors
    /// If that can not be kept at the moment, such as [`WouldBlock`](io::ErrorKind::WouldBlock) while another process
    /// writes: nothing was taken, and the same bytes and those to come are told again soon. With any other error before
    /// the first answer the interface is taken to have nothing left until there is one.
    fn spend(&self, interface: &str, bytes: ByteCount) -> io::Result<Option<Allowance>>;
}

/// What may go over an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// In all, until the next renewal.
    pub cap: ByteCount,
    /// Of that, what has not gone yet.
    pub left: ByteCount,
    /// The day on which it begins anew, if ever; for people.
    pub renewal: Option<Date>,
}

/// The code by which an endpoint closes a connection that has no interface left because of a [`Ledger`]; the reason says
/// which and until when.
pub const CAP_REACHED: u64 = 5;
