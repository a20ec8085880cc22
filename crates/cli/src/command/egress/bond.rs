//! The connection to the server, which is re-established after it broke for good.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use manyway::Endpoint;
use manyway_egress::{Destination, EgressError, Opened, Reason, Refusal, check, connect};
use manyway_terminal::{CommandError, ExitCode, note};
use manyway_transfer::Session;
use tokio::sync::watch;

use super::super::error::of_connection;
use super::super::network;
use super::super::session::NetSession;
use super::super::signal::close_soon;
use super::explain;
use crate::args::GlobalArgs;

/// A connection to a server with egress.
#[derive(Debug)]
pub struct Bond {
    global: GlobalArgs,
    server: String,
    session: watch::Sender<Option<NetSession>>,
    /// The endpoint of the session.
    endpoint: Mutex<Option<Endpoint>>,
    /// When a failure was last reported; failures may be frequent.
    told: Mutex<Option<Instant>>,
}

/// A TCP connection at the server's side.
pub type Connected = Opened<<NetSession as Session>::Send, <NetSession as Session>::Receive>;

impl Bond {
    /// Connects, and asks whether the server carries connections of this client.
    ///
    /// # Errors
    /// The server is not reached, or refuses.
    pub async fn start(global: &GlobalArgs, server: &str) -> Result<Self, CommandError> {
        let (endpoint, session) = attempt(global, server).await?;
        Ok(Self {
            global: global.clone(),
            server: server.to_owned(),
            session: watch::Sender::new(Some(session)),
            endpoint: Mutex::new(Some(endpoint)),
            told: Mutex::default(),
        })
    }

    /// Opens a TCP connection; waits for an absent server as long as `--connect-timeout` says. If the connection to
    /// the server turns out to be broken, as after a crash of the server, it tries once more over the next one: no data
    /// of the program was carried yet.
    ///
    /// # Errors
    /// Why it failed.
    pub async fn connect(&self, destination: &Destination) -> Result<Connected, EgressError> {
        let (mut result, is_broken) = self.attempt(destination).await;
        if is_broken && result.is_err() {
            (result, _) = self.attempt(destination).await;
        }
        if let Err(error) = &result {
            self.tell(destination, error);
        }
        result
    }

    /// One attempt, and whether the connection to the server broke meanwhile.
    async fn attempt(&self, destination: &Destination) -> (Result<Connected, EgressError>, bool) {
        let mut sessions = self.session.subscribe();
        let there = tokio::time::timeout(
            self.global.connect_timeout(),
            sessions.wait_for(|session| session.as_ref().is_some_and(|it| it.0.close_reason().is_none())),
        );
        let session = there.await.ok().and_then(|found| found.ok().and_then(|session| session.clone()));
        match session {
            Some(session) => (connect(&session, destination).await, session.0.close_reason().is_some()),
            None => (Err(Refusal::with_text(Reason::Other, "the server is away").into()), false),
        }
    }

    /// Reports a failure to the user: at most one a second.
    fn tell(&self, destination: &Destination, error: &EgressError) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = told.is_none_or(|at| at.elapsed() >= Duration::from_secs(1));
        if is_due && !self.global.quiet {
            *told = Some(Instant::now());
            note(&format!("{destination}: {error}"));
        }
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
        let mut pause = FIRST_PAUSE;
        loop {
            match attempt(&self.global, &self.server).await {
                Err(error) if !is_final(&error) => {
                    tracing::info!(reason = %error, "not connected");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                result => return result,
            }
        }
    }

    fn say(&self, text: &str) {
        if !self.global.quiet {
            note(text);
        }
    }
}

/// One attempt. An endpoint is dropped with its session, which ends its driver.
async fn attempt(global: &GlobalArgs, server: &str) -> Result<(Endpoint, NetSession), CommandError> {
    let (endpoint, connection) = network::connect(global, server).await?;
    let session = NetSession(connection);
    let checked = tokio::time::timeout(global.connect_timeout(), check(&session)).await;
    let error = match checked {
        Ok(Ok(())) => return Ok((endpoint, session)),
        Ok(Err(error)) => explain(&error, session.0.close_reason()),
        Err(_) => CommandError::new(ExitCode::Unreachable, "the server does not answer"),
    };
    close_soon(&endpoint, "not let out").await;
    Err(error)
}

/// Whether another attempt would end the same way.
fn is_final(error: &CommandError) -> bool {
    error.code.is_interruption()
        || matches!(error.code, ExitCode::Authentication | ExitCode::Policy | ExitCode::Usage)
}

const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(8);
