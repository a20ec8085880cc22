//! A program for traffic in one direction, with a client at the client's host that starts with the traffic.

use std::collections::BTreeMap;
use std::io;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use manyway_sim::pair::Side;

use super::shared::{Ended, LOOK, PATIENCE, Task, Tool, joined, text};
use crate::agent::document::{Exchange, Load, Received, Report};
use crate::error::LabError;
use crate::hosts::Hosts;
use crate::outcome::Arrivals;
use crate::real::process::Trouble;
use crate::real::session::End;
use crate::real::through::Verbs;
use crate::stop::Stop;

/// Server and client of a program. Dropping it ends the server.
pub(super) trait Ends: Sized + Send + 'static {
    /// Starts the server; the command is that of the client.
    fn start(
        hosts: &Hosts,
        verbs: &Verbs,
        task: Task<'_>,
        receiver: Side,
        stop: &Stop,
    ) -> Result<(Self, Command), Trouble>;

    /// Whether it sends such traffic: by default bulk without an end.
    fn sends(load: &Load) -> bool {
        is_endless_bulk(load)
    }

    /// Reads what the client prints, until its end: what arrived at the receiver.
    ///
    /// # Errors
    /// What is not understood, or what the client tells of a failure.
    fn read(&mut self, output: impl io::Read, begin: Instant) -> Result<Arrivals, String>;

    /// What both tell of the run beside that, once the client has ended well.
    fn told(&mut self, _: &Stop) -> Result<BTreeMap<&'static str, f64>, Trouble> {
        Ok(BTreeMap::new())
    }
}

/// Whether the program itself decides how much it sends, and how fast.
pub(super) fn is_endless_bulk(load: &Load) -> bool {
    matches!(load, Load::Bulk { size: None, rate: None, chunk: None })
}

/// A program at each end. Dropping it ends both.
pub(super) struct Download<E> {
    name: &'static str,
    ends: E,
    /// Starts when the traffic does.
    client: Command,
    receiver: Side,
    duration: Duration,
    stop: Stop,
}

impl<E: Ends> Download<E> {
    /// Starts the server, once the verb works.
    pub(super) fn start(hosts: &Hosts, verbs: &Verbs, task: Task<'_>, stop: &Stop) -> Result<Self, Trouble> {
        let [Exchange { up, down, load }] = task.exchanges else {
            return Err(task.unable("it sends nothing beside its traffic"));
        };
        if !E::sends(load) {
            return Err(task.unable("it sends bulk without an end, and iperf3 messages with a lifetime, too"));
        }
        let receiver = match (up, down) {
            (true, false) => Side::Server,
            (false, true) => Side::Client,
            _ => return Err(task.unable("it sends one way")),
        };
        let (ends, client) = E::start(hosts, verbs, task, receiver, stop)?;
        let (name, duration) = (task.through.program.name(), task.scenario.duration);
        Ok(Self { name, ends, client, receiver, duration, stop: stop.clone() })
    }
}

impl<E: Ends> Tool for Download<E> {
    fn run(self: Box<Self>, begin: Instant) -> Result<End, LabError> {
        let Self { name, mut ends, mut client, receiver, duration, stop } = *self;
        let io = |error| LabError::Io { doing: format!("running {name}"), error };
        while let Some(left) = begin.checked_duration_since(Instant::now()) {
            thread::sleep(left.min(LOOK));
        }
        client.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = client.spawn().map(Ended).map_err(io)?;
        let broken = || io(io::ErrorKind::BrokenPipe.into());
        let output = child.0.stdout.take().ok_or_else(broken)?;
        let reading = thread::spawn(move || {
            let arrivals = ends.read(output, begin);
            (ends, arrivals)
        });
        let errors = child.0.stderr.take();
        let errors = thread::spawn(move || text(errors));
        let status = wait(child, begin + duration.saturating_mul(2) + PATIENCE, &stop)?.map_err(io)?;
        let ((mut ends, arrivals), errors) = (joined(reading), joined(errors));
        let failure = match status {
            None => Some(format!("{name} does not end")),
            Some(status) if !status.success() => {
                Some(format!("{name} ended with {status}: {}", errors.trim()))
            }
            Some(_) => arrivals.as_ref().err().cloned(),
        };
        let mut end = end(receiver, arrivals.unwrap_or_default(), failure);
        if end.failure.is_none() {
            match ends.told(&stop) {
                Ok(told) => end.told = told,
                Err(Trouble::Failure(text)) => end.failure = Some(text),
                Err(Trouble::Lab(error)) => return Err(error),
            }
        }
        Ok(end)
    }
}

/// Waits for the end of a program, and ends it if that does not come until then.
fn wait(
    mut child: Ended,
    deadline: Instant,
    stop: &Stop,
) -> Result<io::Result<Option<ExitStatus>>, LabError> {
    loop {
        stop.check()?;
        match child.0.try_wait() {
            Ok(None) if Instant::now() <= deadline => thread::sleep(LOOK),
            ended => return Ok(ended),
        }
    }
}

fn end(receiver: Side, arrivals: Arrivals, failure: Option<String>) -> End {
    let bytes = arrivals.total().get();
    let received = vec![Some(Received { arrivals, ..Received::default() })];
    let receiving = Report { received, sent: vec![None], ..Report::default() };
    let sending = Report { received: vec![None], sent: vec![Some(bytes)], ..Report::default() };
    let (client, server) = match receiver {
        Side::Client => (receiving, sending),
        Side::Server => (sending, receiving),
    };
    End { client: Some(client), server: Some(server), failure, ..End::default() }
}
