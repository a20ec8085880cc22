//! The protocol machine as the machine of a host.

use std::net::SocketAddr;

use bytes::Bytes;
use manyway_proto::{
    ByteCount, ClientConfig, Connection, ConnectionConfig, ConnectionError, ConnectionHandle, Ecn, Endpoint,
    EndpointConfig, Event, FourTuple, Instant, LocalAddress, LocalCandidate, ReadOutcome, Rng, Role,
    ServerConfig, StreamId, Transmit,
};

use crate::identity::{Identity, server_name};
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
    builder.build(|rng| EndpointPeer::client(config.clone(), rng), |rng| EndpointPeer::server(config.clone(), rng))
}

/// An endpoint with at most one connection.
#[derive(Debug)]
pub struct EndpointPeer {
    endpoint: Endpoint,
    client: Option<ClientConfig>,
    handle: Option<ConnectionHandle>,
    life: Life,
    events: Vec<(Instant, Event)>,
}

#[derive(Debug)]
enum Life {
    SettingUp,
    Connected,
    Ended(ConnectionError),
}

impl EndpointPeer {
    /// Makes the endpoint that connects.
    pub fn client(connection: ConnectionConfig, rng: Rng) -> Self {
        let tls = client_identity().client_config(&server_identity());
        let client = ClientConfig { tls, server_name: server_name(), connection };
        Self::new(EndpointConfig::default(), Some(client), rng)
    }

    /// Makes the endpoint that accepts.
    pub fn server(connection: ConnectionConfig, rng: Rng) -> Self {
        let tls = server_identity().server_config(&client_identity());
        let server = ServerConfig { tls, connection, advertise: Vec::new() };
        Self::new(EndpointConfig { server: Some(server), ..EndpointConfig::default() }, None, rng)
    }

    fn new(config: EndpointConfig, client: Option<ClientConfig>, rng: Rng) -> Self {
        let endpoint = Endpoint::new(config, rng);
        Self { endpoint, client, handle: None, life: Life::SettingUp, events: Vec::new() }
    }

    /// The endpoint.
    pub fn endpoint(&mut self) -> &mut Endpoint {
        &mut self.endpoint
    }

    /// The connection, once there is one.
    pub fn connection(&mut self) -> Option<&mut Connection> {
        self.endpoint.connection(self.handle?)
    }

    /// All events so far with their moments.
    pub fn events(&self) -> &[(Instant, Event)] {
        &self.events
    }
}

fn client_identity() -> Identity {
    Identity::number(1)
}

fn server_identity() -> Identity {
    Identity::number(2)
}

impl Node for EndpointPeer {
    fn handle_datagram(&mut self, now: Instant, tuple: FourTuple, ecn: Ecn, datagram: &mut [u8]) {
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
            connection.on_path_error(now, local);
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
        let client = self.client.take().ok_or("this end does not connect, or has done so")?;
        let locals = candidates(locals);
        let handle = self.endpoint.connect(now, client, &locals, remotes).map_err(|error| error.to_string())?;
        self.handle = Some(handle);
        Ok(())
    }

    fn absorb_events(&mut self, now: Instant) {
        while let Some((handle, event)) = self.endpoint.poll_event() {
            self.handle.get_or_insert(handle);
            // Only these two matter here; all are kept for the test to look at.
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

    fn figures(&mut self, _now: Instant, out: &mut Vec<PathFigures>) {
        let Some(connection) = self.connection() else { return };
        out.extend(connection.paths().iter().map(|path| PathFigures {
            path: path.id,
            sent: path.bytes_sent,
            received: path.bytes_received,
            in_flight: path.bytes_in_flight,
            window: path.window,
            datagram: ByteCount(u64::from(path.max_datagram)),
        }));
    }

    fn set_addresses(&mut self, now: Instant, locals: &[LocalAddress]) {
        let locals = candidates(locals);
        if let Some(connection) = self.connection() {
            connection.set_local_addresses(now, &locals);
        }
    }
}

fn candidates(locals: &[LocalAddress]) -> Vec<LocalCandidate> {
    locals.iter().map(|address| LocalCandidate { address: *address, role: Role::Primary }).collect()
}

impl Streams for EndpointPeer {
    fn open(&mut self) -> Option<StreamId> {
        self.connection()?.open().ok()
    }

    fn accept(&mut self) -> Option<StreamId> {
        self.connection()?.accept()
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
            Some(Ok(ReadOutcome::Blocked) | Err(_)) | None => Read::Blocked,
        }
    }
}
