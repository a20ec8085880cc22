//! Stateless reset tokens, by which an endpoint that lost a connection can end it (RFC 9000, section 10.3), and
//! connection IDs that their issuer recognises without state.

use std::fmt;

use manyway_wire::ConnectionId;
use ring::hmac;

use crate::shard::Shard;

/// Length of a reset token in bytes.
pub(crate) const RESET_TOKEN_LENGTH: usize = 16;

/// Random bytes of an id; the rest proves the issuer.
const RANDOM: usize = 6;
/// Bytes of the proof.
const PROOF: usize = ConnectionId::LENGTH - RANDOM;

/// Derives reset tokens from ids, so that none has to be stored.
pub(crate) struct ResetKey {
    key: hmac::Key,
    /// Whose ids it issues.
    shard: Shard,
}

impl ResetKey {
    /// Takes the permanent key of the endpoint. An endpoint that keeps it over a restart can end connections from
    /// before.
    pub(crate) fn new(key: &[u8; 32], shard: Shard) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, key), shard }
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
        let bytes = tag.as_ref().first_chunk::<8>().copied().unwrap_or_default();
        self.issue_id(u64::from_be_bytes(bytes))
    }

    /// An id from 48 random bits and two more bytes, a keyed hash of them, by which this endpoint recognises its own
    /// ids. To any other host the whole id is random (spec 4.23), but for the index of one of several endpoints (spec 4.25).
    pub(crate) fn issue_id(&self, random: u64) -> ConnectionId {
        let mut bytes = random.to_be_bytes();
        let (random, proof) = bytes.split_at_mut(RANDOM);
        self.shard.mark(random);
        proof.copy_from_slice(&self.proof(random));
        ConnectionId::from_u64(u64::from_be_bytes(bytes))
    }

    /// Whose ids it issues.
    pub(crate) fn shard(&self) -> Shard {
        self.shard
    }

    /// Whether this endpoint, or a predecessor with the same key, may have issued the id: true for all its own ids,
    /// and for one in 65 536 of all others.
    pub(crate) fn may_have_issued(&self, id: &ConnectionId) -> bool {
        let Some((random, proof)) = id.as_slice().split_at_checked(RANDOM) else { return false };
        proof == self.proof(random)
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
        ResetKey::new(&[byte; 32], Shard::ALONE)
    }

    #[test]
    fn a_token_depends_on_the_key_and_the_id() {
        let (key, other) = (alone(1), alone(2));
        let (id, second) = (ConnectionId::from_u64(7), ConnectionId::from_u64(8));
        assert_eq!(key.token(&id), alone(1).token(&id));
        assert_ne!(key.token(&id), key.token(&second));
        assert_ne!(key.token(&id), other.token(&id));
    }

    // spec 4.11, 4.23
    #[test]
    fn an_endpoint_recognises_its_own_ids_and_hardly_any_other() {
        let (key, other) = (alone(1), alone(2));
        let client = (ConnectionId::from_u64(5), ConnectionId::from_u64(6));
        assert!(key.may_have_issued(&key.derive_id(&client.0, &client.1)));
        for random in 0..1000 {
            assert!(key.may_have_issued(&key.issue_id(random << 16 | 7)));
        }
        let taken = (0..100_000_u64).filter(|n| key.may_have_issued(&other.issue_id(n << 16))).count();
        assert!(taken < 12, "{taken}");
        assert!(!key.may_have_issued(&ConnectionId::from_slice(&[1; 5]).unwrap()));
    }

    #[test]
    fn a_mark_depends_on_the_key_and_the_token() {
        let (key, other) = (alone(1), alone(2));
        assert_eq!(key.mark(&[5; 16]), key.mark(&[5; 16]));
        assert_ne!(key.mark(&[5; 16]), key.mark(&[6; 16]));
        assert_ne!(key.mark(&[5; 16]), other.mark(&[5; 16]));
    }

    #[test]
    fn ids_lead_to_the_endpoint_that_issued_them_and_all_endpoints_of_the_port_recognise_them() {
        let keys: Vec<_> =
            (0..3).map(|index| ResetKey::new(&[1; 32], Shard::new(index, 3).unwrap())).collect();
        for (index, key) in keys.iter().enumerate() {
            for random in 0..500_u64 {
                let client = [random, random + 1].map(ConnectionId::from_u64);
                let ids = [key.issue_id(random << 40 | 99), key.derive_id(&client[0], &client[1])];
                for id in ids {
                    assert_eq!(usize::from(id.as_slice()[1]) % 3, index);
                    assert!(keys.iter().all(|other| other.may_have_issued(&id)));
                    assert_eq!(keys[0].token(&id), key.token(&id));
                }
            }
        }
    }
}
