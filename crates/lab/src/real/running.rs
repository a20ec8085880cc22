//! Both ends of a contender, from their start to their end.

use std::net::IpAddr;
use std::path::Path;
use std::time::Instant;

use manyway_sim::pair::Side;

use super::assignment::Plan;
use super::process::Trouble;
use super::session::{End, Session};
use super::through::{Verbs, sockets};
use super::tool::{self, Task, Tool};
use crate::contender::Contender;
use crate::error::LabError;
use crate::hosts::Hosts;
use crate::stop::Stop;

/// Both ends of a contender, connected.
pub(super) struct Running {
    ends: Ends,
    verbs: Option<Verbs>,
    /// The client's address whose path fails during the run.
    failing: Option<IpAddr>,
}

/// Who sends and receives.
enum Ends {
    Agents(Box<Session>),
    Tool(Box<dyn Tool>),
}

/// The programs of the lab and of Manyway.
pub(super) struct Programs<'a> {
    pub(super) lab: &'a Path,
    pub(super) manyway: &'a Path,
}

impl Running {
    /// Connects both ends; the inner error is the end of a contender that failed.
    ///
    /// # Errors
    /// The user interrupted, or the lab itself cannot continue.
    pub(super) fn start(
        hosts: &Hosts,
        programs: &Programs<'_>,
        (contender, plan, seed): (&Contender, &Plan<'_>, u64),
        stop: &Stop,
    ) -> Result<Result<Self, End>, LabError> {
        match Self::attempt(hosts, programs, (contender, plan, seed), stop) {
            Ok(started) => Ok(started),
            Err(Trouble::Failure(text)) => Ok(Err(End { failure: Some(text), ..End::default() })),
            Err(Trouble::Lab(error)) => Err(error),
        }
    }

    fn attempt(
        hosts: &Hosts,
        programs: &Programs<'_>,
        (contender, plan, seed): (&Contender, &Plan<'_>, u64),
        stop: &Stop,
    ) -> Result<Result<Self, End>, Trouble> {
        let verbs = if let Contender::Through(through) = contender {
            let exchanges = plan.exchanges();
            let verbs = Verbs::start(hosts, programs.manyway, (*through, &exchanges, plan.best()), stop)?;
            let ends = sockets(through, plan.best());
            let task = Task { through, scenario: plan.scenario(), exchanges: &exchanges, ends: &ends };
            if let Some(tool) = tool::start(hosts, &verbs, task, stop)? {
                return Ok(Ok(Self { ends: Ends::Tool(tool), verbs: Some(verbs), failing: plan.failing() }));
            }
            Some(verbs)
        } else {
            None
        };
        let command = |side| match &verbs {
            Some(verbs) if side == Side::Client => verbs.command(hosts, programs.lab),
            Some(_) | None => hosts.command(side, programs.lab),
        };
        let start = |side| (command(side), plan.assignment(contender, side, seed));
        let mut session =
            Session::start(start(Side::Client), start(Side::Server), stop).map_err(Trouble::Lab)?;
        let is_set_up = session.set_up().map_err(Trouble::Lab)?;
        let running = Self { ends: Ends::Agents(Box::new(session)), verbs, failing: plan.failing() };
        if is_set_up { Ok(Ok(running)) } else { running.run(None).map(Err).map_err(Trouble::Lab) }
    }

    /// Runs the traffic, unless another contender is not there, and ends both.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub(super) fn run(self, begin: Option<Instant>) -> Result<End, LabError> {
        let mut end = match self.ends {
            Ends::Agents(mut session) => {
                begin.map_or(Ok(()), |begin| session.run(begin))?;
                session.close()
            }
            Ends::Tool(tool) => begin.map_or_else(|| Ok(End::default()), |begin| tool.run(begin))?,
        };
        let Some(mut verbs) = self.verbs else { return Ok(end) };
        if end.failure.is_none() {
            match verbs.end(self.failing) {
                Ok(told) => end.told.extend(told),
                Err(failure) => end.failure = Some(failure),
            }
        }
        let words = Some(verbs.words()).filter(|words| !words.is_empty());
        if let (Some(failure), Some(words)) = (&mut end.failure, words) {
            *failure = format!("{failure} ({words})");
        }
        Ok(end)
    }
}
