//! Two agents from their start to their end.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use manyway_sim::pair::Side;

use super::assignment::GRACE;
use super::process::{Agent, Trouble};
use crate::agent::document::{Assignment, Order, Report, Word};
use crate::agent::{SET_UP, clock};
use crate::error::LabError;
use crate::stop::Stop;

/// The agents of a run. Dropping it kills both.
#[derive(Debug)]
pub(crate) struct Session {
    client: Agent,
    server: Agent,
    /// Longest duration of the traffic, with data in flight at its end.
    longest: Duration,
    stop: Stop,
    end: End,
}

/// The reports of both agents.
#[derive(Debug, Clone, Default)]
pub(crate) struct End {
    pub(crate) client: Option<Report>,
    pub(crate) server: Option<Report>,
    /// How long set-up took.
    pub(crate) took: Duration,
    /// The failure, in the texts of both.
    pub(crate) failure: Option<String>,
    pub(crate) remarks: Vec<String>,
    /// What programs of others, and the log of Manyway, tell of the run.
    pub(crate) told: BTreeMap<&'static str, f64>,
}

impl Session {
    /// Starts an agent at each end.
    ///
    /// # Errors
    /// A program cannot be started.
    pub(crate) fn start(
        client: (Command, Assignment),
        server: (Command, Assignment),
        stop: &Stop,
    ) -> Result<Self, LabError> {
        let longest = client.1.end_at;
        let server = Agent::start(server.0, "server", &server.1)?;
        let client = Agent::start(client.0, "client", &client.1)?;
        Ok(Self { client, server, longest, stop: stop.clone(), end: End::default() })
    }

    /// Connects both; returns false if that fails, which ends the run.
    ///
    /// # Errors
    /// The user interrupted.
    pub(crate) fn set_up(&mut self) -> Result<bool, LabError> {
        let deadline = Instant::now() + LISTENING + SET_UP + SETTLING;
        let result = self.connect(deadline);
        let has_survived = self.survived(result)?;
        if !has_survived {
            // The end that waits for the other may report before it.
            for side in [Side::Client, Side::Server] {
                let last = self.agent(side).poll(Duration::ZERO).map(|_| ());
                self.survived(last)?;
            }
        }
        Ok(has_survived)
    }

    /// Runs the traffic from an instant on until both ends have reported.
    ///
    /// # Errors
    /// The user interrupted.
    pub(crate) fn run(&mut self, begin: Instant) -> Result<(), LabError> {
        let at = clock::nanos_of(begin);
        self.client.order(Order::Begin { at });
        self.server.order(Order::Begin { at });
        let mut deadline = begin + self.longest + REPORTING;
        let mut cut = None;
        let mut pending = [Side::Server, Side::Client].to_vec();
        while !pending.is_empty() {
            self.stop.check()?;
            let mut still = Vec::new();
            for side in pending {
                let answer = self.agent(side).poll(LOOK);
                if self.take(side, answer)? {
                    still.push(side);
                }
            }
            pending = still;
            let now = Instant::now();
            // After a failure at one end only data in flight follows.
            if self.end.failure.is_some() && cut.is_none() {
                cut = Some(now + GRACE);
            }
            if cut.is_some_and(|cut| now >= cut) {
                pending.iter().for_each(|side| self.agent(*side).order(Order::Finish));
                deadline = deadline.min(now + REPORTING);
                cut = Some(deadline + REPORTING);
            }
            if now >= deadline {
                for side in pending.drain(..) {
                    self.fail(format!("the agent of the {} hangs", name(side)));
                }
            }
        }
        Ok(())
    }

    /// Ends both; returns their reports.
    pub(crate) fn close(mut self) -> End {
        self.client.order(Order::Finish);
        self.server.order(Order::Finish);
        self.client.end();
        self.server.end();
        self.end
    }

    fn connect(&mut self, deadline: Instant) -> Result<(), Trouble> {
        let mut ports = Vec::new();
        for side in [Side::Server, Side::Client] {
            match self.word(side, deadline)? {
                Word::Listening { port } => ports.push(port),
                word @ (Word::Ready { .. } | Word::Report(_) | Word::Failed { .. }) => {
                    return Err(unexpected(side, &word));
                }
            }
        }
        let mut ports = ports.into_iter();
        let mut connect = || Order::Connect { port: ports.next().unwrap_or(0) };
        let (to_client, to_server) = (connect(), connect());
        self.server.order(to_server);
        self.client.order(to_client);
        // The client first: it knows why a connection failed.
        for side in [Side::Client, Side::Server] {
            match self.word(side, deadline)? {
                Word::Ready { remarks, took } => {
                    self.end.took = self.end.took.max(took);
                    self.end
                        .remarks
                        .extend(remarks.into_iter().map(|remark| format!("{}: {remark}", name(side))));
                }
                word @ (Word::Listening { .. } | Word::Report(_) | Word::Failed { .. }) => {
                    return Err(unexpected(side, &word));
                }
            }
        }
        Ok(())
    }

    /// Handles an answer during the traffic; returns whether more is to come.
    fn take(&mut self, side: Side, answer: Result<Option<Word>, Trouble>) -> Result<bool, LabError> {
        match answer {
            Ok(None) => return Ok(true),
            Ok(Some(Word::Report(mut report))) => {
                if let Some(failure) = report.failure.take() {
                    self.fail(format!("{}: {failure}", name(side)));
                }
                match side {
                    Side::Client => self.end.client = Some(report),
                    Side::Server => self.end.server = Some(report),
                }
            }
            Ok(Some(other)) => {
                self.survived(Err(unexpected(side, &other)))?;
            }
            Err(trouble) => {
                self.survived(Err(trouble))?;
            }
        }
        Ok(false)
    }

    fn survived(&mut self, result: Result<(), Trouble>) -> Result<bool, LabError> {
        match result {
            Ok(()) => Ok(true),
            Err(Trouble::Failure(text)) => {
                self.fail(text);
                Ok(false)
            }
            Err(Trouble::Lab(error)) => Err(error),
        }
    }

    /// Often both ends report a failure, and only one knows the cause.
    fn fail(&mut self, text: String) {
        match &mut self.end.failure {
            Some(failure) if !failure.contains(&text) => *failure = format!("{failure}; {text}"),
            Some(_) => {}
            None => self.end.failure = Some(text),
        }
    }

    fn word(&mut self, side: Side, deadline: Instant) -> Result<Word, Trouble> {
        let stop = self.stop.clone();
        self.agent(side).word(deadline, &stop)
    }

    fn agent(&mut self, side: Side) -> &mut Agent {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }
}

/// The name of an end in messages.
pub(super) fn name(side: Side) -> &'static str {
    match side {
        Side::Client => "client",
        Side::Server => "server",
    }
}

fn unexpected(side: Side, word: &Word) -> Trouble {
    let word = match word {
        Word::Listening { .. } => "listening",
        Word::Ready { .. } => "ready",
        Word::Report(_) => "its report",
        Word::Failed { .. } => "a failure",
    };
    Trouble::Failure(format!("the agent of the {} told {word} when it was not asked", name(side)))
}

/// Time for a program to listen.
const LISTENING: Duration = Duration::from_secs(5);
/// Time for further paths to come up.
const SETTLING: Duration = Duration::from_secs(6);
/// Time for the report.
const REPORTING: Duration = Duration::from_secs(10);
/// Interval of checking for an interruption.
const LOOK: Duration = Duration::from_millis(20);
