//! `manyway send` without a server: offers the files here until one other side has fetched them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use manyway::{Endpoint, EndpointOptions, Identity, ServerOptions, Ticket};
use manyway_transfer::{Server, ServerConfig};
use serde_json::json;

use super::error::CommandError;
use super::network::connection_config;
use super::serve::{own_hosts, random};
use super::session::NetSession;
use super::signal::{close, until_interrupted_over};
use super::summary::Summary;
use super::tally::Tally;
use super::watch::PathWatch;
use crate::args::GlobalArgs;
use crate::exit_code::ExitCode;
use crate::output::progress::{ProgressMode, ProgressView};
use crate::output::{json, note, print_line};

/// Offers just these files, for reading, with keys that are good for nothing else. A client that is interrupted may
/// come back; the first one that has everything verified ends it.
///
/// # Errors
/// A file can not be offered, no port can be bound, or the user has had enough.
pub async fn run(global: &GlobalArgs, files: &[PathBuf]) -> Result<ExitCode, CommandError> {
    let view = Arc::new(ProgressView::new(ProgressMode::detect(global.quiet), "sending"));
    let tally = Arc::new(Tally::new(Arc::clone(&view)));
    let mut config = ServerConfig::default();
    config.application = concat!("manyway ", env!("CARGO_PKG_VERSION")).to_owned();
    let server = Server::offer(files, config, tally.clone())?;
    let (identity, secret) = (Identity::from_seed(&random()?), random()?);
    let mut options = EndpointOptions::default();
    options.connection = connection_config(global)?;
    options.server = Some(ServerOptions::new(identity.clone(), &secret));
    let endpoint = bind(options)?;
    let ticket = Ticket::new(identity.public_key().hash(), secret, own_hosts(&endpoint)?)
        .map_err(CommandError::usage)?;
    announce(global, &ticket)?;
    let started = Instant::now();
    tally.begin();
    let work = async {
        tokio::select! {
            report = server.fetched() => Ok(report),
            () = accept(&endpoint, &server, &view) => {
                Err(CommandError::new(ExitCode::Failed, "the network is gone"))
            }
        }
    };
    let result = until_interrupted_over(&endpoint, work).await;
    view.finish();
    let report = match result {
        Ok(report) => report,
        Err(error) => {
            let summary = Summary::new("sent", tally.so_far(), started.elapsed(), None);
            return Err(summary.explain(error));
        }
    };
    tally.end(report);
    let summary = Summary::new("sent", tally.so_far(), started.elapsed(), None);
    close(&endpoint, "everything has been fetched").await;
    summary.conclude(global)
}

/// At the port that firewalls know, or, if a server has it, at any other.
fn bind(mut options: EndpointOptions) -> Result<Endpoint, CommandError> {
    let any = options.server.as_ref().map(|server| {
        let mut server = server.clone();
        server.listen = vec![([0, 0, 0, 0], 0).into()];
        server
    });
    match Endpoint::bind(options.clone()) {
        Ok(endpoint) => Ok(endpoint),
        Err(_) => {
            options.server = any;
            Ok(Endpoint::bind(options)?)
        }
    }
}

async fn accept(endpoint: &Endpoint, server: &Server, view: &Arc<ProgressView>) {
    while let Some(connection) = endpoint.accept().await {
        let (server, view) = (server.clone(), Arc::clone(view));
        tokio::spawn(async move {
            let _watch = PathWatch::start(&connection, Arc::clone(&view));
            let session = NetSession(connection);
            server.run(&session).await;
            let end = session.0.closed().await;
            view.message(&format!("the other side is gone ({end}); it may come back with the same code"));
        });
    }
}

/// The code to standard output, everything else to standard error.
fn announce(global: &GlobalArgs, ticket: &Ticket) -> Result<(), CommandError> {
    let code = ticket.to_string();
    if global.json {
        json::print(&json!({ "code": code }))?;
        return Ok(());
    }
    if !global.quiet {
        note("waiting for the other side; there: manyway get CODE, with this code:");
    }
    print_line(&code)
}
