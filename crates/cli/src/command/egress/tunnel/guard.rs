//! `--kill-switch`: what may go past the tunnel, and when the block ends.

use ipnet::IpNet;
use manyway::interfaces::{InterfaceWatcher, Snapshot};
use manyway_capture::{KillSwitch, TUNNEL_DEVICE, TunnelConfig};
use manyway_terminal::{CommandError, ExitCode, note};

use super::super::sites::PRIVATE;
use crate::args::GlobalArgs;

/// The block, which follows the networks of this machine.
pub(super) struct Guard {
    switch: KillSwitch,
    watcher: InterfaceWatcher,
    bypass: Vec<IpNet>,
}

impl Guard {
    /// Blocks from now on.
    pub(super) fn engage(config: &TunnelConfig) -> Result<Self, CommandError> {
        let watcher = InterfaceWatcher::new()?;
        let direct = direct(watcher.snapshot(), &config.bypass);
        let switch = KillSwitch::engage(config, direct).map_err(CommandError::failed)?;
        Ok(Self { switch, watcher, bypass: config.bypass.clone() })
    }

    /// Waits until the networks of this machine change.
    pub(super) async fn changed(&mut self) {
        self.watcher.changed().await;
    }

    /// Lets what is a network of this machine now be reached, and sets the block again if it was removed.
    pub(super) fn follow(&mut self) {
        if let Err(error) = self.switch.follow(direct(self.watcher.snapshot(), &self.bypass)) {
            tracing::warn!(reason = %error, "the kill switch was not set again yet");
        }
    }

    /// Ends the block if the tunnel ended by the user's wish; otherwise says how to end it.
    pub(super) fn end(self, is_wish: bool) -> Result<(), CommandError> {
        if is_wish {
            KillSwitch::lift().map_err(CommandError::failed)?;
        } else {
            note(
                "the kill switch blocks what would have gone by the tunnel, until `manyway tunnel --clear` or the next \
                 tunnel",
            );
        }
        Ok(())
    }
}

/// `--clear`.
pub(super) fn clear(global: &GlobalArgs) -> Result<ExitCode, CommandError> {
    let was_closed = KillSwitch::lift().map_err(CommandError::failed)?;
    if !global.quiet {
        note(if was_closed { "nothing is blocked any more" } else { "nothing was blocked" });
    }
    Ok(ExitCode::Ok)
}

/// Private networks with a route beside default ones, and those that are left out. A DHCP server may set routes to any
/// network, so those to public ones are not believed.
fn direct(snapshot: &Snapshot, bypass: &[IpNet]) -> Vec<IpNet> {
    let own_tunnel = |index| snapshot.interface(index).is_some_and(|it| it.name == TUNNEL_DEVICE);
    let routes = snapshot.routes.iter().flatten().filter(|route| !own_tunnel(route.interface));
    let networks =
        routes.filter_map(|route| IpNet::new(route.destination.address, route.destination.length).ok());
    let private: Vec<IpNet> =
        PRIVATE.iter().chain(&LINK_LOCAL).filter_map(|network| network.parse().ok()).collect();
    let is_private = |network: &IpNet| private.iter().any(|it| it.contains(network));
    IpNet::aggregate(&networks.filter(is_private).chain(bypass.iter().copied()).collect())
}

/// RFC 3927 and 4291.
const LINK_LOCAL: [&str; 2] = ["169.254.0.0/16", "fe80::/10"];

#[cfg(test)]
mod tests {
    use manyway::interfaces::{Interface, Prefix, Route};

    use super::*;

    #[test]
    fn only_private_networks_with_a_route_are_free() {
        let interfaces = vec![Interface::new(2, "eth0"), Interface::new(3, TUNNEL_DEVICE)];
        let route = |interface, address: &str, length| {
            Route::new(interface, Prefix { address: address.parse().unwrap(), length })
        };
        let routes = vec![
            route(2, "192.168.1.0", 24),
            route(2, "fd00:1::", 64),
            route(2, "0.0.0.0", 0),
            // As a hostile DHCP server sets them.
            route(2, "0.0.0.0", 1),
            route(2, "128.0.0.0", 1),
            route(2, "198.51.100.0", 24),
            route(2, "10.0.0.0", 7),
            route(3, "10.1.0.0", 16),
        ];
        let snapshot = Snapshot::new(interfaces, Some(routes));
        let shown = |bypass: &[IpNet]| -> Vec<String> {
            direct(&snapshot, bypass).iter().map(ToString::to_string).collect()
        };
        assert_eq!(shown(&[]), ["192.168.1.0/24", "fd00:1::/64"]);
        let bypass = "203.0.113.0/24".parse().unwrap();
        assert_eq!(shown(&[bypass]), ["192.168.1.0/24", "203.0.113.0/24", "fd00:1::/64"]);
    }
}
