//! Order in which candidate pairs are tried, because not all of them may be.

use std::net::{IpAddr, SocketAddr};

use crate::{FourTuple, LocalAddress};

/// All candidate pairs of one family, in rounds: in each round every local address meets another address of the peer,
/// so few pairs suffice to try each address of either end. Pairs of addresses of equal scope come first (RFC 6724,
/// section 5, rule 2). The first pair has the first local address, if a pair of equal scope has it.
pub(crate) fn ordered_pairs(locals: &[LocalAddress], remotes: &[SocketAddr]) -> Vec<FourTuple> {
    let (v4, v6): (Vec<SocketAddr>, Vec<SocketAddr>) = remotes.iter().partition(|remote| remote.is_ipv4());
    let rows = locals.iter().enumerate().map(|(index, local)| {
        let is_v4 = local.address.is_ipv4();
        let before = locals.iter().take(index).filter(|other| other.address.is_ipv4() == is_v4);
        (*local, before.count(), if is_v4 { &v4 } else { &v6 })
    });
    let rows: Vec<_> = rows.collect();
    let rounds = (0..v4.len().max(v6.len())).flat_map(|round| {
        rows.iter().filter(move |(.., facing)| round < facing.len()).filter_map(
            move |(local, place, facing)| {
                let remote = *facing.get((place + round) % facing.len())?;
                Some(FourTuple::udp(*local, remote))
            },
        )
    });
    let mut tuples: Vec<_> = rounds.filter(shares_link).collect();
    tuples.sort_by_key(|tuple| !leads_equally_far(tuple));
    tuples
}

/// Whether a link-local address of the peer (IPv6) meets an address of the interface that its scope names, or a
/// wildcard address. A link-local address reaches no address off its link.
pub(crate) fn shares_link(tuple: &FourTuple) -> bool {
    let scope = |address: &SocketAddr| match address {
        SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() => Some(v6.scope_id()),
        SocketAddr::V6(_) | SocketAddr::V4(_) => None,
    };
    let own = &tuple.local.address;
    own.ip().is_unspecified() || scope(own) == scope(&tuple.remote)
}

/// Whether both or neither of the addresses are unique local addresses (RFC 4193), which are not routed beyond a
/// site.
fn leads_equally_far(tuple: &FourTuple) -> bool {
    is_unique_local(tuple.local.address.ip()) == is_unique_local(tuple.remote.ip())
}

fn is_unique_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unique_local())
}

#[cfg(test)]
mod tests {
    use super::ordered_pairs;
    use crate::LocalAddress;

    #[test]
    fn a_link_local_address_is_paired_with_addresses_of_its_link_alone() {
        let local = |interface, address: &str| LocalAddress { interface, address: address.parse().unwrap() };
        let locals = [
            local(2, "[fe80::a%2]:0"),
            local(2, "[2001:db8::a]:0"),
            local(3, "[fe80::a%3]:0"),
            local(0, "[::]:0"),
        ];
        let remotes = ["[fe80::b%3]:1", "[2001:db8::b]:1"].map(|remote| remote.parse().unwrap());
        let mut met: Vec<_> = ordered_pairs(&locals, &remotes)
            .iter()
            .map(|tuple| format!("{} {}", tuple.local.address, tuple.remote))
            .collect();
        met.sort();
        let expected = [
            "[2001:db8::a]:0 [2001:db8::b]:1",
            "[::]:0 [2001:db8::b]:1",
            "[::]:0 [fe80::b%3]:1",
            "[fe80::a%3]:0 [fe80::b%3]:1",
        ];
        assert_eq!(met, expected);
    }

    fn pairs(locals: &[&str], remotes: &[&str]) -> Vec<String> {
        let local = |ip: &&str| LocalAddress {
            interface: 1,
            address: (ip.parse::<std::net::IpAddr>().unwrap(), 1).into(),
        };
        let remote = |ip: &&str| (ip.parse::<std::net::IpAddr>().unwrap(), 1).into();
        let locals: Vec<_> = locals.iter().map(local).collect();
        let remotes: Vec<_> = remotes.iter().map(remote).collect();
        let name =
            |ip: std::net::IpAddr| ip.to_string().rsplit([':', '.']).next().unwrap_or_default().to_owned();
        let tuples = ordered_pairs(&locals, &remotes).into_iter();
        tuples
            .map(|tuple| format!("{}-{}", name(tuple.local.address.ip()), name(tuple.remote.ip())))
            .collect()
    }

    #[test]
    fn each_pair_of_a_family_comes_once_and_every_address_early() {
        let (near, far) = (["2001:db8::1", "10.0.0.2", "2001:db8::3"], ["2600::7", "192.0.2.8", "2600::9"]);
        assert_eq!(pairs(&near, &far), ["1-7", "2-8", "3-9", "1-9", "3-7"]);
        assert_eq!(pairs(&near[..1], &far), ["1-7", "1-9"]);
        assert_eq!(pairs(&near, &far[..1]), ["1-7", "3-7"]);
        assert!(pairs(&near, &[]).is_empty() && pairs(&[], &far).is_empty());
        let many: Vec<_> = (1..=8).map(|host| format!("2001:db8::{host}")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        assert_eq!(pairs(&many, &many)[..8], ["1-1", "2-2", "3-3", "4-4", "5-5", "6-6", "7-7", "8-8"]);
    }

    #[test]
    fn addresses_of_one_site_are_paired_before_others() {
        let (near, far) = (["2001:db8::1", "fd00::2"], ["fd00::8", "2001:db8::9"]);
        assert_eq!(pairs(&near, &far), ["1-9", "2-8", "1-8", "2-9"]);
    }
}
