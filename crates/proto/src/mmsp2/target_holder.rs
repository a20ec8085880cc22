//! Holds the target rates of streams (spec 6.83, 6.85, 6.88 to 6.93): measures their payload, and bounds what the peer has in flight on
//! each path.
//!
//! All targets of a connection are held together, as their sum, because all streams share the paths.

use std::collections::BTreeMap;
use std::time::Duration;

use manyway_wire::mmsp2::TcpConnections;
use manyway_wire::{PathId, StreamId};
use smallvec::SmallVec;

use super::Mmsp2;
use super::control::{Control, Wanted};
use super::target::{Held, Stream, Targets};
use crate::engine::Engine;
use crate::event::Event;
use crate::mmsp2::stream::set::StreamSet;
use crate::path::Path;
use crate::target::{RateController, Sample, TargetRate};
use crate::{ByteCount, FourTuple, Instant, Misuse, Side};

/// Payload of a full segment, if the system does not say.
const SEGMENT: ByteCount = ByteCount(1448);

impl Targets {
    /// The receive windows that the system has to set, by TCP connection.
    pub(crate) fn carrier_windows(&self, engine: &Engine) -> Vec<(FourTuple, ByteCount)> {
        let held = self.held.iter().flat_map(|held| &held.carriers);
        held.filter_map(|(id, window)| Some((engine.paths.get(*id)?.tuple(), *window))).collect()
    }

    /// The server wants a number of TCP connections.
    pub(super) fn on_tcp_connections(&mut self, engine: &mut Engine, block: &TcpConnections) {
        if self.wished.as_ref().is_none_or(|wished| block.sequence > wished.0) {
            self.wished = Some(Box::new((block.sequence, block.count)));
            engine.events.push(Event::TcpConnections);
        }
    }
}

impl Mmsp2 {
    /// The targets, and what holds them.
    pub(crate) fn target_holder<'a>(&'a mut self, engine: &'a mut Engine) -> Holder<'a> {
        let Self { targets, streams, control, .. } = self;
        Holder { targets, engine, streams, control }
    }
}

/// The targets with the parts of the connection that they act on.
pub(crate) struct Holder<'a> {
    targets: &'a mut Targets,
    engine: &'a mut Engine,
    streams: &'a StreamSet,
    control: &'a mut Control,
}

impl Holder<'_> {
    /// Sets or ends the target of a stream.
    pub(crate) fn set(
        &mut self,
        now: Instant,
        stream: StreamId,
        target: Option<TargetRate>,
    ) -> Result<(), Misuse> {
        let Some(target) = target else {
            if let Some(held) = &mut self.targets.held {
                held.streams.remove(&stream);
            }
            self.review();
            return Ok(());
        };
        let counted = self.streams.payload(stream).ok_or(Misuse::ReceivingEnded { stream })?;
        let wanted = Stream { rate: target.rate, counted };
        match &mut self.targets.held {
            Some(held) => {
                let counted = held.streams.get(&stream).map_or(counted, |before| before.counted);
                held.streams.insert(stream, Stream { counted, ..wanted });
                let rate = held.streams.values().map(|wanted| wanted.rate).sum();
                held.controller.set_target(TargetRate { rate, ..target });
            }
            None => {
                let controller = RateController::new(target, now, mean_rtt(self.engine));
                let streams = BTreeMap::from([(stream, wanted)]);
                self.targets.held =
                    Some(Box::new(Held { streams, controller, carriers: BTreeMap::new(), report: None }));
            }
        }
        self.apply();
        Ok(())
    }

    /// Gives paths that came their windows before data arrives on them.
    pub(super) fn follow_paths(&mut self) {
        let Some(held) = &self.targets.held else { return };
        let known = held.controller.windows().map(|(id, _)| id);
        if !live(self.engine).map(|path| path.id).eq(known) {
            self.apply();
        }
    }

    /// Measures and adjusts, if that is due.
    pub(super) fn on_timeout(&mut self, now: Instant) {
        if self.targets.deadline().is_none_or(|at| now < at) || self.engine.phase.is_handshaking() {
            return;
        }
        let Some(held) = &mut self.targets.held else { return };
        let mut payload = 0;
        held.streams.retain(|stream, wanted| {
            let Some(arrived) = self.streams.payload(*stream) else { return false };
            payload += arrived - wanted.counted;
            wanted.counted = arrived;
            true
        });
        let paths: SmallVec<[PathId; 8]> = live(self.engine).map(|path| path.id).collect();
        let heard_at = live(self.engine).filter_map(Path::data_received_at).max();
        let report = held.controller.on_sample(&Sample {
            now,
            payload: ByteCount(payload),
            rtt: mean_rtt(self.engine),
            segment: segment(self.engine),
            paths: &paths,
            silent_for: heard_at.map_or(Duration::ZERO, |at| now - at),
        });
        held.report = Some(report);
        self.engine.events.push(Event::TargetRate(report));
        self.review();
        self.apply();
    }

    /// Without any stream left that has a target, nothing is limited any more.
    fn review(&mut self) {
        if self.targets.held.as_ref().is_none_or(|held| !held.streams.is_empty()) {
            return;
        }
        self.targets.held = None;
        for path in self.engine.paths.iter() {
            self.control.send_receive_limit(path.id, Wanted::default());
        }
        self.control.send_connections(0);
    }

    /// Tells the peer, or the system, the window of each path.
    fn apply(&mut self) {
        let Some(held) = &mut self.targets.held else { return };
        let (engine, segment) = (&*self.engine, segment(self.engine));
        let paths: SmallVec<[PathId; 8]> = live(engine).map(|path| path.id).collect();
        held.controller.set_paths(&paths, mean_rtt(engine), segment);
        held.carriers.clear();
        let of_segment = held.controller.rate_of_segment((mean_rtt(engine), shortest_rtt(engine)), segment);
        for (id, segments) in held.controller.windows() {
            let window = (segment * segments).min(held.controller.most_receive_window());
            let rate = of_segment.map(|rate| rate.scaled(segments, 1));
            let is_datagram = engine.paths.get(id).is_some_and(Path::is_datagram);
            self.control
                .send_receive_limit(id, Wanted { window: Some(window).filter(|_| is_datagram), rate });
            if !is_datagram {
                held.carriers.insert(id, window);
            }
        }
        if engine.side == Side::Server {
            self.control.send_connections(held.controller.connections());
        }
    }
}

fn live(engine: &Engine) -> impl Iterator<Item = &Path> {
    engine.paths.iter().filter(|path| path.is_live())
}

fn mean_rtt(engine: &Engine) -> Duration {
    let rtt = |path: &Path| match path.recovery.figures() {
        Some(figures) if !path.is_datagram() && figures.receive_rtt > Duration::ZERO => {
            figures.rtt.min(figures.receive_rtt)
        }
        Some(figures) if !path.is_datagram() => figures.rtt,
        _ => path.recovery.rtt().smoothed(),
    };
    let (count, sum) =
        live(engine).fold((0, Duration::ZERO), |(count, sum), path| (count + 1, sum + rtt(path)));
    sum.checked_div(count).unwrap_or(engine.config.initial_rtt)
}

/// The shortest round trip of any path.
fn shortest_rtt(engine: &Engine) -> Duration {
    let rtt = |path: &Path| match path.recovery.figures() {
        Some(figures) if !path.is_datagram() => figures.minimum_rtt,
        _ => path.recovery.rtt().minimum(),
    };
    live(engine).map(rtt).min().unwrap_or(engine.config.initial_rtt)
}

/// Payload of a full packet, the smallest of all paths.
fn segment(engine: &Engine) -> ByteCount {
    let segment = |path: &Path| match path.recovery.figures() {
        _ if path.is_datagram() => ByteCount(u64::from(path.mtu.current())),
        Some(figures) if figures.receive_segment > ByteCount::ZERO => figures.receive_segment,
        _ => SEGMENT,
    };
    live(engine).map(segment).min().unwrap_or(SEGMENT)
}
