//! Tokens by which an endpoint that has forgotten a connection can end it (RFC 9000, section 10.3).

use std::fmt;
use std::hint::black_box;

use manyway_wire::ConnectionId;
use ring::hmac;

/// Length of a reset token in bytes.
pub(crate) const RESET_TOKEN_LENGTH: usize = 16;

/// Makes reset tokens from ids, so that none has to be remembered.
pub(crate) struct ResetKey(hmac::Key);

impl ResetKey {
    /// Takes the lasting key of the endpoint. Whoever keeps it over a restart can end connections from before it.
    pub(crate) fn new(key: &[u8; 32]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    /// The id that this endpoint takes towards a client, from the two ids that the client chose.
    pub(crate) fn derive_id(&self, first_destination: &ConnectionId, source: &ConnectionId) -> ConnectionId {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(b"id");
        context.update(first_destination.as_slice());
        context.update(source.as_slice());
        let tag = context.sign();
        let bytes = tag.as_ref().first_chunk::<8>().copied().unwrap_or_default();
        ConnectionId::from_u64(u64::from_be_bytes(bytes))
    }

    /// The token of a connection id that this endpoint issued: the first 16 bytes of HMAC-SHA256 over it.
    pub(crate) fn token(&self, id: &ConnectionId) -> [u8; RESET_TOKEN_LENGTH] {
        let tag = hmac::sign(&self.0, id.as_slice());
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

/// Whether two tokens are equal, in a time that does not tell how much of them is (RFC 9000, section 10.3.1).
pub(crate) fn is_same_token(one: &[u8; RESET_TOKEN_LENGTH], other: &[u8; RESET_TOKEN_LENGTH]) -> bool {
    let difference =
        one.iter().zip(other).fold(0, |difference, (one, other)| black_box(difference | (one ^ other)));
    black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_depends_on_the_key_and_the_id() {
        let (key, other) = (ResetKey::new(&[1; 32]), ResetKey::new(&[2; 32]));
        let (id, second) = (ConnectionId::from_u64(7), ConnectionId::from_u64(8));
        assert!(is_same_token(&key.token(&id), &ResetKey::new(&[1; 32]).token(&id)));
        assert!(!is_same_token(&key.token(&id), &key.token(&second)));
        assert!(!is_same_token(&key.token(&id), &other.token(&id)));
    }

    #[test]
    fn tokens_that_differ_in_any_bit_are_not_the_same() {
        let token = [0xa5; RESET_TOKEN_LENGTH];
        for bit in 0..RESET_TOKEN_LENGTH * 8 {
            let mut other = token;
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_same_token(&token, &other));
        }
    }
}
