//! The files in which this host keeps names and the addresses of its name servers.

use std::fs::read_to_string;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use crate::zone::interface_index;

/// Files that list the name servers of a network. `resolv.conf` may name a daemon of this host, which lists its upstream
/// servers in the other files.
const RESOLV_CONFS: [&str; 3] =
    ["/run/systemd/resolve/resolv.conf", "/run/NetworkManager/no-stub-resolv.conf", "/etc/resolv.conf"];
/// Most name servers that are asked.
const MOST: usize = 4;
/// Port of DNS.
const DNS: u16 = 53;

/// The addresses of a name in `/etc/hosts`.
pub(super) fn hosts(name: &str) -> Vec<IpAddr> {
    parse_hosts(&read_to_string("/etc/hosts").unwrap_or_default(), name)
}

/// The name servers of this host's networks.
pub(super) fn name_servers() -> Vec<SocketAddr> {
    let of_file = |path: &&str| parse_name_servers(&read_to_string(path).unwrap_or_default());
    RESOLV_CONFS.iter().map(of_file).find(|servers| !servers.is_empty()).unwrap_or_default()
}

fn parse_hosts(text: &str, name: &str) -> Vec<IpAddr> {
    let name = name.trim_end_matches('.');
    let of_line = |line: &str| {
        let mut words = line.split('#').next()?.split_ascii_whitespace();
        let address = words.next()?.parse().ok()?;
        words.any(|word| word.eq_ignore_ascii_case(name)).then_some(address)
    };
    text.lines().filter_map(of_line).collect()
}

/// Those of other hosts (resolv.conf(5)).
fn parse_name_servers(text: &str) -> Vec<SocketAddr> {
    let of_line = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        (words.next() == Some("nameserver")).then(|| parse_name_server(words.next()?))?
    };
    text.lines().filter_map(of_line).filter(|server| !server.ip().is_loopback()).take(MOST).collect()
}

fn parse_name_server(text: &str) -> Option<SocketAddr> {
    let Some((address, zone)) = text.split_once('%') else {
        return Some(SocketAddr::new(text.parse().ok()?, DNS));
    };
    let zone = zone.parse().ok().or_else(|| interface_index(zone))?;
    Some(SocketAddrV6::new(address.parse().ok()?, DNS, 0, zone).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_a_file_of_hosts_whatever_their_case_and_not_in_its_comments() {
        let text = "# 192.0.2.9 home.example\n192.0.2.1 other home.example # and more\n\
            2001:db8::1\tHOME.example\nnonsense home.example\n192.0.2.2 home.example.org\n192.0.2.3 # home.example\n";
        let found = ["192.0.2.1", "2001:db8::1"].map(|it| it.parse::<IpAddr>().unwrap());
        assert_eq!(parse_hosts(text, "home.example"), found);
        assert_eq!(parse_hosts(text, "home.example."), found);
        assert_eq!(parse_hosts(text, "example"), [] as [IpAddr; 0]);
    }

    #[test]
    fn name_servers_of_other_hosts_are_read_with_their_zone() {
        let text = "search example\nnameserver 127.0.0.53\nnameserver 192.0.2.53 x\nnameserver ::1\n\
            nameserver fe80::1%7\nnameserver nonsense\nnameserver\nnameserver 2001:db8::53\n";
        let found: Vec<_> = parse_name_servers(text).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["192.0.2.53:53", "[fe80::1%7]:53", "[2001:db8::53]:53"]);
    }
}
