//! `manyway get`: files and directories from a server, over every interface at once.

use std::io;
use std::path::{Path, PathBuf};

use manyway_terminal::{CommandError, ExitCode};
use manyway_transfer::{Existing, Failure, GetPlan, Outlet, RelativePath, TransferError, fetch, get_with};

use super::summary::End;
use super::target::{is_ticket, names_ticket};
use super::transfer::Transfer;
use crate::args::{GetArgs, GlobalArgs};

/// Fetches and verifies.
///
/// # Errors
/// If the server is not reached or has no such file, the output can not be written, or the transfer breaks.
pub async fn run(global: &GlobalArgs, arguments: &GetArgs) -> Result<ExitCode, CommandError> {
    let server = arguments.ticket.as_str();
    if !names_ticket(server) && arguments.paths.iter().any(|path| is_ticket(&path.to_string())) {
        return Err(CommandError::usage("the ticket comes first: manyway get TICKET PATH…"));
    }
    let (retry, limit) = (Some(arguments.transfer.retry), arguments.transfer.bwlimit);
    let transfer =
        Transfer { global, server, retry, limit, end: End::Output, doing: "fetching", done: "fetched" };
    if arguments.output == Path::new("-") {
        return to_standard_output(&Transfer { end: End::Messages, ..transfer }, arguments).await;
    }
    let plan = &plan(arguments)?;
    transfer
        .run(|session, progress| async move {
            // Not before there is somebody to fetch from.
            if let Err(error) = std::fs::create_dir_all(&plan.into) {
                return Err(TransferError::Local(Failure::from_io(&error).at(&plan.into)));
            }
            get_with(&session, plan.clone(), progress).await
        })
        .await
}

/// One file, to whoever reads standard output.
async fn to_standard_output(transfer: &Transfer<'_>, arguments: &GetArgs) -> Result<ExitCode, CommandError> {
    let path = match arguments.paths.as_slice() {
        [] => None,
        [path] => Some(path.clone()),
        [_, ..] => return Err(CommandError::usage("only one file goes to standard output (-o -)")),
    };
    if transfer.global.json {
        return Err(CommandError::usage("with -o - the file goes to standard output; leave out --json"));
    }
    let outlet = Outlet::new(io::stdout());
    let result = transfer
        .run(|session, progress| {
            let (outlet, path) = (outlet.clone(), path.clone());
            async move { fetch(&session, path, &outlet, progress).await }
        })
        .await;
    match outlet.take_error() {
        Some(error) => Err(error.into()),
        None => result,
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

/// The directory and the new name, if `output` is one: it is no directory, and one path was asked for.
fn renamed(paths: &[RelativePath], output: &Path) -> Result<Option<(PathBuf, RelativePath)>, CommandError> {
    let ends_with_slash = output.as_os_str().as_encoded_bytes().ends_with(b"/");
    let (1, false, false, Some(name)) = (paths.len(), ends_with_slash, output.is_dir(), output.file_name())
    else {
        return Ok(None);
    };
    let refuse = |reason: &dyn std::fmt::Display| CommandError::usage(format!("-o: {reason}"));
    let name = name.to_str().ok_or_else(|| refuse(&"the name is not UTF-8"))?;
    let name = RelativePath::parse(name).map_err(|error| refuse(&error))?;
    let parent = output.parent().filter(|parent| !parent.as_os_str().is_empty());
    Ok(Some((parent.unwrap_or_else(|| Path::new(".")).to_owned(), name)))
}

/// Whether a directory is there or can be made: no file stands in its place.
fn can_be_directory(output: &Path) -> Result<(), CommandError> {
    let nearest = output.ancestors().find_map(|place| Some((place, std::fs::metadata(place).ok()?)));
    match nearest {
        Some((place, facts)) if !facts.is_dir() => Err(CommandError::usage(format!(
            "-o: not a directory: {}; name another one, or move the file away",
            place.display()
        ))),
        Some(_) | None => Ok(()),
    }
}
