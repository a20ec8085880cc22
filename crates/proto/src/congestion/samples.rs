//! What a congestion controller is told, as named arguments. Their defaults are for tests to fill in.

use std::time::Duration;

use crate::{ByteCount, Instant, Rate};

/// What a controller is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ControllerConfig {
    /// Largest datagram of the path in bytes. Default 1200.
    pub max_datagram: u16,
    /// Window at the start, in datagrams of at most 1472 bytes. Default 10 (RFC 9002, section 7.2); the smallest that is
    /// used is 2.
    pub initial_window: u32,
    /// A number that differs between the paths of a connection, so that they do not probe at the same time. Default 0.
    pub seed: u64,
}

impl ControllerConfig {
    /// The default settings for datagrams of so many bytes.
    pub const fn new(max_datagram: u16) -> Self {
        Self { max_datagram, initial_window: 10, seed: 0 }
    }

    /// The window at the start, in bytes: so many datagrams as long as those are of ordinary size, in any case two
    /// (RFC 9002, section 7.2).
    pub fn initial_bytes(&self) -> ByteCount {
        let ordinary = self.max_datagram.min(ORDINARY);
        datagrams(ordinary, self.initial_window).max(self.minimum_bytes())
    }

    /// The smallest window there is: two datagrams (RFC 9002, section 7.2).
    pub fn minimum_bytes(&self) -> ByteCount {
        datagrams(self.max_datagram, 2)
    }
}

impl Default for ControllerConfig {
    fn default() -> Self {
        Self::new(1200)
    }
}

/// The largest datagram that the initial window is counted in: that of Ethernet with IPv4.
const ORDINARY: u16 = 1472;

fn datagrams(size: u16, count: u32) -> ByteCount {
    ByteCount(u64::from(size) * u64::from(count))
}

/// A packet left; packets that only acknowledge are not reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SentSample {
    /// When.
    pub now: Instant,
    /// Its number on this path.
    pub packet_number: u64,
    /// Its size.
    pub bytes: ByteCount,
    /// Bytes in flight before it.
    pub in_flight: ByteCount,
    /// Whether the sender had run out of data when it was sent.
    pub app_limited: bool,
}

/// An acknowledgement of packets that had not been acknowledged before; one for each PATH-ACK that brings news.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct AckSample {
    /// When it came.
    pub now: Instant,
    /// Bytes newly acknowledged.
    pub bytes: ByteCount,
    /// The part of [`Self::bytes`] that was sent after the last congestion event: what a window may grow by
    /// (RFC 9002, section 7.3.2).
    pub bytes_outside_recovery: ByteCount,
    /// Bytes in flight after the acknowledgement and the losses it showed.
    pub in_flight: ByteCount,
    /// Most bytes in flight during the last round trip; see [`Self::allows_growth_of`].
    pub pipe: ByteCount,
    /// Round trip of the newest packet, if that one was newly acknowledged.
    pub latest_rtt: Option<Duration>,
    /// How long that packet needed to the peer, in µs modulo 2³², by two clocks that nobody compares: only what two of
    /// these differ by means anything. `None` where nobody says when packets arrived.
    pub latest_one_way: Option<u32>,
    /// Smoothed round trip.
    pub smoothed_rtt: Duration,
    /// Mean deviation of round trips from [`Self::smoothed_rtt`].
    pub rtt_variation: Duration,
    /// Smallest round trip.
    pub minimum_rtt: Duration,
    /// Largest packet number acknowledged so far.
    pub largest_acked: u64,
    /// Number of the next packet; a round ends when it is acknowledged.
    pub next_packet_number: u64,
    /// Delivery rate measured by the newest of the packets; `None` if its interval was too short to be trusted.
    pub delivery_rate: Option<Rate>,
    /// Whether the sender had run out of data when the newest of the packets was sent.
    pub app_limited: bool,
    /// All bytes delivered on the path so far.
    pub delivered: ByteCount,
    /// Bytes that were delivered when the newest of the packets was sent.
    pub delivered_at_sent: ByteCount,
    /// Bytes that were in flight, including itself, when the newest of the packets was sent.
    pub in_flight_at_sent: ByteCount,
    /// Bytes lost since the newest of the packets was sent.
    pub lost_since_sent: ByteCount,
    /// How many gaps these losses make: packets that were sent one after the other are one gap.
    pub gaps_since_sent: u64,
    /// Bytes declared lost by this acknowledgement.
    pub newly_lost: ByteCount,
    /// What other paths learn of this one as [`Subflow::loss_interval`].
    pub loss_interval: ByteCount,
}

impl AckSample {
    /// Whether a window of this size was put to use, so that the acknowledgement says that it was not too large.
    ///
    /// A sender that uses less than half of its window learns nothing about it (RFC 7661, section 4.3).
    pub fn allows_growth_of(&self, window: ByteCount) -> bool {
        self.pipe * 2 >= window
    }
}

/// One packet was declared lost; MTU probes and packets of an abandoned path are not reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct LostPacketSample {
    /// When it was declared lost.
    pub now: Instant,
    /// Its number on this path.
    pub packet_number: u64,
    /// Its size.
    pub bytes: ByteCount,
    /// Bytes in flight, including itself, when it was sent.
    pub in_flight_at_sent: ByteCount,
    /// Bytes lost since it was sent, including itself.
    pub lost_since_sent: ByteCount,
    /// How many gaps the losses since it was sent make, its own included: packets that were sent one after the other are
    /// one gap.
    pub gaps_since_sent: u64,
    /// All gaps on the path so far.
    pub gaps: u64,
    /// All bytes delivered on the path so far.
    pub delivered: ByteCount,
    /// Whether it begins a congestion event: a [`LossSample`] follows.
    pub begins_event: bool,
    /// Whether the sender had run out of data when it was sent.
    pub app_limited: bool,
    /// Round trip of the newest packet of the acknowledgement that shows the loss; `None` if none does, or it measured none.
    pub latest_rtt: Option<Duration>,
}

/// Why the window has to shrink.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum CongestionSign {
    /// Packets were lost.
    #[default]
    Loss,
    /// Packets arrived with a mark of congestion (RFC 3168).
    Mark,
}

/// A congestion event; there is one a round trip at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct LossSample {
    /// When.
    pub now: Instant,
    /// What showed it.
    pub sign: CongestionSign,
    /// When the packet left that showed it first.
    pub sent_at: Instant,
    /// Bytes lost that showed it; zero for a mark.
    pub bytes: ByteCount,
    /// Bytes in flight without the lost ones.
    pub in_flight: ByteCount,
    /// Smoothed round trip.
    pub smoothed_rtt: Duration,
}

/// Figures of another live path of the same connection, for coupled controllers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Subflow {
    /// Its congestion window.
    pub window: ByteCount,
    /// Its smoothed round trip.
    pub rtt: Duration,
    /// The larger of: bytes acknowledged since its last congestion event, bytes acknowledged between the last two.
    /// (The `l` of OLIA.)
    pub loss_interval: ByteCount,
    /// What its controller does at the moment.
    pub activity: Activity,
    /// When its window was last reduced for congestion; `None` if its controller does not tell.
    pub reduced_at: Option<Instant>,
    /// Where its packets queue.
    pub bottleneck: Bottleneck,
}

impl Subflow {
    /// Names the figures of a path whose controller does nothing special, behind a bottleneck of its own.
    pub const fn new(window: ByteCount, rtt: Duration, loss_interval: ByteCount) -> Self {
        Self {
            window,
            rtt,
            loss_interval,
            activity: Activity::Steady,
            reduced_at: None,
            bottleneck: Bottleneck::Other,
        }
    }

    /// Names what the controller does.
    #[must_use]
    pub const fn with_activity(mut self, activity: Activity) -> Self {
        self.activity = activity;
        self
    }

    /// Names when the window was last reduced for congestion.
    #[must_use]
    pub const fn with_reduced_at(mut self, moment: Option<Instant>) -> Self {
        self.reduced_at = moment;
        self
    }

    /// Names where its packets queue.
    #[must_use]
    pub const fn with_bottleneck(mut self, bottleneck: Bottleneck) -> Self {
        self.bottleneck = bottleneck;
        self
    }
}

/// Where the packets of another path queue, as far as is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Bottleneck {
    /// Elsewhere than those of this path.
    #[default]
    Other,
    /// Where those of this path do: both belong to one group, and coupled controllers make them compete as one flow.
    Same,
}

/// What a controller does that those of other paths had better not do at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Activity {
    /// Nothing special.
    #[default]
    Steady,
    /// It sends more than it knows the path to carry, to learn whether there is more.
    Probing,
    /// It sends less than the path carries, to learn the round trip without a queue.
    Draining,
}
