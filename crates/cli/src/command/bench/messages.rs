//! `manyway bench --messages`: the latency of messages, alone or beside bulk.

use std::fmt;
use std::io::Write as _;
use std::time::Duration;

use manyway::Rate;
use manyway_terminal::{CommandError, ExitCode, json};
use manyway_transfer::{
    BenchLimit, BenchOutcome, BenchPlan, MessageOutcome, MessagePlan, TransferError, bench_messages,
    bench_until,
};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use crate::args::{BenchArgs, GlobalArgs};
use crate::command::direction::Direction;
use crate::command::error::of_measurement;
use crate::command::network::connect_on;
use crate::command::session::NetSession;
use crate::command::signal::{close, interrupted};
use crate::output::units::megabits;

/// The outcome of a run.
struct Summary {
    plan: MessagePlan,
    messages: MessageOutcome,
    /// The rate of the bulk beside it.
    bulk: Option<Rate>,
}

/// Measures and prints.
///
/// # Errors
/// If the server is not reached or refuses, the connection breaks, or standard output is full.
pub(super) async fn run(
    global: &GlobalArgs,
    arguments: &BenchArgs,
    plan: MessagePlan,
) -> Result<ExitCode, CommandError> {
    // Messages are answered.
    Direction::Both.tell_what_decides(global);
    let (endpoint, connection) = connect_on(global, &arguments.ticket, arguments.port).await?;
    let session = NetSession(connection.clone());
    let bulk = arguments.bulk.then(|| beside(arguments));
    let (stopper, stopped) = oneshot::channel::<()>();
    let work = async {
        let (enough, told) = oneshot::channel::<()>();
        let messages = async {
            let stop = async { drop(stopped.await) };
            let outcome = bench_messages(&session, &plan, stop).await;
            // Bulk goes on as long as the messages.
            let _ = enough.send(());
            outcome
        };
        let bulk = async {
            match &bulk {
                Some(plan) => bench_until(&session, plan, async { drop(told.await) }, |_| {})
                    .await
                    .map(Some)
                    .map_err(|failure| failure.error),
                None => Ok(None),
            }
        };
        tokio::join!(messages, bulk)
    };
    tokio::pin!(work);
    let mut end = None;
    let results = tokio::select! {
        results = &mut work => results,
        signal = interrupted() => {
            end = Some(signal.error());
            drop(stopper);
            tokio::select! {
                results = &mut work => results,
                () = tokio::time::sleep(LAST_WORD) => (Err(TransferError::Internal.into()), Ok(None)),
            }
        }
    };
    close(&endpoint, "done").await;
    let failed = |error| of_measurement(&error, connection.close_reason());
    let (messages, bulk) = results;
    let (messages, broken) = match messages {
        Ok(messages) => (messages, None),
        Err(failure) => (*failure.partial, Some(failed(failure.error))),
    };
    let (bulk, bulk_broken) = match bulk {
        Ok(bulk) => (bulk, None),
        Err(error) => (None, Some(failed(error))),
    };
    let as_json = global.json || arguments.document;
    let summary = Summary::new(plan.clone(), messages, bulk.as_ref());
    let end = end.filter(|end| !arguments.is_ended_by(end.code));
    let Some(end) = end.or(broken).or(bulk_broken) else {
        summary.print(as_json)?;
        return Ok(ExitCode::Ok);
    };
    // Programs get the results and the error in one document.
    if !as_json && summary.messages.sent > 0 {
        summary.print(false)?;
    }
    Err(end.with_facts(summary.json()))
}

/// Sends bulk as long as there are messages.
fn beside(arguments: &BenchArgs) -> BenchPlan {
    let mut plan = arguments.plan();
    if let BenchLimit::Duration(time) = &mut plan.limit {
        *time = time.saturating_add(LONGER);
    }
    plan.interval = LONGER;
    plan
}

impl Summary {
    fn new(plan: MessagePlan, messages: MessageOutcome, bulk: Option<&BenchOutcome>) -> Self {
        let bulk = bulk.map(|outcome| {
            let direction = if plan.reverse {
                manyway_transfer::BenchDirection::Download
            } else {
                manyway_transfer::BenchDirection::Upload
            };
            let sum = outcome.received(direction);
            manyway::ByteCount(sum.bytes).per(sum.elapsed)
        });
        Self { plan, messages, bulk }
    }

    fn print(&self, as_json: bool) -> Result<(), CommandError> {
        if as_json {
            json::print(&Value::from(self.json()))?;
            return Ok(());
        }
        let mut out = std::io::stdout().lock();
        write!(out, "{self}")?;
        out.flush()?;
        Ok(())
    }

    /// Times in seconds.
    fn json(&self) -> Map<String, Value> {
        let messages = &self.messages;
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
        let mut latency = Map::new();
        for (name, per_mille) in PERCENTILES {
            latency.insert(name.to_owned(), seconds(messages.percentile(per_mille)).into());
        }
        latency.insert("max".to_owned(), seconds(messages.longest()).into());
        let document = json!({
            "size": self.plan.size, "rate": self.plan.rate, "reverse": self.plan.reverse,
            "deadline": seconds(self.plan.deadline), "elapsed": messages.elapsed.as_secs_f64(),
            "sent": messages.sent, "received": messages.latencies.len(), "late": messages.late,
            "lost": messages.lost(), "latency": latency,
            "bulk_bits_per_second": self.bulk.map(Rate::bits_per_second),
        });
        Map::from_iter([("messages".to_owned(), document)])
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (plan, messages) = (&self.plan, &self.messages);
        let from = if plan.reverse { "from" } else { "to" };
        writeln!(
            f,
            "messages  {} of {} bytes {from} the server, {} a second",
            messages.sent, plan.size, plan.rate
        )?;
        write!(f, "latency ")?;
        for (name, per_mille) in PERCENTILES {
            write!(f, "  {name} {}", millis(messages.percentile(per_mille)))?;
        }
        writeln!(f, "  max {}", millis(messages.longest()))?;
        let part = |count: u64| count as f64 * 100.0 / (messages.sent.max(1)) as f64;
        if let Some(deadline) = plan.deadline {
            let (late, share) = (messages.late, part(messages.late));
            writeln!(f, "late      {late} ({share:.2} %) after {}", millis(Some(deadline)))?;
        }
        writeln!(f, "lost      {} ({:.2} %)", messages.lost(), part(messages.lost()))?;
        match self.bulk {
            Some(rate) => writeln!(f, "bulk      {} Mbit/s beside", megabits(rate)),
            None => Ok(()),
        }
    }
}

fn millis(time: Option<Duration>) -> String {
    time.map_or_else(|| "-".to_owned(), |time| format!("{:.2} ms", time.as_secs_f64() * 1e3))
}

/// The percentiles that are shown, in thousandths.
const PERCENTILES: [(&str, u32); 4] = [("p50", 500), ("p95", 950), ("p99", 990), ("p99.9", 999)];
/// Time for the server to report the results of a run that the user has ended.
const LAST_WORD: Duration = Duration::from_millis(500);
/// Bulk must not end before the messages.
const LONGER: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(deadline: Option<Duration>, bulk: Option<Rate>) -> Summary {
        let mut plan = MessagePlan::default();
        plan.deadline = deadline;
        let mut messages = MessageOutcome::default();
        messages.sent = 201;
        messages.latencies = (1..=200).map(Duration::from_millis).collect();
        messages.late = 50;
        Summary { plan, messages, bulk }
    }

    #[test]
    fn people_get_percentiles_and_late_and_lost_messages() {
        let bulk = Some(Rate::from_bits_per_second(94_100_000));
        insta::assert_snapshot!(summary(Some(Duration::from_millis(150)), bulk), @r"
        messages  201 of 100 bytes to the server, 100 a second
        latency   p50 100.00 ms  p95 190.00 ms  p99 198.00 ms  p99.9 200.00 ms  max 200.00 ms
        late      50 (24.88 %) after 150.00 ms
        lost      1 (0.50 %)
        bulk      94.10 Mbit/s beside
        ");
        let nothing = Summary { messages: MessageOutcome::default(), ..summary(None, None) };
        insta::assert_snapshot!(nothing, @r"
        messages  0 of 100 bytes to the server, 100 a second
        latency   p50 -  p95 -  p99 -  p99.9 -  max -
        lost      0 (0.00 %)
        ");
    }

    #[test]
    fn programs_get_seconds() {
        let value = Value::from(summary(Some(Duration::from_millis(150)), None).json());
        let messages = &value["messages"];
        assert_eq!(messages["latency"]["p99.9"], json!(0.2));
        assert_eq!(messages["latency"]["max"], json!(0.2));
        assert_eq!(
            (&messages["late"], &messages["lost"], &messages["deadline"]),
            (&json!(50), &json!(1), &json!(0.15))
        );
        assert_eq!(messages["bulk_bits_per_second"], Value::Null);
    }
}
