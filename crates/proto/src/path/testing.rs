//! Addresses for the tests of paths.

use crate::{FourTuple, LocalAddress};

/// A pair of addresses that differs from others by the peer's port.
pub(super) fn tuple(port: u16) -> FourTuple {
    FourTuple::udp(
        LocalAddress { interface: 1, address: "10.0.0.1:1".parse().unwrap() },
        format!("10.0.0.2:{port}").parse().unwrap(),
    )
}
