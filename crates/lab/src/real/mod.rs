//! Contenders on real sockets: a process at each end, in network namespaces joined by emulated links.

mod assignment;
mod outcome;
pub(crate) mod process;
pub(crate) mod session;
mod system;

use std::panic::resume_unwind;
use std::path::PathBuf;
use std::thread;

use manyway_sim::pair::Side;

use crate::contender::Contender;
use crate::emulator::Emulator;
use crate::error::LabError;
use crate::hosts::Hosts;
use crate::outcome::Outcome;
use crate::scenario::Scenario;
use crate::{Runner, Stop};

use assignment::Plan;
use session::{End, Session};

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

impl Real {
    /// Lets several contenders run at the same time over the same links; gives the outcome of each. What routes delivered
    /// stands in all of them, and is that of all together.
    ///
    /// # Errors
    /// As [`Runner::run`].
    pub fn run_together(
        &mut self,
        scenario: &Scenario,
        contenders: &[Contender],
        seed: u64,
    ) -> Result<Vec<Outcome>, LabError> {
        contenders.iter().try_for_each(|contender| self.supports(contender))?;
        self.stop.check()?;
        let hosts = Hosts::make(scenario)?;
        let mut plans = Vec::new();
        for contender in contenders {
            let plan = Plan::new(scenario, &hosts, contender)?;
            if let Contender::Possible { congestion: None } = contender {
                system::check_congestion(contender, plan.possible())?;
            }
            plans.push((contender, plan));
        }
        let emulator = Emulator::start(scenario, &hosts, seed)?;
        let mut sessions = Vec::new();
        for ((contender, plan), seed) in plans.iter().zip(seed..) {
            let start = |side| (hosts.command(side, &self.program), plan.assignment(contender, side, seed));
            let mut session = Session::start(start(Side::Client), start(Side::Server), &self.stop)?;
            let is_set_up = session.set_up()?;
            sessions.push((session, is_set_up));
        }
        let begin = emulator.begin();
        let run = |(mut session, is_set_up): (Session, bool)| {
            if is_set_up { session.run(begin) } else { Ok(()) }.map(|()| session.close())
        };
        let ends: Vec<Result<End, LabError>> = thread::scope(|scope| {
            let running: Vec<_> = sessions.into_iter().map(|one| scope.spawn(move || run(one))).collect();
            running.into_iter().map(|one| one.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
        });
        let links = emulator.finish()?;
        let assemble = |((contender, plan), end): (&(&Contender, Plan<'_>), Result<End, LabError>)| {
            Ok(outcome::assemble(plan, contender, end?, links.clone()))
        };
        plans.iter().zip(ends).map(assemble).collect()
    }
}

impl Runner for Real {
    fn run(&mut self, scenario: &Scenario, contender: &Contender, seed: u64) -> Result<Outcome, LabError> {
        let mut outcomes = self.run_together(scenario, std::slice::from_ref(contender), seed)?;
        outcomes.pop().ok_or(LabError::Interrupted)
    }

    fn supports(&self, contender: &Contender) -> Result<(), LabError> {
        system::check(contender)
    }
}
