//! From the first packet to the confirmation: keys, parameters, and authentication of the peer.

use manyway_wire::PathId;
use manyway_wire::mmsp2::Parameters;

use super::handshake::HandshakeState;
use super::input::PacketFacts;
use super::state::Life;
use super::{Checked, Mmsp2};
use crate::EncryptionLevel;
use crate::engine::{Engine, tell_cost};
use crate::event::Event;
use crate::mmsp2::tls::NewKeys;
use crate::observe::Fact;
use crate::path::{PathReason, PathState};
use crate::{Instant, Side, Violation};

/// Most INFOs that a client accepts in one handshake.
const MOST_INFOS: u8 = 8;
/// Most bytes of an INFO that a client accepts.
const LONGEST_INFO: usize = 256;

impl Mmsp2 {
    /// The server's INFO arrived. An INFO without TLS bytes means that the server keeps no state yet, and wants it
    /// returned together with the `ClientHello` (spec 4.12, 7.4). A newer one replaces it: the previous one may have
    /// expired, or may be bound to another address. The number is limited, because any host can write one.
    pub(crate) fn on_syn_ack(&mut self, engine: &Engine, facts: &PacketFacts, info: &[u8]) {
        let here = engine.paths.get(PathId::FIRST).is_some_and(|path| path.tuple() == facts.tuple);
        let Some(handshake) = &mut self.handshake else { return };
        let usable = !info.is_empty() && info.len() <= LONGEST_INFO && handshake.info != info;
        if here && usable && handshake.infos_taken < MOST_INFOS {
            handshake.infos_taken += 1;
            handshake.info = info.to_vec();
            handshake.tls.resend_all(EncryptionLevel::Initial);
        }
    }

    /// The client returns the INFO: it receives what is sent to its address.
    pub(crate) fn on_ping(&self, engine: &mut Engine, facts: &PacketFacts, info: &[u8]) {
        // With several candidates the INFO went to each of them, so the client that returns it may be at another
        // address.
        let fits = |handshake: &HandshakeState| {
            handshake.info == info
                && handshake.info_for == facts.tuple.remote
                && handshake.attempts.only_candidate_is(&facts.tuple)
        };
        let is_validated = !info.is_empty() && self.handshake.as_deref().is_some_and(fits);
        let path = engine.paths.get_mut(PathId::FIRST).filter(|path| path.tuple() == facts.tuple);
        if let Some(path) = path.filter(|_| is_validated) {
            path.on_validated();
        }
    }

    pub(crate) fn on_handshake_bytes(&mut self, level: EncryptionLevel, offset: u64, data: &[u8]) -> Checked {
        match &mut self.handshake {
            Some(handshake) => {
                handshake.peer_keeps_state = true;
                handshake.tls.on_bytes(level, offset, data)
            }
            None => Ok(()),
        }
    }

    /// Takes the keys that TLS has ready, and completes the handshake once TLS is done.
    pub(crate) fn drive_handshake(&mut self, engine: &mut Engine, now: Instant) -> Checked {
        let handshaking = engine.phase.is_handshaking();
        let Some(handshake) = &mut self.handshake else { return Ok(()) };
        while let Some(keys) = handshake.tls.poll_keys() {
            match keys {
                NewKeys::Handshake(keys) => self.protector.install_handshake(keys),
                NewKeys::OneRtt(keys, secrets) => self.protector.install_one_rtt(keys, secrets),
            }
        }
        if handshaking && handshake.tls.is_complete() {
            let parameters = handshake.tls.take_peer_parameters();
            self.establish(
                engine,
                now,
                parameters.unwrap_or(Err(Violation::Parameters { reason: "none were sent" }))?,
            )?;
        }
        Ok(())
    }

    pub(crate) fn establish(&mut self, engine: &mut Engine, now: Instant, peer: Parameters) -> Checked {
        let Some(handshake) = &mut self.handshake else { return Ok(()) };
        let refuse = |reason| Err(Violation::Parameters { reason });
        if peer.version != manyway_wire::mmsp2::VERSION {
            return refuse("the version differs from that of the packets");
        }
        if Some(peer.source) != handshake.remote_id {
            return refuse("the connection id differs from that of the packets");
        }
        if engine.side == Side::Client && peer.original_destination != Some(handshake.original_destination) {
            return refuse("the first connection id differs from that of the packets");
        }
        if engine.side == Side::Server && is_from_server(&peer) {
            return refuse("a client sent what only servers send");
        }
        if peer.application != engine.config.application {
            return refuse("the peer speaks another application protocol");
        }
        self.ids.remote.set_first(peer.source, peer.reset_token);
        engine.paths.set_reachable(PathId::FIRST, true);
        let rtt = [&handshake.handshake_space, &handshake.initial_space]
            .into_iter()
            .map(|space| space.recovery.rtt())
            .find(|r| r.has_sample());
        let rtt = rtt.map(crate::recovery::RttEstimator::smoothed);
        self.peer_key = handshake.tls.peer_public_key();
        self.agree(engine, &peer);
        self.enter(engine, Life::Established);
        self.counts.established = true;
        engine.observe(now, &Fact::Established);
        if let Some(path) = engine.paths.get_mut(PathId::FIRST) {
            path.recovery.set_max_ack_delay(peer.max_ack_delay);
            if let Some(rtt) = rtt {
                path.recovery.seed_rtt(rtt);
            }
            if !path.addresses.is_validated() {
                path.challenger.start(now, vec![path.tuple()], rtt);
            }
            let working = path.working_state();
            engine.advance_path(now, PathId::FIRST, working, PathReason::Connected);
            if working == PathState::Backup {
                engine.tell_status(PathId::FIRST);
            }
        }
        tell_cost(engine, PathId::FIRST);
        engine.start_size_search(now, PathId::FIRST);
        self.protector.discard(EncryptionLevel::Initial);
        if engine.side == Side::Server {
            self.protector.discard(EncryptionLevel::Handshake);
            self.protector.on_confirmed();
            self.control.send_pong();
            self.control.announce(&engine.config.advertised);
        }
        self.issue_ids(engine);
        self.join_rendezvous(engine, now, &peer);
        engine.events.push(Event::Connected);
        Ok(())
    }

    fn agree(&mut self, engine: &mut Engine, peer: &Parameters) {
        let idle =
            [engine.config.idle_timeout, peer.idle_timeout].into_iter().filter(|time| !time.is_zero()).min();
        engine.limits.idle_timeout = idle.unwrap_or(engine.config.idle_timeout);
        engine.limits.max_datagram = engine.config.max_datagram.min(peer.max_datagram);
        engine.limits.peer_ack_delay = peer.max_ack_delay;
        engine.limits.peer_paths = peer.path_limit;
        if peer.rates {
            self.control.enable_rate_reports();
        }
        self.streams.set_peer_limits(
            peer.initial_max_data,
            peer.initial_max_stream_data,
            peer.initial_max_streams,
        );
        self.streams.set_peer_message_limit(peer.max_message);
    }

    /// PONG: the server has everything, so the handshake keys are no longer needed.
    pub(crate) fn on_confirmed(&mut self, engine: &mut Engine, now: Instant) {
        if engine.phase.is_open() && !engine.phase.is_handshaking() && self.handshake.take().is_some() {
            self.protector.discard(EncryptionLevel::Handshake);
            self.protector.on_confirmed();
            engine.open_missing_paths(now);
        }
    }

    /// The client knows that the handshake is complete: no late handshake packet can matter.
    pub(crate) fn on_pong_delivered(&mut self) {
        if let Some(handshake) = self.handshake.take() {
            self.ids.local.release(handshake.original_destination);
        }
    }
}

/// Whether parameters have what only servers send (spec 4.17).
fn is_from_server(parameters: &Parameters) -> bool {
    let Parameters { original_destination, reset_token, rendezvous, .. } = parameters;
    original_destination.is_some() || reset_token.is_some() || !rendezvous.is_empty()
}

#[cfg(test)]
mod tests {
    use manyway_wire::ConnectionId;

    use super::is_from_server;
    use crate::mmsp2::own_parameters;
    use crate::mmsp2::reset_token::ResetKey;
    use crate::{ConnectionConfig, IdLayout, Shard};

    #[test]
    fn parameters_of_a_server_are_told_from_those_of_a_client() {
        let (config, id) = (ConnectionConfig::default(), ConnectionId::from_u64(1));
        let client = own_parameters(&config, id, None);
        assert!(!is_from_server(&client));
        let key = ResetKey::new(&[0; 32], Shard::ALONE, IdLayout::default());
        let server = own_parameters(&config, id, Some((id, &key)));
        assert!(is_from_server(&server));
        for part in [
            manyway_wire::mmsp2::Parameters { original_destination: Some(id), ..client.clone() },
            manyway_wire::mmsp2::Parameters { reset_token: Some([1; 16]), ..client.clone() },
            manyway_wire::mmsp2::Parameters { rendezvous: vec!["192.0.2.1:1".parse().unwrap()], ..client },
        ] {
            assert!(is_from_server(&part), "{part:?}");
        }
    }
}
