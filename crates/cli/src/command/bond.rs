//! The connection to the server, which is re-established after it broke for good.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use manyway::Endpoint;
use manyway::interfaces::{Change, InterfaceWatcher, LinkState};
use manyway_terminal::{CommandError, ExitCode};
use manyway_transfer::hello;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::egress;
use super::error::{of_connection, of_measurement};
use super::network;
use super::session::NetSession;
use super::signal::close_soon;
use crate::args::GlobalArgs;

/// A connection to a server.
#[derive(Debug)]
pub struct Bond {
    global: GlobalArgs,
    server: String,
    purpose: Purpose,
    session: watch::Sender<Option<NetSession>>,
    /// How many callers wait for a connection.
    waiting: watch::Sender<usize>,
    /// The endpoint of the session.
    endpoint: Mutex<Option<Endpoint>>,
}

/// What a connection is for: the server is asked for it before anything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// TCP connections that leave from the server.
    Egress,
    /// Files of the server.
    Files,
    /// Packets between sites. The server is asked by the first stream.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "needs a device"))]
    Sites,
}

impl Bond {
    /// Connects, and asks whether the server does what this client wants.
    ///
    /// # Errors
    /// The server is not reached, or refuses.
    pub async fn start(global: &GlobalArgs, server: &str, purpose: Purpose) -> Result<Self, CommandError> {
        let (endpoint, session) = attempt(global, server, purpose).await?;
        Ok(Self {
            global: global.clone(),
            server: server.to_owned(),
            purpose,
            session: watch::Sender::new(Some(session)),
            waiting: watch::Sender::new(0),
            endpoint: Mutex::new(Some(endpoint)),
        })
    }

    /// The options of the command.
    pub fn global(&self) -> &GlobalArgs {
        &self.global
    }

    /// The present connection; waits for an absent server as long as `--connect-timeout` says. `None`: it is still away.
    pub async fn session(&self) -> Option<NetSession> {
        let mut sessions = self.session.subscribe();
        let _waits = Waits::begin(&self.waiting);
        let there = tokio::time::timeout(
            self.global.connect_timeout(),
            sessions.wait_for(|session| session.as_ref().is_some_and(|it| it.0.close_reason().is_none())),
        );
        there.await.ok().and_then(|found| found.ok().and_then(|session| session.clone()))
    }

    /// Re-establishes the connection whenever it breaks. Ends only when that is useless, with the reason: for instance
    /// when the server does not accept this client any more.
    pub async fn keep(&self) -> CommandError {
        loop {
            let Some(session) = self.session.borrow().clone() else {
                return CommandError::new(ExitCode::Failed, "the connection is gone");
            };
            let reason = of_connection(session.0.closed().await);
            self.session.send_replace(None);
            self.end("the connection broke").await;
            if is_final(&reason) {
                return reason;
            }
            self.say(&format!("connection lost: {reason}; connecting again"));
            match self.again().await {
                Ok((endpoint, session)) => {
                    *self.endpoint.lock().unwrap_or_else(PoisonError::into_inner) = Some(endpoint);
                    self.session.send_replace(Some(session));
                    self.say("connected again");
                }
                Err(error) => return error,
            }
        }
    }

    /// Closes the connection to the server.
    pub async fn end(&self, reason: &str) {
        let endpoint = self.endpoint.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(endpoint) = endpoint {
            close_soon(&endpoint, reason).await;
        }
    }

    async fn again(&self) -> Result<(Endpoint, NetSession), CommandError> {
        let mut watcher = InterfaceWatcher::new()?;
        let mut waiting = self.waiting.subscribe();
        let mut pause = FIRST_PAUSE;
        loop {
            match attempt(&self.global, &self.server, self.purpose).await {
                Err(error) if !is_final(&error) => tracing::info!(reason = %error, "not connected"),
                result => return result,
            }
            let failed = Instant::now();
            // Interfaces that change often must not raise the rate of attempts.
            tokio::time::sleep(FIRST_PAUSE).await;
            tokio::select! {
                () = sleep_until(failed + pause) => pause = (pause * 2).min(LONGEST_PAUSE),
                () = caller_waits(&mut waiting, failed + LONGEST_WHILE_WANTED) => {}
                () = network_appears(&mut watcher) => pause = FIRST_PAUSE,
            }
        }
    }

    fn say(&self, text: &str) {
        if !self.global.quiet {
            self.global.desk.tell(text);
        }
    }
}

/// One attempt. An endpoint is dropped with its session, which ends its driver.
async fn attempt(
    global: &GlobalArgs,
    server: &str,
    purpose: Purpose,
) -> Result<(Endpoint, NetSession), CommandError> {
    let (endpoint, connection) = match purpose {
        Purpose::Files => network::connect_on(global, server, None).await?,
        Purpose::Egress | Purpose::Sites => network::connect(global, server).await?,
    };
    let session = NetSession(connection);
    let (error, reason) = match tokio::time::timeout(global.connect_timeout(), check(&session, purpose)).await
    {
        Ok(Ok(())) => return Ok((endpoint, session)),
        Ok(Err(error)) => (error, "refused"),
        Err(_) => (CommandError::new(ExitCode::Unreachable, "the server does not answer"), "no answer"),
    };
    close_soon(&endpoint, reason).await;
    Err(error)
}

async fn check(session: &NetSession, purpose: Purpose) -> Result<(), CommandError> {
    match purpose {
        Purpose::Egress => {
            let checked = manyway_egress::check(session).await;
            checked.map_err(|error| egress::explain(&error, session.0.close_reason()))
        }
        Purpose::Files => {
            let greeted = hello(session, concat!("manyway ", env!("CARGO_PKG_VERSION"))).await;
            greeted.map(drop).map_err(|error| of_measurement(&error, session.0.close_reason()))
        }
        Purpose::Sites => Ok(()),
    }
}

/// Whether another attempt would end the same way. The command line is none of the reasons: it was right for the first
/// connection, and names in it that are not found now may be found later.
fn is_final(error: &CommandError) -> bool {
    error.code.is_interruption() || matches!(error.code, ExitCode::Authentication | ExitCode::Policy)
}

/// Waits for a caller that waits for a connection, and until then.
async fn caller_waits(waiting: &mut watch::Receiver<usize>, until: Instant) {
    // The sender lives as long as the bond.
    let _ = waiting.wait_for(|callers| *callers > 0).await;
    sleep_until(until).await;
}

/// A caller that waits for a connection until this is dropped.
struct Waits<'a>(&'a watch::Sender<usize>);

impl<'a> Waits<'a> {
    fn begin(waiting: &'a watch::Sender<usize>) -> Self {
        waiting.send_modify(|callers| *callers += 1);
        Self(waiting)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|callers| *callers -= 1);
    }
}

/// Waits until an interface, an address or a route comes that was not there.
async fn network_appears(watcher: &mut InterfaceWatcher) {
    let brings = |change: &Change| match change {
        Change::Appeared { .. } | Change::AddressAdded { .. } | Change::Routes => true,
        Change::State { state, .. } => *state == LinkState::Up,
        Change::Vanished { .. } | Change::AddressRemoved { .. } | Change::Properties { .. } => false,
        // The list is open.
        _ => true,
    };
    while !watcher.changed().await.iter().any(brings) {}
}

const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Without a caller that waits: a machine at rest, perhaps on a metered link.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);
const LONGEST_WHILE_WANTED: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_not_found_for_a_while_is_looked_up_again_and_a_refusal_is_final() {
        let of = |code| is_final(&CommandError::new(code, "a reason"));
        assert!(![ExitCode::Usage, ExitCode::Unreachable, ExitCode::Failed].into_iter().any(of));
        assert!([ExitCode::Authentication, ExitCode::Policy, ExitCode::Interrupted].into_iter().all(of));
    }
}
