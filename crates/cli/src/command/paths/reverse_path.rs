//! Reverse-path filtering, which makes second networks look dead.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;

use manyway::interfaces::{Candidate, InterfacePolicy, InterfaceWatcher};

/// The command that makes this host accept packets on an interface that its routes would not choose, if that may be why
/// no answer arrives there.
///
/// With strict reverse-path filtering (`rp_filter` 1) Linux drops an IPv4 packet unless the best route to its sender
/// leads out over the interface on which it arrived. Of two networks with a default route each, only one passes.
pub(in crate::command) fn advice(interface: &str, local: IpAddr) -> Option<String> {
    advice_from(Path::new("/proc/sys/net/ipv4/conf"), interface, local)
}

/// The same for every interface over which a connection to `peers` failed, except for those that the routes choose.
pub(in crate::command) fn advice_for(policy: &InterfacePolicy, peers: &[SocketAddr]) -> Vec<String> {
    let chosen: Vec<IpAddr> = peers.iter().filter_map(|peer| source_towards(*peer)).collect();
    let others = candidates(policy, peers).into_iter().filter(|it| !chosen.contains(&it.local.address.ip()));
    let mut commands: Vec<_> = others.filter_map(|it| advice(&it.name, it.local.address.ip())).collect();
    commands.dedup();
    commands
}

/// As [`advice`] for each address from which a connection goes to `peers`.
#[cfg(target_os = "linux")]
pub(in crate::command) fn advice_towards(
    policy: &InterfacePolicy,
    peers: &[SocketAddr],
) -> Vec<Option<String>> {
    candidates(policy, peers).iter().map(|it| advice(&it.name, it.local.address.ip())).collect()
}

fn candidates(policy: &InterfacePolicy, peers: &[SocketAddr]) -> Vec<Candidate> {
    InterfaceWatcher::new().map(|watcher| watcher.usable(policy, peers).candidates).unwrap_or_default()
}

/// The source address of the route to a peer; nothing is sent.
fn source_towards(peer: SocketAddr) -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect(peer).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

fn advice_from(settings: &Path, interface: &str, local: IpAddr) -> Option<String> {
    (local.to_canonical().is_ipv4() && is_strict(settings, interface)).then(|| {
        // A dot in the name of an interface is no separator.
        format!("sysctl -w net.ipv4.conf.{}.rp_filter=2", interface.replace('.', "/"))
    })
}

/// The greater value of the interface and of "all" applies.
fn is_strict(settings: &Path, interface: &str) -> bool {
    let value = |name: &str| {
        let text = std::fs::read_to_string(settings.join(name).join("rp_filter")).ok()?;
        text.trim().parse::<u8>().ok()
    };
    value(interface).max(value("all")) == Some(1)
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn the_greater_setting_applies_and_dots_in_names_are_kept() {
        let place = TempDir::new().unwrap();
        for (name, value) in
            [("all", "0\n"), ("wwan0", "1\n"), ("eth0", "0\n"), ("eth0.7", "1\n"), ("wlan0", "2\n")]
        {
            std::fs::create_dir(place.path().join(name)).unwrap();
            std::fs::write(place.path().join(name).join("rp_filter"), value).unwrap();
        }
        let advice = |name, local: &str| advice_from(place.path(), name, local.parse().unwrap());
        let command = advice("wwan0", "10.9.8.7").unwrap();
        assert_eq!(command, "sysctl -w net.ipv4.conf.wwan0.rp_filter=2");
        assert_eq!(advice("wwan0", "2001:db8::7"), None);
        assert!(advice("eth0.7", "10.9.8.7").unwrap().contains("conf.eth0/7.rp_filter"));
        for name in ["eth0", "wlan0", "none"] {
            assert_eq!(advice(name, "10.9.8.7"), None, "{name}");
        }
        std::fs::write(place.path().join("all/rp_filter"), "1\n").unwrap();
        assert!(advice("eth0", "10.9.8.7").is_some() && advice("wlan0", "10.9.8.7").is_none());
    }
}
