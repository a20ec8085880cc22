//! `manyway send`: files and directories to a server, over every interface at once.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use manyway::Wire;
use manyway_terminal::{CommandError, ExitCode, note};
use manyway_transfer::{Failure, Feed, PutItem, PutPlan, RelativePath, put};

use super::direction::Direction;
use super::offer;
use super::summary::End;
use super::target::is_saved;
use super::transfer::Transfer;
use crate::args::{GlobalArgs, SendArgs};

/// Sends and waits until the server has verified everything; without a server, waits until a client has fetched it.
///
/// # Errors
/// If a file is not there, the server is not reached or refuses, or the transfer breaks.
pub async fn run(global: &GlobalArgs, arguments: &SendArgs) -> Result<ExitCode, CommandError> {
    let recipient = arguments.recipient().map_err(CommandError::usage)?;
    let plan = plan(arguments, &recipient.files)?;
    let limit = arguments.transfer.bwlimit;
    if recipient.server.is_none() && global.wire == Wire::Mmsp1 {
        return Err(CommandError::usage(
            "an offer is protected by the secret in its code, which never goes over MMSP/1; name a server by --to HOST, or \
             leave out --wire mmsp1",
        ));
    }
    let Some(server) = &recipient.server else {
        if arguments.primary.is_some() {
            return Err(CommandError::usage("--primary is for a server that is named, by a ticket or --to"));
        }
        if let Some(text) = meant_otherwise(&recipient.files, is_saved).filter(|_| !global.quiet) {
            note(&text);
        }
        return offer::run(global, plan, limit).await;
    };
    let global = &GlobalArgs { primary: arguments.primary.clone(), ..global.clone() };
    let is_repeatable = plan.items.iter().all(|item| !matches!(item, PutItem::Feed(_)));
    let retry = is_repeatable.then_some(arguments.transfer.retry);
    let transfer = Transfer {
        global,
        server,
        redeemed: None,
        retry,
        limit,
        direction: Direction::Out,
        end: End::Output,
        doing: "sending",
        done: "sent",
    };
    let plan = &plan;
    transfer.run(|session, progress| async move { put(&session, plan.clone(), progress).await }).await
}

/// What to say if the last file has the name of a saved server, which may have been meant.
fn meant_otherwise(files: &[PathBuf], is_saved: impl Fn(&str) -> bool) -> Option<String> {
    let (last, others) = files.split_last()?;
    let name = last.to_str().filter(|name| !others.is_empty() && is_saved(name))?;
    Some(format!(
        "{name} is a file or directory here, so it is offered, too; `--to {name}` names the saved server"
    ))
}

/// What is sent: existing files and directories, standard input, and pipes.
fn plan(arguments: &SendArgs, files: &[PathBuf]) -> Result<PutPlan, CommandError> {
    if arguments.name.is_some() && files.len() != 1 {
        return Err(CommandError::usage("--name needs just one file or directory"));
    }
    let rules = arguments.transfer.rules().map_err(CommandError::usage)?;
    let items = files.iter().map(|file| item(file, arguments.name.clone())).collect::<Result<_, _>>()?;
    Ok(PutPlan { items, rules })
}

fn item(path: &Path, name: Option<RelativePath>) -> Result<PutItem, CommandError> {
    if path == Path::new("-") {
        let name = name.map_or_else(|| RelativePath::parse("stdin"), Ok).map_err(CommandError::usage)?;
        return Ok(PutItem::Feed(Feed::new(name, io::stdin())));
    }
    let facts =
        std::fs::metadata(path).map_err(|error| CommandError::failed(Failure::from_io(&error).at(path)))?;
    if !is_pipe(&facts) {
        if !facts.is_file() && !facts.is_dir() {
            return Err(CommandError::usage(format!(
                "{} is a device or socket; files, directories and pipes can be sent. `manyway send - --name NAME` sends \
                 what standard input gives",
                path.display()
            )));
        }
        return Ok(PutItem::Path { path: path.to_owned(), name });
    }
    let own = path.file_name().and_then(|name| name.to_str()).unwrap_or("pipe");
    let name = name.map_or_else(|| RelativePath::parse(own), Ok).map_err(CommandError::usage)?;
    Ok(PutItem::Feed(Feed::new(name, Pipe { path: path.to_owned(), file: None })))
}

#[cfg(unix)]
fn is_pipe(facts: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    facts.file_type().is_fifo()
}

#[cfg(not(unix))]
fn is_pipe(_: &std::fs::Metadata) -> bool {
    false
}

/// A named pipe, which is opened when it is read: that may have to wait for its writer.
struct Pipe {
    path: PathBuf,
    file: Option<File>,
}

impl Read for Pipe {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(File::open(&self.path)?),
        };
        file.read(space)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use manyway_terminal::ExitCode;

    use super::*;

    #[test]
    fn a_file_with_the_name_of_a_saved_server_is_told() {
        let told = |files: &[&str]| {
            let files: Vec<_> = files.iter().map(PathBuf::from).collect();
            meant_otherwise(&files, |name| name == "home")
        };
        let text =
            "home is a file or directory here, so it is offered, too; `--to home` names the saved server";
        assert_eq!(told(&["film.mp4", "home"]).as_deref(), Some(text));
        assert_eq!(told(&["home"]), None, "a server alone sends nothing");
        assert_eq!(told(&["home", "film.mp4"]), None);
    }

    #[test]
    fn a_device_is_refused_with_what_can_be_sent_instead() {
        let error = item(Path::new("/dev/null"), None).unwrap_err();
        assert_eq!(error.code, ExitCode::Usage);
        assert_eq!(
            error.text,
            "/dev/null is a device or socket; files, directories and pipes can be sent. `manyway send - --name NAME` \
             sends what standard input gives"
        );
        let place = tempfile::TempDir::new().unwrap();
        assert!(matches!(item(place.path(), None), Ok(PutItem::Path { .. })));
    }
}
