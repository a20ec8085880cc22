//! Programs for bulk in one direction: iperf3, curl with a web server of the lab, and quinn by the program `manyway-peers`.

use std::collections::BTreeMap;
use std::io;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use manyway_sim::pair::Side;

use super::shared::{Ended, LOOK, PATIENCE, READ, Task, Tool, joined, text};
use super::web::Web;
use super::{iperf3, peers};
use crate::agent::document::{Exchange, Load, Received, Report};
use crate::contender::Program;
use crate::error::LabError;
use crate::hosts::Hosts;
use crate::outcome::Arrivals;
use crate::real::helper::Helper;
use crate::real::process::Trouble;
use crate::real::session::End;
use crate::real::through::{PROXY, Verbs};
use crate::stop::Stop;

/// A program at each end. Dropping it ends both.
pub(super) struct Download {
    program: Program,
    /// Starts when the traffic does.
    client: Command,
    receiver: Side,
    duration: Duration,
    stop: Stop,
    server: Server,
}

/// What serves a program. Dropping it ends it.
enum Server {
    Web { _web: Web },
    Iperf3 { _child: Ended },
    Peers(Helper),
}

impl Download {
    /// Starts the server, once the verb works.
    pub(super) fn start(hosts: &Hosts, verbs: &Verbs, task: Task<'_>, stop: &Stop) -> Result<Self, Trouble> {
        let [Exchange { up, down, load: Load::Bulk { size: None, rate: None, chunk: None } }] =
            task.exchanges
        else {
            return Err(task.unable("it sends bulk without an end, and nothing beside it"));
        };
        let receiver = match (up, down) {
            (true, false) => Side::Server,
            (false, true) => Side::Client,
            _ => return Err(task.unable("it sends one way")),
        };
        let (program, duration) = (task.through.program, task.scenario.duration);
        let (server, client) = match program {
            Program::Curl | Program::Quinn if receiver == Side::Server => {
                return Err(task.unable("it downloads"));
            }
            Program::Curl => {
                let mut client = verbs.command(hosts, "curl");
                client.args(["-sS", "--noproxy", "", &format!("http://{}/", task.ends.connect)]);
                if task.ends.proxy.is_some() {
                    client.args(["--proxy", &format!("socks5h://127.0.0.1:{PROXY}")]);
                }
                (Server::Web { _web: Web::start(hosts, task.ends.listen, duration)? }, client)
            }
            Program::Quinn => {
                let (server, client) = peers::start(hosts, verbs, task, stop)?;
                (Server::Peers(server), client)
            }
            Program::Iperf3 | Program::Own | Program::Srt => {
                let (server, client) = iperf3::start(hosts, verbs, task, receiver)?;
                (Server::Iperf3 { _child: server }, client)
            }
        };
        Ok(Self { program, client, receiver, duration, stop: stop.clone(), server })
    }

    /// Waits for the end of the program at the client, and ends it if that does not come.
    fn wait(&self, mut child: Ended, begin: Instant) -> Result<Option<ExitStatus>, LabError> {
        let deadline = begin + self.duration.saturating_mul(2) + PATIENCE;
        loop {
            self.stop.check()?;
            match child.0.try_wait().map_err(|error| self.error(error))? {
                Some(status) => return Ok(Some(status)),
                None if Instant::now() > deadline => return Ok(None),
                None => thread::sleep(LOOK),
            }
        }
    }

    fn error(&self, error: io::Error) -> LabError {
        LabError::Io { doing: format!("running {}", self.program.name()), error }
    }
}

impl Tool for Download {
    fn run(mut self: Box<Self>, begin: Instant) -> Result<End, LabError> {
        while let Some(left) = begin.checked_duration_since(Instant::now()) {
            thread::sleep(left.min(LOOK));
        }
        self.client.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.client.spawn().map(Ended).map_err(|error| self.error(error))?;
        let output = child.0.stdout.take();
        let reading = match self.program {
            Program::Curl => thread::spawn(move || Output::Arrivals(arrivals(output, begin))),
            Program::Iperf3 | Program::Quinn | Program::Own | Program::Srt => {
                thread::spawn(move || Output::Text(text(output)))
            }
        };
        let errors = child.0.stderr.take();
        let errors = thread::spawn(move || text(errors));
        let status = self.wait(child, begin)?;
        let received = match joined(reading) {
            Output::Arrivals(arrivals) => Ok(arrivals),
            Output::Text(text) if self.program == Program::Quinn => peers::arrivals(&text),
            Output::Text(text) => iperf3::arrivals(&text, self.receiver),
        };
        let errors = joined(errors);
        let failure = match status {
            None => Some(format!("{} does not end", self.program.name())),
            Some(status) if !status.success() => {
                Some(format!("{} ended with {status}: {}", self.program.name(), errors.trim()))
            }
            Some(_) => received.as_ref().err().cloned(),
        };
        let mut end = end(self.receiver, received.unwrap_or_default(), failure);
        if let (Server::Peers(server), None) = (&mut self.server, &end.failure) {
            match peers::lost(server, &self.stop) {
                Ok(lost) => end.told = BTreeMap::from([("lost", lost)]),
                Err(Trouble::Failure(text)) => end.failure = Some(text),
                Err(Trouble::Lab(error)) => return Err(error),
            }
        }
        Ok(end)
    }
}

/// What a program printed.
enum Output {
    /// The data themselves.
    Arrivals(Arrivals),
    /// A report of them.
    Text(String),
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

/// Counts what arrives, until the end.
fn arrivals(output: Option<impl io::Read>, begin: Instant) -> Arrivals {
    let mut arrivals = Arrivals::default();
    let Some(mut output) = output else { return arrivals };
    let mut buffer = vec![0; READ];
    while let Ok(length @ 1..) = output.read(&mut buffer) {
        arrivals.record(begin.elapsed(), u64::try_from(length).unwrap_or(u64::MAX));
    }
    arrivals
}
