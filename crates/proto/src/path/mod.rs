//! Paths: address pairs that carry packets, each with its own packet numbers, RTT and congestion window.

mod addresses;
mod amplification;
mod availability;
mod back_pressure;
pub(crate) mod candidates;
mod challenge;
mod challenge_budget;
pub(crate) mod connectivity_checks;
mod flaps;
mod health;
mod interface_mtu;
pub(crate) mod manager;
mod mtu;
pub(crate) mod pair_order;
mod ping;
mod rate_memory;
mod receiving;
pub(crate) mod remotes;
pub(crate) mod selection;
mod set;
mod state;
#[cfg(test)]
mod testing;
mod view;

use std::time::Duration;

use manyway_wire::PathId;

pub(crate) use addresses::{Migration, PathAddresses};
pub(crate) use amplification::Amplification;
pub use availability::PathAvailability;
pub(crate) use availability::PathReport;
use back_pressure::BackPressure;
pub(crate) use challenge::{Challenger, PathResponse};
use flaps::Flaps;
pub(crate) use health::{FEWEST_IN_FLIGHT, SilenceDetector};
pub(crate) use interface_mtu::InterfaceMtus;
pub use manager::LocalCandidate;
pub(crate) use mtu::{LARGEST as LARGEST_DATAGRAM, MtuSearch, SizeLimit};
pub use ping::PingToken;
pub(crate) use ping::Pings;
pub(crate) use receiving::Receiving;
pub use remotes::may_be_challenged;
pub use selection::PairMode;
pub(crate) use set::PathSet;
pub use state::{PathReason, PathState, Role, SendRefusal};

use crate::recovery::PathRecovery;
use crate::{FourTuple, Instant};

/// Most PROBEs of the peer that await our PROBE-ACK on a path.
const MAX_RESPONSES: usize = 4;
/// A time before any stream data: the handshake takes time.
const NEVER: Instant = Instant::from_nanos(0);
/// A response that was delayed for longer would give a wrong round trip, and the peer has sent another PROBE.
const RESPONSE_LIFETIME: Duration = Duration::from_millis(250);
/// A longer gap between the peer's packets says nothing about the link: at 64 kbit/s the largest packet takes less. In ns.
const LONGEST_GAP: u64 = 250_000_000;

const LONGEST_PROBATION: Duration = Duration::from_millis(400);
/// What is on its way over a stream that was retired has this long to arrive.
const DRAINS_FOR: Duration = Duration::from_secs(2);

/// One path of a connection.
#[derive(Debug)]
pub(crate) struct Path {
    pub(crate) id: PathId,
    pub(crate) addresses: PathAddresses,
    role: Role,
    state: PathState,
    /// Why it entered its state.
    reason: PathReason,
    since: Instant,
    /// The sending direction.
    pub(crate) recovery: PathRecovery,
    /// The receiving direction.
    pub(crate) receiving: Receiving,
    pub(crate) challenger: Challenger,
    /// Most paths never have any.
    pings: Option<Box<Pings>>,
    pub(crate) silence: SilenceDetector,
    /// Most paths never die.
    flaps: Option<Box<Flaps>>,
    pub(crate) mtu: MtuSearch,
    pub(crate) back_pressure: BackPressure,
    responses: Vec<PendingResponse>,
    /// What the peer reports, and the sequence number of that PATH-STATUS.
    peer_status: (u64, PathReport),
    /// PTO probes that go out regardless of the window.
    pto_probes_due: u8,
    /// When an ack-eliciting packet was last sent.
    ack_eliciting_sent_at: Instant,
    /// When any packet of the peer last arrived on it.
    heard_at: Instant,
    /// The longest time between two arrivals, in ns; it decays as more packets arrive.
    heard_gap: u64,
    /// When stream data was last sent on it, and last arrived; [`NEVER`] takes less memory than an option.
    data_sent_at: Instant,
    data_received_at: Instant,
    /// When it last became suspect because of an ICMP error.
    unreachable_at: Instant,
    counters: PathCounters,
}

/// A PROBE of the peer that awaits our PROBE-ACK.
#[derive(Debug, Clone, Copy)]
struct PendingResponse {
    tuple: FourTuple,
    nonce: u64,
    /// When the PROBE arrived.
    received_at: Instant,
}

/// Traffic counters of a path.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PathCounters {
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
    pub(crate) packets_sent: u64,
    pub(crate) packets_lost: u64,
    pub(crate) spurious_losses: u64,
}

impl Path {
    pub(crate) fn new(
        id: PathId,
        tuple: FourTuple,
        role: Role,
        mut recovery: PathRecovery,
        now: Instant,
    ) -> Self {
        let mtu = MtuSearch::of(tuple.carrier);
        if !tuple.is_datagram() {
            recovery.set_carrier(tuple.carrier);
            recovery.set_max_datagram(mtu.current());
        }
        Self {
            id,
            addresses: PathAddresses::new(tuple),
            role,
            state: PathState::Validating,
            reason: PathReason::Opened,
            since: now,
            recovery,
            receiving: Receiving::new(),
            challenger: Challenger::new(),
            pings: None,
            silence: SilenceDetector::default(),
            flaps: None,
            mtu,
            back_pressure: BackPressure::default(),
            responses: Vec::new(),
            peer_status: (0, PathReport::NONE),
            pto_probes_due: 0,
            ack_eliciting_sent_at: now,
            heard_at: now,
            heard_gap: 0,
            data_sent_at: NEVER,
            data_received_at: NEVER,
            unreachable_at: NEVER,
            counters: PathCounters::default(),
        }
    }

    pub(crate) fn state(&self) -> PathState {
        self.state
    }

    /// Its addresses.
    pub(crate) fn tuple(&self) -> FourTuple {
        self.addresses.tuple()
    }

    /// The peer answered at one of the addresses where a new path was tried: the path lies there. Its first packet may
    /// have been a copy that came over another carrier; what depends on the carrier begins anew then, and only probes
    /// have been sent (spec 6.102).
    pub(crate) fn settle_at(&mut self, tuple: FourTuple) {
        debug_assert_eq!(self.state, PathState::Validating);
        if self.tuple().carrier != tuple.carrier {
            self.mtu = MtuSearch::of(tuple.carrier);
            self.recovery.set_carrier(tuple.carrier);
            self.recovery.set_max_datagram(self.mtu.current());
        }
        self.addresses.validate(tuple);
    }

    /// Whether its packets are datagrams ([`Carrier::is_datagram`](crate::Carrier::is_datagram)).
    pub(crate) fn is_datagram(&self) -> bool {
        self.tuple().is_datagram()
    }

    /// Whether the driver can pass nothing on to the carrier now.
    #[inline]
    pub(crate) fn is_blocked(&self) -> bool {
        self.back_pressure.is_any_full() && self.back_pressure.is_blocked(&self.tuple())
    }

    /// When data no longer waits for the carrier, because it takes longer than a full window would.
    pub(crate) fn stalls_at(&self) -> Option<Instant> {
        if !self.back_pressure.is_any_full() {
            return None;
        }
        self.back_pressure.stalls_at(&self.tuple(), self.rtt().smoothed)
    }

    /// Stops waiting for the carrier once it is time.
    pub(crate) fn check_stall(&mut self, now: Instant) {
        if self.stalls_at().is_some_and(|at| at <= now) {
            self.back_pressure.on_stalled();
        }
    }

    /// Bytes that may go out now, whatever congestion control says: none while the driver can pass nothing on, else
    /// those of the amplification limit. Zero if too few for a packet.
    pub(crate) fn room(&self) -> usize {
        if self.is_blocked() { 0 } else { self.addresses.amplification().room() }
    }

    /// Whether a packet may go out now.
    pub(crate) fn has_room(&self) -> bool {
        self.room() > 0
    }

    /// Whether a path challenge may go to the addresses of the path now.
    pub(crate) fn has_room_for_challenge(&self) -> bool {
        !self.is_blocked() && self.addresses.amplification().has_room_for_challenge()
    }

    /// Whether a full carrier leaves a target to challenge: one beside the addresses of the path, if these are blocked.
    pub(crate) fn may_challenge(&self) -> bool {
        !self.is_blocked() || self.challenger.target_besides(&self.tuple()).is_some()
    }

    pub(crate) fn role(&self) -> Role {
        self.role
    }

    pub(crate) fn set_role(&mut self, role: Role) {
        self.role = role;
    }

    /// Schedules this many PTO probes, unless more are scheduled already.
    pub(crate) fn schedule_pto_probes(&mut self, count: u8) {
        self.pto_probes_due = self.pto_probes_due.max(count);
    }

    /// The path answered, or is dead: no PTO probe goes out.
    pub(crate) fn cancel_pto_probes(&mut self) {
        self.pto_probes_due = 0;
    }

    /// One of the PTO probes left.
    pub(crate) fn on_pto_probe_sent(&mut self) {
        self.pto_probes_due = self.pto_probes_due.saturating_sub(1);
    }

    pub(crate) fn has_pto_probes_due(&self) -> bool {
        self.pto_probes_due > 0
    }

    /// Takes a report of the peer; returns the previous availability, or `None` if the report is older than the last
    /// one.
    pub(crate) fn on_peer_status(&mut self, sequence: u64, report: PathReport) -> Option<PathAvailability> {
        if sequence <= self.peer_status.0 {
            return None;
        }
        let before = std::mem::replace(&mut self.peer_status, (sequence, report));
        Some(before.1.availability)
    }

    /// The peer answered on the path: its earlier adverse report is outdated, and a newer report may have no other
    /// path to arrive by.
    pub(crate) fn outdate_peer_status(&mut self) {
        self.peer_status.1.availability = PathAvailability::Available;
    }

    /// The availability that the peer reports.
    pub(crate) fn peer_availability(&self) -> PathAvailability {
        self.peer_status.1.availability
    }

    /// The flap history belongs to a link that the path has left.
    pub(crate) fn forget_flaps(&mut self) {
        self.flaps = None;
    }

    /// When the dwell time of a dead path that answers since `since` ends, and how often it flapped.
    pub(crate) fn dwell(&self, since: Instant) -> Option<(Instant, u8)> {
        let flaps = self.flaps.as_deref()?;
        Some((flaps.dwells_until(since)?, flaps.times()))
    }

    /// The application requests a ping on the path.
    pub(crate) fn request_ping(&mut self) -> PingToken {
        self.pings.get_or_insert_default().request()
    }

    /// The pings of the application, if it requested any.
    pub(crate) fn pings_mut(&mut self) -> Option<&mut Pings> {
        self.pings.as_deref_mut()
    }

    /// When the response to a ping is overdue.
    pub(crate) fn ping_deadline(&self) -> Option<Instant> {
        self.pings.as_ref()?.deadline(self.recovery.pto())
    }

    /// A ping without a response is followed by a PTO probe, unless something has arrived since: a ping is not in
    /// flight, so nothing else would detect the silence of an idle path.
    // spec 6.111
    pub(crate) fn on_ping_timeout(&mut self, now: Instant) {
        let wait = self.recovery.pto();
        let missed = self.pings.as_mut().and_then(|pings| pings.take_missed(now, wait));
        if missed.is_some_and(|sent_at| self.heard_at < sent_at) && self.state.carries_data() {
            self.schedule_pto_probes(1);
        }
    }

    /// The traffic counters.
    pub(crate) fn counters(&self) -> PathCounters {
        self.counters
    }

    pub(crate) fn count_sent(&mut self, bytes: usize) {
        self.count_sent_bytes(bytes);
        self.counters.packets_sent += 1;
    }

    /// Counts bytes of the handshake, whose packets have number spaces of their own.
    pub(crate) fn count_sent_bytes(&mut self, bytes: usize) {
        self.counters.bytes_sent += bytes as u64;
    }

    pub(crate) fn count_received(&mut self, bytes: usize) {
        self.counters.bytes_received += bytes as u64;
    }

    pub(crate) fn count_lost(&mut self, packets: u64, spurious: u64) {
        self.counters.packets_lost += packets;
        self.counters.spurious_losses += spurious;
    }

    pub(crate) fn on_ack_eliciting_sent(&mut self, now: Instant) {
        self.ack_eliciting_sent_at = now;
    }

    pub(crate) fn on_heard(&mut self, now: Instant) {
        let gap = now.nanos_since(self.heard_at).min(LONGEST_GAP);
        self.heard_gap = gap.max(self.heard_gap * 7 / 8);
        self.heard_at = now;
    }

    pub(crate) fn last_heard(&self) -> Instant {
        self.heard_at
    }

    pub(crate) fn on_data_sent(&mut self, now: Instant) {
        self.data_sent_at = now;
    }

    pub(crate) fn on_data_received(&mut self, now: Instant) {
        self.data_received_at = now;
    }

    /// When stream data last arrived.
    pub(crate) fn data_received_at(&self) -> Option<Instant> {
        Some(self.data_received_at).filter(|at| *at > NEVER)
    }

    pub(crate) fn on_unreachable(&mut self, now: Instant) {
        self.unreachable_at = now;
    }

    pub(crate) fn last_unreachable(&self) -> Option<Instant> {
        Some(self.unreachable_at).filter(|at| *at > NEVER)
    }

    pub(crate) fn last_data_sent(&self) -> Option<Instant> {
        Some(self.data_sent_at).filter(|at| *at > NEVER)
    }

    pub(crate) fn last_data(&self) -> Option<Instant> {
        Some(self.data_sent_at.max(self.data_received_at)).filter(|at| *at > NEVER)
    }

    /// Sets why it was opened.
    pub(crate) fn set_reason(&mut self, reason: PathReason) {
        self.reason = reason;
    }

    pub(crate) fn reason(&self) -> PathReason {
        self.reason
    }

    /// Whether packets of the peer arrive on it.
    pub(crate) fn is_heard(&self, now: Instant) -> bool {
        now < self.heard_until()
    }

    /// Until when a pause in arrivals is no silence. The peer's packets arrive with gaps where the link needs long
    /// for each large packet, although the round trips of small ones are short.
    pub(crate) fn heard_until(&self) -> Instant {
        self.heard_at + Duration::from_nanos(self.heard_gap * 2).max(self.recovery.pto())
    }

    pub(crate) fn last_ack_eliciting(&self) -> Instant {
        self.ack_eliciting_sent_at
    }

    /// When the path entered its state.
    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    /// How long the path has been in its state.
    pub(crate) fn in_state_for(&self, now: Instant) -> Duration {
        now - self.since
    }

    /// Changes the state; returns false, and changes nothing, if the table does not allow it.
    pub(crate) fn advance(&mut self, now: Instant, next: PathState, reason: PathReason) -> bool {
        if !self.state.may_become(next) {
            return false;
        }
        match next {
            PathState::Probation => {
                if let Some(flaps) = &mut self.flaps {
                    flaps.on_return(now);
                }
            }
            PathState::Dead => {
                let suspect_since = if self.state == PathState::Suspect { self.since } else { now };
                self.flaps.get_or_insert_default().on_death(now, suspect_since);
            }
            PathState::Validating
            | PathState::Active
            | PathState::Backup
            | PathState::Parked
            | PathState::Suspect
            | PathState::Closed => {}
        }
        self.state = next;
        self.reason = reason;
        self.since = now;
        true
    }

    /// The state of a validated path that works, by its role.
    pub(crate) fn working_state(&self) -> PathState {
        match self.role {
            Role::Primary | Role::Secondary => PathState::Active,
            Role::Backup | Role::Never => PathState::Backup,
        }
    }

    /// A response came from the current addresses.
    pub(crate) fn on_validated(&mut self) {
        self.addresses.validate(self.tuple());
    }

    /// The path returned to the addresses where it was validated before it migrated. A dead path sends path
    /// challenges there, because nothing else restores it.
    pub(crate) fn on_migration_reverted(&mut self, now: Instant) {
        if self.state == PathState::Dead {
            self.challenger.start(now, vec![self.tuple()], Some(self.recovery.pto()));
        } else {
            self.challenger.stop();
        }
    }

    /// The lesser of this end's and the peer's role for the path.
    pub(crate) fn joint_role(&self) -> Role {
        match self.peer_availability() {
            PathAvailability::Backup => self.role.max(Role::Backup),
            PathAvailability::Available | PathAvailability::Suspect | PathAvailability::Dead => self.role,
        }
    }

    /// Whether acknowledgements and control go on this path: it works, and the peer thinks so too.
    pub(crate) fn is_live(&self) -> bool {
        self.state.carries_data() && self.peer_ready()
    }

    /// Whether the path is live, and packets in flight on it may still be acknowledged in time.
    pub(crate) fn works(&self, at: Instant) -> bool {
        self.is_live() && self.silence_deadline().is_none_or(|deadline| deadline > at)
    }

    pub(crate) fn peer_ready(&self) -> bool {
        match self.peer_availability() {
            PathAvailability::Available | PathAvailability::Backup => true,
            PathAvailability::Suspect | PathAvailability::Dead => false,
        }
    }

    /// The availability to report to the peer (spec 6.1, last column).
    pub(crate) fn availability(&self) -> PathAvailability {
        match self.state {
            PathState::Validating | PathState::Active | PathState::Parked | PathState::Probation => {
                PathAvailability::Available
            }
            PathState::Backup => PathAvailability::Backup,
            PathState::Suspect => PathAvailability::Suspect,
            PathState::Dead | PathState::Closed => PathAvailability::Dead,
        }
    }

    /// Frees unused memory.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.responses.shrink_to_fit();
        self.challenger.shrink_to_fit();
        self.recovery.shrink_to_fit();
        self.receiving.shrink_to_fit();
    }

    /// Queues a response to a PROBE. Each address gets one response at a time, so it gets no more than it sends.
    pub(crate) fn push_response(&mut self, now: Instant, tuple: FourTuple, nonce: u64) {
        self.responses.retain(|waiting| waiting.tuple != tuple);
        if self.responses.len() >= MAX_RESPONSES {
            self.responses.remove(0);
        }
        self.responses.push(PendingResponse { tuple, nonce, received_at: now });
    }

    /// The next response that may go out; a response to an unvalidated address waits until the amplification
    /// limit permits it.
    pub(crate) fn pop_response(&mut self, now: Instant) -> Option<(FourTuple, u64)> {
        if self.responses.is_empty() {
            return None;
        }
        self.responses.retain(|waiting| now - waiting.received_at < RESPONSE_LIFETIME);
        let (tuple, has_room) =
            (self.tuple(), !self.is_blocked() && self.addresses.amplification().has_room());
        let at = self.responses.iter().position(|waiting| waiting.tuple != tuple || has_room)?;
        let PendingResponse { tuple, nonce, .. } = self.responses.remove(at);
        Some((tuple, nonce))
    }

    /// Drops the queued responses, because nothing can be sent on this path now.
    pub(crate) fn drop_responses(&mut self) {
        self.responses.clear();
    }

    /// A datagram arrived between the addresses of the path.
    pub(crate) fn on_datagram(&mut self, now: Instant, bytes: usize) {
        self.addresses.on_received(bytes);
        if self.addresses.amplification().has_room_for_challenge() {
            self.challenger.on_room(now);
        }
    }

    /// How long silence may last before the path becomes suspect.
    pub(crate) fn silence_limit(&self) -> Duration {
        let recovery = &self.recovery;
        self.silence.limit(recovery.rtt().smoothed(), recovery.pto())
    }

    /// When silence makes the path suspect, if data is in flight and nothing arrives until then. A path on which the
    /// peer's data arrives is not silent: the probe timer detects if ours is lost there.
    pub(crate) fn silence_deadline(&self) -> Option<Instant> {
        let recovery = &self.recovery;
        if recovery.packets_in_flight() < FEWEST_IN_FLIGHT {
            return None;
        }
        // Silence means nothing before the acknowledgement of the oldest packet can arrive.
        let earliest_answer = recovery.oldest_unacked_time()? + recovery.rtt().smoothed();
        let heard = self.heard_at.max(self.since);
        Some(heard.max(earliest_answer) + self.silence_limit())
    }

    /// When a suspect path is dead that does not answer path challenges. Its acknowledgements may well arrive over
    /// other paths, since the peer receives on it: a path works in both directions or not at all.
    pub(crate) fn suspicion_ends(&self) -> Option<Instant> {
        if self.state != PathState::Suspect {
            return None;
        }
        let patience = self.recovery.pto() * 2;
        let heard = self.heard_at > self.since;
        let ends_at = self.since + patience;
        Some(if heard { ends_at.max(self.heard_until()) } else { ends_at })
    }

    /// When the probation of a path ends.
    pub(crate) fn probation_ends(&self) -> Option<Instant> {
        if self.state != PathState::Probation {
            return None;
        }
        let rtt = self.recovery.rtt().smoothed();
        Some(self.since + (rtt * 4).min(LONGEST_PROBATION).max(rtt * 2))
    }

    /// When a path over a stream closes that was retired: what is on its way there has had time to arrive.
    pub(crate) fn retires_at(&self) -> Option<Instant> {
        let is_retired = self.state == PathState::Backup && self.reason == PathReason::Replaced;
        (is_retired && !self.is_datagram()).then(|| self.since + DRAINS_FOR)
    }
}
