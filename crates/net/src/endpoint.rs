//! The endpoint, where connections begin: as client, as server, or both.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use manyway_proto::identity::{self, Identity, ServerTrust};
use manyway_proto::{ConnectionConfig, LocalAddress};
use rustls::pki_types::ServerName;
use tokio::sync::{mpsc, oneshot};

use crate::advice::{Advice, AdviceBoard};
use crate::carriers::CarrierChoice;
use crate::code::Access;
use crate::connection::Connection;
use crate::driver::CLOSE_TIME;
use crate::driver::threads::Threads;
use crate::error::{BindFailure, ConnectError};
use crate::key_log::KeyLog;
use crate::link::{Command, Dial, Link};
use crate::options::{EndpointOptions, Mmsp1Options, ServerOptions};
use crate::resolve::ResolveError;
use crate::tcp::Settings;
use crate::ticket::{Host, HostPort, Ticket};

/// Clients that may wait for [`Endpoint::accept`]; further ones are refused.
const BACKLOG: usize = 1024;

/// Sockets and connections of one driver thread, or of several ([`ServerOptions::threads`](crate::ServerOptions::threads)).
///
/// They end once the endpoint and all handles of its connections are dropped and every close is complete, or
/// with [`close`](Self::close). An endpoint that is dropped alone accepts no more clients; its connections go on.
///
/// ```
/// use manyway::{Endpoint, EndpointOptions, HostPort, Identity, ServerOptions, Ticket};
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // One side serves …
/// let identity = Identity::generate()?;
/// let secret = Ticket::generate_secret()?;
/// let mut server = ServerOptions::new(identity.clone(), &secret);
/// server.listen = vec!["127.0.0.1:0".parse()?];
/// let mut options = EndpointOptions::default();
/// options.server = Some(server);
/// let server = Endpoint::bind(options)?;
///
/// // … and gives a ticket to the other, which connects over every network it has.
/// let address = server.local_addresses()[0].address;
/// let ticket = Ticket::new(identity.public_key().hash(), secret, vec![HostPort::from(address)])?;
/// let client = Endpoint::bind(EndpointOptions::default())?;
/// let (connection, accepted) = tokio::join!(client.connect(&ticket), server.accept());
/// let (connection, accepted) = (connection?, accepted.ok_or("the server ended")?);
///
/// let (mut send, _) = connection.open().await?;
/// send.write_all(b"hello over all networks").await?;
/// send.finish()?;
/// let (_, mut receive) = accepted.accept().await?;
/// let mut text = String::new();
/// receive.read_to_string(&mut text).await?;
/// assert_eq!(text, "hello over all networks");
/// connection.close(0, "done").await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Endpoint {
    threads: Threads,
    incoming: tokio::sync::Mutex<mpsc::Receiver<Arc<Link>>>,
    connection: ConnectionConfig,
    carrier: CarrierChoice,
    tcp: Settings,
    key_log: KeyLog,
    advice: AdviceBoard,
}

impl Endpoint {
    /// Binds the sockets and starts the driver threads.
    ///
    /// # Errors
    /// If an address can not be bound, the system refuses, or a setting is out of its range.
    pub fn bind(options: EndpointOptions) -> Result<Self, BindFailure> {
        options.connection.validate().map_err(BindFailure::Config)?;
        options.server.iter().try_for_each(ServerOptions::validate).map_err(BindFailure::Config)?;
        options.mmsp1.iter().try_for_each(Mmsp1Options::validate).map_err(BindFailure::Config)?;
        let (connection, carrier, tcp) =
            (options.connection.clone(), options.carriers.choice, options.tcp_settings());
        let key_log = KeyLog::new(options.key_log);
        let (incoming_sender, incoming) = mpsc::channel(BACKLOG);
        let advice = AdviceBoard::default();
        let threads = Threads::start(options, &key_log, &incoming_sender, &advice)?;
        let incoming = tokio::sync::Mutex::new(incoming);
        Ok(Self { threads, incoming, connection, carrier, tcp, key_log, advice })
    }

    /// The listening addresses of the server, with the ports that the system chose.
    pub fn local_addresses(&self) -> &[LocalAddress] {
        &self.threads.listening().udp
    }

    /// Where the server accepts TCP connections: at each of [`local_addresses`](Self::local_addresses) at which that is
    /// possible, unless [`EndpointOptions::carriers`] forbids it.
    pub fn tcp_addresses(&self) -> &[SocketAddr] {
        &self.threads.listening().tcp
    }

    /// How many connections each of its threads has, those included that are not established yet or have just ended
    /// ([`ServerOptions::threads`](crate::ServerOptions::threads)).
    pub fn thread_loads(&self) -> Vec<usize> {
        self.threads.loads()
    }

    /// What the system of this host has refused to the endpoint's sockets so far, each entry once, with the commands
    /// that change it. A client's sockets are made when it connects.
    ///
    /// ```
    /// use manyway::{Advice, Endpoint, EndpointOptions};
    ///
    /// let endpoint = Endpoint::bind(EndpointOptions::default())?;
    /// for advice in endpoint.advice() {
    ///     eprintln!("{advice}");
    /// }
    /// # Ok::<(), manyway::BindFailure>(())
    /// ```
    pub fn advice(&self) -> Vec<Advice> {
        self.advice.all()
    }

    /// Connects to the server of a ticket over every interface that leads to it. Gives up after
    /// [`connect_timeout`](ConnectionConfig::connect_timeout), 10 s by default, and as long again for name resolution.
    /// Dropping the future gives up at once.
    ///
    /// When later no path works any more, names are resolved again, after 0.5, 1, 2, 5 s and then every 10 s.
    ///
    /// # Errors
    /// If its names have no address, no interface leads there, no server answers, or the server's key is not the
    /// ticket's.
    pub async fn connect(&self, ticket: &Ticket) -> Result<Connection, ConnectError> {
        let client = Identity::from_ticket_secret(ticket.secret());
        self.connect_to(ticket.hosts(), *ticket.server_key_hash(), &client).await
    }

    /// Connects to a server with a key of one's own. The server is authenticated by `trust`, such as by the hash of its
    /// key; a certificate must be for the first of `hosts`.
    ///
    /// With [`ServerTrust::AnyKey`], compare [`Connection::peer_key`] with a value from elsewhere before sending
    /// anything to the server. The server's first response shows that it accepts the client: if it does not, the
    /// connection ends with [`ConnectionError::Authentication`](crate::ConnectionError::Authentication).
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub async fn connect_to(
        &self,
        hosts: &[HostPort],
        trust: impl Into<ServerTrust>,
        client: &Identity,
    ) -> Result<Connection, ConnectError> {
        let config = manyway_proto::ClientConfig {
            tls: self.key_log.client(identity::client_config(trust, client)),
            server_name: server_name(hosts),
            connection: Arc::new(self.connection.clone()),
        };
        self.dial(hosts, Dial::Mmsp2(Box::new(config))).await
    }

    /// Connects to a server over MMSP/1, in clear text: every host on the way can read, change and forge what is sent,
    /// and nothing shows who answers. Never send a secret over it. [`EndpointOptions::connection`] applies;
    /// [`Wire::config`](crate::Wire::config) has the settings of the protocol's thesis.
    ///
    /// The server names its other addresses when it answers; later neither end adds any, and names are not resolved
    /// again. All sockets of this endpoint have one port from now on, as far as it is free.
    ///
    /// # Errors
    /// If the names have no address, no interface leads there, or no server answers, as when it does not take MMSP/1
    /// from this address.
    pub async fn connect_mmsp1(&self, hosts: &[HostPort]) -> Result<Connection, ConnectError> {
        self.dial(hosts, Dial::Mmsp1(Arc::new(self.connection.clone()))).await
    }

    async fn dial(&self, hosts: &[HostPort], dial: Dial) -> Result<Connection, ConnectError> {
        let patience = self.connection.connect_timeout;
        let found = tokio::time::timeout(patience, self.tcp.resolver.resolve(hosts)).await;
        let remotes = found
            .unwrap_or_else(|_| Err(ResolveError::late(hosts, patience)))
            .map_err(ConnectError::Resolve)?;
        let (reply, answer) = oneshot::channel();
        let command = Command::Connect { dial, hosts: hosts.to_vec(), remotes, reply };
        if !self.threads.send(command) {
            return Err(ConnectError::EndpointClosed);
        }
        let link = answer.await.map_err(|_| ConnectError::EndpointClosed)??;
        Ok(Connection::new(link))
    }

    /// How codes reach rendezvous servers; `None` if the endpoint is closed.
    pub(crate) fn access(&self) -> Option<Access> {
        let commands = self.threads.first()?;
        Some(Access { commands, choice: self.carrier, settings: self.tcp.clone() })
    }

    /// Takes the next client, which is authenticated unless its [wire](Connection::wire) is MMSP/1; `None` once the endpoint
    /// is closed. Up to 1024 clients wait to be accepted;
    /// further ones are refused.
    pub async fn accept(&self) -> Option<Connection> {
        self.incoming.lock().await.recv().await.map(Connection::new)
    }

    /// Closes every connection in order, with `code` and `reason`, and ends the driver threads. Waits for that: written data
    /// still arrives, for which it has about a minute. Cancelling the wait does not cancel the close.
    pub async fn close(&self, code: u64, reason: &str) {
        self.close_within(code, reason, CLOSE_TIME).await;
    }

    /// Closes every connection as [`close`](Self::close) does, and aborts those that have not closed after `patience`
    /// (65 s at most): data that has not arrived by then is lost, and the peer is told `code` and `reason`. An abort
    /// takes 0.3 s. Of two calls the one that aborts earlier decides.
    pub async fn close_within(&self, code: u64, reason: &str, patience: Duration) {
        let until = tokio::time::Instant::now() + patience.min(CLOSE_TIME);
        self.threads.close(code, reason, until).await;
    }
}

/// The name that a certificate must be for; unused with raw keys, and never sent.
fn server_name(hosts: &[HostPort]) -> ServerName<'static> {
    let placeholder = ServerName::IpAddress(Ipv4Addr::UNSPECIFIED.into());
    match hosts.first().map(HostPort::host) {
        Some(Host::Ip(address)) => ServerName::IpAddress((*address).into()),
        Some(Host::Name(name)) => ServerName::try_from(name.to_string()).unwrap_or(placeholder),
        None => placeholder,
    }
}
