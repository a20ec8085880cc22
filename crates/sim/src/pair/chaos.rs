//! Random changes of the network of a pair, all of which a transport must survive.

use std::time::Duration;

use manyway_proto::{Rate, Rng};

use super::{Direction, Pair, PairError, Peer};
use crate::link::{LinkState, LossModel, Probability, RateModel};
use crate::rule::{Action, Matching, RuleId};

/// A change of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// A path becomes a black hole.
    Cut(usize, Direction),
    /// A path works again.
    Restore(usize, Direction),
    /// The client's interface goes down, and the client's system reports it.
    InterfaceDown(usize),
    /// It comes back.
    InterfaceUp(usize),
    /// The client's interface gets another address.
    ChangeAddress(usize),
    /// The NAT of a path drops its mappings.
    Rebind(usize),
    /// A path gets another rate.
    SetRate(usize, Rate),
    /// The loss of a path changes.
    SetLoss(usize, Probability),
    /// From now on the action applies to every packet of one host on a path, until the next such rule.
    Rule(usize, Action),
}

/// Applies random changes to a pair, at random times.
///
/// The first path is not touched unless [`everywhere`](Self::everywhere) is called, so that the connection can live;
/// [`heal`](Self::heal) ends all faults.
#[derive(Debug)]
pub struct Chaos {
    rng: Rng,
    mean_pause: Duration,
    spares: usize,
    moves: bool,
    rule: Option<RuleId>,
    done: Vec<(Duration, Operation)>,
}

impl Chaos {
    /// Makes a source of changes with pauses of `mean_pause` on average.
    pub fn new(rng: Rng, mean_pause: Duration) -> Self {
        Self { rng, mean_pause, spares: 1, moves: true, rule: None, done: Vec::new() }
    }

    /// Changes the first path too: for a while no path may work.
    #[must_use]
    pub fn everywhere(mut self) -> Self {
        self.spares = 0;
        self
    }

    /// Keeps the addresses of the client's interfaces: for a protocol whose connections cannot get new ones.
    #[must_use]
    pub fn without_moves(mut self) -> Self {
        self.moves = false;
        self
    }

    /// The changes and their times, since the start of the world; to print when a test fails.
    pub fn done(&self) -> &[(Duration, Operation)] {
        &self.done
    }

    /// Runs a pair for this long with changes in between.
    ///
    /// # Errors
    /// As [`Pair::run_for`].
    pub fn run<N: Peer>(&mut self, pair: &mut Pair<N>, time: Duration) -> Result<(), PairError> {
        let end = pair.now() + time;
        while pair.now() < end {
            let percent = u32::try_from(self.below(200)).unwrap_or(0);
            pair.run_for(
                (self.mean_pause * percent / 100).min(end - pair.now()).max(Duration::from_nanos(1)),
            )?;
            if let Some(operation) = self.choose(pair.paths().len()) {
                self.apply(pair, operation);
            }
        }
        Ok(())
    }

    /// Ends all faults; rates stay as they are.
    pub fn heal<N: Peer>(&mut self, pair: &mut Pair<N>) {
        if let Some(rule) = self.rule.take() {
            pair.world_mut().network_mut().remove_rule(rule);
        }
        for path in self.spares..pair.paths().len() {
            self.apply(pair, Operation::Restore(path, Direction::Both));
            self.apply(pair, Operation::InterfaceUp(path));
            self.apply(pair, Operation::SetLoss(path, Probability::NEVER));
        }
    }

    fn choose(&mut self, paths: usize) -> Option<Operation> {
        let others = u64::try_from(paths.checked_sub(self.spares)?).ok().filter(|others| *others > 0)?;
        let path = self.spares + usize::try_from(self.below(others)).unwrap_or(0);
        let direction = match self.below(4) {
            0 => Direction::Up,
            1 => Direction::Down,
            _ => Direction::Both,
        };
        Some(match self.below(12) {
            0 | 1 => Operation::Cut(path, direction),
            2..=4 => Operation::Restore(path, Direction::Both),
            5 => Operation::InterfaceDown(path),
            6 => Operation::InterfaceUp(path),
            7 if self.moves => Operation::ChangeAddress(path),
            7 => return None,
            8 => Operation::Rebind(path),
            9 => Operation::SetRate(path, Rate::from_bits_per_second(1_000_000 + self.below(50_000_000))),
            10 => Operation::SetLoss(path, Probability::from_billionths(self.below(100_000_000))),
            _ => Operation::Rule(path, self.action()),
        })
    }

    fn action(&mut self) -> Action {
        let delay = Duration::from_millis(1 + self.below(300));
        match self.below(4) {
            0 => Action::Drop,
            1 => Action::Delay(delay),
            2 => Action::Corrupt,
            _ => Action::Copy(delay),
        }
    }

    fn apply<N: Peer>(&mut self, pair: &mut Pair<N>, operation: Operation) {
        self.done.push((pair.world().clock().elapsed(), operation));
        match operation {
            Operation::Cut(path, direction) => pair.cut(path, direction),
            Operation::Restore(path, direction) => pair.restore(path, direction),
            Operation::InterfaceDown(path) => pair.set_interface(path, LinkState::Down),
            Operation::InterfaceUp(path) => pair.set_interface(path, LinkState::Up),
            Operation::ChangeAddress(path) => pair.change_address(path),
            Operation::Rebind(path) => pair.rebind(path),
            Operation::SetRate(path, rate) => {
                pair.with_links(path, Direction::Both, |now, link| {
                    link.set_rate(now, RateModel::Fixed(rate));
                });
            }
            Operation::SetLoss(path, loss) => {
                pair.with_links(path, Direction::Both, |now, link| {
                    link.set_loss(now, LossModel::Random(loss));
                });
            }
            Operation::Rule(path, action) => self.change_rule(pair, path, action),
        }
    }

    fn change_rule<N: Peer>(&mut self, pair: &mut Pair<N>, path: usize, action: Action) {
        let Some(interface) = pair.paths().get(path).map(|links| links.interface) else { return };
        let network = pair.world_mut().network_mut();
        if let Some(rule) = self.rule.take() {
            network.remove_rule(rule);
        }
        self.rule = Some(network.add_rule(Matching::all().at(interface), action));
    }

    /// A random number below `end`.
    fn below(&mut self, end: u64) -> u64 {
        u64::try_from((u128::from(self.rng.next_u64()) * u128::from(end)) >> 64).unwrap_or(0)
    }
}
