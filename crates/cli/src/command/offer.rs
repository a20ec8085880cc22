//! `manyway send` without a server: offers the files here until one client has fetched them.

use std::io::IsTerminal as _;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use manyway::{
    ClosedBy, ConnectionError, Endpoint, EndpointOptions, Identity, Locals, OfferedCode, ServerOptions,
    Ticket,
};
use manyway_proto::Rate;
use manyway_terminal::{CommandError, ExitCode, ProgressMode, json, print_line};
use manyway_transfer::{PutPlan, Server, ServerConfig};
use serde_json::json;
use tokio::sync::Mutex;

use super::advice::firewall;
use super::code::code_secret;
use super::direction::Direction;
use super::network::{check_carrier, connection_config, ledger, rendezvous, without_own_tunnels};
use super::serve::{own_hosts, random, refuse_interfaces};
use super::short_code;
use super::signal::{close, until_interrupted_over};
use super::summary::{End, Summary};
use super::tally::Tally;
use super::watch::{PathWatch, Paths};
use crate::args::GlobalArgs;
use crate::output::opening::Opening;
use crate::output::progress::ProgressView;
use crate::serving::limit::Limits;
use crate::serving::session::ClientSession;
use crate::status::Board;

/// Offers exactly these files, read-only, with keys for this offer alone. A client that is interrupted may reconnect;
/// the first one that has verified everything ends the offer.
///
/// # Errors
/// An option is for clients, a file cannot be offered, no port can be bound, or the user interrupted.
pub async fn run(global: &GlobalArgs, plan: PutPlan, limit: Option<Rate>) -> Result<ExitCode, CommandError> {
    check_options(global)?;
    let view = ProgressView::new(ProgressMode::detect(global.quiet), "sending");
    let view = Arc::new(view.counting(global.board.files()));
    // There is nothing to show before a client connects.
    view.pause();
    let tally = Arc::new(Tally::new(Arc::clone(&view)));
    let mut config = ServerConfig::default();
    config.application = concat!("manyway ", env!("CARGO_PKG_VERSION")).to_owned();
    let server = Server::offer(plan, config, tally.clone()).map_err(CommandError::failed)?;
    let (identity, secret) = (Identity::from_seed(&random()?), code_secret(random()?));
    let mut options = EndpointOptions::default();
    options.connection = connection_config(global)?;
    options.carriers = global.carriers();
    options.ledger = ledger(global)?;
    options.locals = Locals::Interfaces(without_own_tunnels());
    let servers = rendezvous(global).await?;
    options.connection.rendezvous.clone_from(&servers);
    options.server = Some(ServerOptions::new(identity.clone(), &secret));
    let endpoint = bind(options)?;
    let ticket = Ticket::new(identity.public_key().hash(), secret, own_hosts(&endpoint)?)
        .map_err(CommandError::usage)?;
    let mut code = short_code::offer(global, &endpoint, (&servers, &ticket)).await?;
    announce(global, (code.as_ref(), &ticket), &endpoint)?;
    // Waiting for the client is no part of the transfer.
    let (waiting, began) = (Instant::now(), OnceLock::new());
    let paths = Paths::default();
    tally.begin();
    let offer = Offer {
        is_by_short_code: code.is_some(),
        view: Arc::clone(&view),
        paths: paths.clone(),
        watch: Mutex::default(),
        board: global.board.clone(),
        limits: limit.map(|rate| Arc::new(Limits::new(rate))),
    };
    let work = async {
        tokio::select! {
            report = server.fetched() => Ok(report),
            () = offer.accept(&endpoint, &server, &began) => {
                Err(CommandError::new(ExitCode::Failed, "the network is gone"))
            }
            void = short_code::keep(code.as_mut()) => Err(void),
        }
    };
    let result = until_interrupted_over(&endpoint, work).await;
    offer.finish().await;
    view.finish();
    if let Some(code) = &mut code {
        code.close().await;
    }
    let elapsed = began.get().unwrap_or(&waiting).elapsed();
    let report = match result {
        Ok(report) => report,
        Err(error) => {
            let summary = Summary::new("sent", tally.so_far(), elapsed, paths.rows());
            summary.tell_part(global);
            return Err(summary.explain(error));
        }
    };
    let summary = Summary::new("sent", tally.end(report), elapsed, paths.rows());
    close(&endpoint, "everything has been fetched").await;
    summary.finish(global, End::Output)
}

/// # Errors
/// An option is for clients. TCP connections of the offer go to rendezvous servers alone.
fn check_options(global: &GlobalArgs) -> Result<(), CommandError> {
    refuse_interfaces(global, "")?;
    if global.connections.is_some() {
        return Err(CommandError::usage(
            "this command is a server, and its clients open the TCP connections; leave out --connections",
        ));
    }
    if global.via.is_some() && global.rendezvous.is_empty() {
        return Err(CommandError::usage(
            "without --rendezvous HOST this command opens no TCP connections; name one, or leave out --via",
        ));
    }
    check_carrier(global)
}

/// Binds the default port, or if it is taken any other, for each family that this host supports.
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
    Endpoint::bind(options).map_err(CommandError::failed)
}

/// What all clients of the offer share.
struct Offer {
    is_by_short_code: bool,
    view: Arc<ProgressView>,
    paths: Paths,
    watch: Mutex<Option<PathWatch>>,
    board: Board,
    limits: Option<Arc<Limits>>,
}

impl Offer {
    /// Records the last figures of the newest client.
    async fn finish(&self) {
        if let Some(watch) = &*self.watch.lock().await {
            watch.finish().await;
        }
    }

    /// Serves all clients, and records when the first one connected.
    async fn accept(&self, endpoint: &Endpoint, server: &Server, began: &OnceLock<Instant>) {
        while let Some(connection) = endpoint.accept().await {
            if began.set(Instant::now()).is_ok() {
                self.view.resume();
            }
            let started = began.get().copied().unwrap_or_else(Instant::now);
            self.board.add(None, &connection);
            let (server, view, limits) = (server.clone(), Arc::clone(&self.view), self.limits.clone());
            let is_by_short_code = self.is_by_short_code;
            // Only the newest connection is shown: a receiver that was killed and came back has two.
            let watch =
                PathWatch::start(&connection, Arc::clone(&view), &self.paths, (Direction::Out, started));
            if let Some(earlier) = self.watch.lock().await.replace(watch) {
                earlier.finish().await;
            }
            tokio::spawn(async move {
                server.run(&ClientSession::new(connection.clone(), limits)).await;
                let end = tokio::select! {
                    biased;
                    // The client that has fetched everything leaves: its end is no news.
                    _ = server.fetched() => return,
                    end = connection.closed() => end,
                };
                if matches!(end, ConnectionError::Closed { by: ClosedBy::Us, .. }) {
                    return;
                }
                view.message(&gone(&end, is_by_short_code));
            });
        }
    }
}

/// Prints the command for the other computer. A program that reads standard output gets the code alone.
fn announce(
    global: &GlobalArgs,
    (short, ticket): (Option<&OfferedCode>, &Ticket),
    endpoint: &Endpoint,
) -> Result<(), CommandError> {
    let code = short.map_or_else(|| ticket.to_string(), |short| short.code().to_string());
    if global.json {
        json::print(&json!({ "code": code }))?;
        return Ok(());
    }
    if global.quiet {
        return print_line(&code);
    }
    let option = short.map(|_| short_code::option_of(&global.rendezvous));
    opening((&code, option.as_deref()), std::io::stdout().is_terminal(), firewall(endpoint, None))
        .print(false)
}

/// The first lines; a short code comes with the option by which the other end finds it.
fn opening((code, option): (&str, Option<&str>), is_terminal: bool, firewall: String) -> Opening {
    let first = Opening::default().message("On the other computer run:\n");
    let command = format!("manyway get {code}{}", option.unwrap_or_default());
    let with_code = if is_terminal { first.data(command) } else { first.message(command).data(code) };
    with_code
        .message("")
        .message(firewall)
        .message_if_some(
            option.map(|_| "The code can be used once, within an hour; a wrong attempt makes it void."),
        )
        .message("Waiting for the other computer; Ctrl-C withdraws the code.")
}

/// What the user hears of a client that left before it had everything.
fn gone(end: &ConnectionError, is_by_short_code: bool) -> String {
    let how = if is_by_short_code { "" } else { " with the same code" };
    format!("the other side is gone ({end}); it may come back{how}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::advice::firewall_of;
    use crate::output::opening::tests::message;

    #[test]
    fn the_first_lines_of_an_offer_fit_every_terminal() {
        let code = "mw1aff5vv3wp733jgveanxzkisx5rtdphb7o5mbfnytpzpw5ov2opbjuayebjgqcapgbycauticahta4bakjubqdzqoddnredq";
        for width in [80, 120] {
            let screen = opening((code, None), true, firewall_of(4455, true, None)).screen(width);
            let gone = message(&gone(&ConnectionError::NoPath, false), width);
            insta::assert_snapshot!(format!("offer_{width}"), format!("{screen}\n{gone}"));
            let short = ("7-guitar-island", Some(" --rendezvous meet.example.org"));
            let screen = opening(short, true, firewall_of(4455, true, None)).screen(width);
            insta::assert_snapshot!(format!("offer_short_{width}"), screen);
        }
    }
}
