//! Common to `send` and `get`: connects, transfers, and resumes if the connection breaks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use manyway_proto::Rate;
use manyway_terminal::{CommandError, ExitCode, ProgressMode};
use manyway_transfer::{Progress, Report, TransferError};

use super::direction::Direction;
use super::error::of_transfer;
use super::network::connect_by;
use super::short_code::Redeemed;
use super::signal::{close, until_interrupted};
use super::summary::{End, Summary};
use super::tally::Tally;
use super::watch::{PathWatch, Paths};
use crate::args::{GlobalArgs, Retries};
use crate::output::progress::ProgressView;
use crate::serving::limit::Limits;
use crate::serving::session::ClientSession;

/// A transfer with a server.
#[derive(Debug)]
pub struct Transfer<'a> {
    /// What every command understands.
    pub global: &'a GlobalArgs,
    /// The server, as named on the command line.
    pub server: &'a str,
    /// The code that led to the server.
    pub redeemed: Option<&'a Redeemed>,
    /// How often it is resumed; `None` if its input can be read only once.
    pub retry: Option<Retries>,
    /// Its rate limit.
    pub limit: Option<Rate>,
    /// The direction of the files.
    pub direction: Direction,
    /// Where its summary is written.
    pub end: End,
    /// The activity, such as "sending".
    pub doing: &'static str,
    /// The completed activity, such as "sent".
    pub done: &'static str,
}

impl Transfer<'_> {
    /// Runs `work` over a connection; if that breaks, over another one, as often as the user allows.
    ///
    /// # Errors
    /// The server is not reached or refuses, the transfer breaks too often, or the user interrupted. Data that arrived
    /// stays.
    pub async fn run<W, F>(&self, work: W) -> Result<ExitCode, CommandError>
    where
        W: Fn(ClientSession, Arc<dyn Progress>) -> F,
        F: Future<Output = Result<Report, TransferError>>,
    {
        self.direction.tell_what_decides(self.global);
        let view = ProgressView::new(ProgressMode::detect(self.global.quiet), self.doing);
        let view = Arc::new(view.counting(self.global.board.files()));
        self.global.desk.set_view(&view);
        let tally = Arc::new(Tally::new(Arc::clone(&view)));
        let limits = self.limit.map(|rate| Arc::new(Limits::new(rate)));
        let paths = Paths::default();
        let started = Instant::now();
        let mut repetitions = 0;
        let mut away_since = None;
        let error = loop {
            let error = match self.attempt((&work, limits.clone()), (&view, &paths), &tally, started).await {
                Ok(summary) => return summary.finish(self.global, self.end),
                Err(error) => error,
            };
            let is_broken = error.code == ExitCode::Incomplete;
            // A server that is restarting may take a while; one that was never reached is given up at once.
            let is_away = repetitions > 0 && error.code == ExitCode::Unreachable;
            // A closed port fails at once: such an attempt must not be shorter than one without an answer.
            let patience = self.global.connect_timeout();
            if is_away && away_since.get_or_insert_with(Instant::now).elapsed() < patience {
                match pause().await {
                    Ok(()) => continue,
                    Err(error) => break error,
                }
            }
            away_since = None;
            let retry = self.retry.filter(|retry| (is_broken || is_away) && retry.allow(repetitions));
            let Some(retry) = retry else {
                break if is_away { lost(&error) } else { error };
            };
            repetitions += 1;
            let of = match retry {
                Retries::AtMost(most) => format!("{repetitions} of {most}"),
                Retries::Forever => repetitions.to_string(),
            };
            view.message(&format!("{error}; reconnecting, attempt {of}"));
            view.set_reconnecting(format!("reconnecting, attempt {of}"));
            view.set_paths(&paths.rows());
            if let Err(error) = pause().await {
                break error;
            }
        };
        view.finish();
        let counts = tally.so_far();
        // A transfer that never began cannot be resumed.
        let error = if counts.attempts == 0 { error } else { self.gave_up(error, repetitions) };
        let summary = Summary::new(self.done, counts, started.elapsed(), paths.rows());
        summary.tell_part(self.global);
        Err(summary.explain(error))
    }

    /// Says that a broken transfer is not resumed by this command, and what to do.
    fn gave_up(&self, error: CommandError, repetitions: u32) -> CommandError {
        let is_resumable = self.retry.is_some() && self.end == End::Output;
        if error.code.is_interruption() && is_resumable {
            let text = format!("{error}; {} to go on", self.again());
            return CommandError { text, ..error };
        }
        if error.code != ExitCode::Incomplete {
            return error;
        }
        if self.retry.is_none() {
            let text = format!("{error}; the input can be read only once: start all of it again");
            return CommandError { code: ExitCode::Failed, text, ..error };
        }
        let attempts = gave_up_after(repetitions);
        let text = format!("{error}; {attempts}what has arrived is kept, {} to resume", self.again());
        CommandError { text, ..error }
    }

    /// What resumes the transfer: a code is used up, but its ticket is not.
    fn again(&self) -> String {
        let by_ticket = |redeemed: &Redeemed| format!("run `manyway get {}`", redeemed.ticket());
        self.redeemed.map_or_else(|| AGAIN.to_owned(), by_ticket)
    }

    async fn attempt<W, F>(
        &self,
        (work, limits): (&W, Option<Arc<Limits>>),
        (view, paths): (&Arc<ProgressView>, &Paths),
        tally: &Arc<Tally>,
        started: Instant,
    ) -> Result<Summary, CommandError>
    where
        W: Fn(ClientSession, Arc<dyn Progress>) -> F,
        F: Future<Output = Result<Report, TransferError>>,
    {
        let (endpoint, connection) = connect_by(self.global, self.server, None, self.redeemed).await?;
        tally.begin();
        let watch = PathWatch::start(&connection, Arc::clone(view), paths, (self.direction, started));
        let session = ClientSession::new(connection.clone(), limits);
        // The work and its streams end with this block: only before can the connection tell what waits in them.
        let (result, waiting) = {
            let transfer = async {
                let progress = Arc::clone(tally) as Arc<dyn Progress>;
                let result = work(session.clone(), progress).await;
                result.map_err(|error| of_transfer(&error, connection.close_reason()))
            };
            tokio::pin!(transfer);
            let result = until_interrupted(&mut transfer).await;
            (result, watch.finish().await)
        };
        if let Some(waiting) = waiting {
            view.set_waiting(waiting.get());
        }
        let report = match result {
            Ok(report) => report,
            Err(error) => {
                let is_broken = !error.code.is_interruption();
                close(&endpoint, if is_broken { "the transfer broke" } else { "interrupted" }).await;
                return Err(error);
            }
        };
        view.finish();
        let summary = Summary::new(self.done, tally.end(report), started.elapsed(), paths.rows());
        close(&endpoint, "done").await;
        Ok(summary)
    }
}

/// How often a transfer was resumed before it was given up.
pub(super) fn gave_up_after(repetitions: u32) -> String {
    match repetitions {
        0 => String::new(),
        1 => "gave up after 1 attempt to reconnect; ".to_owned(),
        many => format!("gave up after {many} attempts to reconnect; "),
    }
}

/// The pause between two attempts.
///
/// # Errors
/// The user interrupted it.
pub(super) async fn pause() -> Result<(), CommandError> {
    until_interrupted(async {
        tokio::time::sleep(PAUSE).await;
        Ok(())
    })
    .await
}

/// A server that was reached and did not come back.
fn lost(error: &CommandError) -> CommandError {
    CommandError::new(
        ExitCode::Incomplete,
        format!("connection lost, and the server did not come back: {error}"),
    )
}

/// What resumes a transfer.
pub(super) const AGAIN: &str = "run the same command again";
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use manyway_terminal::signal::Signal;

    use super::*;

    #[test]
    fn a_broken_transfer_reports_once_that_it_is_given_up_and_what_to_do() {
        let global = GlobalArgs::default();
        let transfer = |retry| Transfer {
            global: &global,
            server: "",
            redeemed: None,
            retry,
            limit: None,
            direction: Direction::Out,
            end: End::Output,
            doing: "",
            done: "",
        };
        let broken = |code| CommandError::new(code, "connection lost: reset");
        let gave_up = |retry, code, times| transfer(retry).gave_up(broken(code), times);
        let told = gave_up(Some(Retries::AtMost(3)), ExitCode::Incomplete, 3);
        assert_eq!(
            told.text,
            "connection lost: reset; gave up after 3 attempts to reconnect; what has arrived is kept, run the same \
             command again to resume"
        );
        assert_eq!(gave_up(Some(Retries::Forever), ExitCode::Failed, 1).text, "connection lost: reset");
        let once = gave_up(None, ExitCode::Incomplete, 0);
        assert!(once.code == ExitCode::Failed && !once.text.contains(AGAIN), "{once}");
        let stopped =
            |retry, end| Transfer { end, ..transfer(retry) }.gave_up(Signal::Interrupt.error(), 0).text;
        let (forever, plain) = (Some(Retries::Forever), "ended by Ctrl-C");
        assert_eq!(stopped(forever, End::Output), "ended by Ctrl-C; run the same command again to go on");
        assert_eq!(stopped(forever, End::Messages), plain, "what was written to a pipe is gone");
        assert_eq!(stopped(None, End::Output), plain, "standard input is read once");
    }
}
