//! Scenarios in virtual time: the protocol machines of both ends, the same links, no sockets and no clock.
//!
//! A run begins as on real sockets: after the handshake its paths have three seconds to come up; then the traffic
//! starts, which is time 0. Each entry of the traffic has a stream of its own. The laws of the simulator are checked
//! throughout; a violation is a failure of the contender.
//!
//! The program of CMT runs as well, over the model of TCP.
//!
//! There are no checksums here: a corrupted packet reaches the protocol, which drops it. Links do not tell UDP from TCP:
//! a scenario in which one drops UDP is refused.

mod chunks;
mod cross;
mod flow;
mod run;
mod setup;
mod stage;

use manyway_proto::ConnectionConfig;

use crate::contender::RouteChoice;
use crate::outcome::RouteTotals;
use crate::{Contender, LabError, Outcome, Runner, Scenario};
use setup::Setup;

/// Runs Manyway through scenarios in virtual time. The same seed gives the same outcome.
///
/// ```
/// use manyway_lab::scenario::Library;
/// use manyway_lab::simulated::Simulated;
/// use manyway_lab::{Contender, Runner as _};
/// use std::time::Duration;
///
/// let scenario = Library::builtin()?.find("two-50")?.remove(0).with_duration(Duration::from_secs(1));
/// let outcome = Simulated::new().run(&scenario, &Contender::Manyway(Default::default()), 1)?;
/// assert_eq!(outcome.failure, None);
/// println!("{} in all, {:?}", outcome.flows[0].arrivals.goodput(), outcome.flows[0].arrivals.longest_silence());
/// # Ok::<(), manyway_lab::LabError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Simulated {
    config: ConnectionConfig,
}

impl Simulated {
    /// Makes a runner.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a runner whose contenders use these settings where they name no others, and find the schedulers and
    /// congestion controls that were added to them.
    pub const fn with_config(config: ConnectionConfig) -> Self {
        Self { config }
    }
}

impl Runner for Simulated {
    fn run(&mut self, scenario: &Scenario, contender: &Contender, seed: u64) -> Result<Outcome, LabError> {
        self.supports(contender)?;
        if scenario.blocks_udp() {
            let text = "links of virtual time do not tell UDP from TCP, so none drops UDP: run it with \
                        \"manyway-lab\" as root";
            return Err(LabError::Unsupported(text.to_owned()));
        }
        if let Contender::Chunks(chunks) = contender {
            return chunks::run(scenario, chunks, seed);
        }
        let Contender::Manyway(settings) = contender else {
            return Err(LabError::Unsupported("only Manyway and chunks run in virtual time".to_owned()));
        };
        let setup = Setup::new(&self.config, settings)?;
        let route = match settings.routes {
            RouteChoice::All => return Ok(run::run(scenario, &setup, seed)),
            RouteChoice::Best => scenario.best_route(),
            RouteChoice::Only(route) => route,
        };
        let count = scenario.routes.len();
        if route >= count {
            let text = format!("{} has {count} routes, not {}", scenario.name, route + 1);
            return Err(LabError::Unsupported(text));
        }
        let mut outcome = run::run(&scenario.clone().single(route), &setup, seed);
        outcome.routes.resize_with(1, RouteTotals::default);
        outcome.routes.resize_with(count, RouteTotals::default);
        outcome.routes.swap(0, route);
        Ok(outcome)
    }

    fn supports(&self, contender: &Contender) -> Result<(), LabError> {
        let who = match contender {
            Contender::Manyway(_) | Contender::Chunks(_) => return Ok(()),
            Contender::Tcp { .. } | Contender::Possible { .. } => "kernel TCP",
            Contender::Mptcp { .. } => "kernel MPTCP",
            Contender::Through(through) => through.verb.name(),
            Contender::External(program) => &program.name,
        };
        Err(LabError::Unsupported(format!(
            "{who} needs real sockets, which virtual time does not have: run it with \"manyway-lab\" as root"
        )))
    }
}
