//! `manyway get`: files and directories from a server, over every interface at once.

use std::path::Path;

use manyway_transfer::{Failure, TransferError, get};

use super::error::CommandError;
use super::target::is_ticket;
use super::transfer::Transfer;
use crate::args::{GetArgs, GlobalArgs};
use crate::exit_code::ExitCode;

/// Fetches and verifies.
///
/// # Errors
/// If the server is not reached or has no such file, the output directory can not be written, or the transfer breaks.
pub async fn run(global: &GlobalArgs, arguments: &GetArgs) -> Result<ExitCode, CommandError> {
    let retry = arguments.transfer.retry;
    let server = arguments.ticket.as_str();
    if !is_ticket(server) && arguments.paths.iter().any(|path| is_ticket(&path.to_string())) {
        return Err(CommandError::usage("the ticket comes first: manyway get TICKET PATH…"));
    }
    can_be_directory(&arguments.output)?;
    let transfer = Transfer { global, server, retry, doing: "fetching", done: "fetched" };
    let (paths, output) = (&arguments.paths, &arguments.output);
    transfer
        .run(|session, progress| async move {
            // Not before there is somebody to fetch from.
            if let Err(error) = std::fs::create_dir_all(output) {
                return Err(TransferError::Local(Failure::from_io(&error).at(output)));
            }
            get(&session, paths.clone(), output.clone(), progress).await
        })
        .await
}

/// Whether a directory is there or can be made: no file stands in its place.
fn can_be_directory(output: &Path) -> Result<(), CommandError> {
    let nearest = output.ancestors().find_map(|place| Some((place, std::fs::metadata(place).ok()?)));
    match nearest {
        Some((place, facts)) if !facts.is_dir() => Err(CommandError::usage(format!(
            "-o names the directory to put everything in, and {} is a file; name another one, or move the file away",
            place.display()
        ))),
        Some(_) | None => Ok(()),
    }
}
