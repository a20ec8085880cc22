//! What a scheduler sees of a path.

use super::Path;
use crate::recovery::CarrierFigures;
use crate::scheduler::{PathRecord, PathTerms, PathView, RttView};
use crate::{ByteCount, Instant};

impl Path {
    /// The round trip of what is sent now: on a stream carrier that of its system, since acknowledgements of the peer
    /// also tell of the wait in the send buffer.
    pub(crate) fn rtt(&self) -> RttView {
        if let Some(figures) = self.recovery.figures() {
            let CarrierFigures { rtt, rtt_variation, minimum_rtt, .. } = *figures;
            return RttView {
                smoothed: rtt,
                variation: rtt_variation,
                minimum: minimum_rtt,
                base: minimum_rtt,
            };
        }
        let rtt = self.recovery.rtt();
        RttView {
            smoothed: rtt.smoothed(),
            variation: rtt.variation(),
            minimum: rtt.minimum(),
            base: rtt.base(),
        }
    }

    /// The scheduler's view of the path, without allowance. `own` are the terms of this end; where they name no cost,
    /// that of the peer counts (spec 6.128).
    pub(crate) fn view(&self, now: Instant, own: PathTerms) -> PathView {
        let recovery = &self.recovery;
        let rtt = self.rtt();
        let peer_cost = self.peer_status.1.cost;
        let peer_pays = own.cost == 0 && peer_cost > 0;
        let mut view = PathView {
            state: self.state,
            role: self.joint_role(),
            interface: self.tuple().local.interface,
            peer_ready: self.peer_ready() && !self.back_pressure.is_stalled(&self.tuple()),
            rtt,
            delivery_rate: recovery.delivery_rate(),
            window: recovery.window(),
            in_flight: recovery.bytes_in_flight(),
            datagram: ByteCount(u64::from(self.mtu.current())),
            in_slow_start: recovery.is_in_slow_start(),
            record: PathRecord {
                bytes_sent: ByteCount(self.counters.bytes_sent),
                loss: recovery.loss_rate(),
                rate_age: recovery.rate_measured_at().map(|at| now - at),
                ack_age: recovery.last_progress().map(|at| now - at),
            },
            terms: PathTerms { cost: if peer_pays { peer_cost } else { own.cost }, ..own },
            peer_pays,
            ..PathView::new(self.id)
        };
        let queue = rtt.smoothed.saturating_sub(rtt.minimum) / 2;
        view.delay = rtt.minimum / 2 + view.present_queue(queue, view.record.ack_age.unwrap_or_default());
        view
    }
}
