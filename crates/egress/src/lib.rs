//! TCP connections, UDP datagrams and echo requests of other programs over a connection of Manyway.
//!
//! The client's end asks the server's end to [`connect`] to a [`Destination`]; each TCP connection is one stream. It
//! [opens a flow](open_flow) for the datagrams or echo requests of one socket, which are messages of one stream. The
//! server's end, a [`Gateway`], resolves names, enforces its [`Rules`], connects with ordinary sockets of an
//! unprivileged user, and copies. [`relay`] copies both directions at either end: an orderly end is passed on as such
//! (half-close), a broken connection is reset at the other end, and a reader that does not read stops the writer.
//!
//! Whole IP packets between sites are a third kind of stream: a client [`join`]s the network of a [`Hub`].
//!
//! The crate knows no transport: it needs a [`Session`](manyway_session::Session). `docs/specification/egress.md`
//! specifies the bytes; comments cite its rules as `egress 2.1`.
#![forbid(unsafe_code)]

mod allowance;
mod answer;
mod bucket;
mod buffer;
mod classed;
mod client;
mod codec;
mod datagram;
mod destination;
mod early;
mod error;
mod flow;
mod listening;
mod order;
mod quota;
mod relay;
mod request;
mod rules;
mod server;
mod site;
mod tcp;
mod treatment;
mod wire;

pub use answer::{Reason, Refusal};
pub use buffer::enlarge_receive_buffer;
pub use classed::ClassedSend;
pub use client::{Opened, check, connect, connect_as};
pub use codec::CodecError;
pub use datagram::Datagram;
pub use destination::{Destination, DestinationError, Host, Name};
pub use error::{EgressError, RequestError};
pub use flow::{FlowReceiver, FlowSender, open_flow};
pub use listening::{Incoming, IncomingFlow, Listening, accept, accept_flow, listen, listen_datagrams};
pub use quota::Quota;
pub use relay::{RelayError, Volume, relay};
pub use request::{FlowKind, PROTOCOL, VERSION};
pub use rules::{Class, NetPorts, NetPortsError, OwnAddresses, Ports, Rules, SystemAddresses};
pub use server::{
    Access, Gateway, GatewayConfig, Resolve, SystemResolver, Turn, answer_messages, can_send_echo_requests,
    decline,
};
pub use site::{
    Assignment, Filter, Header, Hub, HubConfig, HubError, Joined, Joining, Member, PacketReceiver,
    PacketSender, Port, SiteLog, Tally, Verdict, join,
};
pub use tcp::{LocalConnection, relay_connection, relay_tcp, reset_when_closed};
pub use treatment::Treatment;

#[doc(hidden)]
pub mod fuzzing {
    //! The parsers, for the fuzz target.
    pub use crate::answer::Answer;
    pub use crate::request::{Request, Unknown};
}
