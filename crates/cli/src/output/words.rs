//! Addresses and errors in the form of all messages.

use std::io;
use std::net::{IpAddr, SocketAddr};

use manyway::HostPort;
use manyway_transfer::Failure;

/// A system error in the form of all messages: in lower case, without a number.
pub fn cause(error: &io::Error) -> String {
    match error.get_ref() {
        Some(own) => own.to_string(),
        None => Failure::from_io(error).to_string(),
    }
}

/// A count with its noun, given in the singular.
pub fn count(number: impl TryInto<u64>, thing: &str) -> String {
    match (number.try_into().unwrap_or(u64::MAX), thing.strip_suffix('y')) {
        (1, _) => format!("1 {thing}"),
        (many, Some(stem)) => format!("{many} {stem}ies"),
        (many, None) => format!("{many} {thing}s"),
    }
}

/// A number of files and directories.
pub fn entries(count: u64) -> String {
    if count == 1 { "1 file or directory".to_owned() } else { format!("{count} files and directories") }
}

/// An address as a user writes it: IPv4 never within IPv6, and a link-local one is followed by the name of the interface,
/// not its number.
pub fn address(address: SocketAddr) -> String {
    match address.ip().to_canonical() {
        IpAddr::V4(v4) => SocketAddr::from((v4, address.port())).to_string(),
        IpAddr::V6(_) => HostPort::from(address).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_in_the_singular() {
        assert_eq!(count(1_u64, "connection"), "1 connection");
        assert_eq!([count(0_u64, "query"), count(2_u64, "client")], ["0 queries", "2 clients"]);
        assert_eq!([entries(1), entries(0)], ["1 file or directory", "0 files and directories"]);
    }

    #[test]
    fn a_cause_has_no_number_and_an_own_text_stays() {
        assert_eq!(cause(&io::Error::from_raw_os_error(2)), "no such file or directory");
        let own = io::Error::new(io::ErrorKind::PermissionDenied, "the socket belongs to another user");
        assert_eq!(cause(&own), "the socket belongs to another user");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_link_local_address_is_shown_with_the_name_of_its_interface() {
        let loopback = std::net::SocketAddrV6::new("fe80::1".parse().unwrap(), 4455, 0, 1);
        assert_eq!(address(loopback.into()), "[fe80::1%lo]:4455");
        assert_eq!(address("192.0.2.7:1".parse().unwrap()), "192.0.2.7:1");
        assert_eq!(address("[::ffff:192.0.2.7]:1".parse().unwrap()), "192.0.2.7:1");
    }
}
