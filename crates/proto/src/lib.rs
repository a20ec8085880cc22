//! The protocol machine of Manyway.
//!
//! It has no sockets, no clock and no threads: its inputs are datagrams, times and calls, its outputs datagrams,
//! deadlines and events.
//!
//! A driver owns an [`Endpoint`] and repeats these steps in order:
//!
//! 1. Call [`Endpoint::poll_transmit`] until it returns nothing more, and send the datagrams. With
//!    [`Endpoint::poll_transmit_unsealed`] another thread can encrypt them.
//! 2. Call [`Endpoint::poll_event`] until it returns nothing more; calls of the application to a [`Connection`] may
//!    create datagrams, so return to step 1 after any.
//! 3. Sleep until a datagram arrives or [`Endpoint::poll_timeout`] is reached.
//! 4. Call [`Endpoint::handle_datagram`] for each datagram, and [`Endpoint::handle_timeout`] for the time.
//!
//! Two endpoints, and a network with a delay of 5 ms:
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use manyway_proto::identity::{self, AuthorisedKeys, Identity};
//! use manyway_proto::{
//!     ClientConfig, ConnectionConfig, Ecn, Endpoint, EndpointConfig, Event, FourTuple, Instant, LocalAddress,
//!     LocalCandidate, ReadOutcome, Rng, Role, ServerConfig,
//! };
//!
//! const DELAY: Duration = Duration::from_millis(5);
//!
//! /// Carries all that one end has to send to the other one.
//! fn carry(now: Instant, from: &mut Endpoint, to: &mut Endpoint) {
//!     let mut buffer = Vec::new();
//!     while let Some(transmit) = from.poll_transmit(now, &mut buffer) {
//!         let local = LocalAddress { interface: 0, address: transmit.tuple.remote };
//!         let tuple = FourTuple::udp(local, transmit.tuple.local.address);
//!         for datagram in buffer[..transmit.length].chunks_mut(transmit.segment) {
//!             to.handle_datagram(now + DELAY, tuple, Ecn::NotEct, datagram);
//!         }
//!     }
//! }
//!
//! let (server_key, client_key) = (Identity::from_seed(&[1; 32]), Identity::from_seed(&[2; 32]));
//! let authorised: AuthorisedKeys = [*client_key.public_key()].into_iter().collect();
//! let settings = Arc::new(ConnectionConfig::default());
//! let mut config = EndpointConfig::default();
//! config.server = Some(ServerConfig {
//!     tls: identity::server_config(&server_key, Arc::new(authorised)),
//!     certificate: None,
//!     connection: Arc::clone(&settings),
//! });
//! let mut server = Endpoint::new(config, Rng::from_seed([3; 32]));
//! let mut client = Endpoint::new(EndpointConfig::default(), Rng::from_seed([4; 32]));
//!
//! let mut now = Instant::from_nanos(0);
//! let config = ClientConfig {
//!     tls: identity::client_config(server_key.public_key().hash(), &client_key),
//!     server_name: "manyway".try_into()?,
//!     connection: settings,
//! };
//! let address = LocalAddress { interface: 0, address: "10.0.0.1:1000".parse()? };
//! let locals = [LocalCandidate { address, role: Role::Primary }];
//! client.connect(now, &config, &locals, &["10.0.0.2:4455".parse()?])?;
//!
//! let mut received = Vec::new();
//! while client.connections() + server.connections() > 0 {
//!     carry(now, &mut client, &mut server);
//!     carry(now, &mut server, &mut client);
//!     now += DELAY;
//!     client.handle_timeout(now);
//!     server.handle_timeout(now);
//!     while let Some((handle, event)) = client.poll_event() {
//!         let Some(connection) = client.connection(handle) else { continue };
//!         match event {
//!             Event::Connected => {
//!                 let stream = connection.open_stream()?;
//!                 connection.write(stream, "hello".into())?;
//!                 connection.finish(stream)?;
//!             }
//!             Event::StreamFinished(_) => connection.close(now, 0, "done"),
//!             _ => {}
//!         }
//!     }
//!     while let Some((handle, event)) = server.poll_event() {
//!         let Some(connection) = server.connection(handle) else { continue };
//!         let stream = match event {
//!             Event::StreamOpened => connection.accept_stream(),
//!             Event::StreamReadable(stream) => Some(stream),
//!             _ => None,
//!         };
//!         if let Some(stream) = stream {
//!             while let Ok(ReadOutcome::Data(bytes)) = connection.read(stream, usize::MAX) {
//!                 received.extend_from_slice(&bytes);
//!             }
//!         }
//!     }
//! }
//! assert_eq!(received, b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod class;
mod collections;
mod config;
pub mod congestion;
mod connection;
mod endpoint;
mod engine;
mod error;
mod event;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod id_layout;
pub mod identity;
mod io;
mod message;
mod mmsp1;
mod mmsp2;
mod names;
pub mod observe;
mod packet;
mod path;
mod prefix;
mod records;
mod recovery;
mod rendezvous;
mod repeat;
mod rng;
pub mod scheduler;
mod shard;
mod stream;
mod target;
mod time;
#[cfg(feature = "toy-wire")]
#[doc(hidden)]
pub mod toy;
mod wire;

pub use class::Class;
pub use config::{ConfigError, ConnectionConfig, Detection, KeyLimits, StreamConfig, StreamConfigError};
pub use connection::{Connection, ConnectionStatistics};
pub use endpoint::{
    AddressFilter, ClientConfig, ConnectError, ConnectionHandle, Endpoint, EndpointConfig, HandOver,
    Mmsp1Server, Observed, Placer, ServerConfig,
};
pub use engine::{AddressPair, LinkNews, PairUse, PathStatistics};
pub use error::{ClosedBy, ConnectionError, Misuse, Undelivered, Violation};
pub use event::{Event, PathEvent};
pub use id_layout::IdLayout;
pub use io::{Carrier, Ecn, FourTuple, LocalAddress, Transmit};
pub use manyway_units::{ByteCount, Date, Rate};
pub use manyway_wire::{ConnectionId, PathId, Side, StreamId};
pub use message::{
    Carries, Message, MessageOptions, MessageOutcome, MessageStatistics, MessageToken, Order, SendError,
};
pub use mmsp2::protection::SealJobs;
pub use mmsp2::tls::{ALPN, HandshakeError, is_authentication_alert};
pub use packet::encryption_level::EncryptionLevel;
pub use path::{
    LocalCandidate, PairMode, PathAvailability, PathReason, PathState, PingToken, Role, SendRefusal,
    may_be_challenged,
};
pub use prefix::Prefix;
pub use records::Records;
pub use recovery::{CarrierFigures, EcnFailure, EcnState, RecoveryConfig};
pub use rendezvous::{
    CodeFailure, CodeReceiver, CodeReceiverEvent, CodeSender, CodeSenderEvent, ForwardLimits, Forwarding,
    MAX_CONTENT, Relay, RelayAnswer, RelayCounters, RelayKey, RelayLimits, RelayRequest, ShortCode,
    ShortCodeError,
};
pub use rng::Rng;
pub use shard::Shard;
pub use stream::{ReadOutcome, StreamEvent, WriteError};
pub use target::{RateAlgorithm, TargetRate, TargetReport};
pub use time::Instant;
