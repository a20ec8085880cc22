//! MTUs of this host's interfaces, by address.

use std::net::IpAddr;
use std::sync::Arc;

/// The largest IP packet that may leave from each address of this host; cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct InterfaceMtus(Arc<[(IpAddr, u32)]>);

impl InterfaceMtus {
    pub(crate) fn new(known: &[(IpAddr, u32)]) -> Self {
        Self(known.into())
    }

    /// The largest IP packet from `address`, in bytes; the smallest if several interfaces have that address; `None`
    /// if it is unknown. All loopback addresses of a family belong to one interface.
    pub(crate) fn of(&self, address: IpAddr) -> Option<u32> {
        let address = address.to_canonical();
        let fits = |known: IpAddr| {
            let known = known.to_canonical();
            let loopback = known.is_loopback() && address.is_loopback();
            known == address || (loopback && known.is_ipv4() == address.is_ipv4())
        };
        self.0.iter().filter(|(known, _)| fits(*known)).map(|(_, mtu)| *mtu).min()
    }
}

#[cfg(test)]
mod tests {
    use super::InterfaceMtus;

    #[test]
    fn an_address_has_the_mtu_of_its_interface_and_loopback_addresses_share_one() {
        let at = |text: &str| text.parse().unwrap();
        let mtus =
            InterfaceMtus::new(&[(at("127.0.0.1"), 65_536), (at("10.0.0.1"), 9000), (at("10.0.0.1"), 1500)]);
        for (address, mtu) in [
            ("127.0.0.1", Some(65_536)),
            ("127.0.3.9", Some(65_536)),
            ("::ffff:127.0.0.1", Some(65_536)),
            ("::1", None),
            ("10.0.0.1", Some(1500)),
            ("10.0.0.2", None),
        ] {
            assert_eq!(mtus.of(at(address)), mtu, "{address}");
        }
    }
}
