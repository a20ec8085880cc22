//! Sending files to the other side.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::task::spawn_blocking;

use crate::error::TransferError;
use crate::failure::Failure;
use crate::files::{Source, check_distinct, survey};
use crate::flow::{Side, send_over};
use crate::progress::{Progress, ProgressEvent, Report};
use crate::request::{Request, Totals};
use crate::session::Session;
use crate::wire::write_request;

/// Sends files and directories; returns when the other side has verified each of them, or said why not.
///
/// What the other side has from earlier is compared and not sent again. A link that is named is followed, links inside
/// directories are reported as failed. A file that cannot be read or that changes meanwhile fails alone.
///
/// # Errors
/// Two files would get the same name, no file could be found at all, the other side refuses, or the connection broke;
/// what arrived before stays there and counts the next time.
pub async fn put<S: Session>(
    session: &S,
    files: Vec<PathBuf>,
    progress: Arc<dyn Progress>,
) -> Result<Report, TransferError> {
    let (sources, totals, missing) =
        spawn_blocking(move || find(files)).await.map_err(|_| TransferError::Internal)?;
    if let (true, Some((path, failure))) = (sources.is_empty(), missing.first()) {
        return Err(TransferError::Local(failure.clone().at(path)));
    }
    check_distinct(&sources).map_err(TransferError::Local)?;
    progress.on_progress(ProgressEvent::Totals(totals));
    let (mut send, mut receive) = session.open().await.map_err(TransferError::stream("opening a stream"))?;
    write_request(&mut send, Request::Put(totals)).await?;
    let mut report = send_over((&mut send, &mut receive), Side::Opener, sources, &progress).await?;
    for (path, failure) in missing {
        let name = crate::name::printable(&path.to_string_lossy());
        progress.on_progress(ProgressEvent::Failed { name: &name, failure: &failure });
        report.add_failure(name, failure);
    }
    Ok(report)
}

type Missing = Vec<(PathBuf, Failure)>;

fn find(files: Vec<PathBuf>) -> (Vec<Source>, Totals, Missing) {
    let mut sources = Vec::new();
    let mut missing = Vec::new();
    for path in files {
        match Source::local(&path) {
            Ok(source) => sources.push(source),
            Err(failure) => missing.push((path, failure)),
        }
    }
    let totals = survey(&sources);
    (sources, totals, missing)
}
