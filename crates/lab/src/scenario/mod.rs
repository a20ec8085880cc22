//! The description of a run: two hosts, their interfaces, the links between them, events, and traffic.
//!
//! A packet between two addresses follows a [`Route`] over one or more [`Link`]s; several routes may share a link,
//! which is then their common bottleneck. Rates, queues and MTU count whole IP packets, so the overhead of each
//! [`LinkConfig`] here is 0.

mod addresses;
mod builtin;
mod capacity;
mod cross;
mod damage;
mod file;
mod library;
mod routes;
mod variants;
mod working;

use std::net::IpAddr;
use std::time::Duration;

use manyway_proto::{ByteCount, Class, MessageOptions, Order, Rate};
use manyway_sim::link::{
    DelayModel, Drops, EcnTreatment, LinkConfig, LossModel, Probability, QueueConfig, RateModel,
};
use manyway_sim::nat::NatConfig;
pub use manyway_sim::pair::{Direction, Side};

pub use addresses::default_address;
pub use cross::CrossTraffic;
pub use damage::{Checksum, Damage, FirstTransmissions, Pattern, Sent};
pub use file::Files;
pub use library::Library;
pub(crate) use working::Working;

/// One setting in which contenders are compared.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Its name on the command line, such as `wifi-lte`.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// Its group, which can be run by its name: `table`, `environments`, `simult-flows`, `unequal`, `failures`,
    /// `sharing`, or one of the user.
    pub group: String,
    /// The origin of its numbers.
    pub source: String,
    /// Duration of bulk traffic without an end of its own. Default 15 s.
    pub duration: Duration,
    /// Interfaces of the client, in order.
    pub client: Vec<Interface>,
    /// Interfaces of the server, in order.
    pub server: Vec<Interface>,
    /// The links.
    pub links: Vec<Link>,
    /// The links between interfaces. Between two interfaces without a route nothing passes.
    pub routes: Vec<Route>,
    /// Routes that no contender uses: at one end at least is an [interface for others](Interface::is_for_others).
    pub cross_routes: Vec<Route>,
    /// The measured traffic, all at the same time.
    pub traffic: Vec<Traffic>,
    /// The traffic of others over the same links.
    pub cross_traffic: Vec<CrossTraffic>,
    /// The events, in order of time. Time 0 is the start of the traffic.
    pub events: Vec<Event>,
    /// How a run ends. Default [`Ending::Complete`].
    pub ending: Ending,
    /// Damage to what the client sends for the first time. Default none.
    pub damage: Option<Damage>,
}

/// How a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ending {
    /// With the duration, or when everything of a given size has arrived, which must happen in time.
    #[default]
    Complete,
    /// With the duration at the latest: what has arrived by then counts, and the rest is no failure.
    OnTime,
    /// All routes are cut at last, and each end must give up the connection by itself, this long after its last path
    /// became unreachable.
    NoPath(Duration),
}

impl Scenario {
    /// Applies a change to the properties of links and the addresses of interfaces. Cut links and interfaces that are
    /// down are not recorded here.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Set { link, direction, setting } => {
                if let Some(link) = self.links.get_mut(*link) {
                    link.set(*direction, setting);
                }
            }
            Change::Readdress { side, interface, address } => {
                let interfaces = match side {
                    Side::Client => &mut self.client,
                    Side::Server => &mut self.server,
                };
                let addresses = interfaces.get_mut(*interface).map(|interface| &mut interface.addresses);
                if let Some(first) = addresses.and_then(|addresses| addresses.first_mut()) {
                    *first = *address;
                }
            }
            Change::Cut { .. }
            | Change::Restore { .. }
            | Change::InterfaceDown { .. }
            | Change::InterfaceUp { .. }
            | Change::Rebind { .. } => {}
        }
    }
}

/// An interface of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name in the host, at most 12 letters, such as `wifi`.
    pub name: String,
    /// Its addresses. Default one chosen by the lab, by index.
    pub addresses: Vec<IpAddr>,
    /// Its largest IP packet. Default 1500.
    pub mtu: u16,
    /// A NAT between it and the links.
    pub nat: Option<NatConfig>,
    /// Its cost for the client's Manyway: 0 is free, the default; a higher class costs more.
    pub cost: u8,
    /// Whether only cross traffic uses it. Default no.
    pub is_for_others: bool,
    /// The largest IP packet of TCP connections over it, of which it tells its peers. Default: as its MTU permits.
    pub tcp_packet: Option<u16>,
    /// Whether it is down until an event brings it up. Default no.
    pub starts_down: bool,
}

/// Both directions of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Its name in events and reports; that of the route, if it belongs to one alone.
    pub name: String,
    /// From client to server.
    pub up: LinkConfig,
    /// From server to client.
    pub down: LinkConfig,
    /// What happens to the checksums of packets that it corrupts. Default [`Checksum::Stale`].
    pub checksum: Checksum,
}

impl Link {
    /// Changes a property of one direction, or of both.
    pub(crate) fn set(&mut self, direction: Direction, setting: &Setting) {
        for (way, config) in [(Direction::Up, &mut self.up), (Direction::Down, &mut self.down)] {
            if direction == way || direction == Direction::Both {
                setting.write(config);
            }
        }
    }
}

/// The route between an interface of the client and one of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Its name in reports: the interface of the client, with that of the server if that has several.
    pub name: String,
    /// Index in [`Scenario::client`].
    pub client: usize,
    /// Index in [`Scenario::server`].
    pub server: usize,
    /// Indices in [`Scenario::links`], from client to server; the return route takes them from the last to the first.
    pub links: Vec<usize>,
    /// If packets are distributed over the links one by one: how many each gets in turn, in their order. Empty if a
    /// packet takes all of them, one after the other.
    pub shares: Vec<u32>,
}

/// The data that an application sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Traffic {
    /// Bulk.
    Bulk {
        /// The sender; [`Direction::Both`] is one of each, at once.
        direction: Direction,
        /// Its size; `None` for the duration of the scenario.
        size: Option<ByteCount>,
        /// Average rate limit.
        rate: Option<Rate>,
        /// Bytes of each write of the application. Default the best size for the contender.
        chunk: Option<ByteCount>,
    },
    /// Messages at regular intervals, each with its number and its send time.
    Messages {
        /// The sender.
        direction: Direction,
        /// Bytes of each, from 16 to 64 KiB.
        size: ByteCount,
        /// Interval.
        interval: Duration,
        /// Lifetime, if limited. Manyway abandons older ones.
        lifetime: Option<Duration>,
    },
}

/// How Manyway sends a message: one with a lifetime is of the class deadline and unordered, any other is interactive
/// and ordered.
pub(crate) fn message_options(lifetime: Option<Duration>) -> MessageOptions {
    let options = MessageOptions::default();
    match lifetime {
        Some(lifetime) => options.order(Order::Unordered).class(Class::Deadline).lifetime(lifetime),
        None => options.class(Class::Interactive),
    }
}

impl Traffic {
    /// The sender.
    pub const fn direction(&self) -> Direction {
        match self {
            Self::Bulk { direction, .. } | Self::Messages { direction, .. } => *direction,
        }
    }
}

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its time, from the start of the traffic.
    pub at: Duration,
    /// The change.
    pub change: Change,
}

/// A change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A link silently becomes a black hole.
    Cut {
        /// Index in [`Scenario::links`].
        link: usize,
        /// Direction.
        direction: Direction,
    },
    /// A link works again.
    Restore {
        /// Index in [`Scenario::links`].
        link: usize,
        /// Direction.
        direction: Direction,
    },
    /// A link gets another property.
    Set {
        /// Index in [`Scenario::links`].
        link: usize,
        /// Direction.
        direction: Direction,
        /// The property.
        setting: Setting,
    },
    /// An interface goes down; its host knows.
    InterfaceDown {
        /// The host.
        side: Side,
        /// Index among its interfaces.
        interface: usize,
    },
    /// An interface comes up again.
    InterfaceUp {
        /// The host.
        side: Side,
        /// Index among its interfaces.
        interface: usize,
    },
    /// An interface gets another first address; its host knows.
    Readdress {
        /// The host.
        side: Side,
        /// Index among its interfaces.
        interface: usize,
        /// The new address.
        address: IpAddr,
    },
    /// A NAT silently drops its mappings.
    Rebind {
        /// The host.
        side: Side,
        /// Index among its interfaces.
        interface: usize,
    },
}

/// A property of a link that can change during the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    /// Its rate.
    Rate(RateModel),
    /// Its delay.
    Delay(DelayModel),
    /// Its queue.
    Queue(QueueConfig),
    /// Its loss.
    Loss(LossModel),
    /// Probability of a flipped bit.
    Corruption(Probability),
    /// Probability of a duplicate.
    Duplication(Probability),
    /// The largest IP packet.
    Mtu(u16),
    /// Treatment of packets with an ECN mark.
    Ecn(EcnTreatment),
    /// What it drops by its kind.
    Drops(Drops),
}

impl Setting {
    /// Writes the property into the settings of a link.
    pub fn write(&self, config: &mut LinkConfig) {
        match self {
            Self::Rate(rate) => config.rate = rate.clone(),
            Self::Delay(delay) => config.delay = *delay,
            Self::Queue(queue) => config.queue = *queue,
            Self::Loss(loss) => config.loss = loss.clone(),
            Self::Corruption(share) => config.corruption = *share,
            Self::Duplication(share) => config.duplication = *share,
            Self::Mtu(mtu) => config.mtu = *mtu,
            Self::Ecn(treatment) => config.ecn = *treatment,
            Self::Drops(drops) => config.drops = *drops,
        }
    }
}
