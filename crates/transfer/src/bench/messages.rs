//! Measures the latency of messages: one side sends them at a rate, the other answers each.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use manyway_session::{Delivery, MessageHalves, MessageReceiver, MessageSender, Session, Transport, Urgency};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::FAR_AWAY;
use super::ask::Account;
use super::partial::RunFailure;
use super::request::{MessagesRequest, micros};
use crate::error::TransferError;
use crate::failure::{Failure, Reason};
use crate::frame::Frame;
use crate::request::{Request, Totals};
use crate::wire::{finish, read_acceptance, read_end, write_frame, write_request};

/// A run of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MessagePlan {
    /// Bytes of each message, from [`MessagePlan::MIN_SIZE`] to [`MessagePlan::MAX_SIZE`]. Default 100.
    pub size: u32,
    /// Messages a second, from 1 to 100 000. Default 100.
    pub rate: u32,
    /// For how long messages are sent. Default 10 s.
    pub time: Duration,
    /// Lifetime of each measured message: after it the message is abandoned, or counts as late. Default: every message
    /// is delivered. Those of the other direction always are.
    pub deadline: Option<Duration>,
    /// Whether the other side's answers have the size, and are what is measured. Default: this side's messages.
    pub reverse: bool,
    /// The congestion control that the other side is to use. Default: its current one.
    pub congestion: Option<String>,
}

impl Default for MessagePlan {
    fn default() -> Self {
        Self {
            size: 100,
            rate: 100,
            time: Duration::from_secs(10),
            deadline: None,
            reverse: false,
            congestion: None,
        }
    }
}

impl MessagePlan {
    /// The smallest message: its number, and when it was sent.
    pub const MIN_SIZE: u32 = MessagesRequest::MIN_SIZE;
    /// The default limit of a connection.
    pub const MAX_SIZE: u32 = MessagesRequest::MAX_SIZE;
    /// Most messages a second.
    pub const MAX_RATE: u32 = 100_000;

    /// The request to the other side.
    ///
    /// Only measured messages have a lifetime. Otherwise a loss in the other direction would count as one in this.
    // transfer 6.13
    fn request(&self) -> MessagesRequest {
        if self.reverse {
            MessagesRequest { size: self.size, lifetime: self.deadline }
        } else {
            MessagesRequest { size: MessagesRequest::MIN_SIZE, lifetime: None }
        }
    }

    /// Size and lifetime of this side's messages.
    fn question(&self) -> (u32, Option<Duration>) {
        if self.reverse { (MessagesRequest::MIN_SIZE, None) } else { (self.size, self.deadline) }
    }

    fn check(&self) -> Result<(), TransferError> {
        let wrong = |text: String| Err(TransferError::Local(Failure::with_text(Reason::Limit, text)));
        if !(Self::MIN_SIZE..=Self::MAX_SIZE).contains(&self.size) {
            return wrong(format!("messages of {} to {} bytes", Self::MIN_SIZE, Self::MAX_SIZE));
        }
        if !(1..=Self::MAX_RATE).contains(&self.rate) {
            return wrong(format!("1 to {} messages a second", Self::MAX_RATE));
        }
        Ok(())
    }

    /// When message `number` is due, from the start of the run.
    fn due(&self, number: u64) -> Duration {
        let nanos = u128::from(number) * 1_000_000_000 / u128::from(self.rate.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn count(&self) -> u64 {
        let nanos = self.time.as_nanos().saturating_mul(u128::from(self.rate));
        u64::try_from(nanos.div_ceil(1_000_000_000)).unwrap_or(u64::MAX)
    }
}

/// A run of messages that did not complete.
pub type MessageFailure = RunFailure<MessageOutcome>;

/// The outcome of a run of messages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct MessageOutcome {
    /// Messages that were due and passed to the transport.
    pub sent: u64,
    /// One-way latencies of those that arrived, the smallest first.
    pub latencies: Vec<Duration>,
    /// Of those that arrived, how many came after the deadline.
    pub late: u64,
    /// From the first to the last message sent.
    pub elapsed: Duration,
}

impl MessageOutcome {
    /// Number of measured messages that never arrived.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.latencies.len() as u64)
    }

    /// The latency that `per_mille` of a thousand arrived messages did not exceed; `None` if none arrived.
    ///
    /// ```
    /// use manyway_transfer::MessageOutcome;
    /// use std::time::Duration;
    /// let mut outcome = MessageOutcome::default();
    /// outcome.latencies = (1..=200).map(Duration::from_millis).collect();
    /// assert_eq!(outcome.percentile(500), Some(Duration::from_millis(100)));
    /// assert_eq!(outcome.percentile(999), Some(Duration::from_millis(200)));
    /// ```
    pub fn percentile(&self, per_mille: u32) -> Option<Duration> {
        let rank = (self.latencies.len() as u64).saturating_mul(u64::from(per_mille)).div_ceil(1000).max(1);
        self.latencies.get(usize::try_from(rank - 1).unwrap_or(usize::MAX)).copied()
    }

    /// The largest latency of those that arrived.
    pub fn longest(&self) -> Option<Duration> {
        self.latencies.last().copied()
    }
}

/// What was measured so far.
#[derive(Debug, Default)]
struct Record {
    sent: u64,
    answers: Vec<Answer>,
}

/// One answered message, in µs of two clocks.
#[derive(Debug, Clone, Copy)]
struct Answer {
    sent: u64,
    /// By the other side's clock.
    turned: u64,
    back: u64,
}

/// Sends messages at a rate, and receives the answers. Ends early once `stop` completes.
///
/// The offset of the two clocks is estimated by the fastest answer: half of its round-trip time is attributed to each
/// direction.
///
/// # Errors
/// The plan is out of range, one of the sides supports no messages, the other refuses, or the connection broke. The
/// error holds what was measured until then.
// transfer 6.10
pub async fn bench_messages<S: Session>(
    session: &S,
    plan: &MessagePlan,
    stop: impl Future<Output = ()>,
) -> Result<MessageOutcome, MessageFailure> {
    plan.check()?;
    let account = match &plan.congestion {
        Some(name) => Some(Account::open(session, Some(name)).await?),
        None => None,
    };
    let (mut send, mut receive) = session.open().await.map_err(TransferError::stream("opening a stream"))?;
    write_request(&mut send, Request::Messages(plan.request())).await?;
    finish(&mut send).await?;
    read_acceptance(&mut receive).await?;
    read_end(&mut receive).await?;
    let accepting = async {
        match session.transport() {
            Some(transport) => transport.accept_messages().await,
            None => None,
        }
    };
    // A side that fails to open its stream sends nothing more.
    let halves = timeout(LATEST_END, accepting).await;
    let halves = halves.map_err(|_| TransferError::Silent { wanted: "its messages" })?;
    let (to, from) = halves.ok_or_else(unsupported)?;
    let (began, mut record) = (Instant::now(), Record::default());
    let work = async {
        let elapsed = exchange(plan, to, from, stop, &mut record).await?;
        if let Some(mut account) = account {
            account.close().await?;
        }
        Ok(elapsed)
    };
    let silent = |_| Err(TransferError::Silent { wanted: "whether messages came" });
    match timeout(plan.time.min(FAR_AWAY) + LATEST_END, work).await.unwrap_or_else(silent) {
        Ok(elapsed) => Ok(outcome(plan, elapsed, &record)),
        Err(error) => {
            Err(MessageFailure { error, partial: Box::new(outcome(plan, began.elapsed(), &record)) })
        }
    }
}

async fn exchange(
    plan: &MessagePlan,
    mut to: Box<dyn MessageSender>,
    mut from: Box<dyn MessageReceiver>,
    stop: impl Future<Output = ()>,
    record: &mut Record,
) -> Result<Duration, TransferError> {
    let failed = TransferError::stream("receiving messages");
    // The other side accepts.
    if from.receive().await.map_err(failed)?.is_none() {
        return Err(TransferError::Unexpected { wanted: "messages" });
    }
    let began = Instant::now();
    let Record { sent, answers } = record;
    let receiving = async {
        while let Some(answer) = from.receive().await.map_err(TransferError::stream("receiving messages"))? {
            answers.extend(Answer::read(&answer.data, clock(began)));
        }
        Ok::<(), TransferError>(())
    };
    let sending = async {
        send_all(plan, &mut *to, began, stop, sent).await?;
        to.finish();
        Ok::<_, TransferError>(began.elapsed())
    };
    tokio::pin!(receiving);
    let elapsed = tokio::select! {
        elapsed = sending => elapsed?,
        // The answers ended before the messages did: the other side gave up.
        ended = &mut receiving => {
            ended?;
            return Err(TransferError::Unexpected { wanted: "answers to messages" });
        }
    };
    // What has not arrived by then counts as lost.
    if let Ok(ended) = timeout_at(Instant::now() + GRACE, receiving).await {
        ended?;
    }
    Ok(elapsed)
}

/// Unordered, and with a lifetime also with copies where it would be late.
fn delivery(lifetime: Option<Duration>) -> Delivery {
    let urgency = if lifetime.is_some() { Urgency::Deadline } else { Urgency::Interactive };
    Delivery { lifetime, urgency, ..Delivery::default() }
}

async fn send_all(
    plan: &MessagePlan,
    to: &mut dyn MessageSender,
    began: Instant,
    stop: impl Future<Output = ()>,
    sent: &mut u64,
) -> Result<(), TransferError> {
    let (size, lifetime) = plan.question();
    tokio::pin!(stop);
    let count = plan.count();
    for number in 0..count {
        let due = began.checked_add(plan.due(number)).unwrap_or(began);
        tokio::select! {
            biased;
            () = &mut stop => return Ok(()),
            () = sleep_until(due) => {}
        }
        // The latency counts from when the message was due, whatever delayed its sender.
        let message = filled(number, micros(plan.due(number)), size);
        to.send(message, delivery(lifetime)).await.map_err(TransferError::stream("sending messages"))?;
        *sent = number + 1;
    }
    Ok(())
}

fn outcome(plan: &MessagePlan, elapsed: Duration, record: &Record) -> MessageOutcome {
    let Record { sent, answers } = record;
    let fastest = answers.iter().min_by_key(|answer| answer.back.saturating_sub(answer.sent));
    // The other clock minus ours.
    let ahead = fastest.map_or(0, |answer| {
        i128::from(answer.turned) - (i128::from(answer.sent) + i128::from(answer.back)) / 2
    });
    let one_way = |answer: &Answer| {
        let turned = i128::from(answer.turned) - ahead;
        let way =
            if plan.reverse { i128::from(answer.back) - turned } else { turned - i128::from(answer.sent) };
        Duration::from_micros(u64::try_from(way).unwrap_or(0))
    };
    let mut latencies: Vec<_> = answers.iter().map(one_way).collect();
    latencies.sort_unstable();
    let in_time = plan
        .deadline
        .map_or(latencies.len(), |deadline| latencies.partition_point(|latency| *latency <= deadline));
    let late = (latencies.len() - in_time) as u64;
    MessageOutcome { sent: *sent, latencies, late, elapsed }
}

/// Answers messages until their end.
// transfer 6.10, 6.12
pub(crate) async fn answer_messages<W, R>(
    request: MessagesRequest,
    longest: Duration,
    transport: Option<&dyn Transport>,
    mut send: W,
    mut receive: R,
) -> Result<(), TransferError>
where
    W: AsyncWrite + Unpin,
    R: AsyncRead + Unpin,
{
    read_end(&mut receive).await?;
    let halves = match transport {
        Some(transport) => transport.open_messages().await,
        None => None,
    };
    let Some(halves) = halves else {
        let TransferError::Local(failure) = unsupported() else { return Err(TransferError::Internal) };
        write_frame(&mut send, &Frame::Refused(failure.clone())).await?;
        finish(&mut send).await?;
        return Err(TransferError::Local(failure));
    };
    write_frame(&mut send, &Frame::Accepted(Totals::default())).await?;
    finish(&mut send).await?;
    let until = Instant::now().checked_add(longest).unwrap_or_else(|| Instant::now() + FAR_AWAY);
    timeout_at(until, echo(request, halves)).await.unwrap_or(Ok(()))
}

async fn echo(request: MessagesRequest, halves: MessageHalves) -> Result<(), TransferError> {
    let (mut to, mut from) = halves;
    // Not empty, because MMSP/1 carries no message without data.
    to.send(Bytes::from_static(&[0]), delivery(None))
        .await
        .map_err(TransferError::stream("sending messages"))?;
    let began = Instant::now();
    while let Some(message) = from.receive().await.map_err(TransferError::stream("receiving messages"))? {
        let turned = clock(began);
        let Some(head) = message.data.first_chunk::<16>() else { continue };
        let mut answer = BytesMut::zeroed(usize::try_from(request.size.max(24)).unwrap_or(24));
        if let Some((place, rest)) = answer.split_first_chunk_mut::<16>() {
            *place = *head;
            rest.iter_mut().zip(turned.to_be_bytes()).for_each(|(to, from)| *to = from);
        }
        to.send(answer.freeze(), delivery(request.lifetime))
            .await
            .map_err(TransferError::stream("answering"))?;
    }
    to.finish();
    Ok(())
}

impl Answer {
    fn read(answer: &[u8], back: u64) -> Option<Self> {
        let [_, sent, turned] = answer.first_chunk::<24>()?.as_chunks::<8>().0 else { return None };
        Some(Self { sent: u64::from_be_bytes(*sent), turned: u64::from_be_bytes(*turned), back })
    }
}

/// A message: its number, when it was due, filler.
fn filled(number: u64, due: u64, size: u32) -> Bytes {
    let mut message = BytesMut::with_capacity(usize::try_from(size).unwrap_or(16));
    message.extend_from_slice(&number.to_be_bytes());
    message.extend_from_slice(&due.to_be_bytes());
    message.resize(usize::try_from(size).unwrap_or(16).max(16), 0);
    message.freeze()
}

fn clock(began: Instant) -> u64 {
    micros(began.elapsed())
}

fn unsupported() -> TransferError {
    let text = "messages, which this connection has none of";
    TransferError::Local(Failure::with_text(Reason::Unsupported, text))
}

/// How long answers are awaited after the last message.
const GRACE: Duration = Duration::from_secs(2);
/// Latest end of a run, whatever the other side does.
const LATEST_END: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000;

    fn answers() -> Vec<Answer> {
        // The other clock is 5 s ahead; up 10 ms and once 40, down 20 ms.
        let way =
            |sent: u64, up: u64| Answer { sent, turned: sent + up + 5_000 * MS, back: sent + up + 20 * MS };
        vec![way(0, 10 * MS), way(50 * MS, 40 * MS), way(90 * MS, 10 * MS)]
    }

    #[test]
    fn one_way_latency_is_measured_against_the_fastest_answer() {
        let plan = MessagePlan { deadline: Some(Duration::from_millis(30)), ..MessagePlan::default() };
        let outcome = outcome(&plan, Duration::ZERO, &Record { sent: 4, answers: answers() });
        // Half of the fastest round-trip time of 30 ms is attributed to each direction.
        let millis: Vec<_> = outcome.latencies.iter().map(Duration::as_millis).collect();
        assert_eq!((millis, outcome.late, outcome.lost()), (vec![15, 15, 45], 1, 1));
        let record = Record { sent: 3, answers: answers() };
        let back = super::outcome(&MessagePlan { reverse: true, ..plan }, Duration::ZERO, &record);
        assert!(back.latencies.iter().all(|latency| latency.as_millis() == 15));
    }

    #[test]
    fn as_many_messages_are_due_as_fit_into_the_time() {
        let plan =
            |rate, time| MessagePlan { rate, time: Duration::from_millis(time), ..MessagePlan::default() };
        assert_eq!((plan(100, 1_000).count(), plan(3, 1_000).count(), plan(7, 500).count()), (100, 3, 4));
        assert_eq!(plan(4, 1).due(3), Duration::from_millis(750));
    }

    #[test]
    fn a_plan_out_of_range_is_refused() {
        for wrong in [
            MessagePlan { size: 15, ..MessagePlan::default() },
            MessagePlan { size: (256 << 10) + 1, ..MessagePlan::default() },
            MessagePlan { rate: 0, ..MessagePlan::default() },
        ] {
            assert!(wrong.check().is_err());
        }
    }
}
