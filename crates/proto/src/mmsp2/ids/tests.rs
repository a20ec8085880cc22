use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::{IdLayout, Rng, Shard};

fn local() -> (LocalIds, Rng) {
    let key = ResetKey::new(&[1; 32], Shard::ALONE, IdLayout::default());
    (LocalIds::new(ConnectionId::from_u64(1), Arc::new(key)), Rng::from_seed([2; 32]))
}

fn written(ids: &mut LocalIds) -> Contents {
    let (mut buffer, mut contents) = (Vec::new(), Contents::new());
    ids.write_into(&mut Writer::new(&mut buffer, 1200), &mut contents);
    contents
}

/// The ids that lead to this connection, as in the endpoint's table.
fn follow(ids: &mut LocalIds, table: &mut BTreeSet<Vec<u8>>) {
    while let Some(change) = ids.poll_change() {
        match change {
            IdChange::Added(id, _) => assert!(table.insert(id.as_slice().to_vec())),
            IdChange::Removed(id) => assert!(table.remove(id.as_slice())),
            IdChange::TokenIssued(_) | IdChange::TokenRetired(_) => panic!("{change:?} of an own id"),
        }
    }
}

#[test]
fn every_path_has_an_id_and_one_in_use_two_and_each_is_issued_to_the_peer_once() {
    let (mut ids, mut rng) = local();
    ids.issue_up_to(PathId(3), &mut rng);
    ids.issue_up_to(PathId(3), &mut rng);
    let contents = written(&mut ids);
    assert_eq!(contents.len(), 4, "the first id of path 0 is known from the handshake");
    assert!(!ids.wants() && written(&mut ids).is_empty());
    for _ in 0..2 {
        ids.on_opened(PathId(2), &mut rng);
    }
    assert_eq!(written(&mut ids)[..], [SentContent::NewCid { path: PathId(2), sequence: 1 }]);
    ids.on_lost(PathId(2), 1);
    ids.on_lost(PathId(2), 1);
    assert_eq!(written(&mut ids)[..], [SentContent::NewCid { path: PathId(2), sequence: 1 }]);
    assert!(!ids.wants());
}

#[test]
fn a_closed_path_never_gets_ids_again() {
    let (mut ids, mut rng) = local();
    ids.issue_up_to(PathId(2), &mut rng);
    ids.forget(PathId(1));
    ids.forget(PathId::FIRST);
    ids.issue_up_to(PathId(3), &mut rng);
    ids.on_retire(&RetireCid { path: PathId(1), sequence: 0 }, &mut rng).unwrap();
    ids.on_opened(PathId(1), &mut rng);
    assert_eq!(ids.ids.iter().map(|issued| issued.path).collect::<Vec<_>>(), [PathId(2), PathId(3)]);
}

#[test]
fn an_id_that_replaces_another_has_a_number_of_its_own() {
    let (mut ids, mut rng) = local();
    ids.issue_up_to(PathId::FIRST, &mut rng);
    for last in 1..9 {
        written(&mut ids);
        // The newest: what stays is the handshake's, and must not be counted on from.
        ids.on_retire(&RetireCid { path: PathId::FIRST, sequence: last }, &mut rng).unwrap();
        let next = SentContent::NewCid { path: PathId::FIRST, sequence: last + 1 };
        assert_eq!(written(&mut ids)[..], [next]);
    }
}

#[test]
fn an_id_that_was_never_issued_cannot_be_retired() {
    let (mut ids, mut rng) = local();
    assert!(ids.on_retire(&RetireCid { path: PathId::FIRST, sequence: 1 }, &mut rng).is_err());
}

proptest! {
    #[test]
    fn the_table_and_the_count_of_unissued_ids_follow_every_change(
        steps in proptest::collection::vec((0_u8..6, 0_u32..6, 0_u64..4), 0..60)
    ) {
        let (mut ids, mut rng) = local();
        let mut table = BTreeSet::new();
        for (step, path, sequence) in steps {
            match step {
                0 => ids.issue_up_to(PathId(path), &mut rng),
                1 => drop(ids.on_retire(&RetireCid { path: PathId(path), sequence }, &mut rng)),
                2 => ids.forget(PathId(path)),
                3 => ids.on_lost(PathId(path), sequence),
                4 => ids.on_opened(PathId(path), &mut rng),
                _ => drop(written(&mut ids)),
            }
            follow(&mut ids, &mut table);
            prop_assert_eq!(ids.ids.iter().filter(|issued| issued.wanted).count(), ids.wanted);
            prop_assert_eq!(ids.ids.len(), table.len());
            prop_assert!(ids.ids.is_sorted_by_key(|issued| (issued.path, issued.sequence)));
        }
        ids.forget_all();
        follow(&mut ids, &mut table);
        prop_assert!(table.is_empty() && !ids.wants());
    }
}

fn new_id(path: u32, sequence: u64, retire_prior_to: u64) -> NewCid {
    let id = ConnectionId::from_u64(u64::from(path) << 32 | sequence);
    NewCid { path: PathId(path), sequence, retire_prior_to, id, reset_token: [sequence.to_le_bytes()[0]; 16] }
}

fn given_back(ids: &mut RemoteIds) -> Contents {
    let (mut buffer, mut contents) = (Vec::new(), Contents::new());
    ids.write_into(&mut Writer::new(&mut buffer, 1200), &mut contents);
    contents
}

#[test]
fn a_migrated_path_takes_the_next_id_and_retires_the_old_one() {
    let mut ids = RemoteIds::default();
    ids.on_new(&new_id(1, 0, 0), PathId(7)).unwrap();
    ids.rotate(PathId(1));
    assert_eq!(ids.current(PathId(1)), Some(new_id(1, 0, 0).id), "there is no other");
    ids.on_new(&new_id(1, 1, 0), PathId(7)).unwrap();
    ids.rotate(PathId(1));
    assert_eq!(ids.current(PathId(1)), Some(new_id(1, 1, 0).id));
    let retired = SentContent::RetireCid { path: PathId(1), sequence: 0 };
    for _ in 0..2 {
        assert_eq!(given_back(&mut ids)[..], [retired]);
        assert!(!ids.wants());
        ids.on_lost(PathId(1), 0);
    }
    ids.on_delivered(PathId(1), 0);
    assert!(!ids.wants() && ids.retire.is_empty());
}

#[test]
fn a_retired_id_does_not_return_with_a_late_copy() {
    let mut ids = RemoteIds::default();
    ids.on_new(&new_id(1, 0, 0), PathId(7)).unwrap();
    ids.on_new(&new_id(1, 1, 0), PathId(7)).unwrap();
    ids.rotate(PathId(1));
    ids.on_new(&new_id(1, 0, 0), PathId(7)).unwrap();
    ids.rotate(PathId(1));
    assert_eq!(ids.current(PathId(1)), Some(new_id(1, 1, 0).id));
}

#[test]
fn the_peer_can_request_retirement_of_any_id_but_the_last() {
    let mut ids = RemoteIds::default();
    for sequence in 0..3 {
        ids.on_new(&new_id(1, sequence, 0), PathId(7)).unwrap();
    }
    ids.on_new(&new_id(1, 3, 3), PathId(7)).unwrap();
    assert_eq!(ids.current(PathId(1)), Some(new_id(1, 3, 0).id));
    assert_eq!(given_back(&mut ids).len(), 3);
    assert!(ids.on_new(&new_id(1, 4, 5), PathId(7)).is_err());
}

#[test]
fn ids_beyond_the_agreed_limit_break_the_protocol() {
    let mut ids = RemoteIds::default();
    assert!(ids.on_new(&new_id(8, 0, 0), PathId(7)).is_err());
    let results: Vec<_> = (0..6).map(|n| ids.on_new(&new_id(1, n, 0), PathId(7)).is_ok()).collect();
    assert_eq!(results[..5], [true, true, true, true, false]);
    let other = NewCid { id: ConnectionId::from_u64(99), ..new_id(1, 0, 0) };
    assert!(ids.on_new(&other, PathId(7)).is_err());
}

#[test]
fn only_tokens_of_ids_in_use_reset() {
    let mut ids = RemoteIds::default();
    ids.set_first(ConnectionId::from_u64(5), None);
    ids.on_new(&new_id(1, 3, 0), PathId(7)).unwrap();
    ids.on_new(&new_id(1, 4, 0), PathId(7)).unwrap();
    assert_eq!(ids.poll_change(), None, "nothing was sent to them");
    for _ in 0..2 {
        assert_eq!(ids.use_current(PathId(1)), Some(new_id(1, 3, 0).id));
    }
    assert_eq!(ids.poll_change(), Some(IdChange::TokenIssued([3; 16])));
    ids.rotate(PathId(1));
    assert_eq!(ids.poll_change(), Some(IdChange::TokenRetired([3; 16])));
    ids.use_current(PathId(1));
    ids.on_new(&new_id(1, 5, 0), PathId(7)).unwrap();
    assert_eq!(ids.poll_change(), Some(IdChange::TokenIssued([4; 16])));
    ids.forget(PathId(1));
    assert_eq!(ids.poll_change(), Some(IdChange::TokenRetired([4; 16])));
    assert_eq!(ids.poll_change(), None);
}
