//! Codes that people can say, on sockets: one end offers a ticket, the other redeems the code for it.

mod access;
mod error;
mod offer;
mod over_tcp;
mod post;
mod redeem;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use manyway_proto::{Observed, RelayKey, Rng};
use tokio::sync::mpsc;

use crate::link::Errand;
use crate::tcp::RecordStream;

pub(crate) use access::Access;
pub use error::CodeError;
pub use offer::OfferedCode;
pub use redeem::RedeemedCode;

/// Answers of rendezvous servers that wait.
const MOST_ANSWERS: usize = 32;

fn random() -> io::Result<Rng> {
    let mut seed = [0; 32];
    ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut seed)
        .map_err(|_| io::Error::other("the system gives no random numbers"))?;
    Ok(Rng::from_seed(seed))
}

/// What rendezvous servers tell about the sockets of an endpoint: where they see them, and whether they relay for one.
#[derive(Debug)]
struct Observer {
    access: Access,
    servers: Vec<SocketAddr>,
    answers: mpsc::Sender<Observed>,
    heard: mpsc::Receiver<Observed>,
    seen: Vec<SocketAddr>,
    /// The servers that relay to the other end.
    relays: Vec<SocketAddr>,
    /// How often it asked each server for a relay.
    turns: Vec<usize>,
}

/// More addresses of one host are of no use to its peer.
const MOST_SEEN: usize = 8;

impl Observer {
    fn new(access: Access, servers: &[SocketAddr]) -> Self {
        let (answers, heard) = mpsc::channel(MOST_ANSWERS);
        let (seen, relays, turns) = (Vec::new(), Vec::new(), vec![0; servers.len()]);
        Self { access, servers: servers.to_vec(), answers, heard, seen, relays, turns }
    }

    /// Asks all servers from all sockets.
    fn ask(&self) {
        let (servers, answers) = (self.servers.clone(), self.answers.clone());
        self.access.send(Errand::Observe { servers, answers });
    }

    /// Asks each server to relay for a socket: until it does for another one each time, then for the same again. So
    /// both IP families are tried.
    fn bind_relay(&mut self, key: RelayKey) {
        let Self { access, servers, relays, turns, .. } = self;
        for (server, turn) in servers.iter().zip(turns) {
            access.send(Errand::BindRelay { server: *server, key, turn: *turn });
            *turn += usize::from(!relays.contains(server));
        }
    }

    /// Waits for an address in `seen` or `relays` that was not known. Dropping the future loses nothing.
    async fn changed(&mut self) {
        while let Some(observed) = self.heard.recv().await {
            let (known, address) = match observed {
                Observed::At(address) => (&mut self.seen, address),
                Observed::Relayed(tuple) => (&mut self.relays, tuple.remote),
                _ => continue,
            };
            if !known.contains(&address) && known.len() < MOST_SEEN {
                known.push(address);
                return;
            }
        }
        // `answers` keeps the channel open.
        std::future::pending::<()>().await;
    }
}

/// Time that a direct way has before a relay is used, and time that UDP has before a relay over TCP is looked for.
const DIRECT: Duration = Duration::from_secs(3);
const OVER_UDP: Duration = Duration::from_secs(4);
/// Time from one attempt to reach the rendezvous server over TCP to the next.
const BETWEEN_ATTEMPTS: Duration = Duration::from_secs(1);

/// The last resort: a TCP connection over which the rendezvous server relays, once both ends have asked for it.
struct StreamRelay(Option<Pin<Box<dyn Future<Output = RecordStream> + Send>>>);

impl fmt::Debug for StreamRelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamRelay").finish_non_exhaustive()
    }
}

impl StreamRelay {
    /// Begins to look for it after `wait`, unless TCP is not to be used.
    fn start(access: Access, server: Option<SocketAddr>, key: RelayKey, wait: Duration) -> Self {
        let server = server.filter(|_| access.choice.uses_tcp());
        Self(server.map(|server| -> Pin<Box<dyn Future<Output = RecordStream> + Send>> {
            Box::pin(async move {
                tokio::time::sleep(wait).await;
                loop {
                    match over_tcp::relayed(&access, server, key).await {
                        Ok(stream) => return stream,
                        Err(error) => tracing::debug!(%server, %error, "no relay over TCP"),
                    }
                    tokio::time::sleep(BETWEEN_ATTEMPTS).await;
                }
            })
        }))
    }

    /// Waits for the connection, and returns it once. Dropping the future loses nothing.
    async fn connected(&mut self) -> RecordStream {
        match &mut self.0 {
            Some(connecting) => {
                let stream = connecting.await;
                self.0 = None;
                stream
            }
            None => std::future::pending().await,
        }
    }
}
