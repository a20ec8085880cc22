//! Carries out the notices of the engine, and passes on the fate of DATA.

use manyway_wire::PathId;

use super::Mmsp1;
use crate::engine::Engine;
use crate::engine::notices::{Fates, Notice};
use crate::path::{PathAvailability, PathReport};
use crate::{ByteCount, Instant};

impl Mmsp1 {
    /// Carries out the notices of the engine. Costs nothing if there are none.
    pub(crate) fn carry_out(&mut self, engine: &mut Engine, now: Instant) {
        while !engine.notices.is_empty() {
            let mut notices = engine.notices.take();
            self.settle(engine, now, &mut notices.fates);
            for notice in notices.news.drain(..) {
                self.on_notice(engine, now, notice);
            }
            engine.notices.reuse(notices);
        }
    }

    /// Only a SACK frees a TSEQ. That a packet arrived or is lost says that one carrier of its TSEQs is out of flight.
    fn settle(&mut self, engine: &mut Engine, now: Instant, fates: &mut Fates) {
        self.streams.on_time(now);
        for content in fates.delivered.drain(..).chain(fates.lost.drain(..)).flatten() {
            self.streams.on_out_of_flight(&content, &engine.paths);
        }
        for content in fates.reinjected.drain(..).flatten() {
            self.streams.repeat(&content);
        }
        if let Some(longest) = engine.paths.longest_rtt() {
            self.streams.on_rtt(now, longest);
        }
        if !fates.progress.is_empty() {
            fates.progress.clear();
            engine.on_progress(now, ByteCount(self.streams.acked_bytes()));
        }
    }

    fn on_notice(&mut self, engine: &mut Engine, now: Instant, notice: Notice) {
        match notice {
            Notice::Status(path, PathReport { availability, .. }) => match availability {
                PathAvailability::Available | PathAvailability::Backup => self.monitor.watch(now, path),
                PathAvailability::Dead => self.monitor.forget(path),
                PathAvailability::Suspect => {}
            },
            Notice::Overdue(path) => self.monitor.probe_now(now, path),
            Notice::Closed { path, .. } => {
                self.monitor.forget(path);
                self.peer_addresses.forget(path);
                self.streams.forget_path(path);
                // Both ends number paths by themselves, so the number of open ones is all that is limited.
                engine.limits.peer_paths = engine.limits.peer_paths.saturating_add(1);
                engine.paths.set_reachable(PathId(engine.limits.highest_path().0), true);
            }
            // Nothing of this can be told to the peer, and addresses are no secret here.
            Notice::Opened(_)
            | Notice::Cost(..)
            | Notice::Liveness(_)
            | Notice::Migrated(_)
            | Notice::Pathless(_) => {}
        }
    }
}
