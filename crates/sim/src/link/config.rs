//! The settings of a link.

use std::time::Duration;

use manyway_proto::Rate;

use super::{
    DelayModel, Drops, EcnTreatment, Jitter, LossModel, Order, Probability, QueueConfig, QueueLimit,
    RateModel,
};

/// The properties of one direction of a link.
///
/// ```
/// use manyway_sim::link::{LinkConfig, LossModel, Probability, QueueConfig, QueueLimit};
/// use manyway_proto::Rate;
/// use std::time::Duration;
/// let wifi = LinkConfig::new(Rate::from_bits_per_second(30_000_000), Duration::from_millis(15))
///     .with_loss(LossModel::Random(Probability::from_percent(1.0)))
///     .with_queue(QueueConfig::drop_tail(QueueLimit::Time(Duration::from_millis(50))));
/// assert_eq!(wifi.overhead, LinkConfig::IPV4_UDP);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinkConfig {
    /// The rate of the queue. Default unlimited.
    pub rate: RateModel,
    /// The queue limit. Default 100 ms, drop-tail.
    pub queue: QueueConfig,
    /// The propagation delay. Default 0.
    pub delay: DelayModel,
    /// Loss on the medium. Default none.
    pub loss: LossModel,
    /// Probability of a flipped bit on the medium. Default never.
    pub corruption: Probability,
    /// Probability of a duplicate. Default never.
    pub duplication: Probability,
    /// Bytes that each packet uses of rate and queue beyond its own. Default [`Self::IPV4_UDP`].
    pub overhead: u16,
    /// Largest packet with overhead; larger ones are dropped silently. Default 1500.
    pub mtu: u16,
    /// Treatment of packets with an ECN mark. Default none.
    pub ecn: EcnTreatment,
    /// What it drops by its kind. Default nothing.
    pub drops: Drops,
}

impl LinkConfig {
    /// IPv4 and UDP headers.
    pub const IPV4_UDP: u16 = 28;
    /// IPv6 and UDP headers.
    pub const IPV6_UDP: u16 = 48;

    /// Makes a link with a fixed rate and a constant delay, otherwise without faults.
    pub fn new(rate: Rate, delay: Duration) -> Self {
        Self { rate: RateModel::Fixed(rate), delay: DelayModel::constant(delay), ..Self::default() }
    }

    /// Sets the rate.
    #[must_use]
    pub fn with_rate(mut self, rate: RateModel) -> Self {
        self.rate = rate;
        self
    }

    /// Sets the queue.
    #[must_use]
    pub fn with_queue(mut self, queue: QueueConfig) -> Self {
        self.queue = queue;
        self
    }

    /// Sets a drop-tail queue of this length in time.
    #[must_use]
    pub fn with_queue_time(self, time: Duration) -> Self {
        self.with_queue(QueueConfig::drop_tail(QueueLimit::Time(time)))
    }

    /// Sets the delay.
    #[must_use]
    pub fn with_delay(mut self, delay: DelayModel) -> Self {
        self.delay = delay;
        self
    }

    /// Varies the delay.
    #[must_use]
    pub fn with_jitter(mut self, jitter: Jitter, order: Order) -> Self {
        self.delay = self.delay.with_jitter(jitter, order);
        self
    }

    /// Sets the loss.
    #[must_use]
    pub fn with_loss(mut self, loss: LossModel) -> Self {
        self.loss = loss;
        self
    }

    /// Sets the probability of a flipped bit.
    #[must_use]
    pub fn with_corruption(mut self, corruption: Probability) -> Self {
        self.corruption = corruption;
        self
    }

    /// Sets the probability of a duplicate.
    #[must_use]
    pub fn with_duplication(mut self, duplication: Probability) -> Self {
        self.duplication = duplication;
        self
    }

    /// Sets the bytes added to each packet: [`Self::IPV4_UDP`], [`Self::IPV6_UDP`], or 0 for whole IP packets.
    #[must_use]
    pub fn with_overhead(mut self, overhead: u16) -> Self {
        self.overhead = overhead;
        self
    }

    /// Sets the largest packet, overhead included.
    #[must_use]
    pub fn with_mtu(mut self, mtu: u16) -> Self {
        self.mtu = mtu;
        self
    }

    /// Sets the treatment of packets with an ECN mark.
    #[must_use]
    pub fn with_ecn(mut self, ecn: EcnTreatment) -> Self {
        self.ecn = ecn;
        self
    }

    /// Sets what it drops by its kind.
    #[must_use]
    pub fn with_drops(mut self, drops: Drops) -> Self {
        self.drops = drops;
        self
    }
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            rate: RateModel::Unlimited,
            queue: QueueConfig::default(),
            delay: DelayModel::default(),
            loss: LossModel::None,
            corruption: Probability::NEVER,
            duplication: Probability::NEVER,
            overhead: Self::IPV4_UDP,
            mtu: 1500,
            ecn: EcnTreatment::Kept,
            drops: Drops::Nothing,
        }
    }
}
