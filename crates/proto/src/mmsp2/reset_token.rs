//! Stateless reset tokens, by which an endpoint that lost a connection can end it (RFC 9000, section 10.3), and
//! connection IDs that their issuer recognises without state.

use std::fmt;

use manyway_wire::ConnectionId;
use ring::hmac;

use crate::shard::Shard;
use crate::{IdLayout, Rng};

/// Length of a reset token in bytes.
pub(crate) const RESET_TOKEN_LENGTH: usize = 16;

/// Last bytes of an id, which prove the issuer.
const PROOF: usize = 2;

/// Derives reset tokens from ids, so that none has to be stored.
pub(crate) struct ResetKey {
    key: hmac::Key,
    /// Whose ids it issues.
    shard: Shard,
    layout: IdLayout,
}

impl ResetKey {
    /// Takes the permanent key of the endpoint. An endpoint that keeps it over a restart can end connections from
    /// before.
    pub(crate) fn new(key: &[u8; 32], shard: Shard, layout: IdLayout) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, key), shard, layout }
    }

    /// The id of this endpoint towards a client, derived from the two ids of the client.
    pub(crate) fn derive_id(
        &self,
        original_destination: &ConnectionId,
        source: &ConnectionId,
    ) -> ConnectionId {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(b"id");
        context.update(original_destination.as_slice());
        context.update(source.as_slice());
        let tag = context.sign();
        self.issue_from(tag.as_ref().first_chunk().copied().unwrap_or_default())
    }

    /// A random id.
    pub(crate) fn issue_id(&self, rng: &mut Rng) -> ConnectionId {
        let mut random = [0; ConnectionId::MAX_LENGTH];
        let (first, more) = random.split_at_mut(IdLayout::SHORTEST);
        first.copy_from_slice(&rng.next_u64().to_be_bytes());
        if self.layout.length() > IdLayout::SHORTEST {
            rng.fill(more);
        }
        self.issue_from(random)
    }

    /// An id from random bytes, the last two replaced by a keyed hash of the others, by which this endpoint recognises its
    /// own ids. To any other host the whole id is random (spec 4.23), but for its prefix (spec 4.39) and the index of one
    /// of several endpoints (spec 4.25).
    fn issue_from(&self, mut bytes: [u8; ConnectionId::MAX_LENGTH]) -> ConnectionId {
        self.shard.mark(&mut bytes);
        bytes.iter_mut().zip(self.layout.prefix()).for_each(|(byte, of_prefix)| *byte = *of_prefix);
        let id = bytes.get_mut(..self.layout.length()).unwrap_or_default();
        if let Some((random, proof)) = id.split_last_chunk_mut::<PROOF>() {
            *proof = self.proof(random);
        }
        ConnectionId::from_slice(id).unwrap_or(ConnectionId::EMPTY)
    }

    /// Bytes of each id.
    pub(crate) fn id_length(&self) -> usize {
        self.layout.length()
    }

    /// Whose ids it issues.
    pub(crate) fn shard(&self) -> Shard {
        self.shard
    }

    /// Whether this endpoint, or a predecessor with the same key and layout, may have issued the id: true for all its own
    /// ids, and for one in 65 536 of all others.
    pub(crate) fn may_have_issued(&self, id: &ConnectionId) -> bool {
        let id = id.as_slice();
        // With another prefix it is of another server with the same key, whose connection must not be reset.
        let is_own = id.len() == self.id_length() && id.starts_with(self.layout.prefix());
        let parts = Some(id).filter(|_| is_own).and_then(|id| id.split_last_chunk());
        parts.is_some_and(|(random, proof)| *proof == self.proof(random))
    }

    fn proof(&self, random: &[u8]) -> [u8; PROOF] {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(b"own");
        context.update(random);
        context.sign().as_ref().first_chunk().copied().unwrap_or_default()
    }

    /// A secret of the endpoint for another use, separated from all others by its label.
    pub(crate) fn secret(&self, label: &[u8]) -> [u8; 16] {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(b"secret");
        context.update(label);
        context.sign().as_ref().first_chunk().copied().unwrap_or_default()
    }

    /// The key under which a token of the peer is looked up: the time of the search reveals nothing about the token
    /// itself (RFC 9000, section 10.3.1).
    pub(crate) fn mark(&self, token: &[u8; RESET_TOKEN_LENGTH]) -> [u8; RESET_TOKEN_LENGTH] {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(b"mark");
        context.update(token);
        let tag = context.sign();
        tag.as_ref().first_chunk().copied().unwrap_or_default()
    }

    /// The token of a connection id that this endpoint issued: the first 16 bytes of HMAC-SHA256 over it.
    pub(crate) fn token(&self, id: &ConnectionId) -> [u8; RESET_TOKEN_LENGTH] {
        let tag = hmac::sign(&self.key, id.as_slice());
        let mut token = [0; RESET_TOKEN_LENGTH];
        for (to, from) in token.iter_mut().zip(tag.as_ref()) {
            *to = *from;
        }
        token
    }
}

impl fmt::Debug for ResetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResetKey").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alone(byte: u8) -> ResetKey {
        ResetKey::new(&[byte; 32], Shard::ALONE, IdLayout::default())
    }

    #[test]
    fn a_token_depends_on_the_key_and_the_id() {
        let (key, other) = (alone(1), alone(2));
        let (id, second) = (ConnectionId::from_u64(7), ConnectionId::from_u64(8));
        assert_eq!(key.token(&id), alone(1).token(&id));
        assert_ne!(key.token(&id), key.token(&second));
        assert_ne!(key.token(&id), other.token(&id));
    }

    fn layouts() -> [IdLayout; 4] {
        [(8, 0), (13, 0), (13, 5), (20, 3)]
            .map(|(length, prefix)| IdLayout::new(length, &[0x4c; 5][..prefix]).unwrap())
    }

    // spec 4.11, 4.23
    #[test]
    fn an_endpoint_recognises_its_own_ids_and_hardly_any_other() {
        let mut rng = Rng::from_seed([3; 32]);
        for layout in layouts() {
            let [key, other] = [[1; 32], [2; 32]].map(|key| ResetKey::new(&key, Shard::ALONE, layout));
            let client = (ConnectionId::from_u64(5), ConnectionId::from_u64(6));
            assert!(key.may_have_issued(&key.derive_id(&client.0, &client.1)));
            for _ in 0..1000 {
                assert!(key.may_have_issued(&key.issue_id(&mut rng)));
            }
            let taken = (0..50_000).filter(|_| key.may_have_issued(&other.issue_id(&mut rng))).count();
            assert!(taken < 9, "{taken}");
            assert!(!key.may_have_issued(&ConnectionId::from_slice(&[1; 5]).unwrap()));
        }
    }

    // spec 4.2, 4.39
    #[test]
    fn ids_have_the_length_and_the_prefix_of_the_layout_and_differ_behind_it() {
        let mut rng = Rng::from_seed([4; 32]);
        for layout in layouts() {
            let key = ResetKey::new(&[1; 32], Shard::ALONE, layout);
            let mut seen = std::collections::BTreeSet::new();
            for number in 0..1000 {
                let [client, source] = [number, 2 * number + 1].map(ConnectionId::from_u64);
                for id in [key.issue_id(&mut rng), key.derive_id(&client, &source)] {
                    assert_eq!(id.as_slice().len(), layout.length());
                    assert!(id.as_slice().starts_with(layout.prefix()));
                    assert!(seen.insert(id.as_slice()[layout.prefix().len()..][..6].to_vec()));
                }
            }
        }
    }

    #[test]
    fn a_mark_depends_on_the_key_and_the_token() {
        let (key, other) = (alone(1), alone(2));
        assert_eq!(key.mark(&[5; 16]), key.mark(&[5; 16]));
        assert_ne!(key.mark(&[5; 16]), key.mark(&[6; 16]));
        assert_ne!(key.mark(&[5; 16]), other.mark(&[5; 16]));
    }

    // spec 4.39
    #[test]
    fn an_endpoint_does_not_take_ids_of_another_server_with_its_key_for_its_own() {
        let server =
            |number| ResetKey::new(&[1; 32], Shard::ALONE, IdLayout::new(11, &[0x4a, 1, number]).unwrap());
        let mut rng = Rng::from_seed([6; 32]);
        for _ in 0..100 {
            let id = server(7).issue_id(&mut rng);
            assert!(
                server(7).may_have_issued(&id)
                    && !server(8).may_have_issued(&id)
                    && !alone(1).may_have_issued(&id)
            );
        }
    }

    // spec 4.25
    #[test]
    fn ids_lead_to_the_endpoint_that_issued_them_and_all_endpoints_of_the_port_recognise_them() {
        let mut rng = Rng::from_seed([5; 32]);
        for layout in layouts() {
            let key = |index| ResetKey::new(&[1; 32], Shard::new(index, 3).unwrap(), layout);
            let keys: Vec<_> = (0..3).map(key).collect();
            for (index, number) in (0..3).flat_map(|index| (0..200).map(move |number| (index, number))) {
                let client = [number, number + 1].map(ConnectionId::from_u64);
                for id in [keys[index].issue_id(&mut rng), keys[index].derive_id(&client[0], &client[1])] {
                    assert_eq!(usize::from(id.as_slice()[5]) % 3, index);
                    assert!(keys.iter().all(|other| other.may_have_issued(&id)));
                    assert_eq!(keys[0].token(&id), keys[index].token(&id));
                }
            }
        }
    }
}
