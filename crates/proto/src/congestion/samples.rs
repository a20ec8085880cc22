//! Inputs of a congestion controller, as named arguments. Their defaults are for tests to fill in.

use std::time::Duration;

use crate::{ByteCount, Instant, Rate};

/// Configuration of a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ControllerConfig {
    /// Largest datagram of the path in bytes. Default 1200.
    pub max_datagram: u16,
    /// Initial window, in datagrams of at most 1472 bytes. Default 10 (RFC 9002, section 7.2); at least 2.
    pub initial_window: u32,
    /// A number that differs between the paths of a connection, so that they do not probe for bandwidth at the same
    /// time. Default 0.
    pub seed: u64,
}

impl ControllerConfig {
    /// The default configuration for this datagram size.
    pub const fn new(max_datagram: u16) -> Self {
        Self { max_datagram, initial_window: 10, seed: 0 }
    }

    /// The initial window in bytes: the configured number of datagrams up to the ordinary size, and at least two
    /// datagrams (RFC 9002, section 7.2).
    pub fn initial_bytes(&self) -> ByteCount {
        let ordinary = self.max_datagram.min(ORDINARY);
        datagrams(ordinary, self.initial_window).max(self.minimum_bytes())
    }

    /// The minimum window: two datagrams (RFC 9002, section 7.2).
    pub fn minimum_bytes(&self) -> ByteCount {
        datagrams(self.max_datagram, 2)
    }
}

impl Default for ControllerConfig {
    fn default() -> Self {
        Self::new(1200)
    }
}

/// The largest datagram in which the initial window is counted: that of Ethernet with IPv4.
const ORDINARY: u16 = 1472;

fn datagrams(size: u16, count: u32) -> ByteCount {
    ByteCount(u64::from(size) * u64::from(count))
}

/// A packet left; ACK-only packets are not reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SentSample {
    /// Time of sending.
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

/// An acknowledgement that newly acknowledges packets; one for each such PATH-ACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct AckSample {
    /// Time of arrival.
    pub now: Instant,
    /// Bytes newly acknowledged.
    pub bytes: ByteCount,
    /// The part of [`Self::bytes`] that was sent after the last congestion event: the window may grow by it (RFC
    /// 9002, section 7.3.2).
    pub bytes_outside_recovery: ByteCount,
    /// Bytes in flight after the acknowledgement and the losses that it revealed.
    pub in_flight: ByteCount,
    /// Most bytes in flight during the last round trip; see [`Self::allows_growth_of`].
    pub pipe: ByteCount,
    /// RTT of the newest packet, if it was newly acknowledged.
    pub latest_rtt: Option<Duration>,
    /// One-way delay of that packet to the peer, in µs modulo 2³², between two unsynchronised clocks: only
    /// differences between two of them have a meaning. `None` if the peer does not report arrival times.
    pub latest_one_way: Option<u32>,
    /// Smoothed RTT.
    pub smoothed_rtt: Duration,
    /// Mean deviation of RTTs from [`Self::smoothed_rtt`].
    pub rtt_variation: Duration,
    /// Smallest RTT.
    pub minimum_rtt: Duration,
    /// Largest acknowledged packet number so far.
    pub largest_acked: u64,
    /// Number of the next packet; a round ends when it is acknowledged.
    pub next_packet_number: u64,
    /// Delivery rate measured by the newest packet; `None` if its interval was too short to be trusted.
    pub delivery_rate: Option<Rate>,
    /// Whether the sender had run out of data when the newest packet was sent.
    pub app_limited: bool,
    /// Total of bytes delivered on the path.
    pub delivered: ByteCount,
    /// Bytes delivered when the newest packet was sent.
    pub delivered_at_sent: ByteCount,
    /// Bytes in flight, including itself, when the newest packet was sent.
    pub in_flight_at_sent: ByteCount,
    /// Bytes lost since the newest packet was sent.
    pub lost_since_sent: ByteCount,
    /// Number of gaps that these losses form: consecutively sent packets form one gap.
    pub gaps_since_sent: u64,
    /// Bytes declared lost by this acknowledgement.
    pub newly_lost: ByteCount,
    /// Reported to other paths as [`Subflow::loss_interval`].
    pub loss_interval: ByteCount,
}

impl AckSample {
    /// Whether a window of this size was used, so that the acknowledgement shows that it was not too large.
    ///
    /// A sender that uses less than half of its window learns nothing about it (RFC 7661, section 4.3).
    pub fn allows_growth_of(&self, window: ByteCount) -> bool {
        self.pipe * 2 >= window
    }
}

/// A packet was declared lost; PMTU probes and packets of an abandoned path are not reported.
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
    /// Number of gaps that the losses since it was sent form, including its own: consecutively sent packets form one
    /// gap.
    pub gaps_since_sent: u64,
    /// Number of gaps on the path so far.
    pub gaps: u64,
    /// Total of bytes delivered on the path.
    pub delivered: ByteCount,
    /// Whether it begins a congestion event: a [`LossSample`] follows.
    pub begins_event: bool,
    /// Whether the sender had run out of data when it was sent.
    pub app_limited: bool,
    /// RTT of the newest packet of the acknowledgement that revealed the loss; `None` if no acknowledgement did, or
    /// it gave no sample.
    pub latest_rtt: Option<Duration>,
}

/// Why the window has to shrink.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum CongestionSign {
    /// Packets were lost.
    #[default]
    Loss,
    /// Packets arrived with a CE mark (RFC 3168).
    Mark,
}

/// A congestion event; there is at most one in a round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct LossSample {
    /// Time of the event.
    pub now: Instant,
    /// The sign of congestion.
    pub sign: CongestionSign,
    /// When the packet was sent that first showed it.
    pub sent_at: Instant,
    /// The lost bytes; zero for a mark.
    pub bytes: ByteCount,
    /// Bytes in flight without the lost ones.
    pub in_flight: ByteCount,
    /// Smoothed RTT.
    pub smoothed_rtt: Duration,
}

/// Figures of another live path of the same connection, for coupled controllers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Subflow {
    /// Its congestion window.
    pub window: ByteCount,
    /// Its smoothed RTT.
    pub rtt: Duration,
    /// The larger of: bytes acknowledged since its last congestion event, bytes acknowledged between the last two.
    /// (The `l` of OLIA.)
    pub loss_interval: ByteCount,
    /// The present activity of its controller.
    pub activity: Activity,
    /// When its window was last reduced for congestion; `None` if its controller does not report it.
    pub reduced_at: Option<Instant>,
    /// The place where its packets queue.
    pub bottleneck: Bottleneck,
}

impl Subflow {
    /// A steady subflow with a bottleneck of its own.
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

    /// Sets the activity of the controller.
    #[must_use]
    pub const fn with_activity(mut self, activity: Activity) -> Self {
        self.activity = activity;
        self
    }

    /// Sets when the window was last reduced for congestion.
    #[must_use]
    pub const fn with_reduced_at(mut self, moment: Option<Instant>) -> Self {
        self.reduced_at = moment;
        self
    }

    /// Sets where its packets queue.
    #[must_use]
    pub const fn with_bottleneck(mut self, bottleneck: Bottleneck) -> Self {
        self.bottleneck = bottleneck;
        self
    }
}

/// Where the packets of another path queue, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Bottleneck {
    /// Not at the bottleneck of this path.
    #[default]
    Other,
    /// At the bottleneck of this path: both belong to one group, and coupled controllers make them compete as one
    /// flow.
    Same,
}

/// An activity of a controller that those of other paths should not start at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Activity {
    /// Nothing special.
    #[default]
    Steady,
    /// It sends more than the known capacity of the path, to discover more.
    Probing,
    /// It sends less than the path carries, to measure the RTT without a queue.
    Draining,
}
