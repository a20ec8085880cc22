//! The drivers of one endpoint: each a thread with connections of its own, all on one port.
//!
//! The system gives a datagram to the driver that issued its connection ID. A driver hands over what belongs to another
//! one: first datagrams of clients, TCP connections, and datagrams that the system misplaced.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use manyway_proto::{FourTuple, HandOver, Placer, Shard, Undelivered};
use tokio::sync::mpsc;

use crate::tcp::RecordStream;

/// Most deliveries that wait for a driver; more are lost, as in a full socket.
const MOST_WAITING: usize = 1024;
/// Deliveries that a driver takes in one turn.
pub(super) const DELIVERIES: usize = 64;

/// What one driver hands over to another.
pub(super) enum Delivery {
    Datagram(HandOver),
    /// An ICMP error for a datagram between two addresses, with the first bytes of its payload: the system gives it to any
    /// of the sockets on a port.
    Unreachable(FourTuple, Vec<u8>, Undelivered),
    /// A TCP connection, with the first record that came over it.
    Stream(RecordStream, Vec<u8>),
}

/// One driver's place among the drivers of its endpoint.
pub(crate) struct Group {
    shard: Shard,
    loads: Arc<Loads>,
    /// Where each driver takes deliveries; this one sends itself none.
    senders: Vec<mpsc::Sender<Delivery>>,
    inbox: mpsc::Receiver<Delivery>,
    /// Completes once no other driver takes deliveries.
    others_ended: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

/// How many connections each driver has.
#[derive(Debug, Default)]
pub(super) struct Loads {
    connections: Vec<AtomicUsize>,
    /// Where the search for the driver with the fewest begins: drivers with as many take turns.
    turn: AtomicUsize,
}

impl Loads {
    pub(super) fn all(&self) -> Vec<usize> {
        self.connections.iter().map(|load| load.load(Ordering::Relaxed)).collect()
    }
}

impl Placer for Loads {
    fn place(&self) -> usize {
        let count = self.connections.len().max(1);
        let first = self.turn.fetch_add(1, Ordering::Relaxed) % count;
        let load = |index: &usize| self.connections.get(*index).map(|load| load.load(Ordering::Relaxed));
        (first..count).chain(0..first).min_by_key(load).unwrap_or(0)
    }
}

impl Group {
    /// The places of `count` drivers, from 1 to [`Shard::MOST`].
    pub(crate) fn of(count: usize) -> Vec<Self> {
        let count = count.clamp(1, Shard::MOST);
        let loads = Loads {
            connections: (0..count).map(|_| AtomicUsize::new(0)).collect(),
            turn: AtomicUsize::new(0),
        };
        let loads = Arc::new(loads);
        let (senders, inboxes): (Vec<_>, Vec<_>) = (0..count).map(|_| mpsc::channel(MOST_WAITING)).unzip();
        let place = |(index, inbox)| {
            let shard = Shard::new(index, count).unwrap_or_default();
            let (loads, senders) = (Arc::clone(&loads), senders.clone());
            Self { shard, loads, senders, inbox, others_ended: None }
        };
        inboxes.into_iter().enumerate().map(place).collect()
    }

    pub(super) fn shard(&self) -> Shard {
        self.shard
    }

    /// Chooses the driver of a new client; `None` if there is only one.
    pub(super) fn placer(&self) -> Option<Arc<dyn Placer>> {
        (self.shard.count() > 1).then(|| self.loads() as Arc<dyn Placer>)
    }

    /// How many connections each driver has.
    pub(super) fn loads(&self) -> Arc<Loads> {
        Arc::clone(&self.loads)
    }

    /// Tells the others how many connections this driver has.
    pub(super) fn note_load(&self, connections: usize) {
        if let Some(own) = self.loads.connections.get(self.shard.index()) {
            own.store(connections, Ordering::Relaxed);
        }
    }

    /// The other driver that gets a TCP connection, by its first record; `None` if this one does.
    pub(super) fn owner_of_stream(&self, first: &[u8]) -> Option<usize> {
        if self.shard.count() == 1 {
            return None;
        }
        let is_new_client = first.first().is_some_and(|byte| *byte >= 0x80);
        let owner = if is_new_client { self.loads.place() } else { self.shard.of_datagram(first) };
        (owner != self.shard.index()).then_some(owner)
    }

    /// Hands something over to another driver. It is lost if that one has too much to do.
    pub(super) fn deliver(&self, shard: usize, delivery: Delivery) {
        let sender = self.senders.get(shard).filter(|_| shard != self.shard.index());
        if sender.is_none_or(|sender| sender.try_send(delivery).is_err()) {
            tracing::debug!(shard, "another driver thread takes no more");
        }
    }

    /// Hands something over to every other driver.
    pub(super) fn deliver_to_others(&self, delivery: impl Fn() -> Delivery) {
        self.others().for_each(|shard| self.deliver(shard, delivery()));
    }

    /// The indices of the other drivers.
    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let own = self.shard.index();
        (0..self.shard.count()).filter(move |shard| *shard != own)
    }

    /// What another driver hands over.
    pub(super) fn poll_delivery(&mut self, context: &mut Context<'_>) -> Poll<Option<Delivery>> {
        self.inbox.poll_recv(context)
    }

    /// Takes no more deliveries; ready once no other driver does either. Until then this one has to keep its sockets, since
    /// the system divides datagrams by their number, and its runtime, since TCP connections that it accepted need that.
    pub(super) fn poll_others_ended(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.inbox.close();
        let others = self.others();
        let others_ended = self.others_ended.get_or_insert_with(|| {
            let others: Vec<_> = others.filter_map(|shard| self.senders.get(shard).cloned()).collect();
            Box::pin(async move {
                for other in others {
                    other.closed().await;
                }
            })
        });
        others_ended.as_mut().poll(context)
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").field("shard", &self.shard).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_clients_go_to_the_driver_with_the_fewest_connections_and_in_turn_where_all_have_as_many() {
        let groups = Group::of(3);
        let place = || groups[0].placer().unwrap().place();
        assert_eq!([place(), place(), place(), place()], [0, 1, 2, 0]);
        groups[0].note_load(2);
        groups[1].note_load(1);
        groups[2].note_load(2);
        assert_eq!([place(), place(), place()], [1, 1, 1]);
        assert!(Group::of(1)[0].placer().is_none());
    }
}
