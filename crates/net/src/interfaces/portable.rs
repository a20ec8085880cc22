//! The interfaces as every system reports them, by `getifaddrs` or its like.

use std::collections::BTreeMap;
use std::io;
use std::task::{Context, Poll};

use super::snapshot::{Interface, InterfaceAddress, InterfaceKind, LinkState, Snapshot};
use super::source::{Hint, InterfaceSource};

/// Knows names, addresses and whether an interface runs, but neither routes nor MTU, and learns of changes only by
/// polling. Interfaces without an address are not seen.
#[derive(Debug, Default)]
pub struct PortableSource {}

impl PortableSource {
    /// Makes the source.
    pub fn new() -> Self {
        Self::default()
    }
}

impl InterfaceSource for PortableSource {
    fn snapshot(&mut self) -> io::Result<Snapshot> {
        let mut interfaces: BTreeMap<u32, Interface> = BTreeMap::new();
        for found in if_addrs::get_if_addrs()? {
            let Some(index) = found.index else { continue };
            let interface = interfaces.entry(index).or_insert_with(|| Interface {
                kind: kind_of(&found),
                state: state_of(&found.oper_status),
                ..Interface::new(index, found.name.clone())
            });
            let length = match &found.addr {
                if_addrs::IfAddr::V4(v4) => v4.prefixlen,
                if_addrs::IfAddr::V6(v6) => v6.prefixlen,
            };
            interface.addresses.push(InterfaceAddress::new(found.ip(), length));
        }
        Ok(Snapshot::new(interfaces.into_values().collect(), None))
    }

    fn poll_hint(&mut self, _: &mut Context<'_>) -> Poll<Hint> {
        Poll::Pending
    }
}

/// The system reports no kind, so the name decides.
fn kind_of(found: &if_addrs::Interface) -> InterfaceKind {
    if found.is_loopback() {
        return InterfaceKind::Loopback;
    }
    super::snapshot::kind_by_name(&found.name).unwrap_or(InterfaceKind::Ordinary)
}

fn state_of(status: &if_addrs::IfOperStatus) -> LinkState {
    use if_addrs::IfOperStatus as Status;
    match status {
        // Where the state is unknown, the address suggests that the interface is in use.
        Status::Up | Status::Unknown => LinkState::Up,
        Status::Down | Status::NotPresent => LinkState::Down,
        Status::Testing | Status::Dormant | Status::LowerLayerDown => LinkState::NoCarrier,
    }
}
