//! Derives keys from secrets and decrypts packets (RFC 9001, sections 5 and 6; spec 4.7, 4.8, 4.16).

use manyway_wire::{ConnectionId, PathId, Side};
use ring::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey, quic};
use ring::hkdf;

/// The salt of the keys of Initial packets (RFC 9001, section 5.2).
const INITIAL_SALT: [u8; 20] = [
    0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad, 0xcc,
    0xbb, 0x7f, 0x0a,
];
const IV_LENGTH: usize = 12;

/// A cipher suite of TLS 1.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Suite {
    Aes128,
    Aes256,
    ChaCha20,
}

impl Suite {
    /// By its number in the `ServerHello`.
    pub(crate) fn from_number(number: u16) -> Option<Self> {
        match number {
            0x1301 => Some(Self::Aes128),
            0x1302 => Some(Self::Aes256),
            0x1303 => Some(Self::ChaCha20),
            _ => None,
        }
    }

    fn hkdf(self) -> hkdf::Algorithm {
        match self {
            Self::Aes128 | Self::ChaCha20 => hkdf::HKDF_SHA256,
            Self::Aes256 => hkdf::HKDF_SHA384,
        }
    }

    fn secret_length(self) -> usize {
        match self {
            Self::Aes128 | Self::ChaCha20 => 32,
            Self::Aes256 => 48,
        }
    }

    fn cipher(self) -> &'static aead::Algorithm {
        match self {
            Self::Aes128 => &aead::AES_128_GCM,
            Self::Aes256 => &aead::AES_256_GCM,
            Self::ChaCha20 => &aead::CHACHA20_POLY1305,
        }
    }

    fn mask(self) -> &'static quic::Algorithm {
        match self {
            Self::Aes128 => &quic::AES_128,
            Self::Aes256 => &quic::AES_256,
            Self::ChaCha20 => &quic::CHACHA20,
        }
    }
}

/// The secret of one direction, from which its keys are derived.
#[derive(Clone)]
pub(crate) struct Secret {
    suite: Suite,
    bytes: Vec<u8>,
}

impl Secret {
    /// Takes a secret of the key log; `None` if its length does not match the suite.
    pub(crate) fn new(suite: Suite, bytes: &[u8]) -> Option<Self> {
        (bytes.len() == suite.secret_length()).then(|| Self { suite, bytes: bytes.to_vec() })
    }

    /// The secret of `sender`'s Initial packets.
    pub(crate) fn initial(original_destination: &ConnectionId, sender: Side) -> Option<Self> {
        let initial =
            hkdf::Salt::new(hkdf::HKDF_SHA256, &INITIAL_SALT).extract(original_destination.as_slice());
        let label: &[u8] = match sender {
            Side::Client => b"client in",
            Side::Server => b"server in",
        };
        let suite = Suite::Aes128;
        Some(Self { suite, bytes: expand(&initial, label, suite.secret_length())? })
    }

    /// The secret after a key update.
    pub(crate) fn next(&self) -> Option<Self> {
        let bytes = self.expand(b"quic ku", self.suite.secret_length())?;
        Some(Self { suite: self.suite, bytes })
    }

    pub(crate) fn header_key(&self) -> Option<HeaderKey> {
        let key = self.expand(b"quic hp", self.suite.mask().key_len())?;
        quic::HeaderProtectionKey::new(self.suite.mask(), &key).ok().map(HeaderKey)
    }

    pub(crate) fn packet_key(&self) -> Option<PacketKey> {
        let key = self.expand(b"quic key", self.suite.cipher().key_len())?;
        let iv = self.expand(b"quic iv", IV_LENGTH)?.try_into().ok()?;
        let key = LessSafeKey::new(UnboundKey::new(self.suite.cipher(), &key).ok()?);
        Some(PacketKey { key, iv })
    }

    fn expand(&self, label: &[u8], length: usize) -> Option<Vec<u8>> {
        expand(&hkdf::Prk::new_less_safe(self.suite.hkdf(), &self.bytes), label, length)
    }
}

struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// HKDF-Expand-Label without a context (RFC 8446, section 7.1).
fn expand(secret: &hkdf::Prk, label: &[u8], length: usize) -> Option<Vec<u8>> {
    let label_length = u8::try_from(b"tls13 ".len() + label.len()).ok()?;
    let wanted = u16::try_from(length).ok()?.to_be_bytes();
    let info = [&wanted[..], &[label_length], b"tls13 ", label, &[0]];
    let mut output = vec![0; length];
    secret.expand(&info, Length(length)).ok()?.fill(&mut output).ok()?;
    Some(output)
}

/// Removes header protection.
pub(crate) struct HeaderKey(quic::HeaderProtectionKey);

/// A header without protection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unmasked {
    /// All its bytes, packet number included: the associated data.
    pub(crate) bytes: Vec<u8>,
    pub(crate) first: u8,
    /// The truncated packet number, and its length in bytes.
    pub(crate) truncated: u32,
    pub(crate) number_length: usize,
}

impl HeaderKey {
    /// Removes the header protection of `packet`, whose number begins at `number_offset` (RFC 9001, section 5.4.1).
    pub(crate) fn unmask(&self, packet: &[u8], number_offset: usize) -> Option<Unmasked> {
        let sample_offset = number_offset.checked_add(4)?;
        let sample = packet.get(sample_offset..sample_offset.checked_add(16)?)?;
        let [mask_first, mask_number @ ..] = self.0.new_mask(sample).ok()?;
        let masked = *packet.first()?;
        let first = masked ^ (mask_first & if masked & 0x80 == 0 { 0x1f } else { 0x0f });
        let number_length = manyway_wire::mmsp2::number_length(first);
        let mut bytes = packet.get(..number_offset.checked_add(number_length)?)?.to_vec();
        *bytes.first_mut()? = first;
        let mut truncated = 0;
        for (byte, mask) in bytes.get_mut(number_offset..)?.iter_mut().zip(mask_number) {
            *byte ^= mask;
            truncated = (truncated << 8) | u32::from(*byte);
        }
        Some(Unmasked { bytes, first, truncated, number_length })
    }
}

/// Decrypts packets.
pub(crate) struct PacketKey {
    key: LessSafeKey,
    iv: [u8; IV_LENGTH],
}

impl PacketKey {
    /// Decrypts the payload; `None` if it was sealed with other keys.
    pub(crate) fn open(&self, path: PathId, number: u64, header: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        // spec 4.37: path id and packet number, each right-aligned in its part of the nonce
        let mut nonce = self.iv;
        let parts = path.0.to_be_bytes().into_iter().chain(number.to_be_bytes());
        for (byte, part) in nonce.iter_mut().zip(parts) {
            *byte ^= part;
        }
        let mut payload = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(nonce);
        let length = self.key.open_in_place(nonce, Aad::from(header), &mut payload).ok()?.len();
        payload.truncate(length);
        Some(payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // RFC 9001, appendix A.1
    #[test]
    fn secrets_of_open_packets_match_the_test_vector() {
        let id = ConnectionId::from_u64(0x8394_c8f0_3e51_5708);
        let secret = Secret::initial(&id, Side::Client).unwrap();
        assert_eq!(secret.bytes[..4], [0xc0, 0x0c, 0xf1, 0x51]);
        assert_eq!(secret.expand(b"quic key", 16).unwrap()[..4], [0x1f, 0x36, 0x96, 0x13]);
        assert_eq!(secret.expand(b"quic iv", 12).unwrap()[..4], [0xfa, 0x04, 0x4b, 0x2f]);
        assert_eq!(secret.expand(b"quic hp", 16).unwrap()[..4], [0x9f, 0x50, 0x44, 0x9e]);
    }

    // RFC 9001, appendix A.5
    #[test]
    fn the_secret_after_a_key_update_matches_the_test_vector() {
        let bytes = [
            0x9a, 0xc3, 0x12, 0xa7, 0xf8, 0x77, 0x46, 0x8e, 0xbe, 0x69, 0x42, 0x27, 0x48, 0xad, 0x00, 0xa1,
            0x54, 0x43, 0xf1, 0x82, 0x03, 0xa0, 0x7d, 0x60, 0x60, 0xf6, 0x88, 0xf3, 0x0f, 0x21, 0x63, 0x2b,
        ];
        let secret = Secret::new(Suite::ChaCha20, &bytes).unwrap();
        assert_eq!(secret.next().unwrap().bytes[..4], [0x12, 0x23, 0x50, 0x47]);
        assert!(Secret::new(Suite::Aes256, &bytes).is_none(), "too short for SHA-384");
    }
}
