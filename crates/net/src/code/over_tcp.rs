//! TCP connections to rendezvous servers, for an end whose network blocks UDP (spec 10.48).

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use manyway_proto::{RelayAnswer, RelayKey, RelayRequest};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::access::Access;
use crate::tcp::RecordStream;

/// Time from one request for a relay to the next, as long as the other end is not there.
const ASK_AGAIN: Duration = Duration::from_millis(250);
/// Datagrams that wait for a connection, and that wait to be read.
const WAITING: usize = 8;
const READ: usize = 4096;

/// A connection that carries datagrams as records.
#[derive(Debug)]
struct ServerConnection(RecordStream);

impl ServerConnection {
    async fn send(&mut self, datagram: &[u8]) -> io::Result<()> {
        self.0.write(datagram)?;
        if self.0.pending() == 0 { Ok(()) } else { poll_fn(|context| self.0.poll_flush(context)).await }
    }

    /// Waits until a record is complete. Dropping the future loses nothing.
    async fn wait(&mut self) -> io::Result<()> {
        let mut buffer = [0; READ];
        while self.0.peek_record().is_none() {
            if poll_fn(|context| self.0.poll_read(context, &mut buffer)).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }
}

/// A connection that the rendezvous server relays: both ends have asked for that.
///
/// # Errors
/// The server is not reached, or ends the connection.
pub(super) async fn relayed(access: &Access, server: SocketAddr, key: RelayKey) -> io::Result<RecordStream> {
    let mut connection = ServerConnection(access.connect(server).await?);
    let mut request = RelayRequest::new(key);
    loop {
        connection.send(&request.request()).await?;
        let answered = tokio::time::timeout(ASK_AGAIN, connection.wait());
        if let Ok(complete) = answered.await {
            complete?;
        }
        let mut is_refused = false;
        while let Some(record) = connection.0.peek_record() {
            let answer = request.handle_record(record);
            if answer == RelayAnswer::Packet {
                return Ok(connection.0);
            }
            connection.0.next_record();
            match answer {
                RelayAnswer::Relayed => return Ok(connection.0),
                RelayAnswer::AskAgain => {}
                RelayAnswer::NotYet | _ => is_refused = true,
            }
        }
        if is_refused {
            tokio::time::sleep(ASK_AGAIN).await;
        }
    }
}

/// The connections over which letters go while UDP brings no answer.
#[derive(Debug)]
pub(super) struct ServerConnections {
    tasks: JoinSet<()>,
    letters: BTreeMap<SocketAddr, mpsc::Sender<Vec<u8>>>,
    heard: mpsc::Receiver<(SocketAddr, Vec<u8>)>,
    hears: mpsc::Sender<(SocketAddr, Vec<u8>)>,
}

impl ServerConnections {
    pub(super) fn new() -> Self {
        let (hears, heard) = mpsc::channel(WAITING);
        Self { tasks: JoinSet::new(), letters: BTreeMap::new(), heard, hears }
    }

    /// Sends a datagram; one that cannot be sent counts as lost.
    pub(super) fn send(&mut self, access: &Access, server: SocketAddr, datagram: &[u8]) {
        while self.tasks.try_join_next().is_some() {}
        self.letters.retain(|_, letters| !letters.is_closed());
        let Self { tasks, letters, hears, .. } = self;
        let connection = letters.entry(server).or_insert_with(|| {
            let (letters, waiting) = mpsc::channel(WAITING);
            let (access, hears) = (access.clone(), hears.clone());
            tasks.spawn(async move {
                if let Err(error) = carry(&access, server, waiting, hears).await {
                    tracing::debug!(%server, %error, "TCP to a rendezvous server");
                }
            });
            letters
        });
        let _ = connection.try_send(datagram.to_vec());
    }

    /// Ends all connections.
    pub(super) fn clear(&mut self) {
        self.letters.clear();
    }

    /// The next datagram, and from where. Dropping the future loses nothing.
    pub(super) async fn receive(&mut self) -> (SocketAddr, Vec<u8>) {
        match self.heard.recv().await {
            Some(heard) => heard,
            // `hears` keeps the channel open.
            None => std::future::pending().await,
        }
    }
}

/// Carries datagrams both ways, until the sender of `letters` is dropped or the connection ends.
async fn carry(
    access: &Access,
    server: SocketAddr,
    mut letters: mpsc::Receiver<Vec<u8>>,
    hears: mpsc::Sender<(SocketAddr, Vec<u8>)>,
) -> io::Result<()> {
    let mut connection = ServerConnection(access.connect(server).await?);
    loop {
        tokio::select! {
            letter = letters.recv() => match letter {
                Some(letter) => connection.send(&letter).await?,
                None => return Ok(()),
            },
            complete = connection.wait() => {
                complete?;
                if let Some(record) = connection.0.next_record() {
                    // What the end does not take in time, it asks for again.
                    let _ = hears.try_send((server, record.to_vec()));
                }
            }
        }
    }
}
