//! Effects of the peer's packets on paths, independent of the wire.

use std::net::SocketAddr;
use std::ops::RangeInclusive;

use manyway_wire::PathId;

use super::{Engine, Heard};
use crate::event::Event;
use crate::path::PathState;
use crate::recovery::{Outcome, ReceivedAck};
use crate::{Instant, Side, Violation};

impl Engine {
    /// A packet of `size` bytes was decrypted: the peer is alive, and so is its path if the packet came between the
    /// path's addresses.
    pub(crate) fn on_packet_in(&mut self, heard: &Heard, size: usize) {
        self.clock.last_activity = heard.now;
        self.clock.ack_eliciting_since_heard = false;
        let Some(path) = self.paths.get_mut(heard.path) else { return };
        path.count_received(size);
        // A response of another pair says nothing about this one; a server follows its client (spec 6.30).
        let is_elsewhere = !path.addresses.are(&heard.tuple) && !path.challenger.is_target(&heard.tuple);
        if self.side == Side::Client && is_elsewhere {
            return;
        }
        path.on_heard(heard.now);
        if path.state() == PathState::Dead {
            path.challenger.expedite(heard.now);
        }
    }

    /// Handles an acknowledgement. Returns the highest packet number of the path that the peer has, if it shows that
    /// the path works.
    ///
    /// # Errors
    /// If it acknowledges a packet that was never sent.
    pub(crate) fn on_ack<I: Iterator<Item = RangeInclusive<u64>>>(
        &mut self,
        now: Instant,
        ack: ReceivedAck<I>,
    ) -> Result<Option<u64>, Violation> {
        let id = ack.path;
        let mut outcome = std::mem::take(&mut self.shared.outcome);
        let result = self.take_ack(now, ack, &mut outcome);
        self.settle(now, id, &mut outcome);
        self.shared.outcome = outcome;
        result
    }

    fn take_ack<I: Iterator<Item = RangeInclusive<u64>>>(
        &mut self,
        now: Instant,
        ack: ReceivedAck<I>,
        outcome: &mut Outcome,
    ) -> Result<Option<u64>, Violation> {
        let (id, carrier) = (ack.path, ack.carrier);
        let subflows = self.paths.subflows(now, id);
        // An acknowledgement of a closed path is late, not wrong.
        let Some(path) = self.paths.get_mut(id) else { return Ok(None) };
        // An acknowledgement over another path only shows that the peer received a packet, perhaps long ago.
        let is_suspect = path.state() == PathState::Suspect && carrier != id;
        let in_flight = path.recovery.packets_in_flight();
        path.recovery.on_ack(now, ack, &subflows, outcome)?;
        if !outcome.progress || is_suspect {
            return Ok(None);
        }
        path.silence.on_progress(now, in_flight);
        path.cancel_pto_probes();
        let recovery = &path.recovery;
        if recovery.packets_in_flight() == 0 {
            path.silence.on_pause();
        }
        let (smoothed, largest) = (recovery.rtt().smoothed(), recovery.largest_acked());
        path.receiving.acks.set_rtt(smoothed);
        if path.state() == PathState::Suspect {
            let working = path.working_state();
            self.clear_suspicion(now, id, working);
        }
        Ok(Some(largest.unwrap_or_default()))
    }

    /// Data arrived on a path.
    pub(crate) fn on_data_in(&mut self, now: Instant, path: PathId) {
        if let Some(path) = self.paths.get_mut(path) {
            path.on_data_received(now);
        }
    }

    /// A path challenge arrived: the response goes to its source.
    pub(crate) fn on_challenge(&mut self, heard: &Heard, nonce: u64) {
        if let Some(path) = self.paths.get_mut(heard.path) {
            path.push_response(heard.now, heard.tuple, nonce);
        }
    }

    /// The response to a path challenge arrived; the peer sees this end at `observed`.
    /// True if it answers a challenge of that path.
    pub(crate) fn on_challenge_answered(&mut self, heard: &Heard, nonce: u64, observed: SocketAddr) -> bool {
        let &Heard { now, path: id, tuple, .. } = heard;
        let Some(path) = self.paths.get_mut(id) else { return false };
        let answer = match path.pings_mut().and_then(|pings| pings.on_answer(now, &tuple, nonce)) {
            Some((token, answer)) => {
                self.events.push(Event::Pong { path: id, token, rtt: answer.rtt });
                Some(answer)
            }
            None => path.challenger.on_response(now, &tuple, nonce),
        };
        let Some(answer) = answer else {
            self.manager.on_check_answer(now, &tuple, nonce);
            return false;
        };
        self.manager.on_answered(answer.tuple.remote);
        // What a NAT made of a TCP port says nothing about UDP.
        if tuple.is_datagram() && observed != tuple.local.address {
            self.events.push(Event::AddressObserved { path: id, address: observed });
        }
        self.on_path_answered(now, id, answer);
        true
    }
}

/// Forgets packets in flight of which it cannot be known whether they arrived, because all their content has.
pub(crate) fn forget_packets(engine: &mut Engine, path: PathId, numbers: &[u64]) {
    let Some(path) = engine.paths.get_mut(path).filter(|_| !numbers.is_empty()) else { return };
    path.recovery.forget_packets(numbers);
    if path.recovery.packets_in_flight() == 0 {
        path.silence.on_pause();
        path.cancel_pto_probes();
    }
}
