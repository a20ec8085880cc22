//! Packet protection, implemented a second time from the specification (spec 4.7, 4.8, 4.16): an attacker with the keys
//! must not be limited by the behaviour of the machine under test.

use std::fmt;

use manyway_proto::{ConnectionId, PathId, Side};
use manyway_wire::mmsp2::{HeaderForm, decode_protected, number_length, packet_number};
use ring::aead::{AES_128_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey, quic};
use ring::hkdf;

/// The salt of the first keys (RFC 9001, section 5.2).
const INITIAL_SALT: [u8; 20] = [
    0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad, 0xcc,
    0xbb, 0x7f, 0x0a,
];
const TAG: usize = 16;

/// A cipher with keys of 256 bits of secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cipher {
    /// AES-128-GCM.
    Aes,
    /// ChaCha20-Poly1305.
    ChaCha,
}

/// The keys of one direction.
pub struct Keys {
    packet: LessSafeKey,
    header: quic::HeaderProtectionKey,
    iv: [u8; 12],
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("packet", &self.packet).finish_non_exhaustive()
    }
}

/// A decrypted packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// Its path, as given by the caller.
    pub path: PathId,
    /// Its full packet number.
    pub number: u64,
    /// Its blocks.
    pub payload: Vec<u8>,
}

struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

impl Keys {
    /// The keys of Initial packets that `side` sends.
    pub fn initial(original_destination: &ConnectionId, side: Side) -> Self {
        let secret =
            hkdf::Salt::new(hkdf::HKDF_SHA256, &INITIAL_SALT).extract(original_destination.as_slice());
        let label: &[u8] = match side {
            Side::Client => b"client in",
            Side::Server => b"server in",
        };
        let secret: [u8; 32] = expand(&secret, label);
        Self::from_secret(&secret, Cipher::Aes)
    }

    /// The keys that follow from a traffic secret of TLS.
    #[expect(clippy::expect_used, clippy::missing_panics_doc, reason = "the lengths are those of the cipher")]
    pub fn from_secret(secret: &[u8], cipher: Cipher) -> Self {
        let secret = hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, secret);
        let iv = expand(&secret, b"quic iv");
        let (packet, header) = match cipher {
            Cipher::Aes => {
                let (key, header): ([u8; 16], [u8; 16]) =
                    (expand(&secret, b"quic key"), expand(&secret, b"quic hp"));
                let header = quic::HeaderProtectionKey::new(&quic::AES_128, &header);
                (UnboundKey::new(&AES_128_GCM, &key), header)
            }
            Cipher::ChaCha => {
                let (key, header): ([u8; 32], [u8; 32]) =
                    (expand(&secret, b"quic key"), expand(&secret, b"quic hp"));
                let header = quic::HeaderProtectionKey::new(&quic::CHACHA20, &header);
                (UnboundKey::new(&CHACHA20_POLY1305, &key), header)
            }
        };
        let packet = LessSafeKey::new(packet.expect("a key of the cipher's length"));
        Self { packet, header: header.expect("a key of the cipher's length"), iv }
    }

    fn nonce(&self, path: PathId, number: u64) -> Nonce {
        let mut nonce = self.iv;
        let counter = path.0.to_be_bytes().into_iter().chain(number.to_be_bytes());
        nonce.iter_mut().zip(counter).for_each(|(byte, other)| *byte ^= other);
        Nonce::assume_unique_for_key(nonce)
    }

    /// Seals the packet in `buffer`, whose number of 4 bytes begins at `offset`.
    #[expect(
        clippy::expect_used,
        clippy::missing_panics_doc,
        reason = "a forger writes packets of usual lengths"
    )]
    pub fn seal(&self, path: PathId, number: u64, offset: usize, buffer: &mut Vec<u8>) {
        let body = buffer.split_off(offset + 4);
        let mut sealed = body;
        let tag =
            self.packet.seal_in_place_separate_tag(self.nonce(path, number), Aad::from(&buffer), &mut sealed);
        buffer.extend_from_slice(&sealed);
        buffer.extend_from_slice(tag.expect("not too long for the cipher").as_ref());
        self.mask(buffer, offset, |_| 4).expect("long enough for a sample");
    }

    /// Decrypts a packet that begins `bytes` and whose number begins at `offset`; `None` if the keys do not match.
    pub fn open(&self, path: PathId, offset: usize, expected: u64, bytes: &[u8]) -> Option<Opened> {
        let mut packet = bytes.to_vec();
        let length = self.mask(&mut packet, offset, number_length)?;
        let truncated =
            packet.get(offset..offset + length)?.iter().fold(0_u32, |sum, byte| sum << 8 | u32::from(*byte));
        let number = packet_number::expand(truncated, length, expected);
        let mut payload = packet.split_off(offset + length);
        let nonce = self.nonce(path, number);
        self.packet.open_in_place(nonce, Aad::from(&packet), &mut payload).ok()?;
        payload.truncate(payload.len() - TAG);
        Some(Opened { path, number, payload })
    }

    /// Applies or removes header protection; `length` returns that of the number from the clear first byte.
    fn mask(&self, packet: &mut [u8], offset: usize, length: impl Fn(u8) -> usize) -> Option<usize> {
        let sample = packet.get(offset + 4..offset + 20)?;
        let [first, rest @ ..] = self.header.new_mask(sample).ok()?;
        let head = packet.first_mut()?;
        *head ^= first & if *head & 0x80 == 0 { 0x1f } else { 0x0f };
        let length = length(*head);
        let number = packet.get_mut(offset..offset + length)?;
        number.iter_mut().zip(rest).for_each(|(byte, mask)| *byte ^= mask);
        Some(length)
    }
}

/// The packets of a datagram between endpoints whose IDs have 8 bytes: their ranges and headers.
pub(super) fn packets(datagram: &[u8]) -> Vec<(HeaderForm, usize, &[u8])> {
    let (mut found, mut rest) = (Vec::new(), datagram);
    while let Ok(packet) = decode_protected(rest, 8) {
        let (this, next) = rest.split_at(packet.length.min(rest.len()));
        found.push((packet.form, packet.number_offset, this));
        rest = next;
    }
    found
}

#[expect(clippy::expect_used, reason = "the lengths are fixed and short")]
fn expand<const LENGTH: usize>(secret: &hkdf::Prk, label: &[u8]) -> [u8; LENGTH] {
    let length = u16::try_from(LENGTH).expect("short").to_be_bytes();
    let name = u8::try_from(6 + label.len()).expect("short");
    let info = [&length[..], &[name], b"tls13 ", label, &[0]];
    let mut bytes = [0; LENGTH];
    let output = secret.expand(&info, Length(LENGTH)).and_then(|output| output.fill(&mut bytes));
    output.expect("less than 255 hashes");
    bytes
}
