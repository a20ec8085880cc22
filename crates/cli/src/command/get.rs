//! `manyway get`: files and directories from a server, over every interface at once.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use manyway_terminal::{CommandError, ExitCode};
use manyway_transfer::{
    Existing, Failure, GetPlan, Outlet, Progress, ProgressEvent, RelativePath, Report, TransferError, fetch,
    get_with,
};

use super::direction::Direction;
use super::signal::until_interrupted;
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
    if !names_ticket(server) && arguments.paths.iter().any(|path| is_ticket(&path.to_string())) {
        return Err(CommandError::usage("the ticket comes first: manyway get TICKET PATH…"));
    }
    let (retry, limit) = (Some(arguments.transfer.retry), arguments.transfer.bwlimit);
    let transfer = Transfer {
        global,
        server,
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
    if transfer.global.json {
        return Err(CommandError::usage("with -o - the file goes to standard output; leave out --json"));
    }
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
    if kind == SpecialFile::Socket {
        let text = format!("-o: {} is a socket, and a file can not be written to it", output.display());
        return Err(CommandError::usage(text));
    }
    let failed = |error: &io::Error| CommandError::failed(Failure::from_io(error).at(output));
    // Opening a pipe waits for its reader.
    let place = output.clone();
    let opening = tokio::task::spawn_blocking(move || File::options().write(true).open(place));
    let file = until_interrupted(async {
        let opened = opening.await.map_err(|error| CommandError::new(ExitCode::Failed, error))?;
        opened.map_err(|error| failed(&error))
    });
    let outlet = Outlet::new(file.await?);
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

/// The kind of an output that is neither a regular file nor a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SpecialFile {
    /// A device or pipe.
    Stream,
    Socket,
}

/// The kind of `path`, links followed, if it is no regular file and no directory.
fn special_file(path: &Path) -> Option<SpecialFile> {
    let kind = std::fs::metadata(path).ok()?.file_type();
    if kind.is_file() || kind.is_dir() {
        return None;
    }
    #[cfg(unix)]
    if std::os::unix::fs::FileTypeExt::is_socket(&kind) {
        return Some(SpecialFile::Socket);
    }
    Some(SpecialFile::Stream)
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

/// Whether a directory exists or can be created: no file stands in its place.
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
