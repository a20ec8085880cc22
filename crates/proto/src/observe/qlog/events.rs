//! The data of each event.

use std::net::SocketAddr;
use std::time::Duration;

use manyway_wire::mmsp2::Block;
use manyway_wire::{PathId, StreamId};

use super::json::Object;
use super::{Qlog, frames, mmsp1_frames};
use crate::EncryptionLevel;
use crate::event::PathEvent;
use crate::observe::{Beginning, Direction, Fact, LossReason, Metrics, ObservedPacket, PacketContent};
use crate::{ClosedBy, ConnectionError, FourTuple, Instant};

/// Shortest time between two records of a path's metrics.
const METRICS_INTERVAL: Duration = Duration::from_millis(10);

impl Qlog {
    pub(super) fn log_start(&mut self, beginning: &Beginning) {
        self.event(beginning.now, None, "quic:connection_started", |o| connection_started(o, beginning));
    }

    pub(super) fn log_closed(&mut self, now: Instant, error: &ConnectionError) {
        self.event(now, None, "quic:connection_closed", |o| connection_closed(o, error));
        self.sink.flush();
    }

    pub(super) fn log_fact(&mut self, now: Instant, fact: &Fact) {
        match *fact {
            // `on_packet` reports packets with their content, and losses come one by one.
            Fact::PacketSent { .. } | Fact::PacketReceived { .. } | Fact::PacketsLost { .. } => {}
            Fact::PacketLost { path, packet_number, size, reason } => {
                let level = (!self.speaks_mmsp1).then_some(EncryptionLevel::OneRtt);
                self.event(now, Some(path), "quic:packet_lost", |o| {
                    o.object("header", |o| packet_header(o, level, Some(packet_number)));
                    o.object("raw", |o| o.number("length", size));
                    if reason == LossReason::MtuProbe {
                        o.flag("is_mtu_probe_packet", true);
                    }
                    if reason == LossReason::PathAbandoned {
                        o.text("trigger", "mmsp_path_abandoned");
                    }
                });
            }
            Fact::SpuriousLoss { path, packets } => {
                self.event(now, Some(path), "mmsp:spurious_loss", |o| count(o, path, packets));
            }
            Fact::Reinjected { path, packets } => {
                self.event(now, Some(path), "mmsp:reinjected", |o| count(o, path, packets));
            }
            Fact::Path(event) => self.log_path(now, &event),
            Fact::DatagramSize { path, size } => {
                let old = self.notes(path).datagram.replace(size);
                self.event(now, Some(path), "quic:mtu_updated", |o| {
                    if let Some(old) = old {
                        o.number("old", old);
                    }
                    o.number("new", size);
                });
            }
            Fact::KeyUpdate => self.log_key_update(now, "local_update"),
            Fact::PeerKeyUpdate => self.log_key_update(now, "remote_update"),
            Fact::Established => {
                self.event(now, None, "quic:connection_state_updated", |o| {
                    o.text("new", "handshake_complete");
                });
                self.sink.flush();
            }
            Fact::Metrics(metrics) => self.log_metrics(now, &metrics),
        }
    }

    fn log_key_update(&mut self, now: Instant, trigger: &str) {
        for key in ["client_1rtt_secret", "server_1rtt_secret"] {
            self.event(now, None, "quic:key_updated", |o| {
                o.text("key_type", key);
                o.text("trigger", trigger);
            });
        }
    }

    fn log_path(&mut self, now: Instant, event: &PathEvent) {
        let PathEvent { path, tuple, role, state, reason } = *event;
        if self.notes(path).tuple.replace(tuple) != Some(tuple) {
            self.event(now, Some(path), "quic:tuple_assigned", |o| {
                o.text("tuple_id", path.to_string());
                o.object("tuple_remote", |o| endpoint(o, tuple.remote));
                o.object("tuple_local", |o| endpoint(o, tuple.local.address));
                o.text("carrier", tuple.carrier.to_string());
            });
        }
        self.event(now, Some(path), "mmsp:path_updated", |o| {
            o.number("path_id", path.0);
            o.text("state", state.to_string());
            o.text("reason", reason.to_string());
            o.text("role", role.to_string());
        });
        self.sink.flush();
    }

    fn log_metrics(&mut self, now: Instant, new: &Metrics) {
        let notes = self.notes(new.path);
        if notes.is_in_slow_start != Some(new.is_in_slow_start) {
            notes.is_in_slow_start = Some(new.is_in_slow_start);
            let state = if new.is_in_slow_start { "slow_start" } else { "congestion_avoidance" };
            self.event(now, Some(new.path), "quic:congestion_state_updated", |o| o.text("new", state));
        }
        let notes = self.notes(new.path);
        if notes.metrics_at.is_some_and(|at| now - at < METRICS_INTERVAL) || notes.metrics == Some(*new) {
            return;
        }
        notes.metrics_at = Some(now);
        let old = notes.metrics.replace(*new);
        let changed = |get: fn(&Metrics) -> u64| old.is_none_or(|old| get(&old) != get(new));
        self.event(now, Some(new.path), "quic:recovery_metrics_updated", |o| {
            let times = [
                ("min_rtt", new.minimum_rtt, old.map(|old| old.minimum_rtt)),
                ("smoothed_rtt", new.smoothed_rtt, old.map(|old| old.smoothed_rtt)),
                ("latest_rtt", new.latest_rtt, old.map(|old| old.latest_rtt)),
                ("rtt_variance", new.rtt_variation, old.map(|old| old.rtt_variation)),
            ];
            for (key, time, _) in times.into_iter().filter(|(_, time, old)| *old != Some(*time)) {
                o.millis(key, time);
            }
            if changed(|metrics| metrics.window.get()) {
                o.number("congestion_window", new.window.get());
            }
            if changed(|metrics| metrics.in_flight.get()) {
                o.number("bytes_in_flight", new.in_flight.get());
            }
            if changed(|metrics| metrics.packets_in_flight) {
                o.number("packets_in_flight", new.packets_in_flight);
            }
            if changed(|metrics| metrics.pacing_rate.bits_per_second()) {
                o.number("pacing_rate", new.pacing_rate.bits_per_second());
            }
        });
    }

    pub(super) fn log_packet(&mut self, now: Instant, packet: &ObservedPacket<'_>) {
        let ObservedPacket { direction, content, path, packet_number, size } = *packet;
        let level = match content {
            PacketContent::Mmsp2 { level, .. } => Some(level),
            PacketContent::Mmsp1 { .. } => None,
        };
        self.speaks_mmsp1 = level.is_none();
        let name = match direction {
            Direction::Sent => "quic:packet_sent",
            Direction::Received => "quic:packet_received",
        };
        self.event(now, Some(path), name, |o| {
            o.object("header", |o| packet_header(o, level, packet_number));
            o.object("raw", |o| o.number("length", size as u64));
            o.array("frames", |a| {
                packet.blocks().map_while(Result::ok).for_each(|block| frames::write(a, &block));
                packet.mmsp1_blocks().flatten().for_each(|block| mmsp1_frames::write(a, &block));
            });
        });
        for block in packet.blocks().map_while(Result::ok) {
            if let Some((stream, side, state)) = stream_state(direction, &block)
                && self.streams.advance(stream, side, state)
            {
                self.event(now, Some(path), "quic:stream_state_updated", |o| {
                    o.number("stream_id", stream.0);
                    o.text("stream_type", "bidirectional");
                    o.text("new", state);
                    o.text("stream_side", side);
                });
            }
        }
    }
}

/// The state into which a block brings a half of its stream (RFC 9000, section 3).
fn stream_state(direction: Direction, block: &Block<'_>) -> Option<(StreamId, &'static str, &'static str)> {
    let (stream, side, state) = match (direction, block) {
        (Direction::Sent, Block::Stream(piece)) if piece.end => (piece.stream, "sending", "data_sent"),
        (Direction::Received, Block::Stream(piece)) if piece.end => (piece.stream, "receiving", "size_known"),
        (Direction::Sent, Block::Stream(piece)) if piece.offset == 0 => (piece.stream, "sending", "send"),
        (Direction::Received, Block::Stream(piece)) if piece.offset == 0 => {
            (piece.stream, "receiving", "receive")
        }
        (Direction::Sent, Block::ResetStream(reset)) => (reset.stream, "sending", "reset_sent"),
        (Direction::Received, Block::ResetStream(reset)) => (reset.stream, "receiving", "reset_received"),
        _ => return None,
    };
    Some((stream, side, state))
}

fn packet_header(o: &mut Object<'_>, level: Option<EncryptionLevel>, number: Option<u64>) {
    let kind = match level {
        Some(EncryptionLevel::Initial) => "initial",
        Some(EncryptionLevel::Handshake) => "handshake",
        Some(EncryptionLevel::OneRtt) => "1RTT",
        None => "mmsp1",
    };
    o.text("packet_type", kind);
    if let Some(number) = number {
        o.number("packet_number", number);
    }
}

fn count(o: &mut Object<'_>, path: PathId, packets: u64) {
    o.number("path_id", path.0);
    o.number("packets", packets);
}

fn endpoint(o: &mut Object<'_>, address: SocketAddr) {
    let (ip, port) = match address {
        SocketAddr::V4(_) => ("ip_v4", "port_v4"),
        SocketAddr::V6(_) => ("ip_v6", "port_v6"),
    };
    o.text(ip, address.ip().to_string());
    o.number(port, address.port());
}

fn connection_started(o: &mut Object<'_>, beginning: &Beginning) {
    let FourTuple { local, remote, carrier } = beginning.tuple;
    o.object("local", |o| {
        endpoint(o, local.address);
        o.array("connection_ids", |a| a.text(&beginning.local_id.to_string()));
    });
    o.object("remote", |o| endpoint(o, remote));
    o.text("carrier", carrier.to_string());
}

fn connection_closed(o: &mut Object<'_>, error: &ConnectionError) {
    let (initiator, trigger, code) = match error {
        ConnectionError::Closed { by: ClosedBy::Us, code, .. } => ("local", "application", Some(*code)),
        ConnectionError::Closed { by: ClosedBy::Peer, code, .. } => ("remote", "application", Some(*code)),
        ConnectionError::Violation(violation) => ("local", "error", Some(violation.code().0)),
        ConnectionError::AbortedByPeer { code, .. } => ("remote", "aborted", Some(*code)),
        ConnectionError::Reset => ("remote", "stateless_reset", None),
        ConnectionError::ConnectTimeout | ConnectionError::IdleTimeout => ("local", "idle_timeout", None),
        ConnectionError::NoPath | ConnectionError::Unreachable { .. } => ("local", "unspecified", None),
        ConnectionError::VersionMismatch { .. } => ("local", "version_mismatch", None),
        ConnectionError::Authentication { .. } => ("local", "error", None),
    };
    o.text("initiator", initiator);
    if let Some(code) = code {
        let is_application = matches!(error, ConnectionError::Closed { .. });
        let key = if is_application { "application_error" } else { "connection_error" };
        frames::error(o, key, code);
    }
    o.text("reason", error.to_string());
    o.text("trigger", trigger);
}
