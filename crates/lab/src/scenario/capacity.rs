//! The capacity of a scenario's links by their numbers.

use std::collections::BTreeMap;
use std::time::Duration;

use manyway_proto::{PairMode, Rate};
use manyway_sim::link::{Drops, LinkConfig, LossModel, Probability};

use super::{Change, Direction, Event, Link, Route, Scenario, Setting, Working};

impl Scenario {
    /// Whether packets are lost or damaged other than by a queue or an outage, at any time.
    pub fn has_loss(&self) -> bool {
        let spoils = |config: &LinkConfig| {
            loss_share(&config.loss) > Probability::NEVER || config.corruption > Probability::NEVER
        };
        self.damage.is_some()
            || self.links.iter().any(|link| spoils(&link.up) || spoils(&link.down))
            || self.events.iter().any(|event| match &event.change {
                Change::Set { setting: Setting::Loss(loss), .. } => loss_share(loss) > Probability::NEVER,
                Change::Set { setting: Setting::Corruption(share), .. } => *share > Probability::NEVER,
                Change::Set { .. }
                | Change::Cut { .. }
                | Change::Restore { .. }
                | Change::InterfaceDown { .. }
                | Change::InterfaceUp { .. }
                | Change::Readdress { .. }
                | Change::Rebind { .. } => false,
            })
    }

    /// Whether a link drops UDP at any time.
    pub fn blocks_udp(&self) -> bool {
        self.links.iter().any(drops_udp) || self.blocks_udp_later()
    }

    /// Whether a link begins to drop UDP during the traffic.
    pub fn blocks_udp_later(&self) -> bool {
        let begins =
            |event: &Event| matches!(event.change, Change::Set { setting: Setting::Drops(Drops::Udp), .. });
        self.events.iter().any(begins)
    }

    /// Whether each route has a link that drops UDP from the start.
    pub fn has_no_udp(&self) -> bool {
        let is_blocked =
            |route: &Route| route.links.iter().filter_map(|link| self.links.get(*link)).any(drops_udp);
        self.routes.iter().all(is_blocked)
    }

    /// Those of these routes that work at the start.
    pub(crate) fn at_start(&self, routes: &[usize]) -> Vec<usize> {
        let working = Working::at_start(self);
        let works = |place: &usize| self.routes.get(*place).is_some_and(|route| working.has(route));
        routes.iter().copied().filter(works).collect()
    }

    /// The groups of these routes, of which Manyway selects one each, or all: a group for each path that it should
    /// have.
    pub(crate) fn groups(&self, routes: &[usize], pairs: PairMode) -> Vec<Vec<usize>> {
        let ends = |of: fn(&Route) -> usize| -> BTreeMap<usize, Vec<usize>> {
            let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
            for place in routes {
                if let Some(route) = self.routes.get(*place) {
                    groups.entry(of(route)).or_default().push(*place);
                }
            }
            groups
        };
        let (near, far) = (ends(|route| route.client), ends(|route| route.server));
        match pairs {
            PairMode::FullMesh => routes.iter().map(|place| vec![*place]).collect(),
            PairMode::Disjoint if far.len() < near.len() => far.into_values().collect(),
            PairMode::LocalDisjoint | PairMode::Disjoint | _ => near.into_values().collect(),
        }
    }

    /// The route with the highest capacity alone by its numbers, in the directions of the traffic: the mean over the
    /// duration of the smallest rate on the way, bounded by what loss and round-trip time leave to a sender that halves
    /// its window at each loss; zero while one of its links is cut or one of its interfaces is down. Of equal ones the
    /// first.
    pub fn best_route(&self) -> usize {
        let carried = |route: &Route| -> u64 {
            self.directions().map(|direction| self.carries(route, direction).bytes_per_second()).sum()
        };
        let rates = self.routes.iter().map(carried).enumerate();
        // Of equal ones `max_by_key` would take the last.
        rates.rev().max_by_key(|(_, rate)| *rate).map_or(0, |(place, _)| place)
    }

    /// The capacity of the links in one direction at the start, headers included: the sum over the routes, where routes
    /// that share a link share its rate.
    pub fn sum(&self, direction: Direction) -> Rate {
        self.sum_of(direction, |_| true)
    }

    /// As [`Self::sum`], of the routes with these indices, in their order.
    pub(crate) fn sum_of(&self, direction: Direction, counts: impl Fn(usize) -> bool) -> Rate {
        let mut left: Vec<u64> = self.links.iter().map(|link| nominal(link, direction)).collect();
        let mut sum = 0_u64;
        for (_, route) in self.routes.iter().enumerate().filter(|(place, _)| counts(*place)) {
            let most = slowest(route, |link| left.get(link).copied()).unwrap_or(0);
            for (place, link) in route.links.iter().enumerate() {
                if let Some(left) = left.get_mut(*link) {
                    *left -= route.part(place, most).min(*left);
                }
            }
            sum = sum.saturating_add(most);
        }
        Rate::from_bytes_per_second(sum)
    }

    /// The directions in which something is sent.
    fn directions(&self) -> impl Iterator<Item = Direction> {
        let sends = |way: Direction| {
            self.traffic
                .iter()
                .any(|traffic| traffic.direction() == way || traffic.direction() == Direction::Both)
        };
        [Direction::Up, Direction::Down].into_iter().filter(move |way| sends(*way))
    }

    /// The mean capacity of a route in one direction over the duration.
    fn carries(&self, route: &Route, direction: Direction) -> Rate {
        let (mut links, mut working) = (self.links.clone(), Working::at_start(self));
        let (mut since, mut area) = (Duration::ZERO, 0_u128);
        let mut add = |links: &[Link], working: &Working, since: Duration, until: Duration| {
            if working.has(route) {
                let rate = carries_now(route, links, direction);
                area += u128::from(rate.bytes_per_second()) * until.saturating_sub(since).as_nanos();
            }
        };
        for event in self.events.iter().take_while(|event| event.at < self.duration) {
            add(&links, &working, since, event.at);
            since = event.at;
            working.apply(&event.change);
            if let Change::Set { link, direction, setting } = &event.change
                && let Some(link) = links.get_mut(*link)
            {
                link.set(*direction, setting);
            }
        }
        add(&links, &working, since, self.duration);
        let mean = area.checked_div(self.duration.as_nanos()).unwrap_or(0);
        Rate::from_bytes_per_second(u64::try_from(mean).unwrap_or(u64::MAX))
    }
}

/// The capacity of a route in one direction: the slowest link, or what loss and round-trip time leave.
fn carries_now(route: &Route, links: &[Link], direction: Direction) -> Rate {
    let on_way = || route.links.iter().filter_map(|link| links.get(*link));
    let slowest = slowest(route, |link| links.get(link).map(|link| nominal(link, direction))).unwrap_or(0);
    let delays = on_way().map(|link| link.up.delay.base.saturating_add(link.down.delay.base));
    let round_trip: Duration =
        if route.shares.is_empty() { delays.sum() } else { delays.max().unwrap_or_default() };
    let losses = on_way().map(|link| way(link, direction)).map(|config| {
        u64::from(loss_share(&config.loss).billionths()) + u64::from(config.corruption.billionths())
    });
    let lost = losses.sum::<u64>();
    Rate::from_bytes_per_second(slowest.min(after_loss(round_trip, lost)))
}

/// The capacity of a route by the rates of its links; if packets are distributed over them, until the first of them has
/// no more than its share.
fn slowest(route: &Route, rate: impl Fn(usize) -> Option<u64>) -> Option<u64> {
    let rates = route.links.iter().enumerate().filter_map(|(place, link)| Some((place, rate(*link)?)));
    rates.map(|(place, rate)| route.whole(place, rate)).min()
}

impl Route {
    /// The part of an amount on the route that passes the link at this index.
    fn part(&self, place: usize, amount: u64) -> u64 {
        self.shares.get(place).map_or(amount, |share| scaled(amount, u64::from(*share), self.all_shares()))
    }

    /// The amount on the route of which this passes the link at this index.
    fn whole(&self, place: usize, part: u64) -> u64 {
        self.shares.get(place).map_or(part, |share| scaled(part, self.all_shares(), u64::from(*share)))
    }

    fn all_shares(&self) -> u64 {
        self.shares.iter().map(|share| u64::from(*share)).sum()
    }
}

fn scaled(amount: u64, times: u64, over: u64) -> u64 {
    let scaled = u128::from(amount) * u128::from(times);
    u64::try_from(scaled / u128::from(over.max(1))).unwrap_or(u64::MAX)
}

/// Bytes a second that loss leaves to a sender that halves its window at each loss (Mathis 1997): 1.22 segments a round
/// trip, over the root of the share.
fn after_loss(round_trip: Duration, billionths: u64) -> u64 {
    const SEGMENT_HUNDREDTHS: u128 = 1448 * 122;
    const BILLION: u128 = 1_000_000_000;
    let root = (u128::from(billionths) * BILLION).isqrt();
    let each = round_trip.as_nanos() * root / BILLION;
    (SEGMENT_HUNDREDTHS * BILLION / 100)
        .checked_div(each)
        .map_or(u64::MAX, |rate| u64::try_from(rate).unwrap_or(u64::MAX))
}

/// Whether a link drops UDP from the start, in one direction at least.
fn drops_udp(link: &Link) -> bool {
    [&link.up, &link.down].into_iter().any(|way| way.drops == Drops::Udp)
}

const fn way(link: &Link, direction: Direction) -> &LinkConfig {
    match direction {
        Direction::Up | Direction::Both => &link.up,
        Direction::Down => &link.down,
    }
}

fn nominal(link: &Link, direction: Direction) -> u64 {
    way(link, direction).rate.nominal().bytes_per_second()
}

/// The long-term share of packets that a loss model drops; a script and a number of packets count as none.
fn loss_share(loss: &LossModel) -> Probability {
    match loss {
        LossModel::Random(share) => *share,
        LossModel::GilbertElliott(law) => {
            let [to_bad, to_good, good, bad] = [law.to_bad, law.to_good, law.loss_good, law.loss_bad]
                .map(|share| u64::from(share.billionths()));
            let mean = (bad * to_bad + good * to_good).checked_div(to_bad + to_good);
            Probability::from_billionths(mean.unwrap_or(good))
        }
        // The enum is non-exhaustive; an unknown model counts as none, too.
        LossModel::None | LossModel::Scripted(_) | LossModel::Next { .. } | _ => Probability::NEVER,
    }
}
