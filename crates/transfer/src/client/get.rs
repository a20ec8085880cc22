//! Fetches files from the other side.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use manyway_session::Session;

use crate::directory::Directory;
use crate::error::TransferError;
use crate::failure::{Failure, Reason};
use crate::files::{Admission, Existing, Naming, Store, Wanted};
use crate::flow::receive_over;
use crate::name::RelativePath;
use crate::progress::{Progress, ProgressEvent, Report};
use crate::request::{GetRequest, Request};
use crate::rules::Rules;
use crate::wire::{read_acceptance, write_request};

/// What to fetch and what to do with it.
#[derive(Debug, Clone, Default)]
pub struct GetPlan {
    /// Files and directories; none: everything that is served.
    pub paths: Vec<RelativePath>,
    /// Which parts of them are left out.
    pub rules: Rules,
    /// The directory to put them in, which exists.
    pub into: PathBuf,
    /// Another name, if there is one path: a file gets it, a directory is put into a directory of this name.
    pub name: Option<RelativePath>,
    /// What happens to existing files.
    pub existing: Existing,
}

/// Fetches files and directories into `into`; an empty list fetches everything that is served.
///
/// As [`get_with`] with defaults.
///
/// # Errors
/// Those of [`get_with`].
pub async fn get<S: Session>(
    session: &S,
    paths: Vec<RelativePath>,
    into: PathBuf,
    progress: Arc<dyn Progress>,
) -> Result<Report, TransferError> {
    get_with(session, GetPlan { paths, into, ..GetPlan::default() }, progress).await
}

/// Executes a plan.
///
/// Each path arrives under its last component: `a/b` makes `b`. Data from earlier attempts is compared and not fetched
/// again. An existing file is replaced once the new one is verified, unless the plan says otherwise. Names that were
/// not requested are refused, and so are symbolic links that lead out of the requested paths.
///
/// # Errors
/// Two paths would become the same file, the directory is none, the other side refuses, or the connection broke; data
/// that arrived before stays and is used the next time.
pub async fn get_with<S: Session>(
    session: &S,
    plan: GetPlan,
    progress: Arc<dyn Progress>,
) -> Result<Report, TransferError> {
    let wanted = wanted(&plan).map_err(TransferError::Local)?;
    let directory =
        Directory::open(&plan.into).map_err(|failure| TransferError::Local(failure.at(&plan.into)))?;
    let (mut send, mut receive) = session.open().await.map_err(TransferError::stream("opening a stream"))?;
    write_request(&mut send, Request::Get(GetRequest { rules: plan.rules, paths: plan.paths })).await?;
    let totals = read_acceptance(&mut receive).await?;
    progress.on_progress(ProgressEvent::Totals(totals));
    receive_over((&mut send, &mut receive), Arc::new(Store::new(directory)), wanted, progress).await
}

fn wanted(plan: &GetPlan) -> Result<Wanted, Failure> {
    let naming = match (&plan.name, plan.paths.as_slice()) {
        (None, _) => Naming::AsSent,
        (Some(to), [asked]) => Naming::Renamed { asked: RelativePath::parse(asked.last())?, to: to.clone() },
        (Some(_), _) => return Err(Failure::with_text(Reason::Name, "only one path can get another name")),
    };
    Ok(Wanted { admission: admit(&plan.paths)?, existing: plan.existing, naming })
}

fn admit(paths: &[RelativePath]) -> Result<Admission, Failure> {
    if paths.is_empty() {
        return Ok(Admission::Everything);
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
