//! `manyway get`: files and directories from a server, over every interface at once.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use manyway_fetch::is_web_address;
use manyway_terminal::{CommandError, ExitCode};
use manyway_transfer::{
    Existing, Failure, GetPlan, Outlet, Progress, ProgressEvent, RelativePath, Report, TransferError, fetch,
    get_with,
};

use super::direction::Direction;
use super::network::{client_options, rendezvous};
use super::output::{SpecialFile, can_be_directory, new_name, open_special, refuse_json, special_file};
use super::short_code;
use super::summary::End;
use super::target::{is_ticket, names_ticket};
use super::transfer::Transfer;
use crate::args::{GetArgs, GlobalArgs};

/// Fetches and verifies the files.
///
/// # Errors
/// If the server is not reached or has no such file, the output cannot be written, or the transfer breaks.
pub async fn run(global: &GlobalArgs, arguments: &GetArgs) -> Result<ExitCode, CommandError> {
    let server = arguments.ticket.as_str();
    if is_web_address(server) {
        return super::url::run(global, arguments).await;
    }
    if arguments.sha256.is_some() {
        return Err(CommandError::usage(
            "--sha256 is for a URL: what comes from a Manyway server is always verified",
        ));
    }
    let redeemed = match short_code::parse(server)? {
        Some(code) => {
            let (servers, options) = (rendezvous(global).await?, client_options(global)?);
            Some(short_code::redeem(global, &code, &servers, options).await?)
        }
        None => None,
    };
    let ticket = redeemed.as_ref().map(|redeemed| redeemed.ticket().to_string());
    let server = ticket.as_deref().unwrap_or(server);
    if !names_ticket(server) && arguments.paths.iter().any(|path| is_ticket(&path.to_string())) {
        return Err(CommandError::usage("the ticket comes first: manyway get TICKET PATH…"));
    }
    let (retry, limit) = (Some(arguments.transfer.retry), arguments.transfer.bwlimit);
    let transfer = Transfer {
        global,
        server,
        redeemed: redeemed.as_ref(),
        retry,
        limit,
        direction: Direction::In,
        end: End::Output,
        doing: "fetching",
        done: "fetched",
    };
    if arguments.output == Path::new("-") {
        return to_standard_output(&Transfer { end: End::Messages, ..transfer }, arguments).await;
    }
    if let Some(kind) = special_file(&arguments.output) {
        // Standard output may be such a file, too.
        return to_special_file(&Transfer { end: End::Messages, ..transfer }, arguments, kind).await;
    }
    let plan = &plan(arguments)?;
    transfer
        .run(|session, progress| async move {
            // Not before there is a connection.
            if let Err(error) = std::fs::create_dir_all(&plan.into) {
                return Err(TransferError::Local(Failure::from_io(&error).at(&plan.into)));
            }
            let Some(name) = &plan.name else { return get_with(&session, plan.clone(), progress).await };
            let renamed = Renamed { name: name.to_string(), output: arguments.output.display().to_string() };
            let report = get_with(&session, plan.clone(), renamed.clone().telling(progress)).await;
            report.map(|report| renamed.in_report(report))
        })
        .await
}

/// A file that is stored under another name. Its failures name the output as the user wrote it.
#[derive(Debug, Clone)]
struct Renamed {
    name: String,
    output: String,
}

impl Renamed {
    fn telling(self, progress: Arc<dyn Progress>) -> Arc<dyn Progress> {
        Arc::new(move |event: ProgressEvent<'_>| {
            if let ProgressEvent::Failed { name, failure, at } = event
                && name == self.name
            {
                progress.on_progress(ProgressEvent::Failed { name: &self.output, failure, at });
            } else {
                progress.on_progress(event);
            }
        })
    }

    fn in_report(&self, mut report: Report) -> Report {
        for failed in report.failed.iter_mut().filter(|failed| failed.name == self.name) {
            failed.name.clone_from(&self.output);
        }
        report
    }
}

/// Fetches one file to standard output.
async fn to_standard_output(transfer: &Transfer<'_>, arguments: &GetArgs) -> Result<ExitCode, CommandError> {
    let path = only_path(arguments)?;
    refuse_json(transfer.global)?;
    let outlet = Outlet::new(io::stdout());
    let result = stream(transfer, path, &outlet).await;
    match outlet.take_error() {
        Some(error) => Err(error.into()),
        None => result,
    }
}

/// Fetches one file into an existing device or pipe, which stays.
async fn to_special_file(
    transfer: &Transfer<'_>,
    arguments: &GetArgs,
    kind: SpecialFile,
) -> Result<ExitCode, CommandError> {
    let (path, output) = (only_path(arguments)?, &arguments.output);
    let failed = |error: &io::Error| CommandError::failed(Failure::from_io(error).at(output));
    let outlet = Outlet::new(open_special(output, kind).await?);
    let result = stream(transfer, path, &outlet).await;
    match outlet.take_error() {
        Some(error) => Err(failed(&error)),
        None => result,
    }
}

async fn stream(
    transfer: &Transfer<'_>,
    path: Option<RelativePath>,
    outlet: &Outlet,
) -> Result<ExitCode, CommandError> {
    transfer
        .run(|session, progress| {
            let (outlet, path) = (outlet.clone(), path.clone());
            async move { fetch(&session, path, &outlet, progress).await }
        })
        .await
}

/// The path whose content goes to an output for one file; `None` for the only one that is served.
fn only_path(arguments: &GetArgs) -> Result<Option<RelativePath>, CommandError> {
    match arguments.paths.as_slice() {
        [] => Ok(None),
        [path] => Ok(Some(path.clone())),
        [_, ..] => {
            let output = arguments.output.display();
            Err(CommandError::usage(format!("only one file can be written to this output (-o {output})")))
        }
    }
}

/// What is fetched and where to: into a directory, or one path under another name.
fn plan(arguments: &GetArgs) -> Result<GetPlan, CommandError> {
    let existing = match (arguments.keep, arguments.backup) {
        (true, _) => Existing::Keep,
        (false, true) => Existing::BackUp,
        (false, false) => Existing::Replace,
    };
    let rules = arguments.transfer.rules().map_err(CommandError::usage)?;
    let paths = arguments.paths.clone();
    let (into, name) = match renamed(&paths, &arguments.output)? {
        Some((into, name)) => (into, Some(name)),
        None => (arguments.output.clone(), None),
    };
    can_be_directory(&into)?;
    Ok(GetPlan { paths, rules, into, name, existing })
}

/// The directory and the new name, if `output` is a name: it is no directory, and one path was requested.
fn renamed(paths: &[RelativePath], output: &Path) -> Result<Option<(PathBuf, RelativePath)>, CommandError> {
    if paths.len() == 1 { new_name(output) } else { Ok(None) }
}
