//! Why an interface is not used.

use std::fmt;

use manyway_proto::{ByteCount, Date};
use manyway_units::text;

/// The smallest usable MTU of an interface: 1200 bytes and the headers of IPv4 and UDP. (An interface with IPv6 has at
/// least 1280.)
pub(super) const LEAST_MTU: u32 = 1228;

/// An interface that is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Excluded {
    /// Its name.
    pub interface: String,
    /// Why not.
    pub reason: Exclusion,
}

/// The interface, the reason, and what changes it.
impl fmt::Display for Excluded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.interface, self.reason.with_remedy(&self.interface))
    }
}

/// Several interfaces in one text: those with the same reason together, and first those that the user can change.
#[derive(Debug)]
pub(crate) struct ExcludedList<'a>(pub(crate) &'a [Excluded]);

impl fmt::Display for ExcludedList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest: Vec<_> = self.0.iter().collect();
        rest.sort_by_key(|excluded| excluded.reason.rank());
        let mut separator = "";
        while let Some(first) = rest.first().copied() {
            let has_remedy = first.reason.remedy(&first.interface).is_some();
            let (same, others): (Vec<_>, Vec<_>) =
                rest.into_iter().partition(|it| *it == first || !has_remedy && it.reason == first.reason);
            let names: Vec<_> = same.iter().map(|excluded| excluded.interface.as_str()).collect();
            let reason = first.reason.with_remedy(&first.interface);
            write!(f, "{separator}{}: {reason}", names.join(", "))?;
            (rest, separator) = (others, "; ");
        }
        Ok(())
    }
}

/// Each interface that its cap excludes, and until when; `None` if caps exclude none.
pub(crate) fn capped(excluded: &[Excluded]) -> Option<String> {
    let mut reached: Vec<Excluded> = Vec::new();
    for it in excluded.iter().filter(|it| matches!(it.reason, Exclusion::CapReached { .. })) {
        // An interface with several addresses is in the list for each.
        if !reached.contains(it) {
            reached.push(it.clone());
        }
    }
    (!reached.is_empty()).then(|| ExcludedList(&reached).to_string())
}

/// Why an interface is not used; the later in this list, the closer it came to being used.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Exclusion {
    /// The user named it but it does not exist.
    NotThere,
    /// The system does not list its interfaces, so none can be chosen or left out.
    NotListed,
    /// The user excluded it.
    ByUser,
    /// The user named others.
    NotNamed,
    /// The user wants addresses of the other family only.
    FamilyNotWanted,
    /// A tunnel of this program itself.
    OwnTunnel,
    /// Its cap is reached.
    CapReached {
        /// The cap.
        cap: ByteCount,
        /// When the cap is renewed.
        renewal: Option<Date>,
    },
    /// Set down.
    Down,
    /// No cable, or no radio network.
    NoCarrier,
    /// A port of a bridge or bond.
    PartOf {
        /// Name of the bridge or bond.
        whole: String,
    },
    /// A tunnel over other interfaces, not named by the user.
    Tunnel {
        /// The system's name for its kind.
        kind: String,
    },
    /// Its MTU is below the datagram size that every path must carry (spec 6.33).
    MtuTooSmall {
        /// The largest IP packet that it carries, in bytes.
        mtu: u32,
    },
    /// The peer is not on this host.
    Loopback,
    /// The peer is on this host.
    PeerIsLocal,
    /// It has no address at all.
    NoAddress,
    /// It has no address of a family that the peer has.
    NoAddressOfFamily,
    /// The system still checks its address for duplicates, or has deprecated it.
    AddressNotReady,
    /// The address is link-local, and the peer is not on the link.
    LinkLocal,
    /// Another address of the interface fits better.
    OtherAddress,
    /// No route leads through it to the peer.
    NoRoute,
}

impl Exclusion {
    /// The command that may make the interface usable, if there is one.
    pub fn remedy(&self, interface: &str) -> Option<String> {
        match self {
            Self::Down => Some(format!("`ip link set dev {interface} up`")),
            Self::MtuTooSmall { .. } => Some(format!("`ip link set dev {interface} mtu 1280`")),
            Self::Tunnel { .. } => Some(format!("`-I {interface}` uses it")),
            Self::NotThere
            | Self::NotListed
            | Self::ByUser
            | Self::NotNamed
            | Self::FamilyNotWanted
            | Self::OwnTunnel
            | Self::CapReached { .. }
            | Self::NoCarrier
            | Self::PartOf { .. }
            | Self::Loopback
            | Self::PeerIsLocal
            | Self::NoAddress
            | Self::NoAddressOfFamily
            | Self::AddressNotReady
            | Self::LinkLocal
            | Self::OtherAddress
            | Self::NoRoute => None,
        }
    }

    /// The reason, and the command that may make the interface usable.
    pub fn with_remedy(&self, interface: &str) -> String {
        match self.remedy(interface) {
            Some(remedy) => format!("{self}; {remedy}"),
            None => self.to_string(),
        }
    }

    /// Order in a list: faults first, choices of the user last.
    fn rank(&self) -> u8 {
        match self {
            Self::PeerIsLocal => 1,
            Self::ByUser | Self::FamilyNotWanted => 2,
            Self::Loopback => 3,
            Self::NotNamed => 4,
            Self::NotThere
            | Self::NotListed
            | Self::OwnTunnel
            | Self::CapReached { .. }
            | Self::Down
            | Self::NoCarrier
            | Self::PartOf { .. }
            | Self::Tunnel { .. }
            | Self::MtuTooSmall { .. }
            | Self::NoAddress
            | Self::NoAddressOfFamily
            | Self::AddressNotReady
            | Self::LinkLocal
            | Self::OtherAddress
            | Self::NoRoute => 0,
        }
    }

    /// Whether the interface stays excluded as long as the settings of the user, the peer and the period of a cap are
    /// the same. Any other interface may become usable at any moment.
    pub(crate) fn lasts(&self) -> bool {
        match self {
            Self::ByUser
            | Self::NotListed
            | Self::NotNamed
            | Self::FamilyNotWanted
            | Self::OwnTunnel
            | Self::CapReached { .. }
            | Self::Tunnel { .. }
            | Self::Loopback
            | Self::PeerIsLocal => true,
            Self::NotThere
            | Self::Down
            | Self::NoCarrier
            | Self::PartOf { .. }
            | Self::MtuTooSmall { .. }
            | Self::NoAddress
            | Self::NoAddressOfFamily
            | Self::AddressNotReady
            | Self::LinkLocal
            | Self::OtherAddress
            | Self::NoRoute => false,
        }
    }
}

impl fmt::Display for Exclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotThere => write!(f, "no such interface"),
            Self::NotListed => {
                write!(
                    f,
                    "this system does not tell its interfaces (it refuses netlink), so none can be chosen or left out"
                )
            }
            Self::ByUser => write!(f, "excluded by the user"),
            Self::NotNamed => write!(f, "not selected by --interface"),
            Self::FamilyNotWanted => write!(f, "the other address family was asked for"),
            Self::OwnTunnel => write!(f, "it is our own tunnel"),
            Self::CapReached { cap, renewal } => f.write_str(&text::cap_reached(Some(*cap), *renewal)),
            Self::Down => write!(f, "it is switched off"),
            Self::NoCarrier => write!(f, "no carrier: no cable or no radio network"),
            Self::PartOf { whole } => write!(f, "it is a part of {whole}, which is used instead"),
            Self::Tunnel { kind } => {
                write!(f, "it is a {kind} tunnel over other interfaces")
            }
            Self::MtuTooSmall { mtu } => {
                write!(f, "its MTU of {mtu} is below {LEAST_MTU}, the least that a path needs")
            }
            Self::Loopback => write!(f, "loopback"),
            Self::PeerIsLocal => write!(f, "the peer is on this host and reached over loopback"),
            Self::NoAddress => write!(f, "it has no address"),
            Self::NoAddressOfFamily => write!(f, "it has no address of the peer's family (IPv4 or IPv6)"),
            Self::AddressNotReady => write!(f, "its address is not ready yet or is being given up"),
            Self::LinkLocal => write!(f, "link-local, not routable"),
            Self::OtherAddress => write!(f, "another address of the interface is used"),
            Self::NoRoute => write!(f, "no route leads through it to the peer"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(excluded: &[(&str, Exclusion)]) -> String {
        let excluded: Vec<_> = excluded
            .iter()
            .map(|(name, reason)| Excluded { interface: (*name).to_owned(), reason: reason.clone() })
            .collect();
        ExcludedList(&excluded).to_string()
    }

    #[test]
    fn the_cause_comes_first_and_interfaces_with_the_same_reason_together() {
        let missing =
            [("lo", Exclusion::NotNamed), ("eth0", Exclusion::NotNamed), ("wifi0", Exclusion::NotThere)];
        assert_eq!(told(&missing), "wifi0: no such interface; lo, eth0: not selected by --interface");
        let here = [("lo", Exclusion::NotNamed), ("eth0", Exclusion::PeerIsLocal)];
        assert!(told(&here).starts_with("eth0: "), "{}", told(&here));
        assert_eq!(told(&[]), "");
    }

    #[test]
    fn each_interface_excluded_by_a_cap_is_listed_once() {
        let list = |reasons: &[(&str, Option<u64>)]| -> Vec<Excluded> {
            let excluded = reasons.iter().map(|(name, cap)| {
                let reason = cap.map_or(Exclusion::Down, |cap| Exclusion::CapReached {
                    cap: ByteCount(cap),
                    renewal: None,
                });
                Excluded { interface: (*name).to_owned(), reason }
            });
            excluded.collect()
        };
        let several = [("wwan0", Some(5_000)), ("eth0", None), ("wwan0", Some(5_000)), ("sat0", Some(7_000))];
        assert_eq!(capped(&list(&several)).unwrap(), "wwan0: cap of 5 kB reached; sat0: cap of 7 kB reached");
        let same = [("wwan0", Some(5_000)), ("wwan1", Some(5_000))];
        assert_eq!(capped(&list(&same)).unwrap(), "wwan0, wwan1: cap of 5 kB reached");
        assert_eq!(capped(&list(&[("eth0", None)])), None);
    }

    #[test]
    fn advice_names_the_interface_that_it_is_about() {
        let wg = || Exclusion::Tunnel { kind: "wireguard".to_owned() };
        let several = [
            ("lo", Exclusion::Loopback),
            ("wlan0", Exclusion::Down),
            ("wwan0", Exclusion::Down),
            ("wg0", wg()),
        ];
        assert_eq!(
            told(&several),
            "wlan0: it is switched off; `ip link set dev wlan0 up`; wwan0: it is switched off; \
             `ip link set dev wwan0 up`; wg0: it is a wireguard tunnel over other interfaces; `-I wg0` uses it; \
             lo: loopback"
        );
        let small = Excluded { interface: "ppp0".to_owned(), reason: Exclusion::MtuTooSmall { mtu: 576 } };
        assert!(small.to_string().ends_with("`ip link set dev ppp0 mtu 1280`"), "{small}");
    }
}
