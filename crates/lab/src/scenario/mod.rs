//! What a run is: two hosts, their interfaces, the links between them, what happens to these, and who sends what.
//!
//! A packet between two addresses follows a [`Route`] over one or more [`Link`]s; several routes may share a link, which
//! then is their common bottleneck. Rates, queues and MTU count whole IP packets, so the overhead of each
//! [`LinkConfig`] here is 0.

mod addresses;
mod builtin;
mod capacity;
mod file;
mod library;
mod variants;
mod working;

use std::net::IpAddr;
use std::time::Duration;

use manyway_proto::{ByteCount, Class, MessageOptions, Order, Rate};
use manyway_sim::link::{
    DelayModel, EcnTreatment, LinkConfig, LossModel, Probability, QueueConfig, RateModel,
};
use manyway_sim::nat::NatConfig;
pub use manyway_sim::pair::{Direction, Side};

pub use addresses::default_address;
pub use file::Files;
pub use library::Library;
pub(crate) use working::Working;

/// One setting in which contenders are compared.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// How it is called on the command line, such as `wifi-lte`.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// The set it belongs to, which can be run by its name: `table`, `environments`, `simult-flows`, `unequal`, `failures`, `sharing`, or of the user.
    pub group: String,
    /// Where its numbers come from.
    pub source: String,
    /// How long bulk traffic lasts that has no end of its own. Default 15 s.
    pub duration: Duration,
    /// Interfaces of the client, in order.
    pub client: Vec<Interface>,
    /// Interfaces of the server, in order.
    pub server: Vec<Interface>,
    /// The links.
    pub links: Vec<Link>,
    /// Which links lie between which interfaces. Between two interfaces without a route nothing passes.
    pub routes: Vec<Route>,
    /// Who sends what, all at the same time.
    pub traffic: Vec<Traffic>,
    /// What happens when, in order of time. Time 0 is the start of the traffic.
    pub events: Vec<Event>,
}

impl Scenario {
    /// Makes the properties of links and the addresses of interfaces what they are after a change. What is cut or down
    /// is no property.
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
    /// Its addresses. Default one of the lab's choosing, by place.
    pub addresses: Vec<IpAddr>,
    /// Its largest IP packet. Default 1500.
    pub mtu: u16,
    /// An address translator between it and the links.
    pub nat: Option<NatConfig>,
    /// What the client's Manyway takes it to cost: 0 is free, the default; a higher class costs more.
    pub cost: u8,
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
    /// What becomes of the checksums of packets that it corrupts. Default [`Checksum::Stale`].
    pub checksum: Checksum,
}

impl Link {
    /// Gives one direction, or both, another property.
    pub(crate) fn set(&mut self, direction: Direction, setting: &Setting) {
        for (way, config) in [(Direction::Up, &mut self.up), (Direction::Down, &mut self.down)] {
            if direction == way || direction == Direction::Both {
                setting.write(config);
            }
        }
    }
}

/// What becomes of the checksum of a packet that was corrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Checksum {
    /// It stays, so the receiving system drops the packet.
    #[default]
    Stale,
    /// It is made right, so the error reaches the receiving program.
    Repaired,
}

/// The way between an interface of the client and one of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Its name in reports: the interface of the client, with that of the server if that has several.
    pub name: String,
    /// Place in [`Scenario::client`].
    pub client: usize,
    /// Place in [`Scenario::server`].
    pub server: usize,
    /// Places in [`Scenario::links`], from client to server; the way back takes them from the last to the first.
    pub links: Vec<usize>,
    /// Where packets are dealt out one by one among the links: how many each gets in turn, in their order. Empty where
    /// a packet takes all of them, one after the other.
    pub shares: Vec<u32>,
}

/// What an application sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Traffic {
    /// As fast as it goes.
    Bulk {
        /// From whom; [`Direction::Both`] is one of each, at once.
        direction: Direction,
        /// Until so much has been sent; without this, for the duration of the scenario.
        size: Option<ByteCount>,
        /// At most so fast on average.
        rate: Option<Rate>,
        /// Bytes that the application hands over at a time. Default as many as the contender takes well.
        chunk: Option<ByteCount>,
    },
    /// Messages at regular times, each of which carries its number and the moment of sending.
    Messages {
        /// From whom.
        direction: Direction,
        /// Bytes of each, from 16 to 64 KiB.
        size: ByteCount,
        /// Time between two.
        interval: Duration,
        /// For how long one is of use, if not for ever. Manyway gives up what is older.
        lifetime: Option<Duration>,
    },
}

/// How Manyway sends a message: one of use for a while has a deadline and waits for no other, any other is interactive
/// and comes in order.
pub(crate) fn message_options(lifetime: Option<Duration>) -> MessageOptions {
    let options = MessageOptions::default();
    match lifetime {
        Some(lifetime) => options.order(Order::Unordered).class(Class::Deadline).lifetime(lifetime),
        None => options.class(Class::Interactive),
    }
}

impl Traffic {
    /// From whom.
    pub const fn direction(&self) -> Direction {
        match self {
            Self::Bulk { direction, .. } | Self::Messages { direction, .. } => *direction,
        }
    }
}

/// Something that happens at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// When, since the start of the traffic.
    pub at: Duration,
    /// What.
    pub change: Change,
}

/// What can happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A link becomes a black hole, of which nobody is told.
    Cut {
        /// Place in [`Scenario::links`].
        link: usize,
        /// Which way.
        direction: Direction,
    },
    /// A link works again.
    Restore {
        /// Place in [`Scenario::links`].
        link: usize,
        /// Which way.
        direction: Direction,
    },
    /// A link gets another property.
    Set {
        /// Place in [`Scenario::links`].
        link: usize,
        /// Which way.
        direction: Direction,
        /// Which.
        setting: Setting,
    },
    /// An interface goes down; its host knows.
    InterfaceDown {
        /// Whose.
        side: Side,
        /// Place among its interfaces.
        interface: usize,
    },
    /// An interface comes up again.
    InterfaceUp {
        /// Whose.
        side: Side,
        /// Place among its interfaces.
        interface: usize,
    },
    /// An interface gets another address in the place of its first; its host knows.
    Readdress {
        /// Whose.
        side: Side,
        /// Place among its interfaces.
        interface: usize,
        /// The new one.
        address: IpAddr,
    },
    /// An address translator forgets its mappings, of which nobody is told.
    Rebind {
        /// Whose.
        side: Side,
        /// Place among its interfaces.
        interface: usize,
    },
}

/// A property of a link that can change while it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    /// How fast it is.
    Rate(RateModel),
    /// How long packets travel.
    Delay(DelayModel),
    /// How much may wait.
    Queue(QueueConfig),
    /// What is lost.
    Loss(LossModel),
    /// How often a bit is flipped.
    Corruption(Probability),
    /// How often a packet arrives twice.
    Duplication(Probability),
    /// The largest IP packet.
    Mtu(u16),
    /// What becomes of packets with an ECN mark.
    Ecn(EcnTreatment),
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
        }
    }
}
