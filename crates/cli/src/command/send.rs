//! `manyway send`: files and directories to a server, over every interface at once.

use manyway_transfer::put;

use super::error::CommandError;
use super::offer;
use super::transfer::Transfer;
use crate::args::{GlobalArgs, SendArgs};
use crate::exit_code::ExitCode;

/// Sends and waits until the server has verified everything; without a server, waits until somebody has fetched it.
///
/// # Errors
/// If a file is not there, the server is not reached or refuses, or the transfer breaks.
pub async fn run(global: &GlobalArgs, arguments: &SendArgs) -> Result<ExitCode, CommandError> {
    let recipient = arguments.recipient().map_err(CommandError::usage)?;
    for file in &recipient.files {
        std::fs::symlink_metadata(file)
            .map_err(|error| CommandError::new(ExitCode::Failed, format!("{}: {error}", file.display())))?;
    }
    let Some(server) = &recipient.server else { return offer::run(global, &recipient.files).await };
    let retry = arguments.transfer.retry;
    let transfer = Transfer { global, server, retry, doing: "sending", done: "sent" };
    let files = &recipient.files;
    transfer.run(|session, progress| async move { put(&session, files.clone(), progress).await }).await
}
