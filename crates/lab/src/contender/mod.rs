//! The contenders.

mod chunks;
mod error;
mod name;
mod target;
mod through;

use manyway_proto::{ConfigError, ConnectionConfig, Detection, PairMode};
use serde::{Deserialize, Serialize};

pub use chunks::Chunks;
pub use error::NameError;
pub use name::POSSIBLE_NAMES;
pub use target::Target;
pub use through::{Program, Through, Verb};

/// A carrier of the traffic of a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contender {
    /// This project.
    Manyway(ManywaySettings),
    /// One kernel TCP connection.
    Tcp {
        /// Its congestion control, such as `cubic`.
        congestion: String,
        /// Its route.
        route: RouteChoice,
    },
    /// An independent kernel TCP connection on every route at once, with the results added up: the capacity of the
    /// links after headers.
    Possible {
        /// Their congestion control; without it BBR where the scenario has loss, CUBIC where it has none.
        congestion: Option<String>,
    },
    /// Kernel multipath TCP over all routes.
    Mptcp {
        /// Congestion control of its subflows.
        congestion: String,
    },
    /// A program that deals chunks out to independent TCP connections.
    Chunks(Chunks),
    /// A program over a verb of the `manyway` command.
    Through(Through),
    /// Another program.
    External(ExternalProgram),
}

/// Settings of Manyway; `None` is the default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ManywaySettings {
    /// The wire protocol.
    pub wire: Wire,
    /// How the failure of a path is detected over MMSP/1.
    pub detection: PathDetection,
    /// Name of the scheduler.
    pub scheduler: Option<String>,
    /// What its paths go over.
    pub carrier: Carrier,
    /// TCP connections on each interface, at most for the advanced algorithm of a target. Default 1, with a target 5.
    pub connections: Option<u8>,
    /// The rate at which the receiver wants bulk.
    pub target: Option<Target>,
    /// Name of the congestion control; over TCP one of the system, without it CUBIC.
    pub congestion: Option<String>,
    /// The address pairs that it uses.
    pub pairs: Option<PairMode>,
    /// Its routes.
    pub routes: RouteChoice,
}

impl ManywaySettings {
    /// Whether the scheduler has a primary path: the first route of the scenario.
    pub(crate) fn has_primary(&self) -> bool {
        match &self.scheduler {
            Some(name) => name == "primary",
            None => self.wire == Wire::Mmsp1,
        }
    }
}

/// What paths go over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Carrier {
    /// UDP.
    #[default]
    Udp,
    /// TCP connections of the system, in virtual time those of a model.
    Tcp,
    /// UDP, and TCP where that does not work, as is Manyway's own default; not in virtual time.
    Auto,
}

/// A wire protocol of Manyway, with its own defaults for everything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wire {
    /// Encrypted, with `ConnectionConfig::default`.
    #[default]
    Mmsp2,
    /// The protocol of the thesis in clear text, with `ConnectionConfig::mmsp1`.
    Mmsp1,
}

/// How the failure of a path is detected over MMSP/1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PathDetection {
    /// By three probes without an answer, as in its thesis.
    #[default]
    Probes,
    /// By silence, as over MMSP/2.
    Fast,
}

/// The name of TCP as of 2002 among the congestion controls of TCP: Reno that finds losses by three repeated
/// acknowledgements. On sockets it is the system's Reno with what came later turned off.
pub(crate) const RENO_2002: &str = "reno_2002";

/// Gives a connection over MMSP/1 the settings of its thesis, with this detection, and keeps what was added to `config`.
///
/// # Errors
/// Never, as long as the protocol machine knows the names.
pub(crate) fn thesis(config: &mut ConnectionConfig, detection: PathDetection) -> Result<(), ConfigError> {
    config.detection = match detection {
        PathDetection::Probes => Detection::Probes,
        PathDetection::Fast => Detection::Fast,
    };
    config.set_scheduler("primary")?;
    config.set_congestion("new-reno")
}

/// Which routes of a scenario are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RouteChoice {
    /// All.
    #[default]
    All,
    /// The best single route. A campaign runs Manyway over each and takes the best; otherwise, and for other
    /// contenders, it is the best by its numbers, see `Scenario::best_route`.
    Best,
    /// One, by its index in the scenario.
    Only(usize),
}

/// A program with a sender that reads standard input and a receiver that writes received data to standard output.
///
/// Placeholders in the commands: `{local}` and `{remote}` for the first address of either side, `{locals}` and
/// `{remotes}` for all, with commas between, `{port}` for a free port; `{routes}` for pairs `local>remote`, with commas
/// between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalProgram {
    /// Its name in reports.
    pub name: String,
    /// The command at the sender.
    pub sender: String,
    /// The command at the receiver, which is started first.
    pub receiver: String,
}
