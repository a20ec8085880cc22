//! Networks that this machine may reach by a device of sites.

use ipnet::IpNet;
use manyway::interfaces::{InterfaceWatcher, Snapshot};
use manyway_capture::SITE_DEVICE;
use manyway_terminal::CommandError;

/// RFC 1918, 6598 and 4193: what another network may say of these is believed.
pub(in crate::command::egress) const PRIVATE: [&str; 5] =
    ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"];

/// Why a network is left alone.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::command::egress) enum Unusable {
    /// It is not private: its addresses belong to hosts of the Internet.
    Public,
    /// This interface has a route to it, or to a part or a whole of it.
    Taken { route: IpNet, interface: String },
}

impl std::fmt::Display for Unusable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Public => f.write_str(
                "is not private: networks of sites are parts of 10.0.0.0/8, 172.16.0.0/12, \
                             192.168.0.0/16, 100.64.0.0/10 or fc00::/7",
            ),
            Self::Taken { route, interface } => write!(f, "is taken by {interface} here (route {route})"),
        }
    }
}

/// The routes of this machine.
pub(super) fn routes() -> Result<Snapshot, CommandError> {
    Ok(InterfaceWatcher::new()?.snapshot().clone())
}

/// Whether this machine may reach a network by the device of sites.
// egress 11.10
pub(super) fn check(snapshot: &Snapshot, network: &IpNet) -> Result<(), Unusable> {
    let mut private = PRIVATE.iter().filter_map(|it| it.parse::<IpNet>().ok());
    if !private.any(|it| it.contains(network)) {
        return Err(Unusable::Public);
    }
    for route in snapshot.routes.iter().flatten() {
        let name = snapshot.interface(route.interface).map_or("", |it| it.name.as_str());
        let Ok(to) = IpNet::new(route.destination.address, route.destination.length) else { continue };
        // A default route leads everywhere.
        if to.prefix_len() > 0 && name != SITE_DEVICE && (to.contains(network) || network.contains(&to)) {
            return Err(Unusable::Taken { route: to, interface: name.to_owned() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use manyway::interfaces::{Interface, Prefix, Route};

    use super::*;

    // egress 11.10
    #[test]
    fn a_network_is_private_and_no_other_interface_leads_to_any_of_it() {
        let interfaces = vec![Interface::new(2, "eth0"), Interface::new(3, SITE_DEVICE)];
        let route = |interface, address: &str, length| {
            Route::new(interface, Prefix { address: address.parse().unwrap(), length })
        };
        let routes = vec![
            route(2, "0.0.0.0", 0),
            route(2, "::", 0),
            route(2, "192.168.1.0", 24),
            route(2, "10.1.0.0", 16),
            route(3, "10.99.0.0", 24),
        ];
        let snapshot = Snapshot::new(interfaces, Some(routes));
        let check = |text: &str| check(&snapshot, &text.parse().unwrap());
        let taken = |route: &str| {
            Err(Unusable::Taken { route: route.parse().unwrap(), interface: "eth0".to_owned() })
        };
        for (network, expected) in [
            ("10.99.0.0/24", Ok(())),
            ("192.168.2.0/24", Ok(())),
            ("fd00:99::/64", Ok(())),
            ("192.168.1.0/24", taken("192.168.1.0/24")),
            ("192.168.0.0/16", taken("192.168.1.0/24")),
            ("10.1.2.0/24", taken("10.1.0.0/16")),
            ("198.51.100.0/24", Err(Unusable::Public)),
            ("0.0.0.0/0", Err(Unusable::Public)),
            ("10.0.0.0/7", Err(Unusable::Public)),
            ("2001:db8::/32", Err(Unusable::Public)),
            ("fe80::/64", Err(Unusable::Public)),
        ] {
            assert_eq!(check(network), expected, "{network}");
        }
    }
}
