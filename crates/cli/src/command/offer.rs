//! `manyway send` without a server: offers the files here until one other side has fetched them.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use manyway::{ClosedBy, ConnectionError, Endpoint, EndpointOptions, Identity, ServerOptions, Ticket};
use manyway_transfer::{Server, ServerConfig};
use serde_json::json;

use super::error::CommandError;
use super::network::{connection_config, ledger, rendezvous};
use super::serve::{own_hosts, random, refuse_options_of_clients};
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
/// An option chooses interfaces, a file can not be offered, no port can be bound, or the user has had enough.
pub async fn run(global: &GlobalArgs, files: &[PathBuf]) -> Result<ExitCode, CommandError> {
    refuse_options_of_clients(global, ": who offers files is a server; whoever fetches them may choose")?;
    let view = Arc::new(ProgressView::new(ProgressMode::detect(global.quiet), "sending"));
    let tally = Arc::new(Tally::new(Arc::clone(&view)));
    let mut config = ServerConfig::default();
    config.application = concat!("manyway ", env!("CARGO_PKG_VERSION")).to_owned();
    let server = Server::offer(files, config, tally.clone())?;
    let (identity, secret) = (Identity::from_seed(&random()?), random()?);
    let mut options = EndpointOptions::default();
    options.connection = connection_config(global)?;
    options.ledger = ledger(global)?;
    options.connection.rendezvous = rendezvous(global).await?;
    options.server = Some(ServerOptions::new(identity.clone(), &secret));
    let endpoint = bind(options)?;
    let ticket = Ticket::new(identity.public_key().hash(), secret, own_hosts(&endpoint)?)
        .map_err(CommandError::usage)?;
    announce(global, &ticket)?;
    // Waiting for the other side is no part of the transfer.
    let (waiting, began) = (Instant::now(), OnceLock::new());
    tally.begin();
    let work = async {
        tokio::select! {
            report = server.fetched() => Ok(report),
            () = accept(&endpoint, &server, &view, &began) => {
                Err(CommandError::new(ExitCode::Failed, "the network is gone"))
            }
        }
    };
    let result = until_interrupted_over(&endpoint, work).await;
    view.finish();
    let elapsed = began.get().unwrap_or(&waiting).elapsed();
    let report = match result {
        Ok(report) => report,
        Err(error) => {
            let summary = Summary::new("sent", tally.so_far(), elapsed, None);
            return Err(summary.explain(error));
        }
    };
    tally.end(report);
    let summary = Summary::new("sent", tally.so_far(), elapsed, None);
    close(&endpoint, "everything has been fetched").await;
    summary.conclude(global)
}

/// At the port that firewalls know, or, if a server has it, at any other: of each family that this host has.
fn bind(mut options: EndpointOptions) -> Result<Endpoint, CommandError> {
    let (v4, v6) = ((Ipv4Addr::UNSPECIFIED, 0).into(), (Ipv6Addr::UNSPECIFIED, 0).into());
    for listen in [vec![], vec![v4, v6], vec![v4]] {
        if let Some(server) = &mut options.server {
            server.listen = listen;
        }
        if let Ok(endpoint) = Endpoint::bind(options.clone()) {
            return Ok(endpoint);
        }
    }
    if let Some(server) = &mut options.server {
        server.listen = vec![v6];
    }
    Ok(Endpoint::bind(options)?)
}

/// Serves all who come, and notes when the first one did.
async fn accept(endpoint: &Endpoint, server: &Server, view: &Arc<ProgressView>, began: &OnceLock<Instant>) {
    while let Some(connection) = endpoint.accept().await {
        began.get_or_init(Instant::now);
        let (server, view) = (server.clone(), Arc::clone(view));
        tokio::spawn(async move {
            let _watch = PathWatch::start(&connection, Arc::clone(&view));
            let session = NetSession(connection);
            server.run(&session).await;
            let end = session.0.closed().await;
            if matches!(end, ConnectionError::Closed { by: ClosedBy::Us, .. }) {
                return;
            }
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
