//! Fetching files from the other side.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use crate::directory::Directory;
use crate::error::TransferError;
use crate::failure::{Failure, Reason};
use crate::files::{Admission, Store};
use crate::flow::receive_over;
use crate::name::RelativePath;
use crate::progress::{Progress, ProgressEvent, Report};
use crate::request::Request;
use crate::session::Session;
use crate::wire::{read_acceptance, write_request};

/// Fetches files and directories into `into`; an empty list fetches everything that is served.
///
/// Each arrives under its last component: `get a/b` makes `b`. What is there from earlier is compared and not fetched
/// again. A file that exists is replaced once the new one is verified. Names that were not asked for are refused.
///
/// # Errors
/// Two paths would become the same file, `into` is no directory, the other side refuses, or the connection broke;
/// what arrived before stays and counts the next time.
pub async fn get<S: Session>(
    session: &S,
    paths: Vec<RelativePath>,
    into: PathBuf,
    progress: Arc<dyn Progress>,
) -> Result<Report, TransferError> {
    let admission = admit(&paths).map_err(TransferError::Local)?;
    let directory = Directory::open(&into).map_err(|failure| TransferError::Local(failure.at(&into)))?;
    let (mut send, mut receive) = session.open().await.map_err(TransferError::stream("opening a stream"))?;
    write_request(&mut send, Request::Get(paths)).await?;
    let totals = read_acceptance(&mut receive).await?;
    progress.on_progress(ProgressEvent::Totals(totals));
    receive_over((&mut send, &mut receive), Arc::new(Store::new(directory)), admission, progress).await
}

fn admit(paths: &[RelativePath]) -> Result<Admission, Failure> {
    if paths.is_empty() {
        return Ok(Admission::Anything);
    }
    let mut names = BTreeSet::new();
    for path in paths {
        if !names.insert(path.last().to_owned()) {
            let text = format!("two of the paths would both become {}", crate::name::printable(path.last()));
            return Err(Failure::with_text(Reason::Name, text));
        }
    }
    Ok(Admission::Below(names))
}
