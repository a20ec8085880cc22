//! Sends files to the other side.

use std::path::PathBuf;
use std::sync::Arc;

use manyway_session::Session;
use tokio::task::spawn_blocking;

use crate::error::TransferError;
use crate::failure::Failure;
use crate::files::{PutPlan, Source, check_distinct, survey};
use crate::flow::{Side, send_over};
use crate::progress::{Party, Progress, ProgressEvent, Report};
use crate::request::{Request, Totals};
use crate::wire::write_request;

/// Sends files and directories; returns when the other side has verified each of them, or has reported why not.
///
/// A list of paths is a plan. Data that the other side has from earlier is compared and not sent again. A link given as
/// a path is followed; links inside directories are sent as links unless the plan's rules say otherwise. A file that
/// cannot be read or that changes meanwhile fails alone; of one that grows, the announced beginning is sent.
///
/// # Errors
/// Two files would get the same name, no file was found at all, the other side refuses, or the connection broke; data
/// that arrived before stays there and is used the next time.
pub async fn put<S: Session>(
    session: &S,
    plan: impl Into<PutPlan>,
    progress: Arc<dyn Progress>,
) -> Result<Report, TransferError> {
    let plan = plan.into();
    let rules = plan.rules.clone();
    let (sources, totals, missing) =
        spawn_blocking(move || find(plan)).await.map_err(|_| TransferError::Internal)?;
    if let (true, Some((path, failure))) = (sources.is_empty(), missing.first()) {
        return Err(TransferError::Local(failure.clone().at(path)));
    }
    check_distinct(&sources).map_err(TransferError::Local)?;
    progress.on_progress(ProgressEvent::Totals(totals));
    let (mut send, mut receive) = session.open().await.map_err(TransferError::stream("opening a stream"))?;
    write_request(&mut send, Request::Put(totals)).await?;
    let mut report = send_over((&mut send, &mut receive), Side::Opener, (sources, rules), &progress).await?;
    for (path, failure) in missing {
        let name = crate::name::printable(&path.to_string_lossy());
        report.add_failure(&*progress, Party::Local, (name, failure));
    }
    Ok(report)
}

type Missing = Vec<(PathBuf, Failure)>;

fn find(plan: PutPlan) -> (Vec<Source>, Totals, Missing) {
    let mut sources = Vec::new();
    let mut missing = Vec::new();
    for item in plan.items {
        match item.source() {
            Ok(source) => sources.push(source),
            Err(failure) => missing.push((item.shown(), failure)),
        }
    }
    let totals = survey(&sources, &plan.rules);
    (sources, totals, missing)
}
