//! The protocol machine as the node of a host.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use manyway_proto::identity::{AuthorisedKeys, Identity, ServerTrust, client_config, server_config};
use manyway_proto::{
    AddressFilter, ByteCount, Carries, Class, ClientConfig, Connection, ConnectionConfig, ConnectionError,
    ConnectionHandle, Ecn, Endpoint, EndpointConfig, Event, FourTuple, Instant, LocalAddress, LocalCandidate,
    MessageOptions, MessageOutcome, MessageToken, Misuse, Mmsp1Server, ReadOutcome, Rng, Role, SendError,
    SendRefusal, ServerConfig, StreamId, Transmit,
};
use rustls::pki_types::ServerName;

use crate::invariants::PathFigures;
use crate::pair::{Pair, PairBuilder, Peer};
use crate::traffic::{Read, Streams};
use crate::world::Node;

/// A pair of protocol machines.
///
/// ```
/// use manyway_proto::{ByteCount, Rate};
/// use manyway_sim::{EndpointPair, PairBuilder, Side, endpoint_pair};
/// use std::time::Duration;
///
/// let rate = Rate::from_bits_per_second(20_000_000);
/// let builder = PairBuilder::new().path(rate, Duration::from_millis(10)).path(rate, Duration::from_millis(30));
/// let mut pair: EndpointPair = endpoint_pair(builder, &Default::default());
/// pair.connect(Duration::from_secs(1)).unwrap();
/// let report = pair.transfer(Side::Client, ByteCount(5_000_000), Duration::from_secs(10)).unwrap();
/// assert!(report.path_bytes.iter().all(|bytes| *bytes > ByteCount(1_000_000)));
/// ```
pub type EndpointPair = Pair<EndpointPeer>;

/// Makes a pair of protocol machines with the same settings at both ends.
pub fn endpoint_pair(builder: PairBuilder, config: &ConnectionConfig) -> EndpointPair {
    endpoint_pair_with(builder, config, config)
}

/// Makes a pair of protocol machines with settings for each end.
pub fn endpoint_pair_with(
    builder: PairBuilder,
    client: &ConnectionConfig,
    server: &ConnectionConfig,
) -> EndpointPair {
    builder.build(
        |rng| EndpointPeer::client(Arc::new(client.clone()), rng),
        |rng| EndpointPeer::server(Arc::new(server.clone()), rng),
    )
}

/// Makes a pair of protocol machines that speak MMSP/1, with settings for each end. The server names the addresses in
/// `advertised` of its settings.
///
/// ```
/// use manyway_proto::{ByteCount, ConnectionConfig, Rate};
/// use manyway_sim::{PairBuilder, Side, mmsp1_pair};
/// use std::time::Duration;
///
/// let config = ConnectionConfig::mmsp1();
/// let rate = Rate::from_bits_per_second(20_000_000);
/// let mut pair = mmsp1_pair(PairBuilder::new().path(rate, Duration::from_millis(10)), &config, &config);
/// pair.connect(Duration::from_secs(1)).unwrap();
/// pair.transfer(Side::Client, ByteCount(1_000_000), Duration::from_secs(10)).unwrap();
/// ```
pub fn mmsp1_pair(
    builder: PairBuilder,
    client: &ConnectionConfig,
    server: &ConnectionConfig,
) -> EndpointPair {
    builder.build(
        |rng| EndpointPeer::mmsp1_client(Arc::new(client.clone()), rng),
        |rng| EndpointPeer::mmsp1_server(Arc::new(server.clone()), rng),
    )
}

/// How a client connects.
#[derive(Debug)]
enum Dial {
    Mmsp2(ClientConfig),
    Mmsp1(Arc<ConnectionConfig>),
}

/// An endpoint with at most one connection.
#[derive(Debug)]
pub struct EndpointPeer {
    endpoint: Endpoint,
    dial: Option<Dial>,
    handle: Option<ConnectionHandle>,
    life: Life,
    events: Vec<(Instant, Event)>,
    config: EndpointConfig,
    roles: Vec<(u32, Role)>,
    arrivals: Option<Vec<(FourTuple, Vec<u8>)>>,
}

#[derive(Debug)]
enum Life {
    SettingUp,
    Connected,
    Ended(ConnectionError),
}

impl EndpointPeer {
    /// Makes the endpoint that connects.
    pub fn client(connection: Arc<ConnectionConfig>, rng: Rng) -> Self {
        Self::client_as(&client_identity(), server_identity().public_key().hash(), connection, rng)
    }

    /// Makes an endpoint that connects with an identity, to a trusted server, such as the owner of the key with a hash.
    #[expect(clippy::expect_used, clippy::missing_panics_doc, reason = "a fixed name")]
    pub fn client_as(
        identity: &Identity,
        server: impl Into<ServerTrust>,
        connection: Arc<ConnectionConfig>,
        rng: Rng,
    ) -> Self {
        let tls = client_config(server, identity);
        let server_name = ServerName::try_from("server.invalid").expect("a domain name");
        let client = ClientConfig { tls, server_name, connection };
        Self::new(EndpointConfig::default(), Some(Dial::Mmsp2(client)), rng)
    }

    /// Makes the endpoint that accepts.
    pub fn server(connection: Arc<ConnectionConfig>, rng: Rng) -> Self {
        let clients = AuthorisedKeys::from_iter([*client_identity().public_key()]);
        let tls = server_config(&server_identity(), Arc::new(clients));
        let mut config = EndpointConfig::default();
        config.server = Some(ServerConfig { tls, certificate: None, connection });
        // A persistent key, as of a server that stores it in a file.
        config.reset_key = Some([3; 32]);
        Self::new(config, None, rng)
    }

    /// Makes the endpoint that connects over MMSP/1.
    pub fn mmsp1_client(connection: Arc<ConnectionConfig>, rng: Rng) -> Self {
        Self::new(EndpointConfig::default(), Some(Dial::Mmsp1(connection)), rng)
    }

    /// Makes the endpoint that accepts connections over MMSP/1 from any address.
    pub fn mmsp1_server(connection: Arc<ConnectionConfig>, rng: Rng) -> Self {
        let mut config = EndpointConfig::default();
        config.mmsp1 = Some(Mmsp1Server { connection, from: AddressFilter::all() });
        Self::new(config, None, rng)
    }

    fn new(config: EndpointConfig, dial: Option<Dial>, rng: Rng) -> Self {
        let endpoint = Endpoint::new(config.clone(), rng);
        let (handle, life) = (None, Life::SettingUp);
        let (events, roles) = (Vec::new(), Vec::new());
        Self { endpoint, dial, handle, life, events, config, roles, arrivals: None }
    }

    /// Changes the settings of the endpoint, before it has a connection.
    #[must_use]
    pub fn configured(mut self, rng: Rng, change: impl FnOnce(&mut EndpointConfig)) -> Self {
        change(&mut self.config);
        self.restart(rng);
        self
    }

    /// Drops every connection, as a process does that is killed and restarted.
    pub fn restart(&mut self, rng: Rng) {
        self.endpoint = Endpoint::new(self.config.clone(), rng);
        self.handle = None;
        self.life = Life::SettingUp;
    }

    /// Sets the role of an interface, before its addresses are added. Default primary.
    pub fn set_role(&mut self, interface: u32, role: Role) {
        self.roles.push((interface, role));
    }

    /// Makes a client log the secrets of its connections, as `SSLKEYLOGFILE` does; no effect at a server.
    pub fn set_key_log(&mut self, log: Arc<dyn rustls::KeyLog>) {
        if let Some(Dial::Mmsp2(client)) = &mut self.dial {
            Arc::make_mut(&mut client.tls).key_log = log;
        }
    }

    /// How a client starts connections over MMSP/2; `None` for a server, or once it has.
    pub fn client_config(&self) -> Option<&ClientConfig> {
        match self.dial.as_ref()? {
            Dial::Mmsp2(client) => Some(client),
            Dial::Mmsp1(_) => None,
        }
    }

    fn candidates(&self, locals: &[LocalAddress]) -> Vec<LocalCandidate> {
        let role = |address: &LocalAddress| {
            self.roles.iter().rev().find(|(index, _)| *index == address.interface).map(|(_, role)| *role)
        };
        locals
            .iter()
            .map(|address| LocalCandidate { address: *address, role: role(address).unwrap_or_default() })
            .collect()
    }

    /// Starts the connection over a stream carrier alone, in place of [`Peer::connect`].
    ///
    /// # Errors
    /// If this end does not connect, or has done so.
    pub fn connect_over(&mut self, now: Instant, stream: FourTuple) -> Result<(), String> {
        let Some(Dial::Mmsp2(client)) = self.dial.take() else {
            return Err("this end does not connect over MMSP/2, or has done so".to_owned());
        };
        let handle = self.endpoint.connect_over(now, &client, stream).map_err(|error| error.to_string())?;
        self.handle = Some(handle);
        Ok(())
    }

    /// The endpoint.
    pub fn endpoint(&mut self) -> &mut Endpoint {
        &mut self.endpoint
    }

    /// The connection, once there is one.
    pub fn connection(&mut self) -> Option<&mut Connection> {
        self.endpoint.connection(self.handle?)
    }

    /// Copies every datagram that arrives from now on, as an eavesdropper next to this host does; returns those since
    /// the last call.
    pub fn take_arrivals(&mut self) -> Vec<(FourTuple, Vec<u8>)> {
        self.arrivals.replace(Vec::new()).unwrap_or_default()
    }

    /// Forgets all events so far.
    pub fn forget_events(&mut self) {
        self.events = Vec::new();
    }

    /// All events so far with their times.
    pub fn events(&self) -> &[(Instant, Event)] {
        &self.events
    }
}

/// The client that the server of a pair accepts.
pub fn client_identity() -> Identity {
    Identity::from_seed(&[1; 32])
}

/// The server of a pair.
pub fn server_identity() -> Identity {
    Identity::from_seed(&[2; 32])
}

impl Node for EndpointPeer {
    fn handle_datagram(&mut self, now: Instant, tuple: FourTuple, ecn: Ecn, datagram: &mut [u8]) {
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.push((tuple, datagram.to_vec()));
        }
        self.endpoint.handle_datagram(now, tuple, ecn, datagram);
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
        self.endpoint.poll_transmit(now, buffer)
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        self.endpoint.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.endpoint.handle_timeout(now);
    }

    fn handle_send_error(&mut self, now: Instant, local: LocalAddress) {
        if let Some(connection) = self.connection() {
            for path in connection.statistics().paths.iter().filter(|path| path.tuple.local == local) {
                connection.on_send_refused(now, path.tuple, SendRefusal::Unreachable);
            }
        }
    }
}

impl Peer for EndpointPeer {
    fn connect(
        &mut self,
        now: Instant,
        locals: &[LocalAddress],
        remotes: &[SocketAddr],
    ) -> Result<(), String> {
        let dial = self.dial.take().ok_or("this end does not connect, or has done so")?;
        let locals = self.candidates(locals);
        let handle = match dial {
            Dial::Mmsp2(client) => self.endpoint.connect(now, &client, &locals, remotes),
            Dial::Mmsp1(config) => self.endpoint.connect_mmsp1(now, &config, &locals, remotes),
        };
        let handle = handle.map_err(|error| error.to_string())?;
        self.handle = Some(handle);
        Ok(())
    }

    fn absorb_events(&mut self, now: Instant) {
        while let Some((handle, event)) = self.endpoint.poll_event() {
            self.handle.get_or_insert(handle);
            // Only these two matter here; all are kept for the test.
            if let Event::Connected = &event {
                self.life = Life::Connected;
            }
            if let Event::Closed(error) = &event {
                self.life = Life::Ended(error.clone());
            }
            self.events.push((now, event));
        }
    }

    fn streams(&mut self) -> Option<&mut dyn Streams> {
        match self.life {
            Life::Connected => Some(self),
            Life::SettingUp | Life::Ended(_) => None,
        }
    }

    fn ended(&self) -> Option<&ConnectionError> {
        match &self.life {
            Life::Ended(error) => Some(error),
            Life::SettingUp | Life::Connected => None,
        }
    }

    fn figures(&self, _now: Instant, out: &mut Vec<PathFigures>) {
        let Some(connection) = self.handle.and_then(|handle| self.endpoint.peek(handle)) else { return };
        // The system below a stream has the window.
        let paths = connection.statistics().paths;
        out.extend(paths.iter().filter(|path| path.tuple.is_datagram()).map(|path| PathFigures {
            path: path.id,
            sent: path.bytes_sent,
            received: path.bytes_received,
            in_flight: path.in_flight,
            window: path.window,
            datagram: ByteCount(u64::from(path.datagram)),
        }));
    }

    fn set_addresses(&mut self, now: Instant, locals: &[LocalAddress]) {
        let candidates = self.candidates(locals);
        if let Some(connection) = self.connection() {
            connection.set_local_addresses(now, &candidates);
            // Clients learn everything by the call before.
            connection.relocate(now, locals, |tuple| !locals.contains(&tuple.local));
        }
    }
}

impl Streams for EndpointPeer {
    fn open(&mut self) -> Option<StreamId> {
        self.connection()?.open_stream().ok()
    }

    fn accept(&mut self) -> Option<StreamId> {
        self.connection()?.accept_stream()
    }

    fn write(&mut self, stream: StreamId, data: Bytes) -> usize {
        self.connection().and_then(|connection| connection.write(stream, data).ok()).unwrap_or(0)
    }

    fn finish(&mut self, stream: StreamId) {
        if let Some(connection) = self.connection() {
            // A stream that the peer stopped needs no end.
            let _ = connection.finish(stream);
        }
    }

    fn read(&mut self, stream: StreamId, most: usize) -> Read {
        match self.connection().map(|connection| connection.read(stream, most)) {
            Some(Ok(ReadOutcome::Data(data))) => Read::Data(data),
            Some(Ok(ReadOutcome::End)) => Read::End,
            Some(Ok(ReadOutcome::Reset(code))) => Read::Reset(code),
            Some(Ok(_) | Err(_)) | None => Read::Blocked,
        }
    }

    fn send_message(
        &mut self,
        now: Instant,
        stream: StreamId,
        data: Bytes,
        options: MessageOptions,
    ) -> Result<MessageToken, SendError> {
        let connection = self.connection().ok_or(Misuse::ConnectionClosed)?;
        connection.send_message(now, stream, data, options)
    }

    fn receive_message(&mut self, stream: StreamId) -> Option<MessageOutcome> {
        let connection = self.connection()?;
        let carries = connection.carries(stream) == Ok(Carries::Messages);
        if carries { connection.receive_message(stream).ok() } else { None }
    }

    fn set_class(&mut self, stream: StreamId, class: Class) {
        if let Some(connection) = self.connection() {
            // A stream that has ended needs none.
            let _ = connection.set_class(stream, class);
        }
    }
}
