//! The traffic of others: the system's TCP, and datagrams at a constant rate, between the hosts of a run.
//!
//! The sockets are made before the run, since a socket belongs to the host in which it was made. One thread of this
//! process sends and receives on all of them at their times.

mod sockets;
mod transfer;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::sync::oneshot::{self, Receiver, Sender};
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout_at};

use crate::error::LabError;
use crate::hosts::Hosts;
use crate::outcome::Arrivals;
use crate::scenario::Scenario;
use sockets::{Flow, Sockets};

/// What arrived, and what a reader should know.
#[derive(Debug, Clone, Default)]
pub(super) struct CrossEnd {
    /// For each entry of the scenario.
    pub(super) arrivals: Vec<Arrivals>,
    pub(super) remarks: Vec<String>,
}

/// The flows of a run. Dropping it ends them.
#[derive(Debug)]
pub(super) struct CrossRun {
    begin: Option<Sender<Instant>>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<CrossEnd>>,
}

impl CrossRun {
    /// Makes the sockets of all flows.
    ///
    /// # Errors
    /// [`LabError::Unsupported`] if the system's TCP lacks a congestion control; the system refuses a socket.
    pub(super) fn prepare(scenario: &Scenario, hosts: &Hosts) -> Result<Self, LabError> {
        let flows = sockets::flows(scenario, hosts)?;
        let record = Record::new(scenario);
        let (begin, begins) = oneshot::channel();
        let (stop, stops) = oneshot::channel();
        let failed = |error| LabError::Io { doing: "starting the traffic of others".to_owned(), error };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let work = move || {
            runtime.block_on(run(flows, record.clone(), begins, stops));
            runtime.shutdown_timeout(Duration::ZERO);
            std::mem::take(&mut *record.lock())
        };
        let thread = std::thread::Builder::new().name("lab-cross".to_owned()).spawn(work).map_err(failed)?;
        Ok(Self { begin: Some(begin), stop: Some(stop), thread: Some(thread) })
    }

    /// Sets time 0.
    pub(super) fn begin(&mut self, at: Instant) {
        if let Some(begin) = self.begin.take() {
            // A thread that is gone is found when it is joined.
            let _ = begin.send(at);
        }
    }

    /// Ends all flows.
    ///
    /// # Errors
    /// The thread broke down.
    pub(super) fn finish(mut self) -> Result<CrossEnd, LabError> {
        self.end().unwrap_or_else(|| Ok(CrossEnd::default()))
    }

    fn end(&mut self) -> Option<Result<CrossEnd, LabError>> {
        drop((self.begin.take(), self.stop.take()));
        let joined = self.thread.take()?.join();
        Some(joined.map_err(|_| LabError::System("the traffic of others broke down".to_owned())))
    }
}

impl Drop for CrossRun {
    fn drop(&mut self) {
        drop(self.end());
    }
}

/// Shared by the tasks of all flows.
#[derive(Debug, Clone)]
struct Record(Arc<Mutex<CrossEnd>>);

impl Record {
    fn new(scenario: &Scenario) -> Self {
        let arrivals = scenario.cross_traffic.iter().map(|_| Arrivals::default()).collect();
        Self(Arc::new(Mutex::new(CrossEnd { arrivals, remarks: Vec::new() })))
    }

    fn lock(&self) -> MutexGuard<'_, CrossEnd> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs all flows at their times, until the end of all or of the run.
async fn run(flows: Vec<Flow>, record: Record, begins: Receiver<Instant>, stops: Receiver<()>) {
    let Ok(begin) = begins.await else { return };
    let mut tasks = JoinSet::new();
    for flow in flows {
        tasks.spawn(carry(flow, begin, record.clone()));
    }
    let all = async { while tasks.join_next().await.is_some() {} };
    tokio::select! {
        () = all => {}
        _ = stops => {}
    }
}

async fn carry(flow: Flow, begin: Instant, record: Record) {
    let moment = |after: Duration| tokio::time::Instant::from_std(begin + after);
    sleep_until(moment(flow.traffic.at)).await;
    let (entry, number) = (flow.entry, flow.number);
    let note = |bytes: usize| {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        if let Some(arrivals) = record.lock().arrivals.get_mut(entry) {
            arrivals.record_on(number, begin.elapsed(), bytes);
        }
    };
    let (end, name, direction) = (moment(flow.end), flow.traffic.name(), flow.traffic.direction);
    let result = match flow.sockets {
        Sockets::Tcp { client, listener } => {
            let ends = (client, listener, flow.server);
            timeout_at(end, transfer::stream(ends, direction, note)).await
        }
        Sockets::Udp { client, server, rate } => {
            let load = transfer::Load { rate, packet: flow.traffic.packet };
            let ends = (client, server, flow.server);
            timeout_at(end, transfer::datagrams(ends, direction, load, note)).await
        }
    };
    // Its end on time is the usual one.
    if let Ok(Err(error)) = result {
        let text = format!("traffic of others: flow {} of {name} ended: {error}", number + 1);
        record.lock().remarks.push(text);
    }
}
