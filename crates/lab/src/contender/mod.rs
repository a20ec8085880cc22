//! Who is compared.

mod name;

use manyway_proto::PairMode;

pub use name::{NameError, POSSIBLE_NAMES};

/// Somebody who can carry the traffic of a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contender {
    /// This project.
    Manyway(ManywaySettings),
    /// One kernel TCP connection.
    Tcp {
        /// Its congestion control, such as `cubic`.
        congestion: String,
        /// Over which route.
        route: RouteChoice,
    },
    /// An independent kernel TCP connection on every route at once, what they deliver added up: what the links can
    /// carry after headers.
    Possible {
        /// Their congestion control; without it BBR where the scenario has loss, CUBIC where it has none.
        congestion: Option<String>,
    },
    /// Kernel multipath TCP over all routes.
    Mptcp {
        /// Congestion control of its subflows.
        congestion: String,
    },
    /// Another program.
    External(ExternalProgram),
}

/// How Manyway runs; what is not set has its default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ManywaySettings {
    /// Name of the scheduler.
    pub scheduler: Option<String>,
    /// Name of the congestion control.
    pub congestion: Option<String>,
    /// Which pairs of addresses it uses.
    pub pairs: Option<PairMode>,
    /// Over which routes.
    pub routes: RouteChoice,
}

/// Which routes of a scenario are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RouteChoice {
    /// All.
    #[default]
    All,
    /// That which carries most alone. A campaign runs Manyway over each and takes the best; else, and for others, it is the
    /// best by its numbers, see `Scenario::best_route`.
    Best,
    /// One, by its place in the scenario.
    Only(usize),
}

/// A program with a sender that reads standard input and a receiver that writes what arrives to standard output.
///
/// In the commands `{local}` and `{remote}` stand for the first address of either side, `{locals}` and `{remotes}` for
/// all, with commas between, `{port}` for a free port; `{routes}` for pairs `local>remote`, with commas between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalProgram {
    /// Its name in reports.
    pub name: String,
    /// The command at the sender.
    pub sender: String,
    /// The command at the receiver, which is started first.
    pub receiver: String,
}
