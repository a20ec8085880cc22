use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::collections::range_set::RangeSet;
use crate::mmsp1::cuts::{BlockQueue, BlockState};
use crate::mmsp1::testing::{FakeFlight, INITIAL, SackBytes, at, cut};
use crate::mmsp1::window::Edge;
use crate::stream::priority::ClassFilter;

const AWS: u32 = 5000;

fn sent(count: u64) -> (DataBlocks, FakeFlight, u64) {
    let mut cuts = DataBlocks::new(INITIAL);
    let mut flight = FakeFlight::with_least_rtt(Duration::from_millis(40));
    let first = cuts.acked_in_sequence() + 1;
    for _ in 0..count {
        let tseq = cuts.give(cut(10));
        flight.send(&mut cuts, at(0), 0, &[tseq]);
    }
    (cuts, flight, first)
}

fn checked(
    cuts: &DataBlocks,
    cum: u64,
    ranges: &[(u64, u64)],
    dups: &[u64],
) -> Result<CheckedSack, NeverSent> {
    check(&SackBytes::new(cum, AWS, ranges, dups).sack(), cuts)
}

fn apply(
    cuts: &mut DataBlocks,
    flight: &mut FakeFlight,
    now: Instant,
    checked: &CheckedSack,
) -> Acknowledged {
    let acknowledged = translate(checked, cuts, now, flight);
    cuts.acknowledge(&acknowledged, &mut |_, _| {});
    flight.apply(cuts, &acknowledged);
    acknowledged
}

fn numbers(set: &RangeSet) -> Vec<u64> {
    set.iter().flatten().collect()
}

fn only(acknowledged: &Acknowledged, path: u32) -> (Vec<u64>, Vec<u64>, Vec<u64>) {
    let on = acknowledged.paths.iter().find(|on| on.path == PathId(path)).cloned().unwrap_or_default();
    (numbers(&on.timed), numbers(&on.untimed), on.unknown.to_vec())
}

// spec 3.44
#[test]
fn an_old_sack_moves_no_edge_but_counts_ranges_and_duplicates() {
    let (mut cuts, mut flight, first) = sent(6);
    let new = checked(&cuts, first + 3, &[], &[]).unwrap();
    apply(&mut cuts, &mut flight, at(50), &new);
    let old = checked(&cuts, first + 1, &[(first + 3, first + 3), (first + 5, first + 5)], &[first]).unwrap();
    assert_eq!((old.aws, old.cum, old.dups.as_slice()), (None, first + 3, &[first][..]));
    let acknowledged = apply(&mut cuts, &mut flight, at(51), &old);
    let newly = vec![first + 5..first + 6; 1];
    assert_eq!((acknowledged.newly.as_slice(), acknowledged.acked.bytes), (newly.as_slice(), 40));
    assert_eq!(only(&acknowledged, 0), (vec![5], vec![], vec![]));
}

// spec 3.45
#[test]
fn ack_of_unsent_and_inverted_ranges_are_refused_whole() {
    let (mut cuts, _, first) = sent(3);
    assert!(checked(&cuts, first + 2, &[], &[]).is_ok());
    assert_eq!(checked(&cuts, first + 3, &[], &[]), Err(NeverSent { tseq: tseq_of(first + 3) }));
    let beyond = checked(&cuts, first, &[(first + 2, first + 3)], &[]);
    assert_eq!(beyond, Err(NeverSent { tseq: tseq_of(first + 3) }));
    let half_way = SackBytes::new(first - 1 + (1 << 31), AWS, &[], &[]);
    assert!(check(&half_way.sack(), &cuts).is_err());
    // A TSEQ that was passed over is unsent, too.
    let (skipped, next) = (cuts.give(cut(10)), cuts.give(cut(10)));
    FakeFlight::default().send(&mut cuts, at(0), 1, &[next]);
    assert!(checked(&cuts, first - 1, &[(next, next)], &[]).is_ok());
    assert_eq!(checked(&cuts, next, &[], &[]), Err(NeverSent { tseq: tseq_of(next) }));
    assert!(checked(&cuts, first - 1, &[(skipped, next)], &[]).is_err());
    // Inverted ranges are refused by the decoder, overlapping ones are merged.
    let merged = checked(&cuts, first - 1, &[(first + 1, first + 2), (first + 1, first + 1)], &[]).unwrap();
    assert_eq!((merged.ranges.len(), merged.ranges[0].clone()), (1, first + 1..first + 3));
    // spec 3.24: the same of FIN.
    assert!(check_fin(&Fin { ack: tseq_of(first + 2) }, &cuts).is_ok());
    assert!(check_fin(&Fin { ack: tseq_of(first + 3) }, &cuts).is_err());
}

#[test]
fn a_first_copy_that_was_only_late_undoes_the_reaction() {
    let (mut cuts, mut flight, first) = sent(1);
    flight.settle(&mut cuts, PathId(0), 0);
    let copy = flight.send(&mut cuts, at(100), 1, &[first]);
    let named = checked(&cuts, first, &[], &[]).unwrap();
    // After 10 ms the copy, with an RTT of at least 40 ms, cannot be the one that arrived.
    let early = translate(&named, &cuts, at(110), &flight);
    assert_eq!(only(&early, 0), (vec![], vec![0], vec![]));
    assert_eq!(only(&early, 1), (vec![], vec![], vec![copy]));
    let late = translate(&named, &cuts, at(140), &flight);
    assert_eq!(only(&late, 0), (vec![], vec![], vec![]));
    assert_eq!(only(&late, 1), (vec![], vec![copy], vec![]));
}

#[test]
fn a_duplicate_reported_later_undoes_the_reaction_too() {
    let (mut cuts, mut flight, first) = sent(2);
    flight.settle(&mut cuts, PathId(0), 0);
    flight.send(&mut cuts, at(100), 1, &[first]);
    let named = checked(&cuts, first, &[], &[]).unwrap();
    apply(&mut cuts, &mut flight, at(150), &named);
    let again = checked(&cuts, first, &[], &[first, first]).unwrap();
    let acknowledged = apply(&mut cuts, &mut flight, at(151), &again);
    assert_eq!(only(&acknowledged, 0), (vec![], vec![0], vec![]));
    let acknowledged = apply(&mut cuts, &mut flight, at(152), &again);
    assert!(acknowledged.paths.is_empty(), "each packet is reported once: {acknowledged:?}");
}

#[test]
fn a_tseq_named_with_its_duplicate_acknowledges_both_copies() {
    let (mut cuts, mut flight, first) = sent(1);
    let copy = flight.send(&mut cuts, at(5), 1, &[first]);
    let both = checked(&cuts, first, &[], &[first]).unwrap();
    let acknowledged = translate(&both, &cuts, at(60), &flight);
    assert_eq!((only(&acknowledged, 0).1, only(&acknowledged, 1).1), (vec![0], vec![copy]));
}

#[test]
fn bytes_that_arrive_again_count_once_for_each_copy_that_was_sent() {
    let (mut cuts, mut flight, first) = sent(2);
    flight.send(&mut cuts, at(5), 1, &[first]);
    flight.send(&mut cuts, at(6), 2, &[first]);
    for (dups, expected) in [(vec![first, first + 1], 10), (vec![first; 9], 20), (vec![first], 20)] {
        let again = checked(&cuts, first + 1, &[], &dups).unwrap();
        apply(&mut cuts, &mut flight, at(60), &again);
        assert_eq!(cuts.duplicate_bytes(), expected, "{dups:?}: a TSEQ sent once has no copies");
    }
}

#[test]
fn the_only_packet_without_a_missing_tseq_is_the_one_that_arrived() {
    let (mut cuts, mut flight, first) = sent(1);
    let second = cuts.give(cut(10));
    let bundle = flight.send(&mut cuts, at(5), 1, &[first, second]);
    let named = checked(&cuts, first, &[], &[]).unwrap();
    let acknowledged = apply(&mut cuts, &mut flight, at(60), &named);
    assert_eq!(
        (only(&acknowledged, 0).1, acknowledged.paths.len()),
        (vec![0], 1),
        "the bundle stays in flight: {acknowledged:?}"
    );
    let named = checked(&cuts, second, &[], &[]).unwrap();
    let acknowledged = apply(&mut cuts, &mut flight, at(61), &named);
    assert_eq!(only(&acknowledged, 1), (vec![bundle], vec![], vec![]));
}

/// A sender, a receiver and a network between them.
struct Model {
    cuts: DataBlocks,
    flight: FakeFlight,
    first: u64,
    millis: u64,
    /// Contents of each packet that travels.
    travelling: Vec<Vec<u64>>,
    arrived: BTreeSet<u64>,
    dups: Vec<u64>,
    sacks: Vec<SackBytes>,
    edge: u64,
    newly: BTreeSet<u64>,
    reported: BTreeSet<(PathId, u64)>,
    sent: BTreeSet<(PathId, u64)>,
}

impl Model {
    fn new() -> Self {
        let cuts = DataBlocks::new(INITIAL);
        let first = cuts.acked_in_sequence() + 1;
        let flight = FakeFlight::with_least_rtt(Duration::from_millis(5));
        Self {
            cuts,
            flight,
            first,
            millis: 0,
            travelling: Vec::new(),
            arrived: BTreeSet::new(),
            dups: Vec::new(),
            sacks: Vec::new(),
            edge: 0,
            newly: BTreeSet::new(),
            reported: BTreeSet::new(),
            sent: BTreeSet::new(),
        }
    }

    fn send(&mut self, path: u32, blocks: usize) {
        let mut tseqs: Vec<u64> =
            self.cuts.next(BlockQueue::Retransmit, ClassFilter::All, Edge::NONE).into_iter().collect();
        while tseqs.len() < blocks {
            tseqs.push(self.cuts.give(cut(10)));
        }
        self.send_these(path, &tseqs);
    }

    fn send_these(&mut self, path: u32, tseqs: &[u64]) -> u64 {
        let number = self.flight.send(&mut self.cuts, at(self.millis), path, tseqs);
        self.sent.insert((PathId(path), number));
        self.travelling.push(tseqs.to_vec());
        number
    }

    /// Sends a copy of the oldest TSEQ in flight on another path.
    fn copy(&mut self, from: u32, to: u32) {
        let in_flight = |tseq: &u64| self.cuts.get(*tseq).unwrap().state() == BlockState::InFlight;
        let Some(tseq) = self.cuts.unacked_on(PathId(from)).find(in_flight) else { return };
        let number = self.send_these(to, &[tseq]);
        self.flight.mark_copy(to, number);
    }

    fn deliver(&mut self, index: usize, drops_first: bool) {
        let tseqs = self.travelling.swap_remove(index);
        for tseq in tseqs.into_iter().skip(usize::from(drops_first)) {
            if !self.arrived.insert(tseq) {
                self.dups.push(tseq);
            }
        }
    }

    fn make_sack(&mut self) {
        let mut cum = self.first - 1;
        while self.arrived.contains(&(cum + 1)) {
            cum += 1;
        }
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for tseq in self.arrived.range(cum + 1..) {
            match ranges.last_mut() {
                Some((_, end)) if *end + 1 == *tseq => *end = *tseq,
                _ => ranges.push((*tseq, *tseq)),
            }
        }
        self.sacks.push(SackBytes::new(cum, AWS, &ranges, &self.dups));
        self.dups.clear();
    }

    fn take_sack(&mut self, index: usize) {
        let bytes = self.sacks.swap_remove(index);
        let checked = check(&bytes.sack(), &self.cuts).unwrap();
        let acknowledged = apply(&mut self.cuts, &mut self.flight, at(self.millis), &checked);
        for tseq in acknowledged.newly.iter().cloned().flatten() {
            assert!(self.arrived.contains(&tseq) && self.newly.insert(tseq), "{tseq} twice or never");
        }
        if let Some(aws) = checked.aws {
            let edge = acknowledged.acked.bytes + u64::from(aws);
            assert!(edge >= self.edge, "a SACK that is not old moves the edge of a constant window right");
            self.edge = edge;
        }
        for on in &acknowledged.paths {
            let all = numbers(&on.timed).into_iter().chain(numbers(&on.untimed)).chain(on.unknown.to_vec());
            for number in all {
                assert!(self.sent.contains(&(on.path, number)), "{number} was never sent on {:?}", on.path);
                assert!(self.reported.insert((on.path, number)), "{number} twice on {:?}", on.path);
            }
        }
    }

    fn step(&mut self, (what, path, pick): (u8, u32, prop::sample::Index)) {
        self.millis += u64::from(path) * 3;
        let flying = self.flight.in_flight();
        match what {
            0..4 => self.send(path, 1 + pick.index(3)),
            4 if !flying.is_empty() => {
                let (path, number) = flying[pick.index(flying.len())];
                self.flight.settle(&mut self.cuts, path, number);
            }
            5 if !flying.is_empty() => {
                let (path, number) = flying[pick.index(flying.len())];
                self.flight.reinject(&mut self.cuts, path, number);
            }
            6 => self.copy(path, (path + 1) % 3),
            7 if !self.travelling.is_empty() => {
                drop(self.travelling.swap_remove(pick.index(self.travelling.len())));
            }
            8..11 if !self.travelling.is_empty() => {
                self.deliver(pick.index(self.travelling.len()), what == 10 && path == 0);
            }
            11..14 => self.make_sack(),
            14..17 if !self.sacks.is_empty() => self.take_sack(pick.index(self.sacks.len())),
            17 if !self.sacks.is_empty() => drop(self.sacks.swap_remove(pick.index(self.sacks.len()))),
            _ => {}
        }
    }

    /// The network works again: everything arrives.
    fn finish(&mut self) {
        for round in 0.. {
            assert!(round < 20, "a TSEQ never comes back: {:?}", self.cuts);
            for (path, number) in self.flight.in_flight() {
                self.flight.settle(&mut self.cuts, path, number);
            }
            self.travelling.clear();
            for queue in [BlockQueue::Retransmit, BlockQueue::Unsent] {
                while let Some(tseq) = self.cuts.next(queue, ClassFilter::All, Edge::NONE) {
                    self.send_these(0, &[tseq]);
                }
            }
            while !self.travelling.is_empty() {
                self.deliver(0, false);
            }
            self.make_sack();
            self.take_sack(self.sacks.len() - 1);
            if self.cuts.is_empty() {
                return;
            }
        }
    }
}

proptest! {
    #[test]
    fn each_packet_is_reported_at_most_once_and_no_tseq_is_left(
        steps in prop::collection::vec((0_u8..18, 0_u32..3, any::<prop::sample::Index>()), 0..200)
    ) {
        let mut model = Model::new();
        for step in steps {
            model.step(step);
        }
        model.finish();
        prop_assert_eq!(&model.newly, &model.arrived);
        prop_assert_eq!(model.cuts.acked().bytes, 10 * model.arrived.len() as u64);
        // SACKs that arrive now are old.
        while !model.sacks.is_empty() {
            model.take_sack(0);
        }
    }

    #[test]
    fn on_one_path_without_repeats_packets_and_tseqs_are_the_same(
        order in prop::collection::vec(any::<prop::sample::Index>(), 1..Sack::MAX_RANGES)
    ) {
        let (mut cuts, mut flight, first) = sent(order.len() as u64);
        let mut left: Vec<u64> = (0..order.len() as u64).collect();
        let mut arrived = BTreeSet::new();
        for pick in order {
            let number = left.swap_remove(pick.index(left.len()));
            arrived.insert(number);
            let cum = (0..).find(|number| !arrived.contains(number)).unwrap();
            let ranges: Vec<_> = arrived.range(cum..).map(|number| (first + number, first + number)).collect();
            let checked = checked(&cuts, first + cum - 1, &ranges, &[]).unwrap();
            let acknowledged = apply(&mut cuts, &mut flight, at(50), &checked);
            prop_assert_eq!(only(&acknowledged, 0), (vec![number], vec![], vec![]));
        }
        prop_assert!(cuts.is_empty() && flight.in_flight().is_empty());
    }
}

/// Counts the look-ups of packets.
struct Counting<'a>(&'a FakeFlight, std::cell::Cell<usize>);

impl Flight for Counting<'_> {
    fn packet(&self, path: PathId, number: u64) -> Option<crate::mmsp1::cuts::InFlight<'_>> {
        self.1.set(self.1.get() + 1);
        self.0.packet(path, number)
    }

    fn least_rtt(&self, path: PathId) -> Duration {
        self.0.least_rtt(path)
    }
}

#[test]
fn a_repeated_sack_costs_its_ranges_and_not_its_tseqs() {
    let (mut cuts, mut flight, first) = sent(48_000);
    let ranges: Vec<_> = (0..48).map(|part| (first + part * 1000 + 1, first + part * 1000 + 999)).collect();
    let named = checked(&cuts, first - 1, &ranges, &[]).unwrap();
    let acknowledged = apply(&mut cuts, &mut flight, at(50), &named);
    assert_eq!(acknowledged.newly.len(), Sack::MAX_RANGES);
    let counting = Counting(&flight, std::cell::Cell::new(0));
    let again = translate(&checked(&cuts, first - 1, &ranges, &[]).unwrap(), &cuts, at(51), &counting);
    assert_eq!((again.newly.len(), again.paths.len(), counting.1.get()), (0, 0, 0));
}

/// The body of a SACK with any number of ranges of offsets: more than this product writes.
fn huge(cum: u64, ranges: &[(u16, u16)]) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend(tseq_of(cum).0.to_be_bytes());
    body.extend(AWS.to_be_bytes());
    body.extend(u16::try_from(ranges.len()).unwrap().to_be_bytes());
    body.extend([0, 0]);
    ranges.iter().for_each(|(start, end)| {
        body.extend(start.to_be_bytes());
        body.extend(end.to_be_bytes());
    });
    assert!(body.len() <= 65_535 - 4, "it has to fit a block");
    body
}

/// Takes a SACK; returns how many TSEQs it acknowledged and how many searches it cost.
fn cost(cuts: &mut DataBlocks, flight: &mut FakeFlight, body: &[u8]) -> (u64, u64) {
    let before = cuts.looks.get();
    let sack = Sack::decode(0, manyway_wire::Reader::new(body)).unwrap();
    let checked = check(&sack, cuts).unwrap();
    let acknowledged = apply(cuts, flight, at(50), &checked);
    (acknowledged.newly.iter().map(|range| range.end - range.start).sum(), cuts.looks.get() - before)
}

/// As many ranges as a block has room for.
const MOST_RANGES: u16 = 16_379;

#[test]
fn the_largest_sack_costs_two_searches_a_range_and_four_for_each_block_once() {
    let (mut cuts, mut flight, first) = sent(65_535);
    let holes: Vec<_> = (0..MOST_RANGES).map(|at| (4 * at + 2, 4 * at + 3)).collect();
    let spread = huge(first - 1, &holes);
    let ranges = u64::from(MOST_RANGES);
    let (newly, looks) = cost(&mut cuts, &mut flight, &spread);
    assert_eq!(newly, 2 * ranges);
    assert!(looks <= 2 * ranges + 4 * newly + 8, "{looks}");
    // The same again, and turned round, acknowledges nothing.
    let turned: Vec<_> = holes.iter().rev().copied().collect();
    for body in [spread, huge(first - 1, &turned)] {
        let (newly, looks) = cost(&mut cuts, &mut flight, &body);
        assert_eq!(newly, 0);
        assert!(looks <= 2 * ranges + 8, "{looks}");
    }
    // Ranges that all overlap count as one.
    let overlapping: Vec<_> = (1..=MOST_RANGES).map(|at| (at, 65_535 - at)).collect();
    let (newly, looks) = cost(&mut cuts, &mut flight, &huge(first - 1, &overlapping));
    assert_eq!(newly, 65_534 - 2 * ranges);
    assert!(looks <= 4 * newly + 8, "{looks}");
    let (_, looks) = cost(&mut cuts, &mut flight, &huge(first - 1, &overlapping));
    assert!(looks <= 8, "{looks}");
}
