//! What the engine orders a packet to carry.

use crate::scheduler::Source;
use crate::stream::priority::ClassFilter;
use crate::{Ecn, FourTuple, Transmit};

/// What a packet may carry besides acknowledgements.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Carry {
    pub(crate) load: Load,
    /// Which stream data.
    pub(crate) source: Source,
    /// Of which classes.
    pub(crate) filter: ClassFilter,
    /// Makes the packet ack-eliciting even if nothing else does.
    pub(crate) ack_eliciting: bool,
    pub(crate) mtu_probe: Option<u16>,
    /// The ECN mark of its datagram.
    pub(crate) ecn: Ecn,
}

/// How much of the waiting data may go into a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Load {
    #[default]
    Acks,
    /// Copies of a burst that another path carried.
    Copies,
    /// Control blocks.
    Control,
    /// Control blocks and stream data.
    Data,
}

/// A batch of one datagram, or of one record.
pub(crate) fn single(tuple: FourTuple, length: usize) -> Transmit {
    Transmit { tuple, length, segment: length, ecn: Ecn::NotEct }
}
