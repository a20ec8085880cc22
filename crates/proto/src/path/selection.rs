//! Selects the address pairs that a connection should use, by their cost: a pure function.
//!
//! The cost of a pair is its RTT, plus the time that 256 KiB take once the rate is known. A pair of unknown rate
//! looks better for that, and is tried: so its rate becomes known, and a slow pair is not kept only because it is
//! near. Between two trials of a pair its cost grows once at most, and every other change of the choice lowers the
//! cost: so the choice converges (spec 6.47, 6.48, 6.66, 6.67, 6.121).

use std::cmp::Reverse;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use crate::{ByteCount, FourTuple, LocalAddress, Rate};

/// The transfer that adds to the RTT of a pair.
const SAMPLE: ByteCount = ByteCount(256 * 1024);
/// Another choice has to cost less than this percentage of the present one.
const BETTER: u32 = 90;
/// Local addresses whose pairs are considered: an assignment looks at all subsets of them.
pub(crate) const MOST_LOCALS: usize = 8;

/// Which address pairs carry a connection. The client decides.
///
/// ```
/// use manyway_proto::PairMode;
/// assert_eq!("full-mesh".parse(), Ok(PairMode::FullMesh));
/// assert_eq!(PairMode::default().to_string(), "local-disjoint");
/// assert!("all".parse::<PairMode>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum PairMode {
    /// One path for each interface of the client: its pair that answers first, and when that falls silent, any other
    /// that answers. Several interfaces may lead to one address of the server.
    #[default]
    LocalDisjoint,
    /// No address of either end twice, and as many pairs as that allows. Of these choices one with the most
    /// interfaces of the client, and of those the one whose pairs cost least together (AMS). A peer with one address
    /// gets one path.
    Disjoint,
    /// Every pair that answers, up to the limit of paths: the cheapest of each interface of the client, then the
    /// cheapest.
    FullMesh,
}

impl PairMode {
    /// Every mode, the default first.
    pub const ALL: [Self; 3] = [Self::LocalDisjoint, Self::Disjoint, Self::FullMesh];

    /// Its name, as on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LocalDisjoint => "local-disjoint",
            Self::Disjoint => "disjoint",
            Self::FullMesh => "full-mesh",
        }
    }
}

impl fmt::Display for PairMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for PairMode {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|mode| mode.name() == name);
        found.ok_or_else(|| format!("{name:?} is not one of: {}", Self::ALL.map(Self::name).join(", ")))
    }
}

/// A working pair, and its known properties.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) tuple: FourTuple,
    pub(crate) rtt: Duration,
    /// The rate that it delivers, once measured or reported.
    pub(crate) rate: Option<Rate>,
    /// Whether a recent trial showed no rate.
    pub(crate) has_failed_trial: bool,
    /// Added to the cost because its interface should be used less.
    pub(crate) penalty: Duration,
}

impl Candidate {
    /// The cost, as far as it is known.
    pub(crate) fn cost(&self) -> Duration {
        let rate = self.rate.filter(|rate| rate.bytes_per_second() > 0);
        self.rtt + self.penalty + rate.map_or(Duration::ZERO, |rate| SAMPLE / rate)
    }
}

/// The pairs to use, at most `most`, when `held` are in use now.
pub(crate) fn choose(
    mode: PairMode,
    candidates: &[Candidate],
    held: &[FourTuple],
    most: usize,
) -> Vec<FourTuple> {
    match mode {
        PairMode::LocalDisjoint => Vec::new(),
        PairMode::Disjoint => choose_disjoint(candidates, held, most),
        PairMode::FullMesh => choose_cheapest(candidates, held, most),
    }
}

/// Whether a pair of known rate would give way to one of unknown rate, without a gain in pairs or interfaces.
pub(crate) fn is_trial(candidates: &[Candidate], held: &[FourTuple], next: &[FourTuple]) -> bool {
    let find = |tuple: &FourTuple| candidates.iter().find(|candidate| candidate.tuple == *tuple).copied();
    let all = |tuples: &[FourTuple]| tuples.iter().map(find).collect::<Option<Vec<_>>>();
    all(held).zip(all(next)).is_some_and(|(held, next)| {
        let gives_way = |one: &Candidate| one.rate.is_some() && !next.contains(one);
        let is_new = |one: &Candidate| one.rate.is_none() && !held.contains(one);
        breadth(&held) == breadth(&next) && held.iter().any(gives_way) && next.iter().any(is_new)
    })
}

/// Whether two pairs have an address in common.
pub(crate) fn share_an_address(a: &FourTuple, b: &FourTuple) -> bool {
    near(a) == near(b) || far(a) == far(b)
}

fn near(tuple: &FourTuple) -> (u32, IpAddr) {
    let LocalAddress { interface, address } = tuple.local;
    (interface, address.ip())
}

fn far(tuple: &FourTuple) -> IpAddr {
    tuple.remote.ip()
}

/// Number of local interfaces that some pairs use; an address without an interface counts as one.
fn interfaces(chosen: &[Candidate]) -> usize {
    let differs = |(place, candidate): &(usize, &Candidate)| {
        let mut before = chosen.iter().take(*place);
        !before.any(|other| other.tuple.local.shares_interface(&candidate.tuple.local))
    };
    chosen.iter().enumerate().filter(differs).count()
}

/// Breadth of a choice, which counts before its cost: the number of paths, and of interfaces that carry them. Paths
/// over one interface share it, so one more interface is worth more than a shorter route.
fn breadth(chosen: &[Candidate]) -> (usize, usize) {
    (chosen.len(), interfaces(chosen))
}

fn choose_disjoint(candidates: &[Candidate], held: &[FourTuple], most: usize) -> Vec<FourTuple> {
    let is_eligible = |candidate: &&Candidate| !candidate.has_failed_trial || held.contains(&candidate.tuple);
    let eligible: Vec<Candidate> = candidates.iter().filter(is_eligible).copied().collect();
    let (eligible, all) = (assign(&eligible, most), assign(candidates, most));
    let best = if breadth(&eligible) == breadth(&all) { eligible } else { all };
    let find = |tuple: &FourTuple| candidates.iter().find(|candidate| candidate.tuple == *tuple).copied();
    let present: Option<Vec<Candidate>> = held.iter().map(find).collect();
    let stays = present
        .is_some_and(|present| breadth(&present) == breadth(&best) && !is_better(sum(&best), sum(&present)));
    if stays { held.to_vec() } else { best.iter().map(|candidate| candidate.tuple).collect() }
}

fn is_better(there: Duration, here: Duration) -> bool {
    there * 100 < here * BETTER
}

/// The total cost.
fn sum(chosen: &[Candidate]) -> Duration {
    chosen.iter().map(Candidate::cost).sum()
}

/// The cheapest of each interface, then the cheapest of all; held pairs count as a little cheaper than they are.
fn choose_cheapest(candidates: &[Candidate], held: &[FourTuple], most: usize) -> Vec<FourTuple> {
    let mut sorted = candidates.to_vec();
    sorted.sort_by_key(|candidate| {
        candidate.cost() * if held.contains(&candidate.tuple) { BETTER } else { 100 }
    });
    let (mut firsts, mut others): (Vec<FourTuple>, Vec<FourTuple>) = Default::default();
    for Candidate { tuple, .. } in sorted {
        let is_first = !firsts.iter().any(|other| other.local.shares_interface(&tuple.local));
        if is_first { firsts.push(tuple) } else { others.push(tuple) }
    }
    firsts.into_iter().chain(others).take(most).collect()
}

/// Some pairs without a common address.
#[derive(Debug, Clone, Default)]
struct Matching {
    sum: Duration,
    chosen: Vec<Candidate>,
}

/// The largest number of pairs without a common address, over as many interfaces as that allows, and of these choices
/// the cheapest. Takes O(candidates × 2^locals).
fn assign(candidates: &[Candidate], most: usize) -> Vec<Candidate> {
    let mut locals: Vec<_> = candidates.iter().map(|candidate| near(&candidate.tuple)).collect();
    locals.sort_unstable();
    locals.dedup();
    locals.truncate(MOST_LOCALS);
    let mut remotes: Vec<_> = candidates.iter().map(|candidate| far(&candidate.tuple)).collect();
    remotes.sort_unstable();
    remotes.dedup();
    // For each subset of local addresses, a bit each, the cheapest way to pair each of them with a different address
    // of the peer, among those seen so far.
    let mut best: Vec<Option<Matching>> = vec![None; 1 << locals.len()];
    if let Some(nothing) = best.first_mut() {
        *nothing = Some(Matching::default());
    }
    for remote in remotes {
        let towards = candidates.iter().filter(|candidate| far(&candidate.tuple) == remote);
        let places = towards.filter_map(|candidate| {
            let place = locals.iter().position(|local| *local == near(&candidate.tuple))?;
            Some((1 << place, *candidate))
        });
        let places: Vec<(usize, Candidate)> = places.collect();
        // Starts with the largest set, so that smaller ones do not contain this address yet.
        for set in (1..best.len()).rev() {
            let known = best.get(set).cloned().flatten();
            let fitting = places.iter().filter(|(bit, _)| set & bit != 0);
            let extended = fitting.filter_map(|(bit, candidate)| {
                let without = best.get(set & !bit)?.as_ref()?;
                let chosen = [without.chosen.as_slice(), &[*candidate]].concat();
                Some(Matching { sum: without.sum + candidate.cost(), chosen })
            });
            let cheapest = known.into_iter().chain(extended).min_by_key(|matching| matching.sum);
            if let Some(place) = best.get_mut(set) {
                *place = cheapest;
            }
        }
    }
    let possible = best.into_iter().flatten().filter(|matching| matching.chosen.len() <= most);
    let best = possible.min_by_key(|matching| (Reverse(breadth(&matching.chosen)), matching.sum));
    best.unwrap_or_default().chosen
}

#[cfg(test)]
mod tests;
