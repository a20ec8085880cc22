//! `manyway send`: files and directories to a server, over every interface at once.

use std::sync::Arc;
use std::time::Instant;

use manyway_transfer::put;

use super::error::CommandError;
use super::network::connect;
use super::session::NetSession;
use super::signal::{close, until_interrupted_over};
use super::summary::Summary;
use super::watch::PathWatch;
use crate::args::{GlobalArgs, SendArgs};
use crate::exit_code::ExitCode;
use crate::output::progress::{ProgressMode, ProgressView};

/// Sends and waits until the server has verified everything.
///
/// # Errors
/// If a file is not there, the server is not reached or refuses, or the transfer breaks.
pub async fn run(global: &GlobalArgs, arguments: &SendArgs) -> Result<ExitCode, CommandError> {
    let recipient = arguments.recipient().map_err(CommandError::usage)?;
    for file in &recipient.files {
        std::fs::symlink_metadata(file)
            .map_err(|error| CommandError::new(ExitCode::Failed, format!("{}: {error}", file.display())))?;
    }
    let (endpoint, connection) = connect(global, &recipient.ticket).await?;
    let view = Arc::new(ProgressView::new(ProgressMode::detect(global.quiet), "sending"));
    let watch = PathWatch::start(&connection, Arc::clone(&view));
    let session = NetSession(connection);
    let started = Instant::now();
    let transfer = async {
        let result = put(&session, recipient.files, view.clone()).await;
        result.map_err(|error| CommandError::of_transfer(&error, session.0.close_reason()))
    };
    let result = until_interrupted_over(&endpoint, transfer).await;
    let elapsed = started.elapsed();
    drop(watch);
    view.finish();
    let report = result?;
    let summary = Summary::new("sent", &report, elapsed, session.0.info().await.ok().as_ref());
    let printed = summary.print(global);
    close(&endpoint, "done").await;
    ExitCode::of_report(&report).after_printing(printed)
}
