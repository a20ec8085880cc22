//! The states of the sender, and the gains in each.

use crate::Instant;

/// `BBR.StartupPacingGain` = 4·ln 2, in percent: the least gain with which the rate doubles in each round trip.
pub(super) const STARTUP_GAIN: u64 = 277;
/// `BBR.ProbeRTTCwndGain` = 0.5, in percent.
pub(super) const DRAINED_GAIN: u64 = 50;
/// The same while the rate of the path varies.
pub(super) const VARYING_DRAINED_GAIN: u64 = 85;

/// `BBR.state`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Doubles the rate each round trip.
    Startup,
    /// Drains the queue of Startup.
    Drain { since_round: u64 },
    /// Sends at the known rate, and probes for more bandwidth now and then.
    ProbeBw(Phase),
    /// Drains all queues to measure the round trip.
    ProbeRtt(Dwell),
}

/// The state of the queue at the loss of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LossQueue {
    /// Empty: the packet was lost on the link, or a policer dropped it.
    Empty,
    /// Not full: the packet was lost on the link, whatever this end sends.
    Partial,
    /// Full.
    Full,
}

impl State {
    /// `BBR.pacing_gain`, in percent.
    pub(super) fn pacing_gain(self) -> u64 {
        match self {
            Self::Startup => STARTUP_GAIN,
            Self::Drain { .. } => 50,
            Self::ProbeBw(phase) => phase.pacing_gain(),
            Self::ProbeRtt(_) => 100,
        }
    }

    /// `BBR.cwnd_gain`, in percent; in ProbeRTT a smaller window applies.
    pub(super) fn window_gain(self) -> u64 {
        match self {
            Self::ProbeBw(Phase::Up) => 225,
            Self::Startup
            | Self::Drain { .. }
            | Self::ProbeBw(Phase::Down | Phase::Cruise | Phase::Refill)
            | Self::ProbeRtt(_) => 200,
        }
    }

    /// Whether losses now are the price of probing for bandwidth.
    pub(super) fn is_accelerating(self) -> bool {
        match self {
            Self::Startup | Self::ProbeBw(Phase::Refill | Phase::Up) => true,
            Self::Drain { .. } | Self::ProbeBw(Phase::Down | Phase::Cruise) | Self::ProbeRtt(_) => false,
        }
    }
}

/// The phases of ProbeBW.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Sends less than the path delivers, until its queue is empty.
    Down,
    /// Sends at the delivery rate of the path.
    Cruise,
    /// The same without the bounds from losses, for a round trip.
    Refill,
    /// Sends more than the known bandwidth.
    Up,
}

impl Phase {
    pub(super) fn pacing_gain(self) -> u64 {
        match self {
            Self::Down => 90,
            Self::Cruise | Self::Refill => 100,
            Self::Up => 125,
        }
    }
}

/// Progress of ProbeRTT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Dwell {
    /// When it has lasted long enough; `None` until few bytes are in flight.
    pub(super) until: Option<Instant>,
    /// Whether a round trip has passed since then.
    pub(super) has_seen_round: bool,
}
