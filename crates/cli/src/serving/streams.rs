//! Passes each stream that a client opens to the protocol of its first byte.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use manyway::PublicKey;
use manyway_egress::{
    Access, Gateway, Hub, Member, NetPorts, PROTOCOL, Quota, RequestError, answer_messages, decline,
};
use manyway_transfer::{Server, Session, Transport};
use tokio::io::{AsyncRead, AsyncReadExt as _, ReadBuf};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::journal::Client;
use crate::home::NetPortsText;

/// How long a new stream may take to send its first byte.
// egress 1.1
const PATIENCE: Duration = Duration::from_secs(10);

/// The server's gateway and its network of sites, if it has them, and the quota of each client over all its connections.
#[derive(Debug, Default)]
pub struct Egress {
    gateway: Option<Gateway>,
    hub: Option<Hub>,
    clients: Mutex<BTreeMap<PublicKey, Weak<Quota>>>,
}

/// The gateway and the network as one client may use them.
#[derive(Debug, Clone)]
pub struct ClientEgress {
    share: Option<Share>,
    /// With the client's name there.
    site: Option<(Hub, String)>,
}

#[derive(Debug, Clone)]
struct Share {
    gateway: Gateway,
    quota: Arc<Quota>,
    /// Where the client may listen.
    listen: Arc<[NetPorts]>,
}

impl Share {
    fn access<'a, S>(&'a self, session: &'a S) -> Access<'a, S> {
        Access { session, quota: &self.quota, listen: &self.listen }
    }
}

impl Egress {
    /// With the gateway and the network, or without one: then every request for it is declined.
    pub fn new(gateway: Option<Gateway>, hub: Option<Hub>) -> Arc<Self> {
        Arc::new(Self { gateway, hub, clients: Mutex::default() })
    }

    /// What the client with this key and name may use; it may listen at these addresses.
    pub fn client(&self, key: Option<PublicKey>, listen: &[NetPortsText], name: &str) -> ClientEgress {
        let site = self.hub.clone().map(|hub| (hub, name.to_owned()));
        ClientEgress { share: self.share(key, listen), site }
    }

    fn share(&self, key: Option<PublicKey>, listen: &[NetPortsText]) -> Option<Share> {
        let (gateway, key) = (self.gateway.as_ref()?, key?);
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.retain(|_, quota| quota.strong_count() > 0);
        let shared = clients.get(&key).and_then(Weak::upgrade);
        let quota = shared.unwrap_or_else(|| Arc::new(gateway.quota()));
        clients.insert(key, Arc::downgrade(&quota));
        let listen = listen.iter().map(|opening| opening.0.clone()).collect();
        Some(Share { gateway: gateway.clone(), quota, listen })
    }
}

/// Serves the streams of one client until its connection ends.
pub async fn answer<S>(session: &S, server: &Server, egress: &ClientEgress, log: &Client)
where
    S: Session + Clone + 'static,
{
    let (files, queue) = mpsc::channel(1);
    let sorted = Sorted { session, queue: tokio::sync::Mutex::new(queue) };
    let sorting = async move {
        // No more than the limit on the peer's streams.
        let mut streams = JoinSet::new();
        while let Some((send, receive)) = session.accept().await {
            let (files, egress, log) = (files.clone(), egress.clone(), log.clone());
            let session = session.clone();
            streams.spawn(async move {
                if let Err(error) = sort(&session, (send, receive), files, egress, &log).await {
                    tracing::debug!(%error, "a program's connection ended");
                    log.egress_refused(&error);
                }
            });
            while streams.try_join_next().is_some() {}
        }
        drop(files);
        while streams.join_next().await.is_some() {}
    };
    tokio::join!(sorting, server.run(&sorted));
}

async fn sort<S: Session + 'static>(
    session: &S,
    (send, mut receive): (S::Send, S::Receive),
    files: mpsc::Sender<Halves<S>>,
    egress: ClientEgress,
    log: &Client,
) -> Result<(), RequestError> {
    let first = timeout(PATIENCE, async {
        // Messages are flows of datagrams (egress 8.1), or packets (egress 11.1).
        if S::carries_messages(&mut receive).await? { Ok(None) } else { receive.read_u8().await.map(Some) }
    });
    let Ok(Ok(first)) = first.await else { return Ok(()) };
    let Some(first) = first else {
        let Some(halves) = S::messages(send, receive) else { return Ok(()) };
        let share = egress.share.as_ref().map(|share| (&share.gateway, share.access(session)));
        let gateway = share.as_ref().map(|(gateway, client)| (*gateway, client));
        let member = egress.site.as_ref().map(|(hub, name)| Member { hub, name, log });
        return answer_messages(gateway, member, halves).await.map(drop);
    };
    let receive = WithFirst { first: Some(first), rest: receive };
    if first != PROTOCOL {
        // Without a receiver the connection has ended.
        let _ = files.send((send, receive)).await;
        return Ok(());
    }
    match egress.share {
        Some(share) => share.gateway.answer(&share.access(session), send, receive).await.map(|_| ()),
        None => Err(decline(send, receive).await),
    }
}

/// The streams of a session for the file server.
struct Sorted<'a, S: Session> {
    session: &'a S,
    queue: tokio::sync::Mutex<mpsc::Receiver<Halves<S>>>,
}

type Halves<S> = (<S as Session>::Send, WithFirst<<S as Session>::Receive>);

impl<S: Session> Session for Sorted<'_, S> {
    type Send = S::Send;
    type Receive = WithFirst<S::Receive>;

    async fn open(&self) -> io::Result<(Self::Send, Self::Receive)> {
        let (send, receive) = self.session.open().await?;
        Ok((send, WithFirst { first: None, rest: receive }))
    }

    async fn accept(&self) -> Option<(Self::Send, Self::Receive)> {
        self.queue.lock().await.recv().await
    }

    fn transport(&self) -> Option<Arc<dyn Transport>> {
        self.session.transport()
    }
}

/// A stream whose first byte was read already.
#[derive(Debug)]
struct WithFirst<R> {
    first: Option<u8>,
    rest: R,
}

impl<R: AsyncRead + Unpin> AsyncRead for WithFirst<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(first) = self.first.take_if(|_| buffer.remaining() > 0) {
            buffer.put_slice(&[first]);
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.rest).poll_read(context, buffer)
    }
}

#[cfg(test)]
mod tests {
    use manyway::Identity;
    use manyway_egress::{GatewayConfig, Rules};

    use super::*;

    #[test]
    fn the_connections_of_one_client_share_its_quota_and_others_have_their_own() {
        let egress = Egress::new(Some(Gateway::new(Rules::new(Vec::new()), GatewayConfig::default())), None);
        let key = |seed| Some(*Identity::from_seed(&[seed; 32]).public_key());
        let quota = |egress: &ClientEgress| Arc::clone(&egress.share.as_ref().unwrap().quota);
        let (first, second, other) = (
            egress.client(key(1), &[], "a"),
            egress.client(key(1), &[], "a"),
            egress.client(key(2), &[], "a"),
        );
        assert!(Arc::ptr_eq(&quota(&first), &quota(&second)));
        assert!(!Arc::ptr_eq(&quota(&first), &quota(&other)));
        drop((first, second, other));
        let _kept = egress.client(key(3), &[], "a");
        assert_eq!(egress.clients.lock().unwrap().len(), 1, "who is gone is forgotten");
        assert!(Egress::new(None, None).client(key(1), &[], "a").share.is_none());
    }
}
