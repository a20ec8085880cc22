//! How an endpoint reaches rendezvous servers: over which interfaces, by which carriers, through which proxy.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use manyway_proto::{LocalAddress, Role};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::error::CodeError;
use crate::carriers::CarrierChoice;
use crate::link::{Command, Errand};
use crate::tcp::{CONNECT_TIMEOUT, RecordStream, Settings, connect};

/// Time from the attempts over other interfaces to those over backups.
const BEFORE_BACKUP: Duration = Duration::from_secs(1);

/// What a code needs of an endpoint.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    pub(crate) commands: mpsc::WeakUnboundedSender<Command>,
    pub(crate) choice: CarrierChoice,
    pub(crate) settings: Settings,
}

impl Access {
    /// An endpoint that has ended does nothing any more.
    pub(super) fn send(&self, errand: Errand) {
        if let Some(commands) = self.commands.upgrade() {
            let _ = commands.send(Command::Rendezvous(errand));
        }
    }

    /// The local addresses that lead to a server now, with port 0 and their roles: one of each interface.
    ///
    /// # Errors
    /// No interface leads there, or the endpoint is closed.
    pub(super) async fn locals(&self, server: SocketAddr) -> Result<Vec<(LocalAddress, Role)>, CodeError> {
        let (reply, answer) = oneshot::channel();
        self.send(Errand::FindLocals { server, reply });
        answer.await.map_err(|_| CodeError::EndpointClosed)?.map_err(CodeError::NoInterface)
    }

    /// Checks that an interface leads to one of the servers.
    ///
    /// # Errors
    /// As [`locals`](Self::locals).
    pub(super) async fn check(&self, servers: &[SocketAddr]) -> Result<(), CodeError> {
        let mut result = Ok(());
        for server in servers {
            result = self.locals(*server).await.map(|_| ());
            if result.is_ok() {
                break;
            }
        }
        result
    }

    /// Connects to a server over every interface that leads there, those for backup last, and keeps the first connection.
    ///
    /// # Errors
    /// No attempt succeeds: the reason of the last one.
    pub(super) async fn connect(&self, server: SocketAddr) -> io::Result<RecordStream> {
        let mut attempts = JoinSet::new();
        let locals = self.locals(server).await.map_err(io::Error::other)?;
        let is_backup = |role| role == Role::Backup;
        let has_others = !locals.iter().all(|(_, role)| is_backup(*role));
        for (local, role) in locals {
            let wait = if has_others && is_backup(role) { BEFORE_BACKUP } else { Duration::ZERO };
            let connecting = connect(local, (server, false), self.settings.clone());
            attempts.spawn(async move {
                tokio::time::sleep(wait).await;
                tokio::time::timeout(CONNECT_TIMEOUT, connecting).await?
            });
        }
        let mut failure = io::ErrorKind::NotConnected.into();
        while let Some(finished) = attempts.join_next().await {
            match finished? {
                Ok(stream) => return Ok(stream),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }
}
