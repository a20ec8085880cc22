//! The translation of MMSP/1's acknowledgements from TSEQs to packets: an honest receiver over a network that loses and
//! reorders, and SACKs of anything. No TSEQ is lost or acknowledged twice, and a lie changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use manyway_proto::fuzzing::{SackTold, Sacks};
use manyway_proto::{Instant, PathId};
use manyway_wire::Writer;
use manyway_wire::mmsp1::{Block, Blocks, Fin, Sack, Tseq, encode_sack};

use crate::script::Script;

/// Most steps of one input; more find nothing new.
const MOST_STEPS: usize = 400;
/// Most SACKs on their way; beyond it the oldest is lost.
const MOST_SACKS: usize = 32;
const PATHS: usize = 3;

/// Sends, loses and acknowledges as the input says; in the end everything arrives.
pub fn run(data: &[u8]) {
    let mut script = Script::new(data);
    let mut scene = Scene::new(&mut script);
    for _ in 0..MOST_STEPS {
        let Some(step) = script.step() else { break };
        scene.act(step, &mut script);
        scene.check();
    }
    scene.finish();
}

struct Scene {
    sender: Sacks,
    now: Instant,
    first: u64,
    /// Bytes of each TSEQ given.
    sizes: BTreeMap<u64, u64>,
    /// TSEQs that left at least once.
    sent: BTreeSet<u64>,
    acked: BTreeSet<u64>,
    /// Packets that left, and those whose fate was told.
    left: BTreeSet<(PathId, u64)>,
    told: BTreeSet<(PathId, u64)>,
    /// Contents of packets on their way.
    flying: Vec<Vec<u64>>,
    /// What the receiver has, and what came again since its last SACK.
    arrived: BTreeSet<u64>,
    again: Vec<u64>,
    sacks: Vec<Vec<u8>>,
    /// Closed paths, whose packets are not checked any more.
    closed: BTreeSet<PathId>,
    /// The ids of the present paths.
    paths: [PathId; PATHS],
    /// Up to where everything was acknowledged at the last check, and the bytes up to there.
    acked_to: (u64, u64),
}

impl Scene {
    fn new(script: &mut Script<'_>) -> Self {
        let initial = match script.u8() {
            near @ 0..=63 => u32::MAX - u32::from(near),
            other => u32::from(other) << 24,
        };
        let least_rtt = Duration::from_millis(u64::from(script.u8() % 64));
        let sender = Sacks::new(Tseq(initial), least_rtt);
        let first = sender.acked_in_sequence() + 1;
        Self {
            sender,
            now: Instant::from_nanos(1_000_000_000),
            first,
            sizes: BTreeMap::new(),
            sent: BTreeSet::new(),
            acked: BTreeSet::new(),
            left: BTreeSet::new(),
            told: BTreeSet::new(),
            flying: Vec::new(),
            arrived: BTreeSet::new(),
            again: Vec::new(),
            sacks: Vec::new(),
            closed: BTreeSet::new(),
            paths: [PathId(0), PathId(1), PathId(2)],
            acked_to: (first - 1, 0),
        }
    }

    fn act(&mut self, step: u8, script: &mut Script<'_>) {
        let at = usize::from(step >> 6) % PATHS;
        let path = self.paths[at];
        match step & 0x1f {
            0..=3 => self.send(path, 1 + usize::from(step >> 5 & 1) * 2, script.u8()),
            4 => {
                let count = script.u8() % 64;
                (0..count).for_each(|_| self.send(path, 1, 10));
            }
            // A TSEQ is passed over.
            5 => drop(self.give(1)),
            6 => self.copy(path, self.paths[(at + 1) % PATHS]),
            7 => {
                if let Some((path, number)) = pick(&self.sender.in_flight(), script.u8()) {
                    self.sender.lose(path, number);
                }
            }
            8 => {
                if let Some((path, number)) = pick(&self.sender.in_flight(), script.u8()) {
                    self.sender.suspect(path, number);
                }
            }
            9 => {
                let before = self.sender.tseqs_in_flight();
                self.sent.extend(self.sender.persist(u64::from(script.u16())));
                assert_eq!(self.sender.tseqs_in_flight(), before, "a persist probe goes on waiting");
            }
            10 => {
                self.sender.close_path(path);
                self.closed.insert(path);
                self.paths[at] = PathId(self.paths.iter().map(|path| path.0).max().unwrap_or(0) + 1);
            }
            11..=14 => {
                let how = script.u8();
                if let Some(at) = usize::from(how).checked_rem(self.flying.len()) {
                    let tseqs = self.flying.swap_remove(at);
                    self.arrive(tseqs.into_iter().skip(usize::from(how == 0xff)));
                }
            }
            15 => {
                let tseqs = self.flying.first().cloned().unwrap_or_default();
                self.arrive(tseqs.into_iter());
            }
            16 => {
                if let Some(at) = usize::from(script.u8()).checked_rem(self.flying.len()) {
                    self.flying.swap_remove(at);
                }
            }
            17..=19 => self.make_sack(usize::from(script.u8())),
            20..=23 => {
                let how = script.u8();
                if let Some(at) = usize::from(how).checked_rem(self.sacks.len()) {
                    let sack = if step & 0x1f == 20 { self.sacks[at].clone() } else { self.sacks.remove(at) };
                    self.take(&sack);
                }
            }
            24 | 25 => self.now += Duration::from_micros(u64::from(script.u16())),
            26 | 27 => self.lie(script),
            28 => {
                let body = script.bytes();
                self.take(&[&block_header(body.len())[..], body].concat());
            }
            29 => {
                let ack = self.near(script);
                let must = self.is_honest(ack, std::iter::empty());
                let told = self.sender.take_fin(self.now, &Fin { ack });
                assert_eq!(told.is_some(), must, "FIN {ack}");
                self.note(told.unwrap_or_default());
            }
            _ => self.now += Duration::from_millis(u64::from(script.u8())),
        }
    }

    fn give(&mut self, size: u8) -> Option<u64> {
        let tseq = self.sender.give(usize::from(size))?;
        assert!(self.sizes.insert(tseq, size.into()).is_none(), "{tseq} was given twice");
        Some(tseq)
    }

    /// Sends what waits, and else new data.
    fn send(&mut self, path: PathId, blocks: usize, size: u8) {
        let mut tseqs: Vec<u64> = self.sender.waiting().into_iter().collect();
        while tseqs.len() < blocks {
            let Some(tseq) = self.give(size) else { break };
            tseqs.push(tseq);
        }
        if !tseqs.is_empty() {
            self.send_these(path, &tseqs, false);
        }
    }

    fn send_these(&mut self, path: PathId, tseqs: &[u64], is_copy: bool) {
        let number = self.sender.send(self.now, path, tseqs, is_copy);
        self.left.insert((path, number));
        self.sent.extend(tseqs);
        self.flying.push(tseqs.to_vec());
    }

    /// A copy of the oldest TSEQ in flight on a path leaves on another.
    fn copy(&mut self, from: PathId, to: PathId) {
        if let Some(tseq) = self.sender.oldest_on(from) {
            self.send_these(to, &[tseq], true);
        }
    }

    fn arrive(&mut self, tseqs: impl Iterator<Item = u64>) {
        for tseq in tseqs {
            if !self.arrived.insert(tseq) {
                self.again.push(tseq);
            }
        }
    }

    /// The receiver says what it has, in at most so many ranges.
    fn make_sack(&mut self, most: usize) {
        let mut cum = self.first - 1;
        while self.arrived.contains(&(cum + 1)) {
            cum += 1;
        }
        let offset = |tseq: u64| u16::try_from(tseq - cum).unwrap();
        let mut ranges: Vec<(u16, u16)> = Vec::new();
        for tseq in self.arrived.range(cum + 1..) {
            match ranges.last_mut() {
                Some((_, end)) if *end + 1 == offset(*tseq) => *end += 1,
                _ => ranges.push((offset(*tseq), offset(*tseq))),
            }
        }
        let ranges = ranges.into_iter().take(most).map(|(start, end)| start..=end);
        let again = std::mem::take(&mut self.again);
        let again = again.iter().copied().map(Sacks::on_wire);
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes, 1200);
        encode_sack(&mut writer, Sacks::on_wire(cum), 5000, ranges, again).unwrap();
        self.sacks.push(bytes);
        if self.sacks.len() > MOST_SACKS {
            self.sacks.remove(0);
        }
    }

    /// A TSEQ near those that are expected, or anywhere.
    fn near(&self, script: &mut Script<'_>) -> Tseq {
        match script.u8() {
            0 => Tseq(script.u32()),
            distance => {
                let base = Sacks::on_wire(self.sender.acked_in_sequence());
                base.plus(distance.into()).minus(u32::from(script.u8()))
            }
        }
    }

    /// A SACK of anything.
    fn lie(&mut self, script: &mut Script<'_>) {
        let ack = self.near(script);
        let ranges: Vec<_> = (0..script.u8() % 16)
            .map(|_| {
                let start = 1 + script.u16() % 512;
                start..=start + u16::from(script.u8())
            })
            .collect();
        let duplicates: Vec<_> = (0..script.u8() % 16).map(|_| self.near(script)).collect();
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes, 1200);
        encode_sack(&mut writer, ack, script.u32(), ranges.into_iter(), duplicates.into_iter()).unwrap();
        self.take(&bytes);
    }

    /// What a SACK names was sent, or was acknowledged in sequence before (spec 3.44, 3.45).
    fn is_honest(&self, ack: Tseq, ranges: impl Iterator<Item = (u64, u64)>) -> bool {
        let newest = self.sender.acked_in_sequence();
        let Some(cum) = self.sender.number(ack) else { return false };
        let was_sent = |first: u64, last: u64| {
            let first = first.max(newest + 1);
            first > last || self.sent.range(first..=last).count() as u64 == last - first + 1
        };
        was_sent(newest + 1, cum) && ranges.into_iter().all(|(start, end)| was_sent(cum + start, cum + end))
    }

    fn take(&mut self, bytes: &[u8]) {
        let Some(Ok(Block::Sack(sack))) = Blocks::new(bytes).next() else { return };
        let offsets = sack.ranges.offsets().map(|range| (u64::from(*range.start()), u64::from(*range.end())));
        let must = self.is_honest(sack.ack, offsets);
        let before = self.state();
        let named = self.named(&sack);
        let is_new = self.sender.number(sack.ack).is_some_and(|cum| cum >= self.sender.acked_in_sequence());
        let told = self.sender.take(self.now, &sack);
        assert_eq!(told.is_some(), must, "{sack:?}");
        if told.is_none() {
            assert_eq!(self.state(), before, "a lie changes nothing");
        }
        let Some(told) = told else { return };
        // spec 3.44
        assert_eq!(told.edge.is_some(), is_new, "{sack:?}");
        assert!(
            told.newly.iter().all(|tseq| named.iter().any(|(first, last)| (first..=last).contains(&tseq)))
        );
        self.note(told);
    }

    fn named(&self, sack: &Sack<'_>) -> Vec<(u64, u64)> {
        let Some(cum) = self.sender.number(sack.ack) else { return Vec::new() };
        let ranges = sack.ranges.offsets();
        let ranges = ranges.map(|range| (cum + u64::from(*range.start()), cum + u64::from(*range.end())));
        ranges.chain([(self.first, cum)]).collect()
    }

    fn state(&self) -> (u64, u64, usize, Vec<(PathId, u64)>, Option<u64>) {
        let sender = &self.sender;
        let (acked, bytes) = (sender.acked_in_sequence(), sender.acked_bytes());
        (acked, bytes, sender.tseqs_in_flight(), sender.in_flight(), sender.waiting())
    }

    /// No TSEQ is acknowledged twice, and no packet is reported as acknowledged or lost twice.
    fn note(&mut self, told: SackTold) {
        for tseq in told.newly {
            assert!(
                self.sent.contains(&tseq) && self.acked.insert(tseq),
                "{tseq} was told twice or not sent"
            );
        }
        for packet in told.packets {
            assert!(self.left.contains(&packet), "{packet:?} never left");
            let is_first = self.told.insert(packet);
            assert!(is_first || self.closed.contains(&packet.0), "{packet:?} was told twice");
        }
    }

    fn check(&mut self) {
        let (mut to, mut bytes) = self.acked_to;
        while self.acked.contains(&(to + 1)) {
            to += 1;
            bytes += self.sizes[&to];
        }
        assert_eq!((self.sender.acked_in_sequence(), self.sender.acked_bytes()), (to, bytes));
        self.acked_to = (to, bytes);
        let open = self.sizes.len() - self.acked.len();
        assert!(self.sender.tseqs_in_flight() <= open);
        assert_eq!(self.sender.is_empty(), open == 0);
        assert!(self.sender.in_flight().iter().all(|packet| !self.told.contains(packet)));
    }

    /// The network works again: everything arrives, and old SACKs say nothing new.
    fn finish(mut self) {
        for round in 0.. {
            assert!(round < 8, "a TSEQ never comes back");
            for (path, number) in self.sender.in_flight() {
                self.sender.lose(path, number);
            }
            self.flying.clear();
            while let Some(tseq) = self.sender.waiting() {
                self.send_these(self.paths[0], &[tseq], false);
            }
            for tseqs in std::mem::take(&mut self.flying) {
                self.arrive(tseqs.into_iter());
            }
            // The liar's acknowledgements count: what it named needs not arrive.
            let acked = self.acked.clone();
            self.arrived.extend(acked);
            self.again.clear();
            self.make_sack(64);
            let sack = self.sacks.pop().unwrap();
            self.take(&sack);
            self.check();
            if self.sender.is_empty() {
                break;
            }
        }
        for sack in std::mem::take(&mut self.sacks) {
            self.take(&sack);
        }
        self.check();
        assert_eq!((self.acked.len(), self.sender.tseqs_in_flight()), (self.sizes.len(), 0));
    }
}

fn pick(all: &[(PathId, u64)], at: u8) -> Option<(PathId, u64)> {
    all.get(usize::from(at).checked_rem(all.len())?).copied()
}

/// The header of a SACK with a body of this length.
fn block_header(length: usize) -> [u8; 4] {
    let [high, low] = u16::try_from(4 + length).unwrap_or(u16::MAX).to_be_bytes();
    [Sack::KIND, 0, high, low]
}
