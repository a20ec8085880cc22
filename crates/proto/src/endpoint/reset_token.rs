//! Tokens by which an endpoint that has forgotten a connection can end it (RFC 9000, section 10.3).

use std::fmt;

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

    /// By what a token of the peer is found again: the time that the search takes tells nothing about the token itself
    /// (RFC 9000, section 10.3.1).
    pub(crate) fn mark(&self, token: &[u8; RESET_TOKEN_LENGTH]) -> [u8; RESET_TOKEN_LENGTH] {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(b"mark");
        context.update(token);
        let tag = context.sign();
        tag.as_ref().first_chunk().copied().unwrap_or_default()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_depends_on_the_key_and_the_id() {
        let (key, other) = (ResetKey::new(&[1; 32]), ResetKey::new(&[2; 32]));
        let (id, second) = (ConnectionId::from_u64(7), ConnectionId::from_u64(8));
        assert_eq!(key.token(&id), ResetKey::new(&[1; 32]).token(&id));
        assert_ne!(key.token(&id), key.token(&second));
        assert_ne!(key.token(&id), other.token(&id));
    }

    #[test]
    fn a_mark_depends_on_the_key_and_the_token() {
        let (key, other) = (ResetKey::new(&[1; 32]), ResetKey::new(&[2; 32]));
        assert_eq!(key.mark(&[5; 16]), key.mark(&[5; 16]));
        assert_ne!(key.mark(&[5; 16]), key.mark(&[6; 16]));
        assert_ne!(key.mark(&[5; 16]), other.mark(&[5; 16]));
    }
}
