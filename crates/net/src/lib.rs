//! One connection over all your networks.
//!
//! [`Endpoint`] connects to a server over every interface that leads to it and adds up their bandwidth. When one of
//! them fails, the connection goes on over the others; when it returns, it is used again. Everything is encrypted. A
//! [`Connection`] has any number of streams, each an [`AsyncWrite`](tokio::io::AsyncWrite) and an
//! [`AsyncRead`](tokio::io::AsyncRead), or a carrier of [messages](SendStream::send_message): with boundaries, ordered
//! or unordered, reliable or with a lifetime.
//!
//! # Quick start
//! A server has an [`Identity`] and gives out [`Ticket`]s; a ticket is all that a client needs.
//!
//! Three small programs show more, each a server and a client: [`copy`](examples::copy) sends standard input to the
//! standard output of another host, [`echo`](examples::echo) answers on every stream and prints the events of the
//! paths, and [`messages`](examples::messages) sends positions of which only the newest counts.
//!
//! ```
//! use manyway::{Endpoint, EndpointOptions, HostPort, Identity, ServerOptions, Ticket};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // To be kept, so that tickets outlive a restart; `Seed` turns an identity into text and back.
//! let (identity, secret) = (Identity::generate()?, Ticket::generate_secret()?);
//! let mut options = EndpointOptions::default();
//! let mut settings = ServerOptions::new(identity.clone(), &secret);
//! settings.listen = vec!["127.0.0.1:0".parse()?]; // default: port 4455 of every address
//! options.server = Some(settings);
//! let server = Endpoint::bind(options)?;
//! let hosts = vec![HostPort::from(server.local_addresses()[0].address)];
//! let ticket = Ticket::new(identity.public_key().hash(), secret, hosts)?;
//!
//! tokio::spawn(async move {
//!     while let Some(connection) = server.accept().await {
//!         tokio::spawn(async move {
//!             while let Ok((mut send, mut receive)) = connection.accept().await {
//!                 // Sends back what comes.
//!                 tokio::spawn(async move {
//!                     let copied = tokio::io::copy(&mut receive, &mut send).await;
//!                     copied.and_then(|_| Ok(send.finish()?))
//!                 });
//!             }
//!         });
//!     }
//! });
//!
//! let client = Endpoint::bind(EndpointOptions::default())?; // uses every interface
//! let connection = client.connect(&ticket).await?;
//! let (mut send, mut receive) = connection.open().await?;
//! send.write_chunk("hello".into()).await?;
//! send.finish()?;
//! assert_eq!(receive.read_chunk(1000).await?.as_deref(), Some(&b"hello"[..]));
//! for path in connection.info().await?.paths {
//!     println!("{}: {}", path.statistics.tuple, path.statistics.state);
//! }
//! connection.close(0, "done").await;
//! client.close(0, "done").await;
//! # Ok(())
//! # }
//! ```
//!
//! # What to know
//! - Everything asynchronous here needs a tokio runtime with I/O and time; it may be of any flavour. The packets are
//!   handled by a thread of the endpoint's own, so an application that computes for long does not slow them down.
//! - [`Connection::events`] tells which paths come, fail and return. [`Connection::info`] has their figures.
//! - Dropping handles is safe at any time: a [`SendStream`] that was not finished is reset, a [`ReceiveStream`] that
//!   was not read to its end is stopped, a connection without any handle is closed. Before the process ends, call
//!   [`Endpoint::close`], which waits until written data has arrived.
//! - [`Endpoint::connect_mmsp1`] and [`EndpointOptions::mmsp1`] speak the older protocol MMSP/1 instead, in clear text:
//!   for comparison, for teaching and for trusted links. Nothing falls back to it.
//! - Memory is bounded: a peer can fill the windows of [`StreamConfig`], a quarter of
//!   [`max_window`](StreamConfig::max_window) that is read ahead, and 64 KiB for each open stream.

mod advice;
mod carriers;
mod clock;
mod code;
mod connection;
mod device;
mod driver;
mod endpoint;
mod error;
mod info;
mod key_log;
mod ledger;
mod link;
mod options;
mod path;
mod rendezvous;
mod report;
mod stream;
mod tcp;
#[cfg(test)]
#[cfg(all(target_os = "linux", not(manyway_portable)))]
mod test_namespace;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod test_seccomp;
mod ticket;
mod wire;
mod zone;

#[cfg(doc)]
pub mod examples;
pub mod interfaces;
pub mod qlog;
pub mod resolve;
pub mod udp;

pub use advice::Advice;
pub use carriers::{CarrierChoice, CarrierOptions};
pub use clock::Clock;
pub use code::{CodeError, OfferedCode, RedeemedCode};
pub use connection::Connection;
pub use endpoint::Endpoint;
pub use error::{BindFailure, ConnectError, ReadError, WriteError};
pub use info::{ConnectionInfo, PathInfo};
pub use interfaces::reachable::reachable_addresses;
pub use ledger::{Allowance, CAP_REACHED, Ledger};
pub use manyway_proto::identity::{
    AuthorisedKeys, Authoriser, CertificateFault, Identity, KEY_HASH_LENGTH, PublicKey, RootCertificates,
    Seed, SeedError, ServerCertificate, ServerTrust,
};
pub use manyway_proto::observe;
pub use manyway_proto::{
    AddressFilter, ByteCount, Carrier, Carries, Class, ClosedBy, CodeFailure, ConfigError, ConnectionConfig,
    ConnectionError, ConnectionStatistics, Date, Detection, EcnFailure, EcnState, Event, ForwardLimits,
    FourTuple, IdLayout, Instant, LocalAddress, Message, MessageOptions, MessageStatistics, MessageToken,
    Order, PairMode, PathAvailability, PathEvent, PathId, PathReason, PathState, PathStatistics, Rate,
    RateAlgorithm, RelayCounters, RelayLimits, Role, ShortCode, ShortCodeError, StreamConfig, StreamId,
    TargetRate, TargetReport, Undelivered, congestion, scheduler,
};
pub use options::{EndpointOptions, Lanes, Locals, Mmsp1Options, ServerOptions};
pub use path::Path;
pub use rendezvous::RendezvousServer;
pub use report::{PathReport, Unused, Used, Why};
pub use stream::{ReceiveStream, SendStream};
pub use tcp::{Proxy, connect_tcp};
pub use ticket::{Host, HostName, HostPort, HostPortError, Ticket, TicketError};
pub use wire::Wire;

/// Default port of a server, for UDP and TCP.
pub const DEFAULT_PORT: u16 = 4455;

#[cfg(all(test, target_os = "linux"))]
mod zz {
    #[test]
    fn skipped_tests_are_counted() {
        manyway_sim::skipped::tell_skipped();
    }
}
