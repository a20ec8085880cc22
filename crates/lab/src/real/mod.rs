//! Contenders on real sockets: a process at each end, in network namespaces joined by emulated links.

mod assignment;
mod copies;
mod cross;
pub(crate) mod helper;
mod outcome;
pub(crate) mod peer;
pub(crate) mod process;
mod running;
pub(crate) mod session;
mod system;
pub(crate) mod through;
mod tool;

use std::net::IpAddr;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::thread;

use crate::contender::Contender;
use crate::emulator::Emulator;
use crate::error::LabError;
use crate::hosts::Hosts;
use crate::outcome::Outcome;
use crate::scenario::Scenario;
use crate::{Runner, Stop};

use assignment::Plan;
use cross::CrossRun;
use running::{Programs, Running};
use session::End;

/// Runs contenders on real sockets. Needs root, `ip` and `/dev/net/tun`.
#[derive(Debug)]
pub struct Real {
    program: PathBuf,
    /// The command whose verbs carry programs.
    manyway: PathBuf,
    stop: Stop,
}

impl Real {
    /// Uses the `manyway-lab` program, which runs at either end as `manyway-lab lab-agent`, and the program `manyway`
    /// beside it.
    ///
    /// # Errors
    /// [`LabError::Unsupported`] if this user or this machine cannot create the hosts.
    pub fn new(program: PathBuf) -> Result<Self, LabError> {
        Hosts::check()?;
        let manyway = through::beside(&program);
        Ok(Self { program, manyway, stop: Stop::default() })
    }

    /// Ends a run soon: [`Runner::run`] then returns [`LabError::Interrupted`], and nothing is left behind.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }
}

impl Real {
    /// Runs several contenders at the same time over the same links; returns the outcome of each. The deliveries of
    /// routes are in all of them, and are those of all together.
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
        check_together(scenario, contenders)?;
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
        let mut cross = CrossRun::prepare(scenario, &hosts)?;
        let programs = Programs { lab: &self.program, manyway: &self.manyway };
        let mut sessions = Vec::new();
        let mut all_are_set_up = true;
        for ((contender, plan), place) in plans.iter().zip(0..) {
            let seed = seed.wrapping_add(place);
            let session = Running::start(&hosts, &programs, (contender, plan, seed), &self.stop)?;
            all_are_set_up &= session.is_ok();
            sessions.push(session);
        }
        // Without one of them the others would not measure what was requested.
        let before = emulator.control().snapshot();
        let begin = all_are_set_up.then(|| emulator.begin());
        begin.into_iter().for_each(|begin| cross.begin(begin));
        let run = |session: Result<Running, End>| match session {
            Ok(running) => running.run(begin),
            Err(end) => Ok(end),
        };
        let ends: Vec<Result<End, LabError>> = thread::scope(|scope| {
            let running: Vec<_> = sessions.into_iter().map(|one| scope.spawn(move || run(one))).collect();
            running.into_iter().map(|one| one.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
        });
        let cross = cross.finish();
        let links = emulator.finish();
        // The failure of an end is reported before its effect on the links.
        let ends = ends.into_iter().collect::<Result<Vec<End>, LabError>>()?;
        let (links, cross) = (links?, cross?);
        let others = plans.len() - 1;
        let outcomes = plans.iter().zip(ends);
        Ok(outcomes
            .map(|((contender, plan), end)| {
                outcome::assemble(plan, contender, end, (&links, &cross, others), before.as_ref().ok())
            })
            .collect())
    }
}

/// Refuses contenders that would change the system under each other.
fn check_together(scenario: &Scenario, contenders: &[Contender]) -> Result<(), LabError> {
    let several =
        |is_one: fn(&Contender) -> bool| contenders.iter().filter(|one| is_one(one)).nth(1).is_some();
    if several(|one| matches!(one, Contender::Mptcp { .. })) {
        return Err(LabError::Unsupported(
            "two contenders with multipath TCP can not run at the same time: the system has one set of its settings \
             for a host"
                .to_owned(),
        ));
    }
    if several(|one| matches!(one, Contender::Through(_))) {
        return Err(LabError::Unsupported(
            "two verbs of manyway can not run at the same time: both would listen on the same ports"
                .to_owned(),
        ));
    }
    let mut addresses = scenario.server.iter().flat_map(|interface| &interface.addresses);
    let has_v4 = addresses.clone().any(IpAddr::is_ipv4);
    let has_both = has_v4 && addresses.any(IpAddr::is_ipv6);
    let (others, own): (Vec<_>, Vec<_>) =
        scenario.server.iter().partition(|interface| interface.is_for_others);
    // A server that may not listen everywhere listens on each of its addresses.
    let has_several = own.len() > 1 && !others.is_empty();
    if several(|one| matches!(one, Contender::Manyway(_))) && (has_both || has_several) {
        return Err(LabError::Unsupported(
            "two contenders of Manyway can not run at the same time where the server has IPv4 and IPv6, or several \
             interfaces beside one for others: both would listen on the default port"
                .to_owned(),
        ));
    }
    Ok(())
}

impl Runner for Real {
    fn run(&mut self, scenario: &Scenario, contender: &Contender, seed: u64) -> Result<Outcome, LabError> {
        let mut outcomes = self.run_together(scenario, std::slice::from_ref(contender), seed)?;
        outcomes.pop().ok_or_else(|| LabError::System("no contender ran".to_owned()))
    }

    fn supports(&self, contender: &Contender) -> Result<(), LabError> {
        if let Contender::Through(verb) = contender {
            through::check(&self.manyway, verb).map_err(|reason| system::skipped(contender, &reason))?;
        }
        system::check(contender)
    }
}
