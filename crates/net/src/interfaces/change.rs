//! The difference between two snapshots.

use std::collections::BTreeMap;

use super::snapshot::{AddressState, Interface, LinkState, Prefix, Snapshot};

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// A new interface; its addresses are not reported separately.
    Appeared {
        /// The system's number for it.
        index: u32,
        /// Its name.
        name: String,
    },
    /// An interface was removed with all its addresses.
    Vanished {
        /// The system's number for it.
        index: u32,
        /// Its name.
        name: String,
    },
    /// An interface is up, down or without carrier.
    State {
        /// The system's number for it.
        index: u32,
        /// Its name.
        name: String,
        /// Its state now.
        state: LinkState,
    },
    /// An address became usable.
    AddressAdded {
        /// The system's number for the interface.
        index: u32,
        /// The address.
        address: Prefix,
    },
    /// An address was removed or may no longer be used.
    AddressRemoved {
        /// The system's number for the interface.
        index: u32,
        /// The address.
        address: Prefix,
    },
    /// Another property of an interface changed: its name, kind or MTU, or its bridge or bond.
    Properties {
        /// The system's number for it.
        index: u32,
        /// Its name now.
        name: String,
    },
    /// The routes changed.
    Routes,
}

/// The differences of `new`, removals first.
pub(super) fn between(old: &Snapshot, new: &Snapshot) -> Vec<Change> {
    let by_index = |snapshot: &'_ Snapshot| -> BTreeMap<u32, Interface> {
        snapshot.interfaces.iter().map(|i| (i.index, i.clone())).collect()
    };
    let (before, after) = (by_index(old), by_index(new));
    let mut removed = Vec::new();
    let mut other = Vec::new();
    for (index, interface) in &before {
        match after.get(index) {
            None => removed.push(Change::Vanished { index: *index, name: interface.name.clone() }),
            Some(now) => compare(interface, now, &mut removed, &mut other),
        }
    }
    for (index, interface) in &after {
        if !before.contains_key(index) {
            other.push(Change::Appeared { index: *index, name: interface.name.clone() });
        }
    }
    if old.routes != new.routes {
        other.push(Change::Routes);
    }
    removed.append(&mut other);
    removed
}

fn compare(old: &Interface, new: &Interface, removed: &mut Vec<Change>, other: &mut Vec<Change>) {
    let (index, name) = (new.index, new.name.clone());
    for address in ready(old).filter(|address| !ready(new).any(|a| a == *address)) {
        removed.push(Change::AddressRemoved { index, address });
    }
    for address in ready(new).filter(|address| !ready(old).any(|a| a == *address)) {
        other.push(Change::AddressAdded { index, address });
    }
    if old.state != new.state {
        let gone = new.state != LinkState::Up;
        let change = Change::State { index, name: name.clone(), state: new.state };
        if gone { removed.push(change) } else { other.push(change) }
    }
    if (&old.name, &old.kind, &old.part_of, old.mtu) != (&new.name, &new.kind, &new.part_of, new.mtu) {
        other.push(Change::Properties { index, name });
    }
}

fn ready(interface: &Interface) -> impl Iterator<Item = Prefix> {
    interface.addresses.iter().filter(|a| a.state == AddressState::Ready).map(|a| a.prefix)
}
