//! `manyway pipe`: standard input and output over the bond.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use manyway_egress::{Destination, Quota, RelayError, connect_as, relay};
use manyway_terminal::{CommandError, ExitCode};
use tokio::io::{AsyncWrite, Stdout};

use super::super::direction::Direction;
use super::super::error::of_connection;
use super::super::network;
use super::super::session::NetSession;
use super::super::signal::{close_soon, until_interrupted};
use super::explain;
use crate::args::{GlobalArgs, PipeArgs, Protocol};
use crate::traffic::{Traffic, treatment};

/// Connects, and copies until both directions have ended.
///
/// # Errors
/// The server is not reached or refuses, the destination is not reached, or the connection breaks.
pub async fn run(global: &GlobalArgs, arguments: &PipeArgs) -> Result<ExitCode, CommandError> {
    let destination =
        Destination::new(arguments.host.clone(), arguments.port).map_err(CommandError::usage)?;
    Direction::Both.tell_what_decides(global);
    let (endpoint, connection) = network::connect(global, &arguments.server).await?;
    let session = NetSession(connection);
    let result = until_interrupted(carry(global, &session, &destination)).await;
    close_soon(&endpoint, if result.is_ok() { "done" } else { "broken off" }).await;
    result.map(|()| ExitCode::Ok)
}

async fn carry(
    global: &GlobalArgs,
    session: &NetSession,
    destination: &Destination,
) -> Result<(), CommandError> {
    let treatment = treatment(&global.traffic_rules, Traffic::new(Protocol::Tcp, destination, None));
    let opened = connect_as(session, destination, treatment).await.map_err(|error| {
        let error = explain(&error, session.0.close_reason());
        CommandError { text: format!("{destination}: {error}"), ..error }
    })?;
    let local = (tokio::io::stdin(), Output(tokio::io::stdout()));
    match relay(local, (opened.send, opened.receive), &Quota::unlimited()).await {
        Ok(_) => Ok(()),
        Err(RelayError::Local(error)) => Err(error.into()),
        Err(error) => Err(match session.0.close_reason() {
            Some(reason) => of_connection(reason),
            None => CommandError::new(ExitCode::Failed, format!("{destination}: {error}")),
        }),
    }
}

/// Standard output, whose reader sees the end although this process goes on.
struct Output(Stdout);

impl AsyncWrite for Output {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.0).poll_flush(context))?;
        Poll::Ready(close())
    }
}

#[cfg(unix)]
fn close() -> io::Result<()> {
    // The old standard output has no writer any more; later writes go to the null device.
    let nowhere = std::fs::File::options().write(true).open("/dev/null")?;
    Ok(rustix::stdio::dup2_stdout(nowhere)?)
}

#[cfg(not(unix))]
fn close() -> io::Result<()> {
    Ok(())
}
