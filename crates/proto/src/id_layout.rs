//! The form of the connection IDs that an endpoint issues.

use manyway_wire::ConnectionId;

use crate::ConfigError;
use crate::shard::Shard;

/// The length of the connection IDs that an endpoint issues, and their first bytes, by which a load balancer in front of
/// several servers finds the one to which a datagram belongs.
///
/// ```text
/// | prefix, 0 to 5 bytes | random, at least 6 bytes | proof of the issuer, 2 bytes |
///                                ^ the sixth byte of the ID says which shard
/// ```
///
/// The default are 8 bytes without a prefix. A longer ID costs its bytes in each packet that the peer sends.
///
/// A prefix is what QUIC-LB without a key (draft-ietf-quic-load-balancers) needs: the first byte has the number of the
/// balancer's configuration in its first 3 bits and the number of bytes behind it in the others, then comes the ID of the
/// server. The IDs of one server are alike in these bytes, which any observer can see.
///
/// ```
/// use manyway_proto::IdLayout;
///
/// // Configuration 2, 10 bytes behind the first, server 0x0107.
/// let layout = IdLayout::new(11, &[0b010_01010, 0x01, 0x07])?;
/// assert_eq!((layout.length(), layout.prefix()), (11, &[0x4a, 0x01, 0x07][..]));
/// assert_eq!(IdLayout::default().length(), 8);
/// // 6 random bytes and the proof need 8 bytes beside the prefix.
/// assert!(IdLayout::new(10, &[0x4a, 0x01, 0x07]).is_err());
/// # Ok::<(), manyway_proto::ConfigError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdLayout {
    length: u8,
    prefix_length: u8,
    prefix: [u8; Self::LONGEST_PREFIX],
}

impl IdLayout {
    /// Fewest bytes of an ID without a prefix; each byte of a prefix needs one more.
    pub const SHORTEST: usize = ConnectionId::MIN_ISSUED;
    /// Most bytes of an ID.
    pub const LONGEST: usize = ConnectionId::MAX_LENGTH;
    /// Most bytes of a prefix: those before the one that says which shard.
    pub const LONGEST_PREFIX: usize = Shard::IN_ID;

    /// IDs of `length` bytes that begin with `prefix`.
    ///
    /// # Errors
    /// If the prefix is longer than [`LONGEST_PREFIX`](Self::LONGEST_PREFIX), or the length not from
    /// [`SHORTEST`](Self::SHORTEST) and the length of the prefix to [`LONGEST`](Self::LONGEST).
    pub fn new(length: usize, prefix: &[u8]) -> Result<Self, ConfigError> {
        let error = |field, reason| Err(ConfigError { field, reason });
        let mut bytes = [0; Self::LONGEST_PREFIX];
        let (Some(place), Ok(prefix_length)) = (bytes.get_mut(..prefix.len()), u8::try_from(prefix.len()))
        else {
            return error("cid-prefix", format!("must be at most {} bytes", Self::LONGEST_PREFIX));
        };
        place.copy_from_slice(prefix);
        let least = Self::SHORTEST + prefix.len();
        match u8::try_from(length) {
            Ok(length) if (least..=Self::LONGEST).contains(&usize::from(length)) => {
                Ok(Self { length, prefix_length, prefix: bytes })
            }
            _ => error("cid-length", format!("must be from {least} to {} bytes", Self::LONGEST)),
        }
    }

    /// Bytes of an ID, from 8 to 20.
    pub fn length(&self) -> usize {
        self.length.into()
    }

    /// The bytes with which each ID begins, 0 to 5.
    pub fn prefix(&self) -> &[u8] {
        self.prefix.get(..usize::from(self.prefix_length)).unwrap_or_default()
    }
}

impl Default for IdLayout {
    fn default() -> Self {
        Self { length: 8, prefix_length: 0, prefix: [0; Self::LONGEST_PREFIX] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_out_of_range_is_refused() {
        for prefix in 0..8_usize {
            for length in 0..300_usize {
                let layout = IdLayout::new(length, &vec![3; prefix]);
                let fits = prefix <= 5 && (8 + prefix..=20).contains(&length);
                assert_eq!(layout.is_ok(), fits, "{length} {prefix}");
                if let Ok(layout) = layout {
                    assert_eq!((layout.length(), layout.prefix().len()), (length, prefix));
                }
            }
        }
        assert_eq!(IdLayout::new(8, &[]), Ok(IdLayout::default()));
        let error = IdLayout::new(12, &[1; 5]).unwrap_err().to_string();
        assert_eq!(error, "cid-length must be from 13 to 20 bytes");
    }
}
