//! Use counters of keys, and the AEAD limits of their ciphers (RFC 9001, section 6.6).

use crate::KeyLimits;

/// Packets reserved for CLOSE: enough for every repetition of it.
const FOR_THE_END: u64 = 64;

/// Packets sealed with one key.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Usage {
    sealed: u64,
}

impl Usage {
    /// Counts one packet.
    pub(super) fn count(&mut self) {
        self.sealed = self.sealed.saturating_add(1);
    }

    /// How many packets were counted.
    pub(super) fn sealed(self) -> u64 {
        self.sealed
    }

    /// Whether one more packet would exceed the limit `of_cipher` of a cipher.
    pub(super) fn is_exhausted(self, of_cipher: u64, limits: &KeyLimits) -> bool {
        self.sealed >= of_cipher.min(limits.max_sealed)
    }

    /// Whether only the packets reserved for CLOSE are left.
    pub(super) fn is_nearly_exhausted(self, of_cipher: u64, limits: &KeyLimits) -> bool {
        let limit = of_cipher.min(limits.max_sealed);
        self.sealed >= limit - FOR_THE_END.min(limit / 2)
    }
}
