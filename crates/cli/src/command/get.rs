//! `manyway get`: files and directories from a server, over every interface at once.

use std::sync::Arc;
use std::time::Instant;

use manyway_transfer::get;

use super::error::CommandError;
use super::network::connect;
use super::session::NetSession;
use super::signal::{close, until_interrupted_over};
use super::summary::Summary;
use super::watch::PathWatch;
use crate::args::{GetArgs, GlobalArgs};
use crate::exit_code::ExitCode;
use crate::output::progress::{ProgressMode, ProgressView};

/// Fetches and verifies.
///
/// # Errors
/// If the server is not reached or has no such file, the output directory can not be written, or the transfer breaks.
pub async fn run(global: &GlobalArgs, arguments: &GetArgs) -> Result<ExitCode, CommandError> {
    std::fs::create_dir_all(&arguments.output).map_err(|error| {
        CommandError::new(ExitCode::Failed, format!("{}: {error}", arguments.output.display()))
    })?;
    let (endpoint, connection) = connect(global, &arguments.ticket).await?;
    let view = Arc::new(ProgressView::new(ProgressMode::detect(global.quiet), "fetching"));
    let watch = PathWatch::start(&connection, Arc::clone(&view));
    let session = NetSession(connection);
    let started = Instant::now();
    let transfer = async {
        let result = get(&session, arguments.paths.clone(), arguments.output.clone(), view.clone()).await;
        result.map_err(|error| CommandError::of_transfer(&error, session.0.close_reason()))
    };
    let result = until_interrupted_over(&endpoint, transfer).await;
    let elapsed = started.elapsed();
    drop(watch);
    view.finish();
    let report = result?;
    let summary = Summary::new("fetched", &report, elapsed, session.0.info().await.ok().as_ref());
    let printed = summary.print(global);
    close(&endpoint, "done").await;
    ExitCode::of_report(&report).after_printing(printed)
}
