//! The numbers of hosts, interfaces, links and routes.

/// ID of a host of a [`Network`](crate::Network), in the order of creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostId(pub usize);

/// ID of an interface: its host and the index that the host uses for it, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct InterfaceId {
    /// The owner.
    pub host: HostId,
    /// As in [`LocalAddress::interface`](manyway_proto::LocalAddress::interface).
    pub index: u32,
}

/// ID of a one-way link of a [`Network`](crate::Network), in the order of creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkId(pub usize);

/// ID of a route of a [`Network`](crate::Network), in the order of creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RouteId(pub usize);
