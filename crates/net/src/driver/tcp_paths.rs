//! Paths over TCP: opens and closes TCP connections for clients and reports the results.

use std::collections::BTreeSet;
use std::task::{Context, Poll};

use manyway_proto::{ConnectionHandle, FourTuple, Instant, PathId, PathState, PathStatistics};
use tokio::time::Instant as TokioInstant;

use super::Driver;
use super::dial::{Dialled, Purpose};
use super::dialling::{Situation, Step, Target};
use super::peer::ClientId;
use crate::link::Dial;
use crate::tcp::RecordStream;

/// Most TCP connections on an interface, whatever the server wants.
const MOST_CONNECTIONS: usize = 16;

impl Driver {
    /// Does what is due for TCP. Returns true if records or connections are pending.
    pub(super) fn poll_tcp(&mut self, now: Instant, context: &mut Context<'_>) -> bool {
        self.tcp.streams.on_timeout(now, &self.endpoint);
        self.tcp.streams.poll(now, context, (self.clock, &self.group), &mut self.endpoint)
    }

    /// Advances the slots of clients, after the events of this turn.
    pub(super) fn poll_dialler(&mut self, now: Instant, context: &mut Context<'_>) {
        while let Poll::Ready(Some(dialled)) = self.tcp.poll_dialled(context) {
            self.on_dialled(now, dialled);
        }
        let mut due = self.connections.take_client_news();
        if !self.tcp.dialler.uses_tcp() {
            return;
        }
        for tuple in self.tcp.streams.take_ended() {
            due.extend(self.tcp.dialler.on_ended(now, &tuple));
        }
        due.extend(self.tcp.dialler.due(now));
        for client in due {
            self.advance_slots(now, client, context);
        }
        self.finish_attempts();
    }

    /// Passes on the events of the protocol machine.
    pub(super) fn tell_events(&mut self, now: Instant) {
        self.connections.tell_events(&mut self.endpoint, now);
        self.finish_attempts();
    }

    fn on_dialled(&mut self, now: Instant, dialled: Dialled) {
        let Dialled { client, purpose, took, local, remote, result } = dialled;
        let tuple = result.as_ref().map(RecordStream::tuple).ok();
        let is_needed = match purpose {
            Purpose::Slot(slot) => self.tcp.dialler.on_dialled(now, client, (slot, &local), tuple),
            Purpose::PairAttempt => {
                let result = tuple.map(|tuple| (tuple, took));
                let is_needed = self.tcp.dialler.on_attempted(now, client, (&local, remote), result);
                self.connections.note_client(client);
                is_needed
            }
        };
        if !is_needed {
            return;
        }
        match result {
            Ok(stream) => self.tcp.streams.add(now, stream),
            Err(error) => {
                tracing::debug!(%local, %remote, %error, "no TCP connection");
                if let Some(attempt) = self.connections.attempts.get(client) {
                    // Keep the first error: it concerns the preferred address.
                    attempt.refusal.get_or_insert((remote, error));
                }
            }
        }
    }

    fn advance_slots(&mut self, now: Instant, client: ClientId, context: &Context<'_>) {
        let Some(situation) = self.situation(now, client) else { return self.tcp.dialler.remove(client) };
        for step in self.tcp.dialler.advance(now, client, &situation) {
            match step {
                Step::Dial(slot, local, target) if self.is_absent(client, local, target.remote.ip()) => {
                    self.tcp.dialler.on_dialled(now, client, (slot, &local), None);
                }
                Step::Dial(slot, local, target) => self.tcp.dial(client, Purpose::Slot(slot), local, target),
                Step::AttemptPair(local, remote) => {
                    let target = Target { remote, is_tls: false };
                    self.tcp.dial(client, Purpose::PairAttempt, local, target);
                }
                Step::Discard(tuple) => self.tcp.streams.discard(&tuple),
                Step::Offer(tuple) => {
                    if self.use_stream(now, client, tuple) {
                        let replaced = self.tcp.dialler.on_used(now, client, tuple);
                        replaced.into_iter().for_each(|replaced| self.end_stream(now, client, replaced));
                    }
                }
                Step::Close(tuple) => self.end_stream(now, client, tuple),
                Step::Retire(tuple) => self.retire_stream(now, client, tuple),
            }
            // Packets that become due by this are sent in the next turn.
            context.waker().wake_by_ref();
        }
    }

    /// What the slots of a client have to know; `None` if it has gone.
    fn situation(&mut self, now: Instant, client: ClientId) -> Option<Situation> {
        let mut situation =
            Situation { wanted: self.tcp.connections(), room: usize::MAX, ..Situation::default() };
        let established = self.connections.connection_of(client);
        let is_connected = established.is_some();
        situation.is_connected = is_connected;
        if let Some(handle) = established {
            let connection = self.endpoint.connection(handle)?;
            situation.remotes = connection.remote_addresses();
            situation.room = connection.path_room();
            if let Some(wanted) = connection.wanted_connections() {
                situation.wanted = usize::from(wanted).min(MOST_CONNECTIONS);
            }
            let paths = connection.statistics().paths;
            let is_udp = |path: &&PathStatistics| path.tuple.is_datagram();
            let is_dead = |path: &&PathStatistics| !is_udp(path) && path.state == PathState::Dead;
            let works = |path: &&PathStatistics| path.state.carries_data();
            let udp = || paths.iter().filter(is_udp);
            situation.working = udp().filter(works).map(|path| path.tuple.local).collect();
            situation.failing = udp().filter(|path| !works(path)).map(|path| path.tuple.local).collect();
            let tcp = paths.iter().filter(|path| !is_udp(path));
            situation.rates = tcp.map(|path| (path.tuple, path.delivery_rate)).collect();
            situation.dead = paths.iter().filter(is_dead).map(|path| path.tuple).collect();
            let peer = self.connections.peer(handle)?;
            situation.remotes.extend(peer.remotes.iter().copied());
        } else {
            let attempt = self.connections.attempts.get(client)?;
            situation.remotes = attempt.peer.remotes.clone();
            if attempt.handles.is_empty() {
                self.tcp.dialler.on_udp_failed(now, client);
            }
        }
        let mut seen = BTreeSet::new();
        situation.remotes.retain(|remote| seen.insert(*remote));
        let (wanted, _) = self.wanted_locals(&situation.remotes);
        situation.locals = wanted.into_iter().map(|(local, _)| local).collect();
        if !is_connected || !self.tcp.dialler.uses_udp() {
            situation.failing.clone_from(&situation.locals);
        }
        Some(situation)
    }

    /// Uses a TCP connection for a handshake, if the client is not connected and has none over TCP, or for another path.
    fn use_stream(&mut self, now: Instant, client: ClientId, tuple: FourTuple) -> bool {
        if let Some(handle) = self.connections.connection_of(client) {
            let connection = self.endpoint.connection(handle);
            let is_open = connection.is_some_and(|connection| connection.open_path(now, tuple).is_some());
            if is_open {
                self.tell_terms(handle, &[]);
            }
            return is_open;
        }
        let Some(attempt) = self.connections.attempts.get(client) else { return false };
        let Dial::Mmsp2(config) = &attempt.dial else { return false };
        if attempt.over_tcp.is_some() || attempt.is_final() {
            return false;
        }
        match self.endpoint.connect_over(now, config, tuple) {
            Ok(handle) => {
                attempt.over_tcp = Some(handle);
                attempt.handles.push(handle);
                self.tell_terms(handle, &[]);
                true
            }
            Err(error) => {
                tracing::debug!(%error, "no handshake over TCP");
                false
            }
        }
    }

    /// Ends a TCP connection of a client, and its path.
    fn end_stream(&mut self, now: Instant, client: ClientId, tuple: FourTuple) {
        if let Some(handle) = self.connections.connection_of(client)
            && let Some(path) = self.path_over(handle, &tuple)
            && let Some(connection) = self.endpoint.connection(handle)
        {
            let _ = connection.close_path(now, path);
        }
        // The sweep ends the connection itself, after the peer was told.
    }

    /// Ends a TCP connection of a client once what is on its way there has arrived.
    fn retire_stream(&mut self, now: Instant, client: ClientId, tuple: FourTuple) {
        if let Some(handle) = self.connections.connection_of(client)
            && let Some(path) = self.path_over(handle, &tuple)
            && let Some(connection) = self.endpoint.connection(handle)
        {
            let _ = connection.retire_path(now, path);
        }
    }

    /// Sets the receive windows that target rates want for TCP connections.
    pub(super) fn set_windows(&mut self) {
        for handle in self.connections.take_window_news() {
            if let Some(connection) = self.endpoint.connection(handle) {
                self.tcp.streams.set_windows(handle, &connection.carrier_windows());
            }
        }
    }

    fn path_over(&mut self, handle: ConnectionHandle, tuple: &FourTuple) -> Option<PathId> {
        let paths = self.endpoint.connection(handle)?.statistics().paths;
        paths.iter().find(|path| path.tuple == *tuple).map(|path| path.id)
    }

    /// Fails the clients for which nothing is under way any more.
    fn finish_attempts(&mut self) {
        let Self { connections, tcp, closing, .. } = self;
        if connections.attempts.is_empty() {
            return;
        }
        let (is_closing, at) = (closing.is_some(), TokioInstant::now());
        // TCP goes to the same neighbours, unless by a proxy.
        let is_direct = tcp.streams.settings().via.is_none();
        connections.attempts.finish(|client, attempt| {
            let is_cut_off = is_direct && attempt.is_cut_off();
            is_closing || is_cut_off || attempt.until <= at || tcp.dialler.has_failed(client)
        });
    }
}
