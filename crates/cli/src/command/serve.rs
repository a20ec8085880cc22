//! `manyway serve`: one server for all verbs.

mod clear;
mod opening;
mod packets;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use manyway::{
    AddressFilter, Authoriser, ByteCount, CarrierChoice, Connection, Endpoint, EndpointOptions, Host,
    HostPort, Locals, Mmsp1Options, Seed, ServerOptions, Ticket, Wire,
};
use manyway_egress::{Gateway, GatewayConfig, Rules, SystemAddresses, can_send_echo_requests};
use manyway_terminal::signal::Signal;
use manyway_terminal::{CommandError, ExitCode, json};
use manyway_transfer::{Access, Failure, Server, ServerConfig};
use serde_json::json;
use tokio::task::JoinSet;

use super::error::of_listen;
use super::keys::hosts_of;
use super::network::{
    MOST_PATHS, connection_config, ledger, limit_first_windows, rendezvous, without_own_tunnels,
};
use super::signal::{CloseOutcome, close, interrupted};
use crate::args::{DEFAULT_TICKET, GlobalArgs, LogFormat, Memory, ServeArgs};
pub(super) use crate::home::random;
use crate::home::{ClientEntry, Entries, Home, HomeError, Rights, Secret, TicketEntry};
use crate::output::address;
use crate::serving::authorised::{AuthorisedClient, AuthorisedClients};
use crate::serving::certificate::CertificateFiles;
use crate::serving::connected::{ConnectedClients, remote_of};
use crate::serving::journal::{Journal, Way};
use crate::serving::memory::{IdleHeap, give_back};
use crate::serving::notify::{Notice, tell};
use crate::serving::open_files::raise_limit;
use crate::serving::session::ClientSession;
use crate::serving::streams::{self, Egress};
use crate::status::{Board, FileCounts};
use opening::{Clients, Serving};

/// Streams of a client at a server with egress: all connections and flows of its programs, and some for files.
const STREAMS_WITH_EGRESS: u64 = 1600;
/// How often the key files and the memory in use are checked.
const LOOK: Duration = Duration::from_millis(250);
/// Time for the log lines of unfinished work when the server stops.
const LAST_LINES: Duration = Duration::from_millis(500);

/// Serves until Ctrl-C, SIGTERM or SIGHUP.
///
/// # Errors
/// If the directory cannot be served, a port cannot be bound, or the keys cannot be read; [`ExitCode::Interrupted`] if
/// a second signal came before all clients were told.
pub async fn run(global: &GlobalArgs, arguments: &ServeArgs) -> Result<(), CommandError> {
    refuse_options_of_clients(global)?;
    let advertised = advertised(arguments).await?;
    let journal = Journal::new(arguments.log_format, global.quiet);
    let mut options = EndpointOptions::default();
    options.connection = connection_config(global)?;
    if global.wire == Wire::Mmsp2 && global.memory != Some(Memory::Small) {
        options.connection.path_limit = MOST_PATHS;
    }
    options.carriers = global.carriers();
    if arguments.tls_port.is_some() && (global.wire == Wire::Mmsp1 || global.carrier == CarrierChoice::Udp) {
        return Err(CommandError::usage("--tls-port is for TCP: leave out --wire mmsp1 and --carrier udp"));
    }
    options.carriers.listen_tls = arguments.tls_port;
    options.ledger = ledger(global)?;
    let (admission, gateway) = match global.wire {
        Wire::Mmsp2 => {
            let egress = gateway(arguments, &advertised)?;
            (Admission::Keys(Box::new(Secured::open(arguments, &journal)?)), egress)
        }
        Wire::Mmsp1 => (Admission::Addresses(clear::who_may_come(arguments)?), None),
    };
    admission.configure(global, arguments, &mut options, advertised).await?;
    let endpoint = Endpoint::bind(options).map_err(|error| of_listen(&error))?;
    let sites = packets::open(global, arguments)?;
    // A server that cannot start leaves nothing behind.
    make_directory(&journal, arguments)?;
    let services = Services::open(arguments)?;
    let ticket = match &admission {
        Admission::Keys(secured) => secured.keys.ticket(arguments, &endpoint)?,
        Admission::Addresses(_) => None,
    };
    // The reader of the ticket may stop the server at once.
    let stop = interrupted();
    match &admission {
        Admission::Keys(secured) => {
            announce((global, arguments), &endpoint, (&secured.keys, ticket.as_ref()), &journal)?;
        }
        Admission::Addresses(from) => clear::announce((global, arguments), &endpoint, from, &journal)?,
    }
    let (egress, _packets) = packets::start(sites, gateway, &journal);
    for advice in super::advice::of(global, &endpoint) {
        journal.remark(advice);
    }
    if let (true, Err(reason)) = (arguments.egress, can_send_echo_requests()) {
        journal.remark(format!("clients cannot ping through this server: {reason}"));
    }
    tell(Notice::Ready);
    let connected = ConnectedClients::new(arguments.max_clients.map(Into::into));
    let log = journal.clone();
    let (authorised, certificate) = match admission {
        Admission::Keys(secured) => (secured.keys.authorised, secured.certificate),
        Admission::Addresses(_) => (Arc::new(AuthorisedClients::empty()), None),
    };
    let state = ServerState {
        authorised,
        connected,
        services,
        egress,
        certificate,
        memory: IdleHeap::default(),
        journal,
        board: global.board.clone(),
        clients: JoinSet::new(),
    };
    let (signal, mut clients) = state.serve(&endpoint, stop).await;
    tell(Notice::Stopping);
    if let Some(signal) = signal {
        let name = signal.name();
        log.server("stopping", &[format!("{name}: closing")], json!({ "signal": name }));
    }
    match close(&endpoint, "the server is stopping").await {
        CloseOutcome::Complete => {
            // Every connection has ended: unfinished work has its line in the log at once, unless the disk is slow.
            let logged = async { while clients.join_next().await.is_some() {} };
            let _ = tokio::time::timeout(LAST_LINES, logged).await;
            Ok(())
        }
        CloseOutcome::Interrupted => {
            Err(CommandError::new(ExitCode::Interrupted, "stopped before every client was notified"))
        }
    }
}

/// What decides who may connect.
enum Admission {
    /// Tickets and keys, over MMSP/2.
    Keys(Box<Secured>),
    /// Addresses alone, over MMSP/1.
    Addresses(AddressFilter),
}

impl Admission {
    /// Tells the endpoint who may connect.
    async fn configure(
        &self,
        global: &GlobalArgs,
        arguments: &ServeArgs,
        options: &mut EndpointOptions,
        advertised: Vec<SocketAddr>,
    ) -> Result<(), CommandError> {
        options.locals = Locals::Interfaces(without_own_tunnels());
        match self {
            Self::Keys(secured) => {
                let is_small = global.memory == Some(Memory::Small);
                let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
                let threads = if is_small { 1 } else { processors };
                let mut server = secured.server(arguments, advertised, threads);
                server.ids = arguments.ids().map_err(|error| CommandError::usage(format!("--{error}")))?;
                options.server = Some(server);
                options.reset_key = Some(secured.keys.seed.reset_key());
                options.key_log = true;
                options.connection.rendezvous = rendezvous(global).await?;
                if arguments.egress {
                    limit_first_windows(&mut options.connection.streams);
                }
                if arguments.egress && global.memory.unwrap_or_default() == Memory::Auto {
                    options.connection.streams.peer_streams = STREAMS_WITH_EGRESS;
                }
            }
            Self::Addresses(from) => {
                if arguments.threads.is_some_and(|threads| threads > 1) {
                    return Err(CommandError::usage(
                        "over MMSP/1 one thread serves all clients; leave out --threads",
                    ));
                }
                if arguments.cid_prefix.is_some() || arguments.cid_length.is_some() {
                    return Err(CommandError::usage(
                        "MMSP/1 has no connection IDs of such a form; leave out --cid-prefix and --cid-length",
                    ));
                }
                let mut server = Mmsp1Options::new(from.clone());
                server.connection.clone_from(&options.connection);
                server.listen.clone_from(&arguments.listen);
                server.advertise = advertised;
                options.mmsp1 = Some(server);
            }
        }
        Ok(())
    }
}

/// The keys of a server, and its certificate if it has one.
struct Secured {
    keys: Keys,
    certificate: Option<CertificateFiles>,
}

impl Secured {
    fn open(arguments: &ServeArgs, journal: &Journal) -> Result<Self, CommandError> {
        let certificate = match (&arguments.cert, &arguments.key) {
            (Some(chain), Some(key)) => Some(CertificateFiles::open(chain, key)?),
            _ => None,
        };
        Ok(Self { keys: Keys::open(arguments, journal)?, certificate })
    }

    fn server(
        &self,
        arguments: &ServeArgs,
        advertised: Vec<SocketAddr>,
        default_threads: usize,
    ) -> ServerOptions {
        let authoriser: Arc<dyn Authoriser> = Arc::<AuthorisedClients>::clone(&self.keys.authorised);
        let mut server = ServerOptions::with_authoriser(self.keys.seed.identity(), authoriser);
        server.listen.clone_from(&arguments.listen);
        server.advertise = advertised;
        server.certificate = self.certificate.as_ref().map(CertificateFiles::certificate);
        server.threads = arguments.threads.map_or(default_threads, usize::from);
        server
    }
}

/// # Errors
/// An option is about connections that a client opens, or selects interfaces.
fn refuse_options_of_clients(global: &GlobalArgs) -> Result<(), CommandError> {
    if global.connections.is_some() || global.via.is_some() {
        return Err(CommandError::usage(
            "a server opens no TCP connections, its clients do; leave out --connections and --via",
        ));
    }
    refuse_interfaces(global, ", and use --listen ADDR:PORT to serve on some addresses only")
}

/// # Errors
/// An option selects interfaces, for which the hint names the alternative.
pub(super) fn refuse_interfaces(global: &GlobalArgs, hint: &str) -> Result<(), CommandError> {
    if global.interfaces.is_empty() && global.exclude.is_empty() && !global.ipv4 && !global.ipv6 {
        return Ok(());
    }
    Err(CommandError::usage(format!(
        "a server does not choose interfaces, its clients do; leave out -I, --exclude, -4 and -6{hint}"
    )))
}

/// Creates the directory that clients fill, if it does not exist.
fn make_directory(journal: &Journal, arguments: &ServeArgs) -> Result<(), CommandError> {
    let directory = arguments.dir();
    if arguments.is_read_only() || directory.symlink_metadata().is_ok() {
        return Ok(());
    }
    std::fs::create_dir_all(directory)
        .map_err(|error| CommandError::failed(Failure::from_io(&error).at(directory)))?;
    journal.remark(format!("created directory {}", directory.display()));
    Ok(())
}

/// The same directory twice: for clients that may send, and for those that may only fetch.
#[derive(Debug, Clone)]
struct Services {
    read_write: Server,
    read_only: Server,
}

impl Services {
    fn open(arguments: &ServeArgs) -> Result<Self, CommandError> {
        let server = |access| {
            let mut config = ServerConfig::default();
            config.application = concat!("manyway ", env!("CARGO_PKG_VERSION")).to_owned();
            config.access = access;
            Server::new(arguments.dir(), config)
                .map_err(|failure| CommandError::failed(failure.at(arguments.dir())))
        };
        let read_only = server(Access::ReadOnly)?;
        let read_write =
            if arguments.is_read_only() { read_only.clone() } else { server(Access::ReadWrite)? };
        Ok(Self { read_write, read_only })
    }
}

/// The gateway for programs of clients, if there is one.
fn gateway(arguments: &ServeArgs, advertised: &[SocketAddr]) -> Result<Option<Gateway>, CommandError> {
    if !arguments.egress {
        if arguments.allow.is_empty() && arguments.deny.is_empty() {
            return Ok(None);
        }
        return Err(CommandError::usage("--allow and --deny change what --egress lets out; add --egress"));
    }
    let own = SystemAddresses::with_advertised(advertised.iter().map(SocketAddr::ip));
    let mut config = GatewayConfig::default();
    // egress 6.2
    let files = raise_limit();
    config.connections = config.connections.min(files / 2);
    config.client_connections = arguments.egress_connections.unwrap_or(config.client_connections);
    // A flow has a socket for each family.
    config.flows = config.flows.min(files / 8);
    let rules = Rules::with_own(arguments.allow.clone(), Arc::new(own)).deny(arguments.deny.clone());
    Ok(Some(Gateway::new(rules, config)))
}

/// The identity of the server and its authorised clients.
struct Keys {
    home: Option<Home>,
    seed: Seed,
    authorised: Arc<AuthorisedClients>,
    /// The ticket to print, if there is a default one.
    printed: Option<TicketEntry>,
}

impl Keys {
    fn open(arguments: &ServeArgs, journal: &Journal) -> Result<Self, CommandError> {
        let log = |authorised: AuthorisedClients| Arc::new(authorised.with_journal(journal.clone()));
        if arguments.ephemeral {
            let ticket = TicketEntry::new(Secret(random()?), Rights::default(), Vec::new());
            let authorised = log(AuthorisedClients::of_ticket(DEFAULT_TICKET, &ticket));
            return Ok(Self { home: None, seed: Seed::new(random()?), authorised, printed: Some(ticket) });
        }
        let home = Home::find()?;
        let seed = home.identity()?;
        let printed = default_ticket(&home)?;
        let authorised = log(AuthorisedClients::of_home(home.clone())?);
        Ok(Self { home: Some(home), seed, authorised, printed })
    }

    /// The text of the ticket to print. The server's addresses are stored for tickets that are made later.
    fn ticket(&self, arguments: &ServeArgs, endpoint: &Endpoint) -> Result<Option<Ticket>, CommandError> {
        let mut hosts = arguments.advertise.clone();
        if hosts.is_empty() {
            hosts = own_hosts(endpoint)?;
        }
        hosts.truncate(Ticket::MAX_HOSTS);
        if let Some(home) = &self.home {
            home.remember_hosts(&hosts)?;
        }
        let Some(entry) = &self.printed else { return Ok(None) };
        if !entry.advertise.is_empty() {
            hosts = entry.advertise.iter().map(|host| host.0.clone()).collect();
        }
        let hash = self.seed.identity().public_key().hash();
        Ticket::new(hash, entry.secret.0, hosts).map(Some).map_err(CommandError::usage)
    }
}

/// The default ticket. It is made only where no client could connect otherwise, so that a server with named tickets and
/// clients only stays one.
fn default_ticket(home: &Home) -> Result<Option<TicketEntry>, CommandError> {
    let has_clients = !home.entries::<ClientEntry>()?.is_empty();
    if has_clients || !home.entries::<TicketEntry>()?.is_empty() {
        return Ok(home.entries()?.remove(DEFAULT_TICKET));
    }
    let secret = Secret(random()?);
    home.change(|tickets: &mut Entries<TicketEntry>| {
        let make = || TicketEntry::new(secret, Rights::default(), Vec::new());
        Ok::<_, HomeError>(Some(tickets.entry(DEFAULT_TICKET.to_owned()).or_insert_with(make).clone()))
    })
    .map_err(CommandError::from)
}

/// What all clients share.
struct ServerState {
    authorised: Arc<AuthorisedClients>,
    connected: Arc<ConnectedClients>,
    services: Services,
    egress: Arc<Egress>,
    certificate: Option<CertificateFiles>,
    memory: IdleHeap,
    journal: Journal,
    board: Board,
    /// A task for each connection.
    clients: JoinSet<()>,
}

impl ServerState {
    /// Accepts clients until a signal comes (`stop`) or the endpoint ends. Returns the signal, and the tasks of the
    /// clients that are still connected.
    async fn serve(
        mut self,
        endpoint: &Endpoint,
        stop: impl Future<Output = Signal>,
    ) -> (Option<Signal>, JoinSet<()>) {
        tokio::pin!(stop);
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                signal = &mut stop => return (Some(signal), self.clients),
                _ = look.tick() => self.look(),
                connection = endpoint.accept() => match connection {
                    Some(connection) => self.welcome(connection),
                    None => return (None, self.clients),
                },
            }
        }
    }

    fn look(&mut self) {
        while self.clients.try_join_next().is_some() {}
        if let Err(error) = self.authorised.refresh() {
            tracing::warn!(reason = %error, "the list of tickets and clients stays as it was");
        }
        self.connected.check(&self.authorised);
        if self.memory.look(std::time::Instant::now(), self.connected.count()) {
            tokio::task::spawn_blocking(give_back);
        }
        match self.certificate.as_mut().map(CertificateFiles::refresh) {
            Some(Ok(true)) => tracing::info!("the certificate was renewed"),
            Some(Err(error)) => tracing::warn!(reason = %error, "the certificate stays as it was"),
            Some(Ok(false)) | None => {}
        }
    }

    fn welcome(&mut self, connection: Connection) {
        let (authorised, connected) = (Arc::clone(&self.authorised), Arc::clone(&self.connected));
        let egress = Arc::clone(&self.egress);
        let (services, journal, board) = (self.services.clone(), self.journal.clone(), self.board.clone());
        self.clients.spawn(async move {
            let Some(admitted) = connected.admit(&authorised, &journal, &connection).await else { return };
            let AuthorisedClient { noun, name, rights } = &admitted.client;
            let egress = egress.client(connection.peer_key(), &rights.listen, name);
            let client = journal.client(noun, name, &remote_of(&connection).await);
            let files = FileCounts::default();
            let _place = board.place(Some(name.clone()), &connection, files.clone());
            let may_send = !admitted.client.rights.read_only;
            let server = if may_send { &services.read_write } else { &services.read_only };
            let log = |way| {
                let connection = connection.clone();
                client.files(way, files.clone(), move || connection.close_reason())
            };
            let server = server.observed_by(log(Way::In), log(Way::Out));
            let session = ClientSession::new(connection.clone(), admitted.limits.clone());
            streams::answer(&session, &server, &egress, &client).await;
            let end = connection.closed().await;
            let (received, written) = session.carried().bytes();
            let waiting = connection.unacknowledged_at_end().map_or(0, ByteCount::get);
            client.left(&end, (received, written.saturating_sub(waiting)));
        });
    }
}

/// Every address at which another host may reach this server, up to the limit of a ticket.
pub(super) fn own_hosts(endpoint: &Endpoint) -> Result<Vec<HostPort>, CommandError> {
    hosts_of(endpoint.local_addresses())
}

/// The addresses of what `--advertise` names.
async fn advertised(arguments: &ServeArgs) -> Result<Vec<SocketAddr>, CommandError> {
    if arguments.advertise.is_empty() {
        return Ok(Vec::new());
    }
    let mut addresses = manyway::resolve::resolve(&arguments.advertise).await.map_err(CommandError::usage)?;
    addresses.truncate(8);
    Ok(addresses)
}

/// Prints the ticket to standard output, everything else to standard error; the ticket is never in the log.
fn announce(
    (global, arguments): (&GlobalArgs, &ServeArgs),
    endpoint: &Endpoint,
    (keys, ticket): (&Keys, Option<&Ticket>),
    journal: &Journal,
) -> Result<(), CommandError> {
    let locals = endpoint.local_addresses();
    let listening: Vec<_> = locals.iter().map(|local| address(local.address)).collect();
    let tcp: Vec<_> = endpoint.tcp_addresses().iter().map(|accepting| address(*accepting)).collect();
    let key = keys.seed.identity().public_key().to_string();
    let directory = arguments.dir().display().to_string();
    if arguments.log_format == LogFormat::Json {
        let facts = json!({
            "directory": directory, "read_only": arguments.is_read_only(), "addresses": listening, "key": key,
            "wire": global.wire.name(),
        });
        journal.server("listening", &[], facts);
    }
    if global.json {
        let ticket = ticket.map(Ticket::to_string);
        json::print(
            &json!({ "ticket": ticket, "listening": listening, "tcp": tcp, "key": key, "wire": global.wire.name() }),
        )?;
        return Ok(());
    }
    let is_local = |host: &HostPort| matches!(host.host(), Host::Ip(ip) if ip.is_loopback());
    if ticket.is_some_and(|ticket| ticket.hosts().iter().all(is_local))
        && locals.iter().any(|local| local.address.ip().is_unspecified())
    {
        journal.remark(
            "warning: no interface has an address now, so the ticket works on this host only; start again once one has"
                .to_owned(),
        );
    }
    let serving = Serving {
        directory: &directory,
        is_read_only: arguments.is_read_only(),
        listening: &listening,
        has_tcp: !tcp.is_empty(),
        tls_port: arguments.tls_port,
        firewall: super::advice::firewall(endpoint, arguments.tls_port),
    };
    let ticket = ticket.map(Ticket::to_string);
    let clients = match &ticket {
        Some(ticket) => Clients::OfTicket { ticket, is_kept: keys.home.is_some() },
        None => Clients::Named { number: keys.authorised.count(), key: &key },
    };
    serving.opening(&clients).print(global.quiet || arguments.log_format == LogFormat::Json)
}
