//! Holds the rates at which the application wants its streams (spec 6.83 to 6.85): measures their payload, and bounds
//! what the peer has in flight on each path.
//!
//! All targets of a connection are held together, as their sum, because all streams share the paths.

use std::collections::BTreeMap;
use std::time::Duration;

use manyway_wire::mmsp2::TcpConnections;
use manyway_wire::{PathId, StreamId};
use smallvec::SmallVec;

use super::Mmsp2;
use super::control::Wanted;
use crate::engine::Engine;
use crate::event::Event;
use crate::path::Path;
use crate::target::{RateController, Sample, TargetRate, TargetReport};
use crate::{ByteCount, FourTuple, Instant, Misuse, Rate, Side};

/// Payload of a full segment, if the system does not say.
const SEGMENT: ByteCount = ByteCount(1448);

/// The targets of this end, and what the peer wants.
#[derive(Debug, Default)]
pub(super) struct Targets {
    held: Option<Box<Held>>,
    /// How many TCP connections the server wants, and the sequence number of that statement.
    wished: Option<(u64, u64)>,
}

#[derive(Debug)]
struct Held {
    streams: BTreeMap<StreamId, Stream>,
    controller: RateController,
    /// The windows of paths over TCP, which the system has to set.
    carriers: BTreeMap<PathId, ByteCount>,
    report: Option<TargetReport>,
}

#[derive(Debug)]
struct Stream {
    rate: Rate,
    /// Payload that was counted.
    counted: u64,
}

impl Targets {
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.held.as_ref().map(|held| held.controller.deadline())
    }
}

impl Mmsp2 {
    /// Sets or ends the target of a stream.
    pub(crate) fn set_target_rate(
        &mut self,
        engine: &Engine,
        now: Instant,
        stream: StreamId,
        target: Option<TargetRate>,
    ) -> Result<(), Misuse> {
        let Some(target) = target else {
            if let Some(held) = &mut self.targets.held {
                held.streams.remove(&stream);
            }
            self.review_targets(engine);
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
                let rtt = mean_rtt(engine);
                let controller = RateController::new(target, now, rtt);
                let streams = BTreeMap::from([(stream, wanted)]);
                self.targets.held =
                    Some(Box::new(Held { streams, controller, carriers: BTreeMap::new(), report: None }));
            }
        }
        self.apply_targets(engine);
        Ok(())
    }

    /// What was last measured and done for the targets.
    pub(crate) fn target_report(&self) -> Option<&TargetReport> {
        self.targets.held.as_ref()?.report.as_ref()
    }

    /// The receive windows that the system has to set, by TCP connection.
    pub(crate) fn carrier_windows(&self, engine: &Engine) -> Vec<(FourTuple, ByteCount)> {
        let held = self.targets.held.iter().flat_map(|held| &held.carriers);
        held.filter_map(|(id, window)| Some((engine.paths.get(*id)?.tuple(), *window))).collect()
    }

    /// How many TCP connections on each interface this end or the server wants, if any does.
    pub(crate) fn wanted_connections(&self) -> Option<u8> {
        let own = self.targets.held.as_ref().map(|held| held.controller.connections());
        let wished = self.targets.wished.map(|(_, count)| u8::try_from(count).unwrap_or(u8::MAX));
        own.max(wished.filter(|count| *count > 0))
    }

    /// The server wants a number of TCP connections.
    pub(super) fn on_tcp_connections(&mut self, engine: &mut Engine, block: &TcpConnections) {
        if self.targets.wished.is_none_or(|(newest, _)| block.sequence > newest) {
            self.targets.wished = Some((block.sequence, block.count));
            engine.events.push(Event::TcpConnections);
        }
    }

    /// Gives paths that came their windows before data arrives on them.
    pub(super) fn follow_paths(&mut self, engine: &Engine) {
        let Some(held) = &self.targets.held else { return };
        let known = held.controller.windows().map(|(id, _)| id);
        if !live(engine).map(|path| path.id).eq(known) {
            self.apply_targets(engine);
        }
    }

    /// Measures and adjusts, if that is due.
    pub(super) fn hold_targets(&mut self, engine: &mut Engine, now: Instant) {
        if self.targets.deadline().is_none_or(|at| now < at) || engine.phase.is_handshaking() {
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
        let paths: SmallVec<[PathId; 8]> = live(engine).map(|path| path.id).collect();
        let heard_at = live(engine).filter_map(Path::data_received_at).max();
        let report = held.controller.on_sample(&Sample {
            now,
            payload: ByteCount(payload),
            rtt: mean_rtt(engine),
            segment: segment(engine),
            paths: &paths,
            silent_for: heard_at.map_or(Duration::ZERO, |at| now - at),
        });
        held.report = Some(report);
        engine.events.push(Event::TargetRate(report));
        self.review_targets(engine);
        self.apply_targets(engine);
    }

    /// Without any stream left that has a target, nothing is limited any more.
    fn review_targets(&mut self, engine: &Engine) {
        if self.targets.held.as_ref().is_none_or(|held| !held.streams.is_empty()) {
            return;
        }
        self.targets.held = None;
        for path in engine.paths.iter() {
            self.control.send_receive_limit(path.id, Wanted::default());
        }
        self.control.send_connections(0);
    }

    /// Tells the peer, or the system, the window of each path.
    fn apply_targets(&mut self, engine: &Engine) {
        let Some(held) = &mut self.targets.held else { return };
        let segment = segment(engine);
        let paths: SmallVec<[PathId; 8]> = live(engine).map(|path| path.id).collect();
        held.controller.set_paths(&paths, mean_rtt(engine), segment);
        held.carriers.clear();
        let rate = held.controller.rate_of_each(mean_rtt(engine), segment);
        for (id, segments) in held.controller.windows() {
            let window = segment * segments;
            let is_datagram = engine.paths.get(id).is_some_and(Path::is_datagram);
            let window = Some(window).filter(|_| is_datagram);
            self.control.send_receive_limit(id, Wanted { window, rate });
            if !is_datagram {
                held.carriers.insert(id, segment * segments);
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

/// Payload of a full packet, the smallest of all paths.
fn segment(engine: &Engine) -> ByteCount {
    let segment = |path: &Path| match path.recovery.figures() {
        _ if path.is_datagram() => ByteCount(u64::from(path.mtu.current())),
        Some(figures) if figures.receive_segment > ByteCount::ZERO => figures.receive_segment,
        _ => SEGMENT,
    };
    live(engine).map(segment).min().unwrap_or(SEGMENT)
}
