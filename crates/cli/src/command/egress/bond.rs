//! Connections that leave from the server.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use manyway_egress::{ClassedSend, Destination, EgressError, Opened, Reason, Refusal, Treatment, connect_as};
use manyway_terminal::{CommandError, note};
use manyway_transfer::Session;

use super::super::bond::{Bond, Purpose};
use super::super::session::NetSession;
use crate::args::{GlobalArgs, Protocol};
use crate::traffic::{Traffic, treatment};

/// A connection to a server with egress.
#[derive(Debug)]
pub struct EgressBond {
    bond: Bond,
    /// The failure that was last reported, and when; failures may be frequent.
    told: Mutex<Option<(Instant, String)>>,
}

/// A TCP connection at the server's side.
pub type Connected = Opened<ClassedSend<NetSession>, <NetSession as Session>::Receive>;

impl EgressBond {
    /// Connects, and asks whether the server carries connections of this client.
    ///
    /// # Errors
    /// The server is not reached, or refuses.
    pub async fn start(global: &GlobalArgs, server: &str) -> Result<Self, CommandError> {
        Ok(Self { bond: Bond::start(global, server, Purpose::Egress).await?, told: Mutex::default() })
    }

    /// The connection to the server.
    pub fn bond(&self) -> &Bond {
        &self.bond
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
        match self.bond.session().await {
            Some(session) => {
                let treatment = self.treatment(Traffic::new(Protocol::Tcp, destination, None));
                let opened = connect_as(&session, destination, treatment).await;
                (opened, session.0.close_reason().is_some())
            }
            None => (Err(Refusal::with_text(Reason::Other, "the server is away").into()), false),
        }
    }

    /// How the settings treat this traffic.
    pub fn treatment(&self, traffic: Traffic) -> Treatment {
        treatment(&self.bond.global().traffic_rules, traffic)
    }

    /// Tells the user something.
    pub(super) fn say(&self, text: &str) {
        if !self.bond.global().quiet {
            note(text);
        }
    }

    /// Reports a failure to the user.
    pub(super) fn tell(&self, destination: &Destination, error: &EgressError) {
        self.tell_text(&format!("{destination}: {error}"));
    }

    /// Reports a failure to the user: at most one a second, and the same one again only after a minute.
    pub(super) fn tell_text(&self, text: &str) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = told.as_ref().is_none_or(|(at, before)| {
            at.elapsed() >= Duration::from_secs(if before == text { 60 } else { 1 })
        });
        if is_due && !self.bond.global().quiet {
            *told = Some((Instant::now(), text.to_owned()));
            note(text);
        }
    }
}
