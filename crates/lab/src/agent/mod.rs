//! A process at one end of a run: it sends, receives and measures. `manyway-lab lab-agent` is such a process, and any
//! program can be one that calls [`run_with`] when `lab-agent` is its argument.
//!
//! The lab starts one in each host, sends it a JSON document on standard input, and reads JSON lines from its standard
//! output.

mod carrier;
pub(crate) mod clock;
pub(crate) mod document;
mod lane;
mod shared;
mod traffic;

use std::io::{self, Write as _};
use std::time::Duration;

use manyway::ConnectionConfig;
use nix::sys::resource::UsageWho;
use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{Instant, timeout};

use carrier::Carrier;
use document::{Assignment, CarrierSpec, Order, Report, Word};
use traffic::Traffic;

use crate::error::LabError;

/// Runs an agent, with its assignment from standard input, until the lab ends it.
///
/// # Errors
/// Standard input holds no assignment, or standard output is closed. Everything else is reported to the lab.
pub fn run() -> Result<(), LabError> {
    run_with(ConnectionConfig::default())
}

/// As [`run`]. Manyway uses these settings where the lab names no others, and finds the schedulers and congestion
/// controls that were added to them.
///
/// # Errors
/// As [`run`].
pub fn run_with(config: ConnectionConfig) -> Result<(), LabError> {
    let io_error = |error: io::Error| LabError::Io { doing: "talking to the lab".to_owned(), error };
    let mut first = String::new();
    io::stdin().read_line(&mut first).map_err(io_error)?;
    let assignment: Assignment = serde_json::from_str(&first)
        .map_err(|error| LabError::System(format!("this is no assignment of the lab: {error}")))?;
    let (sender, orders) = unbounded_channel();
    std::thread::spawn(move || {
        let orders =
            io::stdin().lines().map_while(Result::ok).filter_map(|line| serde_json::from_str(&line).ok());
        for order in orders {
            if sender.send(order).is_err() {
                return;
            }
        }
    });
    let runtime = Builder::new_current_thread().enable_all().build().map_err(io_error)?;
    let result = runtime.block_on(async {
        let failed = Agent { assignment, config, orders }.run().await;
        failed.or_else(|text| say(&Word::Failed { text })).map_err(io_error)
    });
    runtime.shutdown_timeout(END_TIME);
    result
}

/// An agent and its assignment.
struct Agent {
    assignment: Assignment,
    config: ConnectionConfig,
    orders: UnboundedReceiver<Order>,
}

impl Agent {
    async fn run(mut self) -> Result<(), String> {
        let (mut carrier, port) = Carrier::listen(&self.assignment, &self.config)?;
        carrier.listening(&self.assignment).await?;
        tell(&Word::Listening { port })?;
        let Some(Order::Connect { port }) = self.orders.recv().await else { return Ok(()) };
        let start = Instant::now();
        let connecting = timeout(SET_UP, carrier.connect(&self.assignment, port));
        let lanes = tokio::select! {
            lanes = connecting => lanes.map_err(|_| format!("not connected after {} s", SET_UP.as_secs()))??,
            _ = self.orders.recv() => return Ok(()),
        };
        let remarks = carrier.settle().await;
        tell(&Word::Ready { remarks, took: start.elapsed() })?;
        let Some(Order::Begin { at }) = self.orders.recv().await else { return Ok(()) };
        // Sockets stay open until the other end has reported, too.
        let mut traffic = Traffic::start(&self.assignment, lanes, at);
        let Some(report) = self.measure(&mut carrier, &mut traffic).await else { return Ok(()) };
        tell(&Word::Report(report))?;
        // Whatever the order: there is nothing more to do.
        let _ = self.orders.recv().await;
        carrier.close().await;
        Ok(())
    }

    /// Runs the traffic; returns `None` if the lab is gone.
    async fn measure(&mut self, carrier: &mut Carrier, traffic: &mut Traffic) -> Option<Report> {
        let who = match self.assignment.carrier {
            CarrierSpec::External(_) => UsageWho::RUSAGE_CHILDREN,
            CarrierSpec::Manyway(_)
            | CarrierSpec::Tcp(_)
            | CarrierSpec::Sockets(_)
            | CarrierSpec::Udp { .. } => UsageWho::RUSAGE_SELF,
        };
        let before = clock::processor_time(who);
        let result = tokio::select! {
            result = traffic.finished() => result,
            order = self.orders.recv() => order.map(|_| Ok(()))?,
        };
        let mut report = traffic.report();
        let result = match result {
            Err(_) if carrier.has_given_up().await => {
                report.ended = Some(traffic.elapsed());
                Ok(())
            }
            result => result,
        };
        report.control = carrier.control(traffic.begin());
        let failure = carrier.end().await;
        report.cpu = clock::processor_time(who).saturating_sub(before);
        report.failure = failure.or_else(|| result.err());
        Some(report)
    }
}

fn tell(word: &Word) -> Result<(), String> {
    say(word).map_err(|error| format!("the agent cannot write to its caller: {error}"))
}

fn say(word: &Word) -> io::Result<()> {
    let line = serde_json::to_string(word)?;
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// Time for both ends to connect.
pub(crate) const SET_UP: Duration = Duration::from_secs(15);
/// Time for busy threads to end.
const END_TIME: Duration = Duration::from_millis(200);
