//! Packets of a path that was suspect: what became of them tells of an outage, not of the capacity.

/// Which packets were sent in doubt, or were on their way when it began.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Doubt {
    /// Those below this number.
    below: u64,
}

impl Doubt {
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
        let mut doubt = Doubt::default();
        doubt.end(7);
        assert!(!doubt.covers(0));
        doubt.begin();
        assert!(doubt.covers(1_000_000));
        doubt.end(7);
        doubt.end(9);
        assert!(doubt.covers(6) && !doubt.covers(7));
    }
}
