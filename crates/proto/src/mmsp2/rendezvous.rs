//! The connection as a client of its rendezvous servers: registration, and effects of their replies.

use std::net::SocketAddr;

use manyway_wire::ConnectionId;
use manyway_wire::mmsp2::Parameters;
use manyway_wire::rendezvous::Body;

use super::Mmsp2;
use crate::engine::{Engine, leaving, single};
use crate::event::Event;
use crate::path::remotes::may_be_challenged;
use crate::rendezvous::{LABEL, Learnt, RendezvousClient, Secrets};
use crate::{Instant, Side, Transmit};

impl Mmsp2 {
    /// The handshake is complete: contacts the configured rendezvous servers, or as a client those of the peer (spec
    /// 10.1, 10.3).
    pub(crate) fn join_rendezvous(&mut self, engine: &mut Engine, now: Instant, peer: &Parameters) {
        let mut relays = engine.config.rendezvous.clone();
        if relays.is_empty() && engine.side == Side::Client {
            relays.clone_from(&peer.rendezvous);
            keep_fit(engine, &mut relays);
        }
        let derived = self.handshake.as_ref().filter(|_| !relays.is_empty());
        let secrets = derived
            .and_then(|handshake| handshake.tls.derive(LABEL))
            .and_then(|derived| Secrets::new(engine.side, &derived));
        let Some(secrets) = secrets else { return };
        if let Some(id) = ConnectionId::from_slice(&secrets.token()) {
            self.ids.local.add_alias(id);
        }
        let asker = (engine.side, self.ids.local.shard());
        self.rendezvous = Some(Box::new(RendezvousClient::new(now, asker, secrets, &relays)));
        self.tell_rendezvous(engine);
        engine.manager.set_relays(&relays);
        if engine.side == Side::Client {
            engine.retarget_paths(now);
            engine.open_missing_paths(now);
            // Another interface may lead to the rendezvous servers.
            engine.events.push(Event::PeerAddresses);
        }
    }

    /// The rendezvous servers that this end contacts.
    pub(crate) fn rendezvous_servers(&self) -> &[SocketAddr] {
        self.rendezvous.as_ref().map_or(&[], |rendezvous| rendezvous.relays())
    }

    /// The connection has ended.
    pub(crate) fn leave_rendezvous(&mut self) {
        let id = self.rendezvous.take().and_then(|rendezvous| ConnectionId::from_slice(&rendezvous.token()));
        if let Some(id) = id {
            self.ids.local.release(id);
        }
    }

    /// Local addresses may have changed (spec 10.16).
    pub(crate) fn tell_rendezvous(&mut self, engine: &Engine) {
        let Some(rendezvous) = &mut self.rendezvous else { return };
        let mut sockets = engine.manager.locals();
        if sockets.is_empty() && engine.side == Side::Server {
            sockets = engine.paths.iter().map(|path| path.tuple().local).collect();
        }
        let mut own: Vec<_> = self.control.announced().collect();
        if own.is_empty() {
            let named = sockets.iter().map(|local| local.address);
            own = named.filter(|address| !address.ip().is_unspecified()).collect();
        }
        rendezvous.set_own(&sockets, &own);
    }

    pub(crate) fn transmit_rendezvous(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let tuple = self.rendezvous.as_mut()?.poll_transmit(now, &mut engine.shared.rng, buffer)?;
        Some(single(tuple, buffer.len()))
    }

    /// A datagram with the token of this connection arrived from `from`.
    pub(crate) fn on_rendezvous(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        from: SocketAddr,
        body: &Body<'_>,
    ) {
        let Some(rendezvous) = &mut self.rendezvous else { return };
        let learnt = rendezvous.on_message(now, from, body);
        on_learnt(engine, now, rendezvous, learnt);
    }
}

fn on_learnt(engine: &mut Engine, now: Instant, rendezvous: &mut RendezvousClient, learnt: Learnt) {
    let (mut addresses, is_new) = match learnt {
        Learnt::PeerIsAt(addresses) => (addresses, true),
        Learnt::PeerStaysAt(addresses) => (addresses, false),
        Learnt::Nothing => return,
    };
    keep_fit(engine, &mut addresses);
    match engine.side {
        // spec 10.56: the NAT of this end forgets an earlier knock, and the client goes on to try.
        Side::Server if !is_new && !leaving::is_relayed(engine) => {}
        // spec 10.9
        Side::Server => rendezvous.knock(&addresses),
        // spec 10.15: the peer may have withdrawn an address of an old list meanwhile.
        Side::Client if !is_new => {}
        // spec 10.8
        Side::Client => on_peer_met(engine, now, &addresses),
    }
}

/// Removes addresses at which a peer must not aim this host (spec 6.7).
fn keep_fit(engine: &Engine, addresses: &mut Vec<SocketAddr>) {
    let peer = engine.paths.iter().next().map(|path| path.tuple().remote.ip());
    addresses.retain(|address| peer.is_some_and(|peer| may_be_challenged(*address, peer)));
}

fn on_peer_met(engine: &mut Engine, now: Instant, addresses: &[SocketAddr]) {
    let Some(peer) = engine.paths.iter().next().map(|path| path.tuple().remote.ip()) else { return };
    let port = engine.config.peer_port;
    let fit = addresses.iter().filter(|address| port.is_none_or(|port| port == address.port()));
    let fit: Vec<_> = fit.copied().collect();
    if engine.manager.on_met(&fit, peer) {
        tracing::info!("the peer left new addresses at the rendezvous");
        engine.retarget_paths(now);
        engine.open_missing_paths(now);
        engine.events.push(Event::PeerAddresses);
    }
}
