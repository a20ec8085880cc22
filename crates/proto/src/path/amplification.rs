//! Amplification limit: an unvalidated address gets at most three times the bytes received from it (RFC 9000,
//! section 8).

use crate::Carrier;

/// Counts bytes to and from an unvalidated address.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Amplification {
    /// The address has not answered yet.
    Limited { received: u64, sent: u64 },
    /// The address is not validated, but nothing can be amplified: its host took part in the carrier's own handshake.
    Unlimited,
    /// The address is validated.
    Lifted,
}

/// Smaller allowances count as zero: no useful packet fits.
const LEAST_PACKET: usize = 80;
/// The largest packet with a PROBE and nothing else. One of MMSP/1 has 64 bytes, and answers one of as many.
const PROBE_PACKET: usize = 41;
/// Bytes that may go out for each byte received.
const FACTOR: u64 = 3;

impl Amplification {
    /// The limit of an unvalidated address: only the source of a datagram can be forged.
    pub(crate) const fn unvalidated(carrier: Carrier) -> Self {
        if carrier.is_datagram() { Self::Limited { received: 0, sent: 0 } } else { Self::Unlimited }
    }

    pub(crate) fn on_received(&mut self, bytes: usize) {
        if let Self::Limited { received, .. } = self {
            *received = received.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
        }
    }

    pub(crate) fn on_sent(&mut self, bytes: usize) {
        if let Self::Limited { sent, .. } = self {
            *sent = sent.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
        }
    }

    pub(crate) fn lift(&mut self) {
        *self = Self::Lifted;
    }

    pub(crate) fn is_lifted(&self) -> bool {
        matches!(self, Self::Lifted)
    }

    /// Whether a packet may go out now.
    pub(crate) fn has_room(&self) -> bool {
        self.room() > 0
    }

    /// Whether a packet with a PROBE and nothing else may go out now.
    pub(crate) fn has_room_for_challenge(&self) -> bool {
        self.left() >= PROBE_PACKET
    }

    /// Bytes that may go out now; zero if too few for a packet.
    pub(crate) fn room(&self) -> usize {
        let left = self.left();
        if left < LEAST_PACKET { 0 } else { left }
    }

    fn left(&self) -> usize {
        match self {
            Self::Limited { received, sent } => {
                let left = received.saturating_mul(FACTOR).saturating_sub(*sent);
                usize::try_from(left).unwrap_or(usize::MAX)
            }
            Self::Unlimited | Self::Lifted => usize::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Amplification;
    use crate::Carrier;

    #[test]
    fn an_unvalidated_address_gets_three_bytes_for_one() {
        let mut limit = Amplification::unvalidated(Carrier::Udp);
        assert_eq!(limit.room(), 0);
        limit.on_received(100);
        limit.on_sent(200);
        assert_eq!(limit.room(), 100);
        limit.on_sent(21);
        assert!(!limit.has_room(), "79 bytes are too few for a packet");
        assert!(limit.has_room_for_challenge());
        limit.on_sent(39);
        assert!(!limit.has_room_for_challenge());
        limit.lift();
        assert_eq!(limit.room(), usize::MAX);
    }

    #[test]
    fn the_host_at_the_end_of_a_stream_is_not_validated_and_not_limited() {
        let mut limit = Amplification::unvalidated(Carrier::Tcp);
        limit.on_sent(1_000_000);
        assert!(limit.has_room() && limit.has_room_for_challenge() && !limit.is_lifted());
    }
}
