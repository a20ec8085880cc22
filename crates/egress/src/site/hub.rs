//! The server's end: a network of its own, of which each client gets an address.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use ipnet::IpNet;
use manyway_session::MessageHalves;
use tokio::sync::mpsc;

use super::Port;
use super::filter::{Filter, Tally, Verdict};
use super::header::Header;
use super::pool::Pool;
use super::setup::{Assignment, Joining};
use super::stream::{Arrival, PacketReceiver, PacketSender};
use super::table::{Entry, Table, overlap};
use crate::answer::{Answer, Reason, Refusal};
use crate::error::EgressError;
use crate::quota::Quota;
use crate::relay::Volume;

/// Settings of a server's network.
#[derive(Debug, Clone)]
pub struct HubConfig {
    /// The network, at most one of each family; the first address is the server's.
    pub networks: Vec<IpNet>,
    /// Networks behind the server, which clients reach.
    pub announced: Vec<IpNet>,
    /// Networks that a client with this ticket or key may announce, or parts of them.
    pub behind: Vec<(String, IpNet)>,
    /// Largest packet, in bytes; from 1280, by default 1400: on links of 1500 bytes a packet needs one datagram.
    pub mtu: u16,
    /// Clients at the same time. Default 256.
    pub clients: usize,
}

impl Default for HubConfig {
    fn default() -> Self {
        let (networks, announced, behind) = (Vec::new(), Vec::new(), Vec::new());
        Self { networks, announced, behind, mtu: 1400, clients: 256 }
    }
}

impl HubConfig {
    /// The server's addresses, each with the length of its network.
    ///
    /// # Errors
    /// The settings contradict themselves.
    pub fn servers(&self) -> Result<Vec<IpNet>, HubError> {
        Ok(check(self)?.iter().map(Pool::server).collect())
    }
}

/// What is wrong with the settings of a server's network.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HubError {
    /// There is none, or there are two of a family.
    Families,
    /// It has no place for the server and a client.
    TooSmall(IpNet),
    /// Two networks have addresses in common.
    Overlap(IpNet, IpNet),
    /// More than [`Joining::MOST_NETWORKS`] networks lie behind the sites.
    TooMany,
}

impl fmt::Display for HubError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Families => f.write_str("--tun names one network, or one of IPv4 and one of IPv6"),
            Self::TooSmall(network) => {
                write!(f, "{network} has no place for a server and a client: write it like 10.99.0.0/24")
            }
            Self::Overlap(one, other) => write!(f, "{one} and {other} have addresses in common"),
            Self::TooMany => write!(f, "at most {} networks may lie behind sites", Joining::MOST_NETWORKS),
        }
    }
}

impl std::error::Error for HubError {}

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
        let pools = check(&config)?;
        let servers = pools.iter().map(Pool::server).collect();
        let (port, table) = (Box::new(port), RwLock::new(Table::new(pools)));
        Ok(Self { shared: Arc::new(Shared { config, servers, port, table }) })
    }

    /// Passes a packet of this side on to the client whose address it is for.
    pub fn deliver(&self, packet: &[u8]) -> Verdict {
        let Some(header) = Header::parse(packet) else { return Verdict::Malformed };
        if packet.len() > self.shared.config.mtu.into() {
            return Verdict::TooLarge(self.shared.config.mtu);
        }
        let table = self.shared.table.read().unwrap_or_else(PoisonError::into_inner);
        match table.find(header.destination) {
            None => Verdict::Destination(header.destination),
            Some(entry) if entry.queue.try_send(Bytes::copy_from_slice(packet)).is_ok() => Verdict::Passed,
            Some(_) => Verdict::NoRoom,
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
        mut outgoing: mpsc::Receiver<Bytes>,
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
                Some(packet) = outgoing.recv() => {
                    let is_sent = sender.send(&packet)?;
                    to.count(if is_sent { Verdict::Passed } else { Verdict::NoRoom });
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
        if verdict == Verdict::Passed && !self.shared.port.put(packet) { Verdict::NoRoom } else { verdict }
    }

    /// What a client is told. It reaches what lies behind the server and behind others.
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

fn check(config: &HubConfig) -> Result<Vec<Pool>, HubError> {
    let of_v4 = config.networks.iter().filter(|it| it.addr().is_ipv4()).count();
    if config.networks.is_empty() || of_v4 > 1 || config.networks.len() - of_v4 > 1 {
        return Err(HubError::Families);
    }
    let behind = config.behind.iter().map(|(_, network)| network);
    let all: Vec<_> = config.networks.iter().chain(&config.announced).chain(behind).collect();
    for (index, one) in all.iter().enumerate() {
        if let Some(other) = all.iter().skip(index + 1).find(|other| overlap(one, other)) {
            return Err(HubError::Overlap(**one, **other));
        }
    }
    if config.announced.len() + config.behind.len() > Joining::MOST_NETWORKS {
        return Err(HubError::TooMany);
    }
    let pool = |network: &IpNet| Pool::new(*network).ok_or(HubError::TooSmall(*network));
    config.networks.iter().map(pool).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    struct Nowhere;

    impl Port for Nowhere {
        fn put(&self, _: &[u8]) -> bool {
            false
        }
    }

    #[test]
    fn settings_that_contradict_themselves_are_refused() {
        let net = |text: &str| text.parse::<IpNet>().unwrap();
        let hub = |networks: &[&str], announced: &[&str], behind: &[&str]| {
            let nets = |texts: &[&str]| texts.iter().map(|text| net(text)).collect();
            let behind = behind.iter().map(|text| ("branch".to_owned(), net(text))).collect();
            let config = HubConfig {
                networks: nets(networks),
                announced: nets(announced),
                behind,
                ..HubConfig::default()
            };
            Hub::new(config, Nowhere).map(|hub| hub.addresses().to_vec())
        };
        assert_eq!(
            hub(&["10.99.0.0/24", "fd00:99::/64"], &["192.168.9.0/24"], &["192.168.5.0/24"]),
            Ok(vec![net("10.99.0.1/24"), net("fd00:99::1/64")])
        );
        assert_eq!(hub(&[], &[], &[]), Err(HubError::Families));
        assert_eq!(hub(&["10.99.0.0/24", "10.98.0.0/24"], &[], &[]), Err(HubError::Families));
        assert_eq!(hub(&["10.99.0.0/31"], &[], &[]), Err(HubError::TooSmall(net("10.99.0.0/31"))));
        let (site, wide) = (net("10.99.0.0/24"), net("10.0.0.0/8"));
        assert_eq!(hub(&["10.99.0.0/24"], &["10.0.0.0/8"], &[]), Err(HubError::Overlap(site, wide)));
        assert_eq!(hub(&["10.99.0.0/24"], &[], &["10.0.0.0/8"]), Err(HubError::Overlap(site, wide)));
        let many: Vec<_> = (0..33).map(|n| format!("192.168.{n}.0/24")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        assert_eq!(hub(&["10.99.0.0/24"], &many, &[]), Err(HubError::TooMany));
    }
}
