//! Contenders on real sockets: a process at each end, in network namespaces joined by emulated links.

mod assignment;
mod outcome;
pub(crate) mod process;
pub(crate) mod session;
mod system;

use std::path::PathBuf;

use manyway_sim::pair::Side;

use crate::contender::Contender;
use crate::emulator::Emulator;
use crate::error::LabError;
use crate::hosts::Hosts;
use crate::outcome::Outcome;
use crate::scenario::Scenario;
use crate::{Runner, Stop};

use assignment::Plan;
use session::Session;

/// Lets contenders run on real sockets. Needs root, `ip` and `/dev/net/tun`.
#[derive(Debug)]
pub struct Real {
    program: PathBuf,
    stop: Stop,
}

impl Real {
    /// Takes the `manyway` program, which runs at either end as `manyway lab-agent`.
    ///
    /// # Errors
    /// [`LabError::Unsupported`] if this user or this machine can not make the hosts.
    pub fn new(program: PathBuf) -> Result<Self, LabError> {
        Hosts::check()?;
        Ok(Self { program, stop: Stop::default() })
    }

    /// Ends a run soon: [`Runner::run`] then gives [`LabError::Interrupted`], and nothing is left behind.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }
}

impl Runner for Real {
    fn run(&mut self, scenario: &Scenario, contender: &Contender, seed: u64) -> Result<Outcome, LabError> {
        self.supports(contender)?;
        self.stop.check()?;
        let hosts = Hosts::make(scenario)?;
        let plan = Plan::new(scenario, &hosts, contender)?;
        if let Contender::Possible { congestion: None } = contender {
            system::check_congestion(contender, plan.possible())?;
        }
        let emulator = Emulator::start(scenario, &hosts, seed)?;
        let start = |side| {
            let assignment = plan.assignment(contender, side, seed);
            (hosts.command(side, &self.program), assignment)
        };
        let mut session = Session::start(start(Side::Client), start(Side::Server), &self.stop)?;
        if session.set_up()? {
            session.run(emulator.begin())?;
        }
        let end = session.close();
        Ok(outcome::assemble(&plan, contender, end, emulator.finish()?))
    }

    fn supports(&self, contender: &Contender) -> Result<(), LabError> {
        system::check(contender)
    }
}
