//! Packets of a suspect path: their loss or delay reflects an outage, not the capacity of the path.

/// The packets sent in a suspect period, or in flight when it began.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SuspectPeriod {
    /// Packets below this number.
    below: u64,
}

impl SuspectPeriod {
    /// A suspect period begins.
    pub(crate) fn begin(&mut self) {
        self.below = u64::MAX;
    }

    /// The suspect period ends, if there was one; `next` is the number of the next packet.
    pub(crate) fn end(&mut self, next: u64) {
        if self.below == u64::MAX {
            self.below = next;
        }
    }

    /// Whether a packet belongs to a suspect period.
    pub(crate) fn covers(&self, packet_number: u64) -> bool {
        packet_number < self.below
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_sent_before_the_end_of_a_suspect_period_belong_to_it() {
        let mut suspect_period = SuspectPeriod::default();
        suspect_period.end(7);
        assert!(!suspect_period.covers(0));
        suspect_period.begin();
        assert!(suspect_period.covers(1_000_000));
        suspect_period.end(7);
        suspect_period.end(9);
        assert!(suspect_period.covers(6) && !suspect_period.covers(7));
    }
}
