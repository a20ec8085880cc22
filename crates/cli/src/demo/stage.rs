//! A server, a client, and only emulated links between them, all in this process.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use manyway::{
    CarrierChoice, Connection, ConnectionConfig, Endpoint, EndpointOptions, HostPort, Identity, LocalAddress,
    Locals, Role, ServerOptions, Ticket,
};
use manyway_terminal::{CommandError, ExitCode};
use manyway_transfer::{Progress, Server, ServerConfig};
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::task::JoinSet;

use super::emulator::{Emulator, EmulatorConfig, LinkHandle};
use super::link_spec::LinkSpec;
use super::meter::{Meter, MeteredSession};
use crate::command::error::of_connect;

/// Most links of a stage: a connection tries this many addresses, and opens this many paths.
pub const MOST_LINKS: usize = 8;

/// A connection over emulated links, with a server at its other end that receives files.
#[derive(Debug)]
pub struct Stage {
    connection: Connection,
    client: Endpoint,
    server: Arc<Endpoint>,
    meter: Meter,
    emulator: Emulator,
    // Dropped with the stage, which aborts its task.
    serving: JoinSet<()>,
}

impl Stage {
    /// Sets everything up; the server writes into `directory`.
    ///
    /// # Errors
    /// Too many links, or the system refuses the addresses, sockets or threads.
    pub async fn set_up(
        links: &[LinkSpec],
        config: &ConnectionConfig,
        directory: &Path,
        progress: Arc<dyn Progress>,
    ) -> Result<Self, CommandError> {
        if links.len() > MOST_LINKS {
            return Err(CommandError::usage(format!("at most {MOST_LINKS} links, not {}", links.len())));
        }
        let fronts = Emulator::bind(links, EmulatorConfig::default()).map_err(|error| {
            let text = format!(
                "no emulated links: {error}; they need the addresses 127.0.1.1, 127.0.2.1 … of this host, which \
                 Linux and Windows have without configuration"
            );
            CommandError::new(ExitCode::Failed, text)
        })?;
        let identity = Identity::from_seed(&random()?);
        let secret = random()?;
        let mut options = ServerOptions::new(identity.clone(), &secret);
        options.listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
        // Without advertised addresses the server would advertise its own, and the client would bypass the links.
        options.advertise = fronts.addresses();
        let server = Endpoint::bind(endpoint_options(config, Locals::default(), Some(options)))
            .map_err(CommandError::failed)?;
        let listening = server.local_addresses().first().map(|local| local.address);
        let emulator = fronts.start(listening.ok_or_else(|| {
            CommandError::new(ExitCode::Failed, "the server listens nowhere: this is a bug")
        })?)?;

        let meter = Meter::default();
        let server = Arc::new(server);
        let serving = serve(&server, directory, progress, meter.clone())?;
        let locals = Locals::Fixed(emulator.links().iter().map(local).collect());
        let client = Endpoint::bind(endpoint_options(config, locals, None)).map_err(CommandError::failed)?;
        let hosts = emulator.links().iter().map(|link| HostPort::from(link.front())).collect();
        let ticket = Ticket::new(identity.public_key().hash(), secret, hosts).map_err(CommandError::usage)?;
        let connection = client.connect(&ticket).await.map_err(of_connect)?;
        Ok(Self { connection, client, server, meter, emulator, serving })
    }

    /// The client's end.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// The meter of the receiving application.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// The links in the order of their specifications.
    pub fn links(&self) -> &[LinkHandle] {
        self.emulator.links()
    }

    /// When bin 0 of the figures of every link began.
    pub fn started(&self) -> Instant {
        self.emulator.started()
    }

    /// Ends in order; what takes too long is left to the end of the process.
    pub async fn close(mut self) {
        let closing = async {
            self.connection.close(0, "done").await;
            self.client.close(0, "done").await;
            self.server.close(0, "done").await;
        };
        if tokio::time::timeout(CLOSE_TIME, closing).await.is_err() {
            tracing::debug!("the connection was not closed in time");
        }
        self.serving.abort_all();
    }
}

fn serve(
    server: &Arc<Endpoint>,
    directory: &Path,
    progress: Arc<dyn Progress>,
    meter: Meter,
) -> Result<JoinSet<()>, CommandError> {
    let files =
        Server::with_progress(directory, ServerConfig::default(), progress).map_err(CommandError::failed)?;
    let server = Arc::clone(server);
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        if let Some(connection) = server.accept().await {
            files.run(&MeteredSession::new(connection, meter)).await;
        }
    });
    Ok(serving)
}

fn endpoint_options(
    config: &ConnectionConfig,
    locals: Locals,
    server: Option<ServerOptions>,
) -> EndpointOptions {
    let mut options = EndpointOptions::default();
    options.connection = config.clone();
    options.locals = locals;
    options.server = server;
    // The emulated links carry nothing else.
    options.carriers.choice = CarrierChoice::Udp;
    options
}

fn local(link: &LinkHandle) -> (LocalAddress, Role) {
    (LocalAddress { interface: 0, address: SocketAddr::new(link.client(), 0) }, Role::Primary)
}

fn random<const N: usize>() -> Result<[u8; N], CommandError> {
    let mut bytes = [0; N];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| CommandError::new(ExitCode::Failed, "the system gives no random numbers"))?;
    Ok(bytes)
}

const CLOSE_TIME: Duration = Duration::from_secs(2);
