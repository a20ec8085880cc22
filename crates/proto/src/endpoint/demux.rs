//! Finds the connection and path of a packet, by its destination id.

use manyway_wire::{ConnectionId, PathId};

use crate::Rng;
use crate::collections::id_table::IdTable;

/// The ids of all connections.
#[derive(Debug)]
pub(super) struct Demux {
    /// Ids of 8 bytes, as an end issues them unless it was told otherwise.
    short: IdTable<u64>,
    /// All others.
    other: IdTable<ConnectionId>,
}

/// The slot of a connection, and the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) slot: u32,
    pub(super) path: PathId,
}

impl Demux {
    pub(super) fn new(rng: &mut Rng) -> Self {
        let key = (rng.next_u64(), rng.next_u64());
        Self { short: IdTable::new(key), other: IdTable::new(key) }
    }

    /// The route of an id. Costs O(1) on average.
    pub(super) fn get(&self, id: &ConnectionId) -> Option<Route> {
        let found = match short(id) {
            Some(short) => self.short.get(short),
            None => self.other.get(*id),
        };
        found.map(|(slot, path)| Route { slot, path: PathId(path) })
    }

    pub(super) fn insert(&mut self, id: ConnectionId, route: Route) {
        let route = (route.slot, route.path.0);
        match short(&id) {
            Some(short) => self.short.insert(short, route),
            None => self.other.insert(id, route),
        }
    }

    pub(super) fn remove(&mut self, id: &ConnectionId) {
        match short(id) {
            Some(short) => self.short.remove(short),
            None => self.other.remove(*id),
        }
    }
}

fn short(id: &ConnectionId) -> Option<u64> {
    <[u8; 8]>::try_from(id.as_slice()).ok().map(u64::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_every_length_lead_to_their_connections() {
        let mut demux = Demux::new(&mut Rng::from_seed([1; 32]));
        let ids: Vec<_> = (0..=20).filter_map(|length| ConnectionId::from_slice(&vec![7; length])).collect();
        assert!(ids.len() > 10);
        let route = |number| Route { slot: number, path: PathId(number) };
        for (number, id) in (0..).zip(&ids) {
            demux.insert(*id, route(number));
        }
        for (number, id) in (0..).zip(&ids) {
            assert_eq!(demux.get(id), Some(route(number)));
            demux.remove(id);
            assert_eq!(demux.get(id), None);
        }
    }
}
