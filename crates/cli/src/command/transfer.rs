//! What `send` and `get` have in common: connect, transfer, and take it up again if the connection breaks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use manyway_transfer::{Progress, Report, TransferError};

use super::error::CommandError;
use super::network::connect;
use super::session::NetSession;
use super::signal::{close, until_interrupted, until_interrupted_over};
use super::summary::Summary;
use super::tally::Tally;
use super::watch::PathWatch;
use crate::args::{GlobalArgs, Retries};
use crate::exit_code::ExitCode;
use crate::output::progress::{ProgressMode, ProgressView};

/// A transfer with a server.
#[derive(Debug)]
pub struct Transfer<'a> {
    /// What every command understands.
    pub global: &'a GlobalArgs,
    /// The server, as the command line names it.
    pub server: &'a str,
    /// How often it is taken up again.
    pub retry: Retries,
    /// What goes on, such as "sending".
    pub doing: &'static str,
    /// What was done in the end, such as "sent".
    pub done: &'static str,
}

impl Transfer<'_> {
    /// Does `work` over a connection; if that breaks, over another one, as often as the user allows.
    ///
    /// # Errors
    /// The server is not reached or refuses, the transfer breaks too often, or the user has had enough. What arrived
    /// stays.
    pub async fn run<W, F>(&self, work: W) -> Result<ExitCode, CommandError>
    where
        W: Fn(NetSession, Arc<dyn Progress>) -> F,
        F: Future<Output = Result<Report, TransferError>>,
    {
        let view = Arc::new(ProgressView::new(ProgressMode::detect(self.global.quiet), self.doing));
        self.global.desk.set_view(&view);
        let tally = Arc::new(Tally::new(Arc::clone(&view)));
        let started = Instant::now();
        let mut repetitions = 0;
        let mut away_since = None;
        let error = loop {
            let error = match self.attempt(&work, &view, &tally, started).await {
                Ok(summary) => return summary.conclude(self.global),
                Err(error) => error,
            };
            let is_broken = error.code == ExitCode::Incomplete;
            // A server that is being started again may take a while; one that was never reached is given up at once.
            let is_away = repetitions > 0 && error.code == ExitCode::Unreachable;
            // A port that is closed meanwhile says so at once: that is no shorter a try than one without an answer.
            let patience = self.global.connect_timeout();
            if is_away && away_since.get_or_insert_with(Instant::now).elapsed() < patience {
                match pause().await {
                    Ok(()) => continue,
                    Err(error) => break error,
                }
            }
            away_since = None;
            if !is_broken && !is_away || !self.retry.allow(repetitions) {
                break if is_away { lost(&error) } else { error };
            }
            repetitions += 1;
            let of = match self.retry {
                Retries::AtMost(most) => format!("{repetitions} of {most}"),
                Retries::Forever => repetitions.to_string(),
            };
            view.message(&format!("{error}\nwhat has arrived is kept; connecting again ({of})"));
            if let Err(error) = pause().await {
                break error;
            }
        };
        view.finish();
        let summary = Summary::new(self.done, tally.so_far(), started.elapsed(), None);
        Err(summary.explain(with_next_step(error)))
    }

    async fn attempt<W, F>(
        &self,
        work: &W,
        view: &Arc<ProgressView>,
        tally: &Arc<Tally>,
        started: Instant,
    ) -> Result<Summary, CommandError>
    where
        W: Fn(NetSession, Arc<dyn Progress>) -> F,
        F: Future<Output = Result<Report, TransferError>>,
    {
        let (endpoint, connection) = connect(self.global, self.server).await?;
        tally.begin();
        let watch = PathWatch::start(&connection, Arc::clone(view));
        let session = NetSession(connection);
        let result = until_interrupted_over(&endpoint, async {
            let progress = Arc::clone(tally) as Arc<dyn Progress>;
            let result = work(session.clone(), progress).await;
            result.map_err(|error| CommandError::of_transfer(&error, session.0.close_reason()))
        })
        .await;
        drop(watch);
        let report = match result {
            Ok(report) => report,
            Err(error) => {
                if error.code != ExitCode::Interrupted {
                    close(&endpoint, "the transfer broke").await;
                }
                return Err(error);
            }
        };
        view.finish();
        tally.end(report);
        let info = session.0.info().await.ok();
        let summary = Summary::new(self.done, tally.so_far(), started.elapsed(), info.as_ref());
        close(&endpoint, "done").await;
        Ok(summary)
    }
}

async fn pause() -> Result<(), CommandError> {
    until_interrupted(async {
        tokio::time::sleep(PAUSE).await;
        Ok(())
    })
    .await
}

/// A server that was there and did not come back.
fn lost(error: &CommandError) -> CommandError {
    CommandError::new(
        ExitCode::Incomplete,
        format!("the connection broke and the server did not come back: {error}"),
    )
}

fn with_next_step(error: CommandError) -> CommandError {
    if error.code != ExitCode::Incomplete || error.text.contains(AGAIN) {
        return error;
    }
    CommandError { text: format!("{error}; {AGAIN}"), ..error }
}

const AGAIN: &str = "run the same command again";
/// Between two attempts.
const PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incomplete_transfer_says_once_what_to_do() {
        let once = with_next_step(CommandError::new(ExitCode::Incomplete, "it broke"));
        assert_eq!(once.text, "it broke; run the same command again");
        assert_eq!(with_next_step(once).text.matches(AGAIN).count(), 1);
        assert_eq!(with_next_step(CommandError::new(ExitCode::Failed, "no")).text, "no");
    }
}
