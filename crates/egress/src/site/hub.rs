//! The server's end: a network of its own, of which each client gets an address.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use ipnet::IpNet;
use manyway_session::MessageHalves;
use tokio::sync::mpsc;

use super::Port;
use super::assignment::Assignment;
use super::config::{HubConfig, HubError};
use super::filter::{Filter, Tally, Verdict};
use super::header::Header;
use super::joining::Joining;
use super::pool::Pool;
use super::stream::{Arrival, PacketReceiver, PacketSender};
use super::table::{Entry, Outgoing, Table};
use crate::answer::{Answer, Reason, Refusal};
use crate::error::EgressError;
use crate::quota::Quota;
use crate::relay::Volume;
use crate::treatment::Treatment;

/// Hears of the clients of a network.
pub trait SiteLog: Send + Sync {
    /// A client has joined with these addresses and networks.
    fn joined(&self, addresses: &[IpNet], networks: &[IpNet]);

    /// It sent a packet from an address that is not its own; told once for each stay.
    fn spoofed(&self, source: IpAddr);

    /// It has left; what came from it, and what went to it.
    fn left(&self, from: Tally, to: Tally);
}

/// A client that may join.
#[derive(Clone, Copy)]
pub struct Member<'a> {
    /// The network.
    pub hub: &'a Hub,
    /// Its ticket or key, as [`HubConfig::behind`] names it.
    pub name: &'a str,
    /// Hears of it.
    pub log: &'a dyn SiteLog,
}

impl fmt::Debug for Member<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The server's end, for any number of clients. Clones share its state.
#[derive(Clone)]
pub struct Hub {
    shared: Arc<Shared>,
}

struct Shared {
    config: HubConfig,
    servers: Vec<IpNet>,
    port: Box<dyn Port>,
    table: RwLock<Table>,
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").field("config", &self.shared.config).finish_non_exhaustive()
    }
}

impl Hub {
    /// A network without clients, whose packets go to `port`.
    ///
    /// # Errors
    /// The settings contradict themselves.
    pub fn new(config: HubConfig, port: impl Port + 'static) -> Result<Self, HubError> {
        let pools = config.pools()?;
        let servers = pools.iter().map(Pool::server).collect();
        let (port, table) = (Box::new(port), RwLock::new(Table::new(pools)));
        Ok(Self { shared: Arc::new(Shared { config, servers, port, table }) })
    }

    /// Passes a packet of this side on to the client whose address it is for.
    pub fn deliver(&self, packet: &[u8], treatment: Treatment) -> Verdict {
        let Some(header) = Header::parse(packet) else { return Verdict::Malformed };
        if packet.len() > self.shared.config.mtu.into() {
            return Verdict::TooLarge(self.shared.config.mtu);
        }
        let table = self.shared.table.read().unwrap_or_else(PoisonError::into_inner);
        match table.find(header.destination) {
            None => Verdict::Destination(header.destination),
            Some(entry) => match entry.queue.try_send((Bytes::copy_from_slice(packet), treatment)) {
                Ok(()) => Verdict::Passed,
                Err(_) => Verdict::QueueFull,
            },
        }
    }

    /// Serves one stream of packets until the client ends it or another one takes its place.
    pub(crate) async fn serve(
        &self,
        member: &Member<'_>,
        joining: &Joining,
        (sender, receiver): MessageHalves,
    ) -> Result<Volume, EgressError> {
        let mut sender = PacketSender::new(sender);
        let mut receiver = PacketReceiver::new(receiver, quota());
        let (queue, outgoing) = mpsc::channel(QUEUE);
        let joined = self.table(|table| table.join(&self.shared.config, member.name, joining, queue));
        let place = match joined {
            Ok(entry) => Place { hub: self, entry },
            Err(refusal) => return Err(refuse(&mut sender, refusal).await),
        };
        let Entry { addresses, networks, .. } = &*place.entry;
        let assignment = self.assignment(member.name, addresses);
        let mut frame = Vec::new();
        assignment.encode(&mut frame);
        sender.send_frame(frame).await?;
        member.log.joined(addresses, networks);
        let sources = addresses.iter().map(|it| it.addr().into()).chain(networks.iter().copied()).collect();
        let reached = self.shared.config.networks.iter().chain(&assignment.networks).copied().collect();
        let filter = Filter::new(assignment.mtu, sources, reached);
        let mut tallies = [Tally::default(); 2];
        let ended =
            self.carry(&place.entry, (&mut sender, &mut receiver), outgoing, &filter, (member, &mut tallies));
        let ended = ended.await;
        let [from, to] = tallies;
        member.log.left(from, to);
        ended
    }

    async fn carry(
        &self,
        entry: &Entry,
        (sender, receiver): (&mut PacketSender, &mut PacketReceiver),
        mut outgoing: mpsc::Receiver<Outgoing>,
        filter: &Filter,
        (member, [from, to]): (&Member<'_>, &mut [Tally; 2]),
    ) -> Result<Volume, EgressError> {
        let mut volume = Volume::default();
        loop {
            tokio::select! {
                arrival = receiver.arrival() => match arrival? {
                    Some(Arrival::Packet(packet)) => {
                        let verdict = self.take(filter, &packet);
                        if let (Verdict::Source(source), 0) = (verdict, from.source) {
                            member.log.spoofed(source);
                        }
                        if verdict == Verdict::Passed {
                            volume.received += packet.len() as u64;
                        }
                        from.count(verdict);
                    }
                    Some(Arrival::Frame(_)) => {
                        return Err(Refusal::with_text(Reason::Malformed, "a second request").into());
                    }
                    None => return Ok(volume),
                },
                // The table has the other end until the client is removed from it.
                Some((packet, treatment)) = outgoing.recv() => {
                    let is_sent = sender.send(&packet, treatment)?;
                    to.count(if is_sent { Verdict::Passed } else { Verdict::QueueFull });
                    volume.sent += if is_sent { packet.len() as u64 } else { 0 };
                }
                () = entry.replaced.notified() => {
                    let text = "another client with this ticket has joined in its place";
                    return Err(refuse(sender, Refusal::with_text(Reason::Other, text)).await);
                }
            }
        }
    }

    fn take(&self, filter: &Filter, packet: &[u8]) -> Verdict {
        let verdict = filter.check(packet);
        if verdict == Verdict::Passed && !self.shared.port.put(packet) { Verdict::QueueFull } else { verdict }
    }

    /// The settings that a client gets, with the networks behind the server and behind other clients.
    // egress 11.2
    fn assignment(&self, name: &str, addresses: &[IpNet]) -> Assignment {
        let HubConfig { announced, behind, mtu, .. } = &self.shared.config;
        let others = behind.iter().filter(|(who, _)| who != name).map(|(_, network)| *network);
        let networks = announced.iter().copied().chain(others).collect();
        Assignment { mtu: *mtu, addresses: addresses.to_vec(), networks }
    }

    /// The server's own addresses.
    pub fn addresses(&self) -> &[IpNet] {
        &self.shared.servers
    }

    fn table<T>(&self, work: impl FnOnce(&mut Table) -> T) -> T {
        work(&mut self.shared.table.write().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A client's place in the table, until it is dropped.
struct Place<'a> {
    hub: &'a Hub,
    entry: Arc<Entry>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.hub.table(|table| table.leave(&self.entry));
    }
}

/// Tells the client, if it can still be told, and returns the reason.
async fn refuse(sender: &mut PacketSender, refusal: Refusal) -> EgressError {
    let mut frame = Vec::new();
    Answer::Refused(refusal.clone()).encode(&mut frame);
    let _ = sender.send_frame(frame).await;
    refusal.into()
}

/// What waits for its order in one direction of a stream.
// egress 11.7
pub(super) fn quota() -> Quota {
    Quota::new(0, 0, 0, 4 << 20)
}

/// Packets that wait for a client's stream.
const QUEUE: usize = 256;
