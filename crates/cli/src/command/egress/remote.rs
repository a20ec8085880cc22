//! `manyway forward -R`: ports at the server that are connected from here.

mod addresses;
mod datagrams;
mod rules;
mod service;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use manyway_egress::{
    ClassedSend, Destination, EgressError, Host, Listening, Reason, accept, listen, listen_datagrams,
};
use manyway_terminal::CommandError;
use manyway_transfer::Session;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::super::session::NetSession;
use super::bond::EgressBond;
use super::explain;
use super::listening::carry_stream;
use crate::args::{ForwardRule, Protocol};
use crate::traffic::Traffic;
use addresses::Addresses;
use rules::{Forwarded, PATIENCE, forwarded};

/// Listeners at the server.
pub(super) struct Remote {
    rules: Arc<[Forwarded]>,
    /// On which connection, and with the ports that the server chose.
    listening: Listeners,
}

type Stream<S> = (<S as Session>::Send, <S as Session>::Receive);

struct Listeners {
    session: NetSession,
    open: Vec<Listening>,
}

impl Remote {
    /// Lets the server listen.
    ///
    /// # Errors
    /// It refuses one of the ports, or the connection broke.
    pub(super) async fn start(bond: &EgressBond, rules: &[ForwardRule]) -> Result<Self, CommandError> {
        let session =
            bond.bond().session().await.ok_or_else(|| CommandError::failed("the server is away"))?;
        let rules: Arc<[Forwarded]> = rules
            .iter()
            .map(|rule| Forwarded {
                rule: rule.clone(),
                treatment: bond.treatment(Traffic::new(rule.protocol, &rule.destination, None)),
                addresses: Addresses::default(),
            })
            .collect();
        let listening = Listeners::open(session, &rules).await?;
        Ok(Self { rules, listening })
    }

    /// Where the server listens for each rule.
    pub(super) fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.listening.open.iter().map(|listening| listening.address)
    }

    /// Connects what comes in, for ever; after the connection broke, the server listens again.
    pub(super) async fn serve(self, bond: Arc<EgressBond>) {
        let Self { rules, mut listening } = self;
        loop {
            listening.serve(&rules).await;
            listening = again(&bond, &rules).await;
            bond.say("-R: the server listens again");
        }
    }
}

/// Lets the server listen again, as soon as there is a connection to it and its ports are free.
async fn again(bond: &EgressBond, rules: &[Forwarded]) -> Listeners {
    let mut is_told = false;
    loop {
        let opened = match bond.bond().session().await {
            Some(session) => Listeners::open(session, rules).await,
            None => Err(CommandError::failed("the server is away")),
        };
        match opened {
            Ok(listening) => return listening,
            Err(error) if !is_told => {
                bond.say(&format!("-R: {error}; trying again"));
                is_told = true;
            }
            Err(_) => {}
        }
        tokio::time::sleep(PAUSE).await;
    }
}

impl Listeners {
    async fn open(session: NetSession, rules: &[Forwarded]) -> Result<Self, CommandError> {
        let mut open = Vec::new();
        for (number, Forwarded { rule, treatment, .. }) in (0..).zip(rules) {
            let at = (number, rule.listen);
            let listening = match rule.protocol {
                Protocol::Tcp => listen(&session, at, *treatment).await,
                Protocol::Udp => listen_datagrams(&session, at, *treatment).await,
            };
            let listening = listening.map_err(|error| {
                let error = explain(&error, session.0.close_reason());
                CommandError { text: format!("-R {rule}: {error}"), ..error }
            })?;
            open.push(listening);
        }
        Ok(Self { session, open })
    }

    /// Connects what comes in until the connection ends.
    async fn serve(self, rules: &Arc<[Forwarded]>) {
        let mut connections = JoinSet::new();
        while let Some(stream) = self.session.accept().await {
            let rules = Arc::clone(rules);
            connections.spawn(async move {
                if let Err(error) = attend(stream, &rules).await {
                    tracing::debug!(%error, "a connection of the server was not carried");
                }
            });
            while connections.try_join_next().is_some() {}
        }
    }
}

async fn attend((send, mut receive): Stream<NetSession>, rules: &[Forwarded]) -> Result<(), EgressError> {
    let first = timeout(PATIENCE, NetSession::carries_messages(&mut receive));
    if first.await.map_err(|_| EgressError::Late)?? {
        let Some(halves) = NetSession::messages(send, receive) else { return Ok(()) };
        return datagrams::attend(halves, rules).await;
    }
    let incoming = accept(send, receive).await?;
    let Some(Forwarded { rule, treatment, .. }) = forwarded(rules, incoming.number, Protocol::Tcp) else {
        return Ok(incoming.refuse(Reason::Other).await?);
    };
    match timeout(PATIENCE, connect(&rule.destination)).await {
        Ok(Ok(socket)) => {
            let (send, receive) = incoming.accept().await?;
            carry_stream(socket, (ClassedSend::new(send, treatment.class), receive)).await;
            Ok(())
        }
        Ok(Err(_)) => Ok(incoming.refuse(Reason::Refused).await?),
        Err(_) => Ok(incoming.refuse(Reason::TimedOut).await?),
    }
}

async fn connect(destination: &Destination) -> std::io::Result<TcpStream> {
    let port = destination.port();
    match destination.host() {
        Host::Ip(ip) => TcpStream::connect((*ip, port)).await,
        Host::Name(name) => TcpStream::connect((name.as_str(), port)).await,
        Host::Resolver => Err(std::io::ErrorKind::Unsupported.into()),
    }
}

/// Pause after the server refused a listener that it had before: its port may be taken until the old connection is gone.
const PAUSE: Duration = Duration::from_secs(1);
