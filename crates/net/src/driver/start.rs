//! What a driver is started with.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use manyway_proto::LocalAddress;
use tokio::sync::mpsc;

use super::group::Group;
use crate::advice::AdviceBoard;
use crate::error::BindFailure;
use crate::key_log::KeyLog;
use crate::link::{Command, Link};
use crate::options::EndpointOptions;

/// What a driver is started with.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) options: EndpointOptions,
    pub(super) key_log: KeyLog,
    pub(super) commands: mpsc::WeakUnboundedSender<Command>,
    pub(super) command_receiver: mpsc::UnboundedReceiver<Command>,
    pub(super) incoming: mpsc::Sender<Arc<Link>>,
    pub(super) advice: AdviceBoard,
    pub(super) group: Group,
    /// Where the first driver of the endpoint listens, unless this is the first.
    pub(super) first: Option<Listening>,
}

/// Where a server listens.
#[derive(Debug, Clone, Default)]
pub(crate) struct Listening {
    pub(crate) udp: Vec<LocalAddress>,
    pub(crate) tcp: Vec<SocketAddr>,
}

/// Fills `bytes` with random numbers of the system.
pub(super) fn fill_with_random(bytes: &mut [u8]) -> Result<(), BindFailure> {
    ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), bytes)
        .map_err(|_| BindFailure::System(io::Error::other("the system gives no random numbers")))
}
