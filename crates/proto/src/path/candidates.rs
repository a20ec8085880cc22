//! The order in which a handshake tries the candidate pairs of addresses.

use super::manager::PathManager;
use super::state::Role;
use crate::FourTuple;

/// The order in which candidates are started (spec 7.20): first one of each interface, then the others, with the
/// families of an interface alternating; but the second candidate is always of the other family. So neither a broken
/// interface nor a broken family costs more than the head start.
pub(crate) fn candidate_order(manager: &PathManager) -> Vec<FourTuple> {
    let mut rounds: Vec<_> = manager.missing(&[]);
    for open in &mut rounds {
        alternate_families(&mut open.targets);
    }
    rounds.sort_by_key(|open| match open.role {
        Role::Primary => 0,
        Role::Secondary => 1,
        Role::Backup | Role::Never => 2,
    });
    let deepest = rounds.iter().map(|open| open.targets.len()).max().unwrap_or(0);
    let mut candidates: Vec<(FourTuple, Role)> = (0..deepest)
        .flat_map(|round| {
            rounds.iter().filter_map(move |open| Some((open.targets.get(round).copied()?, open.role)))
        })
        .collect();
    if let Some((first, role)) = candidates.first().copied() {
        let other_family = |candidate: &FourTuple| candidate.remote.is_ipv4() != first.remote.is_ipv4();
        let elsewhere = |candidate: &FourTuple| candidate.local.interface != first.local.interface;
        let best = candidates
            .iter()
            .position(|(candidate, its)| other_family(candidate) && elsewhere(candidate) && *its == role);
        if let Some(second) =
            best.or_else(|| candidates.iter().position(|(candidate, _)| other_family(candidate)))
        {
            let candidate = candidates.remove(second);
            candidates.insert(1, candidate);
        }
    }
    candidates.into_iter().map(|(candidate, _)| candidate).collect()
}

/// Alternates between the two families, starting with that of the first pair.
fn alternate_families(targets: &mut Vec<FourTuple>) {
    let Some(first) = targets.first().copied() else { return };
    let is_first = |target: &FourTuple| target.remote.is_ipv4() == first.remote.is_ipv4();
    let (ours, others): (Vec<_>, Vec<_>) = targets.drain(..).partition(is_first);
    let (mut ours, mut others) = (ours.into_iter(), others.into_iter());
    loop {
        let (one, other) = (ours.next(), others.next());
        if one.is_none() && other.is_none() {
            return;
        }
        targets.extend(one.into_iter().chain(other));
    }
}

#[cfg(test)]
mod tests {
    use super::candidate_order;
    use crate::LocalAddress;
    use crate::path::manager::PathManager;
    use crate::path::{LocalCandidate, Role};

    fn order(locals: &[(u32, &str, Role)]) -> Vec<(u32, bool)> {
        let candidate = |(interface, address, role): &(u32, &str, Role)| LocalCandidate {
            address: LocalAddress { interface: *interface, address: address.parse().unwrap() },
            role: *role,
        };
        let locals: Vec<_> = locals.iter().map(candidate).collect();
        let remotes =
            ["[2001:db8::1]:1", "192.0.2.1:1", "[2001:db8::2]:1", "192.0.2.2:1"].map(|a| a.parse().unwrap());
        let candidates = candidate_order(&PathManager::new(&locals, &remotes));
        candidates.iter().map(|candidate| (candidate.local.interface, candidate.remote.is_ipv4())).collect()
    }

    #[test]
    fn the_second_candidate_is_of_the_other_family_and_of_another_interface_where_there_is_one() {
        use Role::{Backup, Primary};
        let (v6, v4) = (false, true);
        let one = [(1, "[2001:db8::1:1]:1", Primary), (1, "10.0.0.1:1", Primary)];
        assert_eq!(order(&one), [(1, v6), (1, v4), (1, v6), (1, v4)]);
        let second = [(2, "[2001:db8::2:1]:1", Primary), (2, "10.0.1.1:1", Primary)];
        assert_eq!(order(&[one, second].concat())[..3], [(1, v6), (2, v4), (2, v6)]);
        // A backup interface is not used for that.
        let backup = [(2, "[2001:db8::2:1]:1", Backup), (2, "10.0.1.1:1", Backup)];
        assert_eq!(order(&[one, backup].concat())[..3], [(1, v6), (1, v4), (2, v6)]);
        assert_eq!(order(&[(1, "10.0.0.1:1", Primary), (2, "10.0.1.1:1", Primary)])[..2], [(1, v4), (2, v4)]);
    }
}
