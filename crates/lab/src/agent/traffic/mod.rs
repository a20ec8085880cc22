//! Sends and measures the traffic: the same code for every carrier.

mod bulk;
mod chunks;
mod message;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout_at};

use super::clock;
use super::document::{Assignment, Exchange, Load, Received, Report};
use super::lane::{Lane, Reading, Writing};
use super::shared::Shared;
use crate::dealing::Dealing;
use bulk::Budget;
use message::Reader;

/// The traffic of an agent while it runs.
pub(crate) struct Traffic {
    times: Times,
    tasks: JoinSet<Result<(), String>>,
    records: Vec<Option<Shared<Received>>>,
    budgets: Vec<Option<Shared<Budget>>>,
    /// Unused halves stay open: closing them would be visible to the other end.
    idle_reads: Vec<Reading>,
    idle_writes: Vec<Writing>,
}

/// The times of a run.
#[derive(Debug, Clone, Copy)]
struct Times {
    begin: Instant,
    /// Traffic without an end of its own ends.
    stop: Instant,
    /// Everything ends.
    end: Instant,
}

impl Traffic {
    /// Starts to send and to receive over the lanes of each exchange.
    pub(crate) fn start(assignment: &Assignment, lanes: Vec<Vec<Lane>>, at: u64) -> Self {
        let begin = clock::moment_of(at);
        let times = Times { begin, stop: begin + assignment.duration, end: begin + assignment.end_at };
        let mut traffic = Self {
            times,
            tasks: JoinSet::new(),
            records: Vec::new(),
            budgets: Vec::new(),
            idle_reads: Vec::new(),
            idle_writes: Vec::new(),
        };
        for (exchange, lanes) in assignment.exchanges.iter().zip(lanes) {
            let sends = exchange.sends(assignment.end);
            let receives = exchange.receives(assignment.end);
            let record = receives.then(Shared::<Received>::default);
            let budget = sends.then(|| Shared::new(Budget::new(exchange.load, begin, times.stop)));
            let dealing = assignment.dealing.as_ref().filter(|_| traffic.records.is_empty());
            if let Some(dealing) = dealing {
                traffic.deal(dealing, lanes, record.clone(), budget.clone());
            } else {
                for (number, lane) in lanes.into_iter().enumerate() {
                    traffic.drive(
                        exchange,
                        lane,
                        record.clone().map(|record| (number, record)),
                        budget.clone(),
                    );
                }
            }
            traffic.records.push(record);
            traffic.budgets.push(budget);
        }
        traffic
    }

    /// Waits until everything was sent and has arrived, or the time is over. The first failure is an error.
    ///
    /// May be cancelled; [`Self::report`] then returns what has arrived so far.
    pub(crate) async fn finished(&mut self) -> Result<(), String> {
        let mut result = Ok(());
        while let Some(ended) = self.tasks.join_next().await {
            let ended = ended.unwrap_or_else(|error| Err(error.to_string()));
            result = result.and(ended);
        }
        result
    }

    /// When the traffic began.
    pub(crate) const fn begin(&self) -> Instant {
        self.times.begin
    }

    /// Time since the traffic began.
    pub(crate) fn elapsed(&self) -> Duration {
        self.times.begin.elapsed()
    }

    /// Ends what is still running and returns sent and received data.
    pub(crate) fn report(&mut self) -> Report {
        self.tasks.abort_all();
        let received = self.records.iter().map(|record| record.as_ref().map(|record| record.lock().clone()));
        let now = Instant::now().min(self.times.stop);
        let sent = self.budgets.iter().map(|budget| budget.as_ref().map(|budget| budget.lock().sent(now)));
        Report { received: received.collect(), sent: sent.collect(), ..Report::default() }
    }

    /// Deals chunks out to lanes, or takes them from these.
    fn deal(
        &mut self,
        dealing: &Dealing,
        lanes: Vec<Lane>,
        record: Option<Shared<Received>>,
        budget: Option<Shared<Budget>>,
    ) {
        let (times, dealing) = (self.times, Arc::new(dealing.clone()));
        let program = record.map(|record| chunks::Program::new(Arc::clone(&dealing), record));
        for (number, Lane { mut read, mut write }) in lanes.into_iter().enumerate() {
            match budget.clone() {
                Some(budget) => {
                    let dealing = Arc::clone(&dealing);
                    self.tasks.spawn(async move {
                        let sending = chunks::send(&mut write, (&dealing, number), &budget);
                        finish(timeout_at(times.end, sending).await, write, times).await
                    });
                }
                None => self.idle_writes.push(write),
            }
            match program.clone() {
                Some(program) => {
                    self.tasks.spawn(async move {
                        // What does not end in time is judged by its size.
                        timeout_at(times.end, program.receive(&mut read, times.begin)).await.unwrap_or(Ok(()))
                    });
                }
                None => self.idle_reads.push(read),
            }
        }
    }

    fn drive(
        &mut self,
        exchange: &Exchange,
        lane: Lane,
        record: Option<(usize, Shared<Received>)>,
        budget: Option<Shared<Budget>>,
    ) {
        let (times, load) = (self.times, exchange.load);
        let Lane { mut read, write } = lane;
        match budget {
            Some(budget) => {
                self.tasks.spawn(async move { send(write, load, times, &budget).await });
            }
            None => self.idle_writes.push(write),
        }
        match record {
            Some((number, record)) => {
                self.tasks.spawn(async move { receive(&mut read, load, times, (number, &record)).await });
            }
            None => self.idle_reads.push(read),
        }
    }
}

/// Sends what is due, then the end of the stream.
async fn send(mut write: Writing, load: Load, times: Times, budget: &Shared<Budget>) -> Result<(), String> {
    let sent = match load {
        Load::Bulk { size, .. } => {
            let stop = if size.is_some() { times.end } else { times.stop };
            timeout_at(stop, bulk::send(&mut write, budget)).await
        }
        Load::Messages { size, interval, .. } => {
            let messages = message::Schedule { size, interval, begin: times.begin, stop: times.stop };
            timeout_at(times.end, message::send(&mut write, &messages)).await
        }
    };
    finish(sent, write, times).await
}

/// Sends the end of the stream, once everything was sent or the time is over.
async fn finish(
    sent: Result<io::Result<()>, Elapsed>,
    mut write: Writing,
    times: Times,
) -> Result<(), String> {
    let failed = |error: io::Error| format!("sending after {}: {error}", times.words());
    let told = match sent {
        Ok(Err(error)) => Err(error),
        // An end that cannot be sent in time is no failure: the other end counts what has arrived.
        Ok(Ok(())) | Err(_) => timeout_at(times.end, write.finish()).await.unwrap_or(Ok(())),
    };
    // Nor is it one that the other end, whose time ends a little sooner, has stopped reading.
    told.or_else(|error| if Instant::now() + EARLY < times.end { Err(failed(error)) } else { Ok(()) })
}

/// Records everything that arrives on a lane until the end of the stream.
async fn receive(
    read: &mut Reading,
    load: Load,
    times: Times,
    (number, record): (usize, &Shared<Received>),
) -> Result<(), String> {
    let mut reader = match load {
        Load::Bulk { .. } => None,
        Load::Messages { size, lifetime, .. } => Some(Reader::new(size, lifetime.is_none())),
    };
    let mut buffer = vec![0; READ];
    let reading = async {
        loop {
            let length = read.take(&mut buffer).await;
            let length = length.map_err(|error| format!("receiving after {}: {error}", times.words()))?;
            if length == 0 {
                return Ok(());
            }
            // Read under the lock, so that times are in order.
            let mut received = record.lock();
            let at = times.begin.elapsed();
            received.arrivals.record_on(number, at, u64::try_from(length).unwrap_or(u64::MAX));
            if let Some(reader) = &mut reader {
                let new = buffer.get(..length).unwrap_or_default();
                reader.take(new, clock::nanos(), &mut received)?;
            }
        }
    };
    match timeout_at(times.end, reading).await {
        // What does not end in time is judged by its size.
        Err(_) => Ok(()),
        Ok(Err(failure)) => Err(failure),
        Ok(Ok(())) => times.check_end(load),
    }
}

impl Times {
    /// Checks for an end of traffic that should have gone on.
    fn check_end(&self, load: Load) -> Result<(), String> {
        match self.lasts_until(load) {
            Some(end) if Instant::now() + EARLY < end => {
                Err(format!("the stream ended after {}, too early", self.words()))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// When the last data without a size is sent.
    fn lasts_until(&self, load: Load) -> Option<Instant> {
        match load {
            Load::Bulk { size, .. } => size.is_none().then_some(self.stop),
            Load::Messages { interval, .. } => {
                let time = self.stop.saturating_duration_since(self.begin);
                let before = time.as_nanos().saturating_sub(1) / interval.as_nanos().max(1);
                let before = u32::try_from(before).unwrap_or(u32::MAX);
                self.begin.checked_add(interval.saturating_mul(before))
            }
        }
    }

    fn words(&self) -> String {
        format!("{:.2} s", self.begin.elapsed().as_secs_f64())
    }
}

/// Most bytes of one read.
const READ: usize = 256 << 10;
/// How early a stream may end, or lose its reader.
const EARLY: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests;
