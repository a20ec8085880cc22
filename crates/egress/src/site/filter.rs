//! Which packets an end takes from the other.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

use super::header::Header;

/// What may come from the other end: packets from its own addresses and networks, to those of this one.
#[derive(Debug, Clone)]
pub struct Filter {
    /// Largest packet.
    mtu: u16,
    sources: Vec<IpNet>,
    destinations: Vec<IpNet>,
}

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is passed on.
    Passed,
    /// There was no room for it.
    QueueFull,
    /// It is no IP packet.
    Malformed,
    /// It is larger than agreed, in bytes.
    TooLarge(u16),
    /// The other end must not send from this address.
    Source(IpAddr),
    /// The other end must not send there, or no site has that address.
    Destination(IpAddr),
}

impl Filter {
    /// For packets of at most this many bytes.
    pub fn new(mtu: u16, sources: Vec<IpNet>, destinations: Vec<IpNet>) -> Self {
        Self { mtu, sources, destinations }
    }

    /// Whether a packet may come from the other end: [`Verdict::Passed`], or why not.
    // egress 11.4, 11.15, 11.16
    pub fn check(&self, packet: &[u8]) -> Verdict {
        let Some(header) = Header::parse(packet) else { return Verdict::Malformed };
        let inside = |networks: &[IpNet], address: &IpAddr| networks.iter().any(|it| it.contains(address));
        if !inside(&self.sources, &header.source) {
            Verdict::Source(header.source)
        } else if !inside(&self.destinations, &header.destination) {
            Verdict::Destination(header.destination)
        } else if packet.len() > self.mtu.into() {
            Verdict::TooLarge(self.mtu)
        } else {
            Verdict::Passed
        }
    }
}

/// How many packets of one end had which fate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Tally {
    /// Passed on.
    pub passed: u64,
    /// Dropped because a queue was full.
    pub queue_full: u64,
    /// Dropped, and no IP packet, or larger than agreed.
    pub malformed: u64,
    /// Dropped for their source.
    pub source: u64,
    /// Dropped for their destination.
    pub destination: u64,
}

impl Tally {
    /// Counts a packet.
    pub fn count(&mut self, verdict: Verdict) {
        let counter = match verdict {
            Verdict::Passed => &mut self.passed,
            Verdict::QueueFull => &mut self.queue_full,
            Verdict::Malformed | Verdict::TooLarge(_) => &mut self.malformed,
            Verdict::Source(_) => &mut self.source,
            Verdict::Destination(_) => &mut self.destination,
        };
        *counter += 1;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} packets passed", self.passed)?;
        let dropped = [
            (self.source, "a source that is not its own"),
            (self.destination, "a destination that it may not reach"),
            (self.malformed, "their size or form"),
            (self.queue_full, "a full queue"),
        ];
        for (number, why) in dropped.into_iter().filter(|(number, _)| *number > 0) {
            write!(f, ", {number} dropped for {why}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::header::tests::packet;
    use super::*;

    fn nets(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    // egress 11.4, 11.15, 11.16
    #[test]
    fn only_own_sources_and_reachable_destinations_pass_and_nothing_that_is_too_large() {
        let sources = nets(&["10.99.0.2/32", "192.168.5.0/24", "fd00:5::/64"]);
        let filter = Filter::new(1400, sources, nets(&["10.99.0.0/24", "fd00:9::/64"]));
        let verdict = |from: &str, to: &str, size: usize| filter.check(&packet(from, to, 17, &vec![0; size]));
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let mut tally = Tally::default();
        for (from, to, size, expected) in [
            ("10.99.0.2", "10.99.0.1", 8, Verdict::Passed),
            ("192.168.5.7", "10.99.0.1", 1380, Verdict::Passed),
            ("fd00:5::7", "fd00:9::1", 1360, Verdict::Passed),
            ("192.168.5.7", "10.99.0.1", 1381, Verdict::TooLarge(1400)),
            ("10.99.0.3", "10.99.0.1", 8, Verdict::Source(ip("10.99.0.3"))),
            ("192.168.6.7", "10.99.0.1", 8, Verdict::Source(ip("192.168.6.7"))),
            // An IPv4-mapped address is one of IPv6.
            ("::ffff:10.99.0.2", "fd00:9::1", 8, Verdict::Source(ip("::ffff:10.99.0.2"))),
            ("10.99.0.2", "127.0.0.1", 8, Verdict::Destination(ip("127.0.0.1"))),
            ("10.99.0.2", "224.0.0.1", 8, Verdict::Destination(ip("224.0.0.1"))),
        ] {
            assert_eq!(verdict(from, to, size), expected, "{from} {to}");
            tally.count(verdict(from, to, size));
        }
        tally.count(filter.check(b""));
        let told = "3 packets passed, 3 dropped for a source that is not its own, 2 dropped for a destination that it \
                    may not reach, 2 dropped for their size or form";
        assert_eq!(tally.to_string(), told);
    }
}
