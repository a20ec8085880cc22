//! Explicit Congestion Notification on one path: whether the path keeps marks, and what the peer counts (RFC 9000,
//! section 13.4 and appendix A.4).
//!
//! A path begins with a test: its first packets carry ECT(0). The counts of the peer show whether the network keeps
//! the mark, erases it, changes it, or drops marked packets. A path that fails the test sends without marks.

use std::fmt;

use super::sent_packets::{PacketKind, SentPacket};
use crate::Ecn;
use crate::io::EcnCounts;

/// A test marks this many packets before its outcome is known.
const TEST: u8 = 10;
/// The loss of fewer marked packets proves no black hole: the test is repeated.
const PROOF: u8 = 3;

/// State of Explicit Congestion Notification on a path, for packets that this end sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum EcnState {
    /// Marked packets are in flight, and no acknowledgement has reported them.
    #[default]
    Testing,
    /// The path keeps marks; all data carries ECT(0).
    Capable,
    /// Packets go unmarked.
    Failed(EcnFailure),
    /// The carrier is a stream: its packets are not those of this end.
    Absent,
}

/// Why packets on a path go unmarked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EcnFailure {
    /// The network erases marks, or the peer does not count them.
    Bleached,
    /// The network changes marks: to ECT(1), to CE on every packet, or on packets that had none.
    Remarked,
    /// The network drops marked packets.
    BlackHole,
}

impl fmt::Display for EcnState {
    /// Writes `testing`, `capable`, `absent`, or `failed: ` and the reason.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Testing => f.pad("testing"),
            Self::Capable => f.pad("capable"),
            Self::Absent => f.pad("absent"),
            Self::Failed(failure) => f.pad(&format!("failed: {failure}")),
        }
    }
}

impl fmt::Display for EcnFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Bleached => "bleached",
            Self::Remarked => "remarked",
            Self::BlackHole => "black hole",
        })
    }
}

/// The ECN state of one path.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct EcnPath {
    state: State,
    /// Packets that left with ECT(0), in total.
    marked: u64,
    /// Packets with ECT(0) and with CE that the peer had received by the last acknowledgement that raised the largest
    /// number.
    unmarked: u64,
    congested: u64,
    /// The controller has already reacted to marks on packets below this number.
    answered_before: u64,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Testing(Test),
    /// A probe timeout occurred on a path that kept marks. The path may be dead or may have become a black hole for
    /// marked packets: a test follows as soon as anything arrives.
    Waiting,
    Capable,
    Failed(EcnFailure),
}

/// The packets of a test.
#[derive(Debug, Clone, Copy, Default)]
struct Test {
    /// Packets below this number do not belong to the test.
    first: u64,
    marked: u8,
    lost: u8,
    /// Packets that arrived with a CE mark.
    congested: u8,
    /// Whether the test marks no further packets.
    is_closed: bool,
}

impl Default for State {
    fn default() -> Self {
        Self::Testing(Test::default())
    }
}

impl Test {
    fn beginning_at(first: u64) -> Self {
        Self { first, ..Self::default() }
    }

    fn marks(&self) -> bool {
        !self.is_closed && self.marked < TEST
    }

    /// The result of the test, once all its packets are settled.
    fn verdict(&self, next: u64) -> State {
        if self.marks() || self.lost.saturating_add(self.congested) < self.marked {
            return State::Testing(*self);
        }
        match (self.marked >= PROOF, self.congested > 0) {
            (true, false) => State::Failed(EcnFailure::BlackHole),
            (true, true) => State::Failed(EcnFailure::Remarked),
            (false, _) => State::Testing(Self::beginning_at(next)),
        }
    }
}

impl EcnPath {
    pub(crate) fn state(&self) -> EcnState {
        match self.state {
            State::Testing(_) | State::Waiting => EcnState::Testing,
            State::Capable => EcnState::Capable,
            State::Failed(failure) => EcnState::Failed(failure),
        }
    }

    /// The mark that 1-RTT packets carry now.
    pub(crate) fn mark(&self) -> Ecn {
        let marks = match &self.state {
            State::Testing(test) => test.marks(),
            State::Capable => true,
            State::Waiting | State::Failed(_) => false,
        };
        if marks { Ecn::Ect0 } else { Ecn::NotEct }
    }

    pub(super) fn on_sent(&mut self, packet: &SentPacket) {
        if !packet.marked {
            return;
        }
        self.marked += 1;
        // ACK-only packets are not acknowledged, so their arrival proves nothing.
        if let State::Testing(test) = &mut self.state
            && packet.kind == PacketKind::Ordinary
        {
            test.marked = test.marked.saturating_add(1);
        }
    }

    /// A packet was lost; `next` is the number of the next packet.
    pub(super) fn on_lost(&mut self, packet: &SentPacket, next: u64) {
        if let State::Testing(test) = &mut self.state
            && packet.marked
            && packet.packet_number >= test.first
            && packet.kind == PacketKind::Ordinary
        {
            test.lost = test.lost.saturating_add(1);
            self.state = test.verdict(next);
        }
    }

    /// A probe timeout occurred: packets go unmarked from now on, in case the path drops marked ones.
    pub(super) fn on_probe_timeout(&mut self) {
        match &mut self.state {
            State::Testing(test) => test.is_closed |= test.marked > 0,
            State::Capable => self.state = State::Waiting,
            State::Waiting | State::Failed(_) => {}
        }
    }

    /// An acknowledgement newly acknowledged packets, `marked` of them with ECT(0), and raised the largest number to
    /// `largest`. Returns whether it reports congestion that the controller has not reacted to.
    pub(super) fn on_ack(&mut self, marked: u64, largest: u64, next: u64, counts: Option<EcnCounts>) -> bool {
        // Packets that arrived before the test began say nothing about it.
        let is_of_test = match self.state {
            State::Testing(test) => largest >= test.first,
            State::Waiting => {
                self.state = State::Testing(Test::beginning_at(next));
                false
            }
            State::Capable | State::Failed(_) => true,
        };
        let Some(counts) = counts else {
            if marked > 0 {
                self.fail(EcnFailure::Bleached);
            }
            return false;
        };
        let rise = |old: &mut u64, new: u64| new.saturating_sub(std::mem::replace(old, new));
        let unmarked = rise(&mut self.unmarked, counts.ect0);
        let congested = rise(&mut self.congested, counts.ce);
        if counts.ect1 > 0 || counts.ect0.saturating_add(counts.ce) > self.marked {
            self.fail(EcnFailure::Remarked);
        } else if unmarked.saturating_add(congested) < marked {
            self.fail(EcnFailure::Bleached);
        }
        match &mut self.state {
            State::Failed(_) => return false,
            State::Testing(_) if !is_of_test => {}
            State::Testing(_) if unmarked > 0 => self.state = State::Capable,
            State::Testing(test) => {
                test.congested = test.congested.saturating_add(u8::try_from(congested).unwrap_or(u8::MAX));
                self.state = test.verdict(next);
            }
            State::Waiting | State::Capable => {}
        }
        let is_new = congested > 0 && largest >= self.answered_before;
        if is_new {
            self.answered_before = next;
        }
        is_new
    }

    /// The path starts anew with packet `next`; `is_same` if its addresses are the same.
    pub(super) fn restart(&mut self, next: u64, is_same: bool) {
        let stays = is_same && matches!(self.state, State::Failed(_));
        if !stays {
            self.state = State::Testing(Test::beginning_at(next));
        }
    }

    fn fail(&mut self, failure: EcnFailure) {
        self.state = State::Failed(failure);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::content::Contents;
    use crate::recovery::PacketKind;

    fn packet(number: u64, path: &EcnPath) -> SentPacket {
        let mut packet = SentPacket::new(number, 1200, PacketKind::Ordinary, Contents::new());
        packet.marked = path.mark() == Ecn::Ect0;
        packet
    }

    /// Sends packets with the given numbers; returns the marked ones.
    fn send(path: &mut EcnPath, numbers: std::ops::Range<u64>) -> Vec<SentPacket> {
        let mut marked = Vec::new();
        for number in numbers {
            let packet = packet(number, path);
            path.on_sent(&packet);
            marked.extend(packet.marked.then_some(packet));
        }
        marked
    }

    fn counts(ect0: u64, ect1: u64, ce: u64) -> EcnCounts {
        EcnCounts { ect0, ect1, ce }
    }

    // RFC 9000, A.4
    #[test]
    fn ten_packets_are_marked_until_one_of_them_is_acknowledged() {
        let mut path = EcnPath::default();
        assert_eq!(send(&mut path, 0..30).len(), 10);
        assert_eq!((path.state(), path.mark()), (EcnState::Testing, Ecn::NotEct));
        assert!(!path.on_ack(2, 1, 30, Some(counts(2, 0, 0))));
        assert_eq!((path.state(), path.mark()), (EcnState::Capable, Ecn::Ect0));
    }

    // RFC 9000, 13.4.2.1
    #[test]
    fn missing_too_small_or_impossible_counts_end_the_marking() {
        for (told, failure) in [
            (None, EcnFailure::Bleached),
            (Some(counts(1, 0, 0)), EcnFailure::Bleached),
            (Some(counts(0, 2, 0)), EcnFailure::Remarked),
            (Some(counts(11, 0, 0)), EcnFailure::Remarked),
            (Some(counts(8, 0, 3)), EcnFailure::Remarked),
        ] {
            let mut path = EcnPath::default();
            send(&mut path, 0..10);
            path.on_ack(2, 1, 10, told);
            assert_eq!(path.state(), EcnState::Failed(failure), "{told:?}");
            assert_eq!(send(&mut path, 10..20).len(), 0);
        }
    }

    #[test]
    fn an_acknowledgement_of_unmarked_packets_needs_no_counts() {
        let mut path = EcnPath::default();
        send(&mut path, 0..10);
        path.on_ack(0, 12, 20, None);
        assert_eq!(path.state(), EcnState::Testing);
    }

    #[test]
    fn a_path_that_drops_all_ten_marked_packets_is_a_black_hole_and_one_that_drops_nine_is_not() {
        let mut path = EcnPath::default();
        let marked = send(&mut path, 0..10);
        for packet in &marked[..9] {
            path.on_lost(packet, 20);
        }
        assert_eq!(path.state(), EcnState::Testing);
        let mut kept = path;
        kept.on_ack(1, 9, 20, Some(counts(1, 0, 0)));
        assert_eq!(kept.state(), EcnState::Capable);
        path.on_lost(&marked[9], 20);
        assert_eq!(path.state(), EcnState::Failed(EcnFailure::BlackHole));
    }

    #[test]
    fn a_timeout_with_few_marked_packets_stops_marking_and_proves_nothing() {
        let mut path = EcnPath::default();
        let marked = send(&mut path, 0..2);
        path.on_probe_timeout();
        assert_eq!(path.mark(), Ecn::NotEct);
        marked.iter().for_each(|packet| path.on_lost(packet, 4));
        assert_eq!((path.state(), path.mark()), (EcnState::Testing, Ecn::Ect0), "the test begins again");
    }

    #[test]
    fn a_path_that_becomes_a_black_hole_for_marks_is_detected_after_its_silence() {
        let mut path = EcnPath::default();
        send(&mut path, 0..10);
        path.on_ack(10, 9, 10, Some(counts(10, 0, 0)));
        let swallowed = send(&mut path, 10..20);
        path.on_probe_timeout();
        assert_eq!(send(&mut path, 20..22).len(), 0, "probes carry no mark");
        path.on_ack(0, 21, 22, Some(counts(10, 0, 0)));
        let test = send(&mut path, 22..40);
        assert_eq!(test.len(), 10);
        swallowed.iter().for_each(|packet| path.on_lost(packet, 40));
        assert_eq!(path.state(), EcnState::Testing, "those of before prove nothing");
        test.iter().for_each(|packet| path.on_lost(packet, 40));
        assert_eq!(path.state(), EcnState::Failed(EcnFailure::BlackHole));
    }

    #[test]
    fn only_packets_of_the_test_decide_the_test() {
        let mut path = EcnPath::default();
        send(&mut path, 0..10);
        path.restart(10, false);
        assert_eq!(send(&mut path, 10..30).len(), 10);
        // These packets left before the path migrated.
        path.on_ack(10, 9, 30, Some(counts(10, 0, 0)));
        assert_eq!(path.state(), EcnState::Testing);
        path.on_ack(1, 10, 30, Some(counts(11, 0, 0)));
        assert_eq!(path.state(), EcnState::Capable);
    }

    #[test]
    fn packets_that_are_not_ack_eliciting_are_no_part_of_a_test() {
        let mut path = EcnPath::default();
        let mut silent = packet(0, &path);
        silent.kind = PacketKind::AckOnly;
        path.on_sent(&silent);
        let marked = send(&mut path, 1..30);
        assert_eq!(marked.len(), 10);
        marked.iter().for_each(|packet| path.on_lost(packet, 30));
        assert_eq!(path.state(), EcnState::Failed(EcnFailure::BlackHole));
    }

    #[test]
    fn a_test_follows_a_silence_even_if_the_peer_counted_nothing() {
        let mut path = EcnPath::default();
        send(&mut path, 0..10);
        path.on_ack(10, 9, 10, Some(counts(10, 0, 0)));
        path.on_probe_timeout();
        path.on_ack(0, 10, 11, None);
        assert_eq!((path.state(), path.mark()), (EcnState::Testing, Ecn::Ect0));
    }

    #[test]
    fn congestion_is_reported_once_in_a_round_trip() {
        let mut path = EcnPath::default();
        send(&mut path, 0..10);
        assert!(path.on_ack(4, 3, 10, Some(counts(3, 0, 1))));
        assert!(!path.on_ack(4, 7, 12, Some(counts(6, 0, 2))));
        send(&mut path, 10..20);
        assert!(!path.on_ack(2, 9, 20, Some(counts(8, 0, 2))));
        assert!(path.on_ack(2, 11, 20, Some(counts(9, 0, 3))));
    }

    #[test]
    fn a_path_that_marks_every_packet_reports_no_congestion() {
        let mut path = EcnPath::default();
        send(&mut path, 0..10);
        assert!(path.on_ack(5, 4, 10, Some(counts(0, 0, 5))));
        assert_eq!(path.state(), EcnState::Testing);
        path.on_ack(5, 9, 10, Some(counts(0, 0, 10)));
        assert_eq!(path.state(), EcnState::Failed(EcnFailure::Remarked));
    }

    #[test]
    fn a_restored_path_is_tested_again_unless_it_failed_between_the_same_addresses() {
        let mut path = EcnPath::default();
        send(&mut path, 0..10);
        path.on_ack(2, 1, 10, Some(counts(2, 0, 0)));
        path.restart(10, true);
        assert_eq!((path.state(), send(&mut path, 10..30).len()), (EcnState::Testing, 10));
        path.on_ack(1, 12, 30, None);
        path.restart(30, true);
        assert_eq!(path.state(), EcnState::Failed(EcnFailure::Bleached));
        path.restart(30, false);
        assert_eq!(path.state(), EcnState::Testing);
    }
}
