//! Transfers files over the two halves of a stream, in the same way for its opener and its acceptor.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use crate::codec::CodecError;
use crate::error::TransferError;
use crate::files::{
    Ending, Reception, Reply, Sent, Source, Steering, Store, TOGETHER, WINDOW, Wanted, send_files, watch,
};
use crate::frame::{Frame, Verdict};
use crate::pipe::{consume_received, send_produced};
use crate::progress::{Party, Progress, ProgressEvent, Report};
use crate::request::Totals;
use crate::rules::Rules;
use crate::wire::{finish, read_acceptance, read_end, read_frame, write_frame};

/// Which side of the stream sends the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The opener: it learns first whether the request is accepted.
    Opener,
    /// The acceptor.
    Acceptor,
}

/// Sends files and waits for the receiver's verdict on each.
pub(crate) async fn send_over<W, R>(
    (send, receive): (&mut W, &mut R),
    side: Side,
    (sources, rules): (Vec<Source>, Rules),
    progress: &Arc<dyn Progress>,
) -> Result<Report, TransferError>
where
    W: AsyncWrite + Unpin,
    R: AsyncRead + Unpin,
{
    let steering = Arc::new(Steering::default());
    let (verified, to_watch) = std::sync::mpsc::channel();
    let of_watch = Arc::clone(progress);
    let watching = spawn_blocking(move || watch(&to_watch, &*of_watch));
    let (replies, queue) = mpsc::channel(WINDOW + 1);
    let sending = async {
        let (of_thread, steering) = (Arc::clone(progress), Arc::clone(&steering));
        let sent = send_produced(send, progress, move |sink| {
            send_files(sink, (sources, rules), &*of_thread, queue, &steering)
        })
        .await?;
        finish(send).await?;
        Ok::<_, TransferError>(sent)
    };
    let listening = async {
        if side == Side::Opener {
            read_acceptance(receive).await?;
        }
        let mut listener = Listener::new(&**progress, &steering, replies, verified);
        let result = listener.run(receive).await;
        result.map(|()| listener.heard)
    };
    let ((sent, mut report), heard) = join(sending, listening).await?;
    // transfer 4.9: every entry was judged
    if heard.verdicts != sent.files {
        return Err(CodecError::Value { field: "verdicts", value: heard.verdicts }.into());
    }
    report.grown += watching.await.map_err(|_| TransferError::Internal)?;
    report.left_out += heard.report.left_out;
    report.failures += heard.report.failures;
    report.failed.extend(heard.report.failed);
    report.failed.truncate(Report::MAX_FAILED);
    Ok(Report { verified: heard.report.verified, bytes: heard.report.bytes, ..report })
}

/// Receives files and sends the verdicts.
pub(crate) async fn receive_over<W, R>(
    (send, receive): (&mut W, &mut R),
    store: Arc<Store>,
    wanted: Wanted,
    progress: Arc<dyn Progress>,
) -> Result<Report, TransferError>
where
    W: AsyncWrite + Unpin,
    R: AsyncRead + Unpin,
{
    let (answers, queue) = mpsc::channel(ANSWERS_WAITING);
    let receiving = consume_received(&mut *receive, move |source| {
        Reception::new(store, wanted, progress, answers).run(source)
    });
    let (report, told) = tokio::join!(receiving, tell(queue, send));
    let report = report?;
    told?;
    read_end(receive).await?;
    write_frame(send, &Frame::Done(Totals { files: report.verified, bytes: report.bytes })).await?;
    // After this the sender may close the connection before the stream has ended.
    let _ = finish(send).await;
    Ok(report)
}

/// Writes answers and verdicts, as many at once as there are.
pub(crate) async fn tell<W: AsyncWrite + Unpin>(
    mut queue: mpsc::Receiver<Vec<Frame>>,
    send: &mut W,
) -> Result<(), TransferError> {
    let mut waiting = Vec::new();
    let mut bytes = Vec::new();
    while queue.recv_many(&mut waiting, ANSWERS_WAITING).await > 0 {
        bytes.clear();
        for frame in waiting.drain(..).flatten() {
            frame.encode(&mut bytes);
        }
        send.write_all(&bytes).await.map_err(TransferError::stream("answering"))?;
    }
    Ok(())
}

/// What the receiver has sent.
#[derive(Debug, Default)]
struct Heard {
    /// Entries that it accepts or refuses.
    answered: u64,
    verdicts: u64,
    report: Report,
}

/// Reads the receiver's frames.
struct Listener<'a> {
    progress: &'a dyn Progress,
    steering: &'a Steering,
    replies: mpsc::Sender<Vec<Reply>>,
    /// Queue of files to be checked once more.
    verified: std::sync::mpsc::Sender<Vec<Sent>>,
    /// What both will get together.
    told: (Vec<Reply>, Vec<Sent>),
    heard: Heard,
}

impl<'a> Listener<'a> {
    fn new(
        progress: &'a dyn Progress,
        steering: &'a Steering,
        replies: mpsc::Sender<Vec<Reply>>,
        verified: std::sync::mpsc::Sender<Vec<Sent>>,
    ) -> Self {
        Self { progress, steering, replies, verified, told: Default::default(), heard: Heard::default() }
    }

    async fn run<R: AsyncRead + Unpin>(&mut self, receive: &mut R) -> Result<(), TransferError> {
        let mut receive = BufReader::with_capacity(BUFFER, receive);
        let receive = &mut receive;
        loop {
            if receive.buffer().is_empty() || self.told.0.len().max(self.told.1.len()) >= TOGETHER {
                self.hand_over();
            }
            let frame = match read_frame(receive).await {
                Err(TransferError::Incomplete { .. }) => {
                    return Err(TransferError::Incomplete { verified: self.heard.report.verified });
                }
                frame => frame?,
            };
            match frame {
                Frame::Answer(answer) => {
                    if answer.entry != self.heard.answered {
                        return Err(CodecError::Value { field: "answer", value: answer.entry }.into());
                    }
                    self.reply(Reply::Answer(answer))?;
                }
                Frame::Verdict(verdict) => self.on_verdict(verdict)?,
                Frame::Done(totals) => {
                    self.heard.report.bytes = totals.bytes;
                    self.hand_over();
                    return read_end(receive).await;
                }
                Frame::Refused(failure) => return Err(TransferError::Refused(failure)),
                Frame::Request(_)
                | Frame::Accepted(_)
                | Frame::Hello { .. }
                | Frame::Entry(_)
                | Frame::Start { .. }
                | Frame::Hole { .. }
                | Frame::End { .. }
                | Frame::Abandoned { .. }
                | Frame::Interval(_)
                | Frame::Summary(_)
                | Frame::Account(_) => return Err(TransferError::Unexpected { wanted: "a verdict" }),
            }
        }
    }

    /// Hands over what has come together, before anything is waited for.
    fn hand_over(&mut self) {
        let (replies, verified) = &mut self.told;
        if !replies.is_empty() {
            // There is room for every entry that may be ahead; without room the other thread has given up.
            let _ = self.replies.try_send(std::mem::take(replies));
        }
        if !verified.is_empty() {
            // They are accepted as long as this end listens.
            let _ = self.verified.send(std::mem::take(verified));
        }
    }

    /// Passes on the reply to the next entry without one.
    // transfer 4.2
    fn reply(&mut self, reply: Reply) -> Result<(), TransferError> {
        if self.heard.answered >= self.steering.announced() {
            return Err(CodecError::Value { field: "answer", value: self.heard.answered }.into());
        }
        self.heard.answered += 1;
        self.told.0.push(reply);
        Ok(())
    }

    // transfer 4.8
    fn on_verdict(&mut self, verdict: Verdict) -> Result<(), TransferError> {
        if verdict.index == self.heard.answered && verdict.outcome.is_err() {
            self.reply(Reply::Refused)?;
        }
        self.heard.verdicts += 1;
        if verdict.index >= self.heard.answered || self.heard.verdicts > self.heard.answered {
            return Err(CodecError::Value { field: "verdict", value: verdict.index }.into());
        }
        let name = verdict.path.to_string();
        let ending = self.steering.take_ending(verdict.index);
        match verdict.outcome {
            Ok(()) => {
                self.heard.report.verified += 1;
                if let Some(Ending::Sent(sent)) = ending {
                    self.told.1.push(sent);
                }
                self.progress.on_progress(ProgressEvent::Verified { name: &name });
            }
            Err(failure) => {
                self.steering.on_refused(verdict.index);
                // The receiver repeats what this end abandoned.
                let is_own = matches!(ending, Some(Ending::Abandoned(reason)) if reason == failure.reason);
                let at = if is_own { Party::Local } else { Party::Peer };
                self.heard.report.add_failure(self.progress, at, (name, failure));
            }
        }
        Ok(())
    }
}

/// Runs both directions. If the other side stops receiving, its answer says why, so that answer takes precedence over
/// the write error of this side.
async fn join<A, B>(
    sending: impl Future<Output = Result<A, TransferError>>,
    listening: impl Future<Output = Result<B, TransferError>>,
) -> Result<(A, B), TransferError> {
    tokio::pin!(sending, listening);
    let mut sent = None;
    let heard = loop {
        tokio::select! {
            heard = &mut listening => break heard?,
            result = &mut sending, if sent.is_none() => sent = Some(result),
        }
    };
    let sent = match sent {
        Some(sent) => sent?,
        None => sending.await?,
    };
    Ok((sent, heard))
}

/// Most groups of answers and verdicts that wait for a slow sender before its files wait.
const ANSWERS_WAITING: usize = 16;
/// Bytes of answers and verdicts that are read at once.
const BUFFER: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::NoProgress;

    #[tokio::test]
    async fn the_receiver_of_the_last_frame_still_waits_for_the_end_of_the_stream() {
        let (mut near, mut far) = tokio::io::duplex(1024);
        let (replies, _queue) = mpsc::channel(1);
        let (progress, steering) = (NoProgress, Steering::default());
        let (verified, _watched) = std::sync::mpsc::channel();
        let mut listener = Listener::new(&progress, &steering, replies, verified);
        let mut has_ended = false;
        let ending = async {
            write_frame(&mut far, &Frame::Done(Totals { files: 0, bytes: 0 })).await.unwrap();
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            has_ended = true;
            finish(&mut far).await.unwrap();
        };
        tokio::select! {
            biased;
            result = listener.run(&mut near) => panic!("it let go of the stream: {result:?}"),
            () = ending => {}
        }
        assert!(has_ended);
    }
}
