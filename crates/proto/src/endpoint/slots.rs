//! Connections in slots with a generation: the handle of an ended connection finds nothing.

use super::admission::HalfOpenId;
use super::handle::ConnectionHandle;
use crate::Instant;
use crate::connection::Connection;
use crate::prefix::Prefix;

#[derive(Debug)]
struct Entry {
    connection: Box<Connection>,
    deadline: Option<Instant>,
    queued: bool,
    eventful: bool,
    half_open: Option<HalfOpen>,
}

/// A half-open connection: the handshake of its client is incomplete.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HalfOpen {
    pub(crate) id: HalfOpenId,
    /// The network of the client's first flight.
    pub(crate) prefix: Prefix,
}

#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    entry: Option<Entry>,
}

#[derive(Debug, Default)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Number of accesses to connections, for tests of the cost.
    #[cfg(test)]
    pub(super) looks: std::cell::Cell<u64>,
}

impl Slots {
    pub(crate) fn insert(&mut self, connection: Connection) -> ConnectionHandle {
        let entry = Entry {
            connection: Box::new(connection),
            deadline: None,
            queued: false,
            eventful: false,
            half_open: None,
        };
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        let mut generation = 0;
        if let Some(slot) = self.slots.get_mut(index as usize) {
            slot.entry = Some(entry);
            generation = slot.generation;
        }
        ConnectionHandle { slot: index, generation }
    }

    pub(crate) fn remove(&mut self, handle: ConnectionHandle) {
        let slot = self.slots.get_mut(handle.slot as usize);
        if let Some(slot) = slot.filter(|slot| slot.generation == handle.generation && slot.entry.is_some()) {
            slot.entry = None;
            slot.generation = slot.generation.wrapping_add(1);
            self.free.push(handle.slot);
        }
    }

    pub(crate) fn get(&self, handle: ConnectionHandle) -> Option<&Connection> {
        Some(&*self.entry(handle)?.connection)
    }

    pub(crate) fn get_mut(&mut self, handle: ConnectionHandle) -> Option<&mut Connection> {
        Some(&mut *self.entry_mut(handle)?.connection)
    }

    /// Returns true if this call changed the flag to `queued`.
    pub(crate) fn set_queued(&mut self, handle: ConnectionHandle, queued: bool) -> bool {
        self.entry_mut(handle).is_some_and(|entry| std::mem::replace(&mut entry.queued, queued) != queued)
    }

    /// Returns true if this call changed the flag to `eventful`.
    pub(crate) fn set_eventful(&mut self, handle: ConnectionHandle, eventful: bool) -> bool {
        self.entry_mut(handle)
            .is_some_and(|entry| std::mem::replace(&mut entry.eventful, eventful) != eventful)
    }

    pub(crate) fn is_eventful(&self, handle: ConnectionHandle) -> bool {
        self.entry(handle).is_some_and(|entry| entry.eventful)
    }

    /// The handle of the connection in a slot.
    pub(crate) fn handle_at(&self, index: u32) -> Option<ConnectionHandle> {
        let slot = self.slots.get(index as usize).filter(|slot| slot.entry.is_some())?;
        Some(ConnectionHandle { slot: index, generation: slot.generation })
    }

    /// When the connection has work to do by itself.
    pub(crate) fn deadline(&self, handle: ConnectionHandle) -> Option<Instant> {
        self.entry(handle)?.deadline
    }

    /// Sets when the connection has work to do by itself, and returns the old time.
    pub(crate) fn set_deadline(
        &mut self,
        handle: ConnectionHandle,
        deadline: Option<Instant>,
    ) -> Option<Instant> {
        let entry = self.entry_mut(handle)?;
        std::mem::replace(&mut entry.deadline, deadline)
    }

    /// Marks a connection as half-open, or, with `None`, as no longer counted; returns the previous mark.
    pub(crate) fn set_half_open(
        &mut self,
        handle: ConnectionHandle,
        half_open: Option<HalfOpen>,
    ) -> Option<HalfOpen> {
        let entry = self.entry_mut(handle)?;
        std::mem::replace(&mut entry.half_open, half_open)
    }

    pub(crate) fn half_open(&self, handle: ConnectionHandle) -> Option<HalfOpen> {
        self.entry(handle)?.half_open
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn handles(&self) -> impl Iterator<Item = ConnectionHandle> {
        self.slots.iter().enumerate().filter(|(_, slot)| slot.entry.is_some()).map(|(index, slot)| {
            ConnectionHandle { slot: u32::try_from(index).unwrap_or(u32::MAX), generation: slot.generation }
        })
    }

    fn entry(&self, handle: ConnectionHandle) -> Option<&Entry> {
        #[cfg(test)]
        self.looks.set(self.looks.get() + 1);
        self.slots
            .get(handle.slot as usize)
            .filter(|slot| slot.generation == handle.generation)?
            .entry
            .as_ref()
    }

    fn entry_mut(&mut self, handle: ConnectionHandle) -> Option<&mut Entry> {
        #[cfg(test)]
        self.looks.set(self.looks.get() + 1);
        let slot = self.slots.get_mut(handle.slot as usize)?;
        if slot.generation == handle.generation { slot.entry.as_mut() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use manyway_wire::ConnectionId;

    use super::{ConnectionHandle, Slots};
    use crate::connection::Connection;
    use crate::mmsp2::Start;
    use crate::mmsp2::reset_token::ResetKey;
    use crate::mmsp2::tls::testing;
    use crate::{ConnectionConfig, FourTuple, IdLayout, Instant, LocalAddress, Rng};

    fn connection() -> Connection {
        let start = Start {
            now: Instant::from_nanos(0),
            config: Arc::new(ConnectionConfig::default()),
            interfaces: crate::path::InterfaceMtus::default(),
            rng: Rng::from_seed([1; 32]),
            reset_key: Arc::new(ResetKey::new(&[2; 32], crate::Shard::ALONE, IdLayout::default())),
            original_destination: ConnectionId::from_u64(3),
            local_id: ConnectionId::from_u64(4),
            tls: testing::pair().1,
        };
        let local = LocalAddress { interface: 0, address: "10.0.0.1:1".parse().unwrap() };
        let tuple = FourTuple::udp(local, "10.0.0.2:1".parse().unwrap());
        Connection::server(start, tuple, ConnectionId::from_u64(5), Vec::new(), true)
    }

    #[test]
    fn the_handle_of_an_ended_connection_finds_nothing_in_the_slot_of_the_next() {
        let mut slots = Slots::default();
        let first = slots.insert(connection());
        let second = slots.insert(connection());
        slots.remove(first);
        slots.remove(first);
        assert_eq!((slots.len(), slots.get(first).is_some()), (1, false));
        let third = slots.insert(connection());
        assert_eq!((third.slot, slots.len()), (first.slot, 2));
        assert!(slots.get(first).is_none() && slots.get_mut(third).is_some());
        assert_eq!(slots.handles().collect::<Vec<_>>(), [third, second]);
    }

    #[test]
    fn a_flag_changes_once() {
        let mut slots = Slots::default();
        let handle = slots.insert(connection());
        assert!(slots.set_queued(handle, true) && !slots.set_queued(handle, true));
        assert!(slots.set_queued(handle, false) && !slots.set_queued(handle, false));
        assert!(slots.set_eventful(handle, true) && slots.is_eventful(handle));
        assert!(!slots.set_queued(ConnectionHandle::numbered(9), true));
    }

    #[test]
    fn the_previous_deadline_is_returned() {
        let mut slots = Slots::default();
        let handle = slots.insert(connection());
        let at = Some(Instant::from_nanos(8));
        assert_eq!(slots.set_deadline(handle, at), None);
        assert_eq!(slots.set_deadline(handle, None), at);
    }
}
