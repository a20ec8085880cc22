//! `manyway run` on Linux.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use manyway_capture::{CaptureError, Captured, Config, LARGEST_MTU, Prepared};
use manyway_terminal::{CommandError, ExitCode, note};
use tokio::task::JoinSet;

use super::super::super::direction::Direction;
use super::super::super::signal::{leave_signals_to_command, until_interrupted};
use super::super::bond::EgressBond;
use super::super::captured::{Incoming, packets, relay};
use super::super::listening::{MOST, PAUSE};
use super::signals::Signals;
use crate::args::{GlobalArgs, RunArgs};

/// How long data of a command that has ended may take to reach the server, as the system would send on what a program
/// has written before its end.
const LAST_DATA: Duration = Duration::from_secs(2);
/// How long after the end of the last connection none of them is taken for new.
const NO_MORE: Duration = Duration::from_millis(1);

pub(super) async fn run(global: &GlobalArgs, arguments: &RunArgs) -> Result<ExitCode, CommandError> {
    let namespace = until_interrupted(async {
        let mut config = Config::default();
        config.mtu = LARGEST_MTU;
        Prepared::new(&config, &arguments.command).await.map_err(refused)
    })
    .await?;
    Direction::Both.tell_what_decides(global);
    let bond = Arc::new(EgressBond::start(global, &arguments.server).await?);
    let signals = Signals::listen()?;
    let started = until_interrupted(async { namespace.start().await.map_err(refused) }).await;
    let result = match started {
        Ok(captured) => {
            leave_signals_to_command();
            serve(captured, &bond, signals).await
        }
        Err(error) => Err(error),
    };
    bond.bond().end("the command has ended").await;
    result
}

fn refused(error: CaptureError) -> CommandError {
    let code = if let CaptureError::Command { status, .. } = error {
        ExitCode::Command(status)
    } else {
        ExitCode::Failed
    };
    CommandError::new(code, error)
}

/// Serves the command until its end.
async fn serve(
    captured: Captured,
    bond: &Arc<EgressBond>,
    mut signals: Signals,
) -> Result<ExitCode, CommandError> {
    let Captured { mut command, connections, tun } = captured;
    let tun = Arc::new(tun);
    let mut relays = JoinSet::new();
    let rest = packets(&tun, bond, None);
    let kept = keep(bond);
    tokio::pin!(rest, kept);
    let status = loop {
        tokio::select! {
            status = command.wait() => break status?,
            signal = signals.next() => signals.pass_on(signal, &command),
            accepted = connections.accept(), if relays.len() < MOST => match accepted {
                Ok((socket, destination)) => {
                    relays.spawn(relay(Arc::clone(bond), Incoming::Accepted(socket, destination), destination));
                }
                Err(error) => {
                    tracing::warn!(reason = %error, "accept failed");
                    tokio::time::sleep(PAUSE).await;
                }
            },
            Some(_) = relays.join_next() => {}
            never = &mut rest => match never {},
            never = &mut kept => match never {},
        }
    };
    let _ = tokio::time::timeout(LAST_DATA, async {
        // Connections that the command has begun, but that were not taken yet.
        while let Ok(Ok((socket, destination))) = tokio::time::timeout(NO_MORE, connections.accept()).await {
            relays.spawn(relay(Arc::clone(bond), Incoming::Accepted(socket, destination), destination));
        }
        while relays.join_next().await.is_some() {}
    })
    .await;
    relays.shutdown().await;
    Ok(ExitCode::Command(status))
}

/// Keeps the connection to the server. If that becomes useless, says so: the command goes on without any network, since
/// ending it could lose the user's work.
async fn keep(bond: &EgressBond) -> Infallible {
    let error = bond.bond().keep().await;
    note(&format!("error: {error}; the command has no network any more"));
    std::future::pending().await
}
