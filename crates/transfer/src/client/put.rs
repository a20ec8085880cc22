//! Sending files to the other side.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::io::AsyncRead;
use tokio::task::spawn_blocking;

use crate::codec::CodecError;
use crate::error::TransferError;
use crate::failure::{Failure, Reason};
use crate::files::{Source, Steering, send_files, survey};
use crate::frame::Frame;
use crate::pipe::send_produced;
use crate::progress::{Progress, ProgressEvent, Report};
use crate::request::{Request, Totals};
use crate::session::Session;
use crate::wire::{finish, read_acceptance, read_frame, write_request};

/// Sends files and directories; returns when the other side has verified each of them, or said why not.
///
/// A link that is named is followed, links inside directories are reported as failed. A file that cannot be read or
/// that changes meanwhile fails alone.
///
/// # Errors
/// Two files would get the same name, no file could be found at all, the other side refuses, or the connection broke; files verified before stay there.
pub async fn put<S: Session>(
    session: &S,
    files: Vec<PathBuf>,
    progress: Arc<dyn Progress>,
) -> Result<Report, TransferError> {
    let (sources, totals, missing) =
        spawn_blocking(move || find(files)).await.map_err(|_| TransferError::Internal)?;
    if let (true, Some((_, failure))) = (sources.is_empty(), missing.first()) {
        return Err(TransferError::Local(failure.clone()));
    }
    differ(&sources).map_err(TransferError::Local)?;
    progress.on_progress(ProgressEvent::Totals(totals));
    let (mut send, mut receive) = session.open().await.map_err(TransferError::stream("opening a stream"))?;
    let steering = Arc::new(Steering::default());

    let sending = async {
        write_request(&mut send, Request::Put(totals)).await?;
        let (progress_of_thread, steering) = (Arc::clone(&progress), Arc::clone(&steering));
        let sent = send_produced(&mut send, &progress, move |sink| {
            send_files(sink, &sources, &*progress_of_thread, &steering)
        })
        .await?;
        finish(&mut send).await?;
        Ok::<_, TransferError>(sent)
    };
    let judging = read_verdicts(&mut receive, &*progress, &steering);
    let ((sent, mut report), verdicts) = join(sending, judging).await?;

    // transfer 3.6: every entry was judged
    if verdicts.entries != sent.files {
        return Err(CodecError::Value { field: "verdicts", value: verdicts.entries }.into());
    }
    for (path, failure) in missing {
        let name = crate::name::printable(&path.to_string_lossy());
        progress.on_progress(ProgressEvent::Failed { name: &name, failure: &failure });
        report.add_failure(name, failure);
    }
    report.failures += verdicts.report.failures;
    report.failed.extend(verdicts.report.failed);
    report.failed.truncate(Report::MAX_FAILED);
    Ok(Report { verified: verdicts.report.verified, bytes: verdicts.bytes, ..report })
}

type Missing = Vec<(PathBuf, Failure)>;

fn find(files: Vec<PathBuf>) -> (Vec<Source>, Totals, Missing) {
    let mut sources = Vec::new();
    let mut missing = Vec::new();
    for path in files {
        match Source::local(&path) {
            Ok(source) => sources.push(source),
            Err(failure) => {
                let text = format!("{}: {failure}", path.display());
                missing.push((path, Failure::with_text(failure.reason, text)));
            }
        }
    }
    let totals = survey(&sources);
    (sources, totals, missing)
}

// transfer 3.8
fn differ(sources: &[Source]) -> Result<(), Failure> {
    let mut names = BTreeSet::new();
    for name in sources.iter().filter_map(|source| source.name.as_ref()) {
        if !names.insert(name.last()) {
            let text = format!("two of the paths would both become {}", crate::name::printable(name.last()));
            return Err(Failure::with_text(Reason::Name, text));
        }
    }
    Ok(())
}

#[derive(Debug, Default)]
struct Verdicts {
    entries: u64,
    bytes: u64,
    report: Report,
}

async fn read_verdicts<R: AsyncRead + Unpin>(
    receive: &mut R,
    progress: &dyn Progress,
    steering: &Steering,
) -> Result<Verdicts, TransferError> {
    read_acceptance(receive).await?;
    let mut verdicts = Verdicts::default();
    loop {
        let frame = match read_frame(receive).await {
            Err(TransferError::Incomplete { .. }) => {
                return Err(TransferError::Incomplete { verified: verdicts.report.verified });
            }
            frame => frame?,
        };
        match frame {
            Frame::Verdict(verdict) => {
                if verdict.index != verdicts.entries {
                    return Err(CodecError::Value { field: "verdict", value: verdict.index }.into());
                }
                verdicts.entries += 1;
                let name = verdict.path.to_string();
                match verdict.outcome {
                    Ok(()) => {
                        verdicts.report.verified += 1;
                        progress.on_progress(ProgressEvent::Verified { name: &name });
                    }
                    Err(failure) => {
                        steering.on_refused(verdict.index);
                        progress.on_progress(ProgressEvent::Failed { name: &name, failure: &failure });
                        verdicts.report.add_failure(name, failure);
                    }
                }
            }
            Frame::Done(totals) => {
                verdicts.bytes = totals.bytes;
                return Ok(verdicts);
            }
            Frame::Refused(failure) => return Err(TransferError::Refused(failure)),
            Frame::Request(_)
            | Frame::Accepted(_)
            | Frame::Hello { .. }
            | Frame::Entry(_)
            | Frame::End { .. }
            | Frame::Abandoned { .. }
            | Frame::Interval(_)
            | Frame::Summary(_)
            | Frame::Account(_) => return Err(TransferError::Unexpected { wanted: "a verdict" }),
        }
    }
}

/// Runs both directions. If the other side stops taking files, its answer says why, so that counts more than the
/// error of our own writing.
async fn join<A, B>(
    sending: impl Future<Output = Result<A, TransferError>>,
    judging: impl Future<Output = Result<B, TransferError>>,
) -> Result<(A, B), TransferError> {
    tokio::pin!(sending, judging);
    let mut sent = None;
    let judged = loop {
        tokio::select! {
            judged = &mut judging => break judged?,
            result = &mut sending, if sent.is_none() => sent = Some(result),
        }
    };
    let sent = match sent {
        Some(sent) => sent?,
        None => sending.await?,
    };
    Ok((sent, judged))
}
