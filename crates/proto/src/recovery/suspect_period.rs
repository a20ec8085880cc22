//! Packets of a path that was suspect: what became of them tells of an outage, not of the capacity.

/// Which packets were sent in suspect_period, or were on their way when it began.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SuspectPeriod {
    /// Those below this number.
    below: u64,
}

impl SuspectPeriod {
    /// Doubts begin.
    pub(crate) fn begin(&mut self) {
        self.below = u64::MAX;
    }

    /// They are over, if there were any; `next` is the number of the next packet.
    pub(crate) fn end(&mut self, next: u64) {
        if self.below == u64::MAX {
            self.below = next;
        }
    }

    /// Whether a packet falls under them.
    pub(crate) fn covers(&self, packet_number: u64) -> bool {
        packet_number < self.below
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_sent_before_the_end_of_the_doubts_fall_under_them() {
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
