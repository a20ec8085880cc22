//! The part of a connection that all wires share: paths and their life cycle, the choice of path and time, and
//! the timers.
//!
//! The engine names no block and no key. It decides, and leaves the writing to the wire
//! ([`Wire`](crate::wire::Wire)) in two ways: it asks the wire to build a packet, and it queues [`notices`]
//! for the wire to carry out.

mod built;
pub(crate) mod carriers;
mod carry;
mod costs;
mod data;
mod datagram_size;
mod deadline;
mod events;
mod expiry;
mod features;
mod health;
mod input;
pub(crate) mod leaving;
mod links;

mod challenge_packet;
pub(crate) mod notices;
mod output;
pub(crate) mod packet;
mod pairs;
mod paths;
mod persist;
mod phase;
mod rates;
mod receiver_keep_alive;
mod relocation;
mod row;
mod scheduler_reports;
mod selection;
mod sending;
mod settle;
mod shrink;
pub(crate) mod statistics;
mod transitions;
mod unreachable;
mod urgent;
mod wake;

use std::sync::Arc;
use std::time::Duration;

use manyway_wire::PathId;

pub(crate) use built::record_challenge;
pub(crate) use carry::{Carry, Load, single};
pub(crate) use challenge_packet::ChallengePacket;
pub(crate) use costs::{report_of, set_terms, tell_cost};
pub(crate) use expiry::report_closed;
pub(crate) use features::Features;
pub(crate) use input::forget_packets;
pub use links::LinkNews;
pub(crate) use links::on_links_changed;
pub use pairs::{AddressPair, PairUse};
pub(crate) use paths::Heard;
pub(crate) use phase::Phase;
pub(crate) use rates::{is_full, measured_rate};
pub(crate) use row::on_row_packet;
pub(crate) use scheduler_reports::purposes;
pub use statistics::PathStatistics;
pub(crate) use statistics::path_statistics;
pub(crate) use unreachable::on_unreachable;

use crate::congestion::{self, ControllerConfig};
use crate::observe::{Fact, ObservedPacket, Observer};
use crate::packet::BASE_DATAGRAM;
use crate::packet::ack_policy::AckPolicy;
use crate::path::manager::PathManager;
use crate::path::{InterfaceMtus, Path, PathSet};
use crate::recovery::{Outcome, PathRecovery, RecoveryConfig};
use crate::{ConfigError, ConnectionConfig, FourTuple, Instant, Rng, Side};

use events::Events;
use notices::Notices;
use persist::Persist;
use receiver_keep_alive::KeepAlives;
use sending::Sending;

/// Limits that both ends agreed on, and what follows from them.
#[derive(Debug)]
pub(crate) struct Limits {
    pub(crate) idle_timeout: Duration,
    pub(crate) max_datagram: u16,
    /// How long the peer may delay an acknowledgement.
    pub(crate) peer_ack_delay: Duration,
    /// Highest path id that the peer allows.
    pub(crate) peer_paths: u32,
    /// Highest path id that this end allows.
    pub(crate) own_paths: u32,
    /// The next path id that this end opens; only a client opens paths.
    next_path: PathId,
}

impl Limits {
    /// The highest path id that both ends allow.
    pub(crate) fn highest_path(&self) -> PathId {
        PathId(self.own_paths.min(self.peer_paths))
    }
}

/// Times of the connection as a whole.
#[derive(Debug)]
pub(crate) struct Clock {
    /// Start of the handshake timeout.
    pub(crate) handshake_started: Instant,
    /// The last packet from the peer, or the first ack-eliciting packet sent after it.
    pub(crate) last_activity: Instant,
    ack_eliciting_since_heard: bool,
    /// When the pacer releases the next data.
    paced_until: Option<Instant>,
    /// Receiver keep-alives sent so far.
    keep_alives: KeepAlives,
    /// Since when no path is live.
    pathless_since: Option<Instant>,
    /// The last packet in or out.
    last_packet_at: Instant,
    /// When to check whether the connection is idle; `None` once its memory was freed.
    shrink_at: Option<Instant>,
}

/// State that every part may need briefly.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) rng: Rng,
    pub(crate) outcome: Outcome,
    pub(crate) observer: Option<Box<dyn Observer>>,
    interfaces: InterfaceMtus,
    /// Differs between connections; with the path id it sets the times of a path's bandwidth probes.
    controller_seed: u64,
}

/// The part of a connection that all wires share.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) side: Side,
    pub(crate) config: Arc<ConnectionConfig>,
    pub(crate) features: Features,
    pub(crate) phase: Phase,
    pub(crate) paths: PathSet,
    pub(crate) manager: PathManager,
    pub(crate) limits: Limits,
    pub(crate) sending: Sending,
    pub(crate) persist: Persist,
    pub(crate) clock: Clock,
    pub(crate) events: Events,
    pub(crate) notices: Notices,
    pub(crate) shared: Shared,
}

/// The initial values of an engine.
#[derive(Debug)]
pub(crate) struct Beginnings {
    pub(crate) now: Instant,
    pub(crate) side: Side,
    pub(crate) config: Arc<ConnectionConfig>,
    pub(crate) features: Features,
    pub(crate) interfaces: InterfaceMtus,
    pub(crate) rng: Rng,
    pub(crate) observer: Option<Box<dyn Observer>>,
    pub(crate) manager: PathManager,
    /// The addresses of the first path.
    pub(crate) tuple: FourTuple,
    /// Differs between connections.
    pub(crate) controller_seed: u64,
}

impl Engine {
    pub(crate) fn new(beginnings: Beginnings) -> Self {
        let Beginnings {
            now,
            side,
            config,
            features,
            interfaces,
            rng,
            observer,
            manager,
            tuple,
            controller_seed,
        } = beginnings;
        let mut paths = PathSet::default();
        let role = manager.role_of(&tuple.local);
        let recovery = path_recovery(&config, PathId::FIRST, controller_seed);
        paths.insert(Path::new(PathId::FIRST, tuple, role, recovery, now));
        Self {
            side,
            features,
            phase: Phase::Handshaking,
            paths,
            manager,
            sending: Sending::new(config.scheduler.make()),
            limits: Limits {
                idle_timeout: config.idle_timeout,
                max_datagram: BASE_DATAGRAM,
                peer_ack_delay: AckPolicy::MAX_ACK_DELAY,
                peer_paths: 0,
                own_paths: config.path_limit,
                next_path: PathId(1),
            },
            clock: Clock {
                handshake_started: now,
                last_activity: now,
                ack_eliciting_since_heard: false,
                keep_alives: KeepAlives::default(),
                paced_until: None,
                pathless_since: None,
                last_packet_at: now,
                shrink_at: None,
            },
            persist: Persist::new(now),
            events: Events::default(),
            notices: Notices::default(),
            shared: Shared { rng, outcome: Outcome::default(), observer, interfaces, controller_seed },
            config,
        }
    }

    /// Changes the congestion controller of every path, including future ones.
    pub(crate) fn set_congestion(&mut self, name: &str) -> Result<(), ConfigError> {
        let mut config = ConnectionConfig::clone(&self.config);
        config.set_congestion(name)?;
        for path in self.paths.iter_mut() {
            let controller = controller_config(path.mtu.current(), path.id, self.shared.controller_seed);
            path.recovery.set_controller((config.congestion)(&controller));
        }
        self.config = Arc::new(config);
        Ok(())
    }

    /// Name of the congestion controller.
    pub(crate) fn congestion(&self) -> &'static str {
        let path = self.paths.iter().next();
        let of_a_new_one = || (self.config.congestion)(&ControllerConfig::new(BASE_DATAGRAM)).name();
        path.map_or_else(of_a_new_one, |path| path.recovery.controller_name())
    }

    pub(crate) fn observe(&mut self, now: Instant, fact: &Fact) {
        crate::observe::log::log(fact);
        if let Some(observer) = &mut self.shared.observer {
            observer.on_fact(now, fact);
        }
    }

    pub(crate) fn observe_packet(&mut self, now: Instant, packet: &ObservedPacket<'_>) {
        if let Some(observer) = &mut self.shared.observer {
            observer.on_packet(now, packet);
        }
    }

    /// The loss recovery of a path after the first.
    fn another_recovery(&self, id: PathId) -> PathRecovery {
        let mut recovery = path_recovery(&self.config, id, self.shared.controller_seed);
        recovery.set_max_ack_delay(self.limits.peer_ack_delay);
        recovery
    }
}

/// The loss recovery of an encryption level of the handshake, which takes no part in congestion control.
pub(crate) fn handshake_recovery(config: &ConnectionConfig) -> PathRecovery {
    let controller = congestion::Fixed::new(&ControllerConfig::new(BASE_DATAGRAM));
    PathRecovery::new(Box::new(controller), &recovery_config(config))
}

fn path_recovery(config: &ConnectionConfig, id: PathId, controller_seed: u64) -> PathRecovery {
    let controller = (config.congestion)(&controller_config(BASE_DATAGRAM, id, controller_seed));
    PathRecovery::new(controller, &recovery_config(config))
}

fn controller_config(datagram: u16, id: PathId, controller_seed: u64) -> ControllerConfig {
    ControllerConfig { seed: controller_seed.wrapping_add(id.0.into()), ..ControllerConfig::new(datagram) }
}

fn recovery_config(config: &ConnectionConfig) -> RecoveryConfig {
    RecoveryConfig { initial_rtt: config.initial_rtt, ..RecoveryConfig::default() }
}
