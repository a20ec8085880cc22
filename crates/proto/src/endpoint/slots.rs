//! Connections in slots with a generation: a handle of an ended connection finds nothing.

use crate::Instant;
use crate::connection::Connection;

/// Names a connection of an endpoint; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionHandle {
    index: u32,
    generation: u32,
}

#[derive(Debug)]
struct Entry {
    connection: Box<Connection>,
    deadline: Option<Instant>,
    queued: bool,
    eventful: bool,
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
}

impl Slots {
    pub(crate) fn insert(&mut self, connection: Connection) -> ConnectionHandle {
        let entry =
            Entry { connection: Box::new(connection), deadline: None, queued: false, eventful: false };
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        let mut generation = 0;
        if let Some(slot) = self.slots.get_mut(index as usize) {
            slot.entry = Some(entry);
            generation = slot.generation;
        }
        ConnectionHandle { index, generation }
    }

    pub(crate) fn remove(&mut self, handle: ConnectionHandle) {
        let slot = self.slots.get_mut(handle.index as usize);
        if let Some(slot) = slot.filter(|slot| slot.generation == handle.generation && slot.entry.is_some()) {
            slot.entry = None;
            slot.generation = slot.generation.wrapping_add(1);
            self.free.push(handle.index);
        }
    }

    pub(crate) fn get(&self, handle: ConnectionHandle) -> Option<&Connection> {
        Some(&*self.entry(handle)?.connection)
    }

    pub(crate) fn get_mut(&mut self, handle: ConnectionHandle) -> Option<&mut Connection> {
        Some(&mut *self.entry_mut(handle)?.connection)
    }

    /// Returns true if the flag changed to `queued` by this call.
    pub(crate) fn set_queued(&mut self, handle: ConnectionHandle, queued: bool) -> bool {
        self.entry_mut(handle).is_some_and(|entry| std::mem::replace(&mut entry.queued, queued) != queued)
    }

    /// Returns true if the flag changed to `eventful` by this call.
    pub(crate) fn set_eventful(&mut self, handle: ConnectionHandle, eventful: bool) -> bool {
        self.entry_mut(handle)
            .is_some_and(|entry| std::mem::replace(&mut entry.eventful, eventful) != eventful)
    }

    pub(crate) fn is_eventful(&self, handle: ConnectionHandle) -> bool {
        self.entry(handle).is_some_and(|entry| entry.eventful)
    }

    /// Sets the deadline that stands in the endpoint's timers, and returns the old one.
    pub(crate) fn set_deadline(
        &mut self,
        handle: ConnectionHandle,
        deadline: Option<Instant>,
    ) -> Option<Instant> {
        let entry = self.entry_mut(handle)?;
        std::mem::replace(&mut entry.deadline, deadline)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn handles(&self) -> impl Iterator<Item = ConnectionHandle> {
        self.slots.iter().enumerate().filter(|(_, slot)| slot.entry.is_some()).map(|(index, slot)| {
            ConnectionHandle { index: u32::try_from(index).unwrap_or(u32::MAX), generation: slot.generation }
        })
    }

    fn entry(&self, handle: ConnectionHandle) -> Option<&Entry> {
        self.slots
            .get(handle.index as usize)
            .filter(|slot| slot.generation == handle.generation)?
            .entry
            .as_ref()
    }

    fn entry_mut(&mut self, handle: ConnectionHandle) -> Option<&mut Entry> {
        let slot = self.slots.get_mut(handle.index as usize)?;
        if slot.generation == handle.generation { slot.entry.as_mut() } else { None }
    }
}
