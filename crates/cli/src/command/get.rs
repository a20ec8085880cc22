//! `manyway get`: files and directories from a server, over every interface at once.

use manyway_transfer::{Failure, TransferError, get};

use super::error::CommandError;
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
