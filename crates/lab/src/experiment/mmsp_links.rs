//! The links of the experiments of the MMSP thesis: Ethernet and two stations of 802.11g, each with its own address at
//! either end.

/// Mbit/s of IP packets in which a TCP without options carries the thesis's 174 and 18 Mbit/s.
pub(super) const WIRED: f64 = 174.0 * 1500.0 / 1460.0;
/// As [`WIRED`].
pub(super) const WIRELESS: f64 = 18.0 * 1500.0 / 1460.0;

/// A kind of link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Wired,
    Wireless,
}

/// Links in this order, named `wired`, `wireless1`, `wireless2`, at a share of their rates. The first is the primary.
pub(super) fn links(kinds: impl IntoIterator<Item = Kind>, share: f64) -> String {
    links_with(kinds, share, "")
}

/// The same, each with a further property.
pub(super) fn links_with(kinds: impl IntoIterator<Item = Kind>, share: f64, property: &str) -> String {
    let mut stations = 0;
    let link = |kind| {
        let (name, rate, rtt) = match kind {
            Kind::Wired => ("wired".to_owned(), WIRED, "1ms"),
            Kind::Wireless => {
                stations += 1;
                (format!("wireless{stations}"), WIRELESS, "4ms")
            }
        };
        let rate = rate * share * 1e3;
        format!(
            "[links.{name}]\nclient = '{name}'\nserver = '{name}'\nrate = '{rate:.0}kbit'\nrtt = '{rtt}'\n{property}"
        )
    };
    kinds.into_iter().map(link).collect()
}

/// So many wired links, then so many wireless ones.
pub(super) fn kinds(wired: f64, wireless: f64) -> Vec<Kind> {
    let some =
        |kind, count: f64| (1..=3).take_while(move |number| f64::from(*number) <= count).map(move |_| kind);
    some(Kind::Wired, wired).chain(some(Kind::Wireless, wireless)).collect()
}
