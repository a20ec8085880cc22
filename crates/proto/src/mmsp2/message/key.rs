//! The identity of a message in the record of a packet.

use manyway_wire::mmsp2::MessageId;

use crate::packet::content::MessageKey;

impl From<MessageId> for MessageKey {
    fn from(id: MessageId) -> Self {
        // Numbers have 62 bits.
        Self((id.number << 1) | u64::from(id.unordered))
    }
}

impl From<MessageKey> for MessageId {
    fn from(key: MessageKey) -> Self {
        Self { number: key.0 >> 1, unordered: key.0 & 1 == 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identity_of_a_message_is_recovered_from_its_key() {
        for id in [MessageId::ordered(0), MessageId::unordered(0), MessageId::ordered((1 << 62) - 1)] {
            assert_eq!(MessageId::from(MessageKey::from(id)), id);
        }
    }
}
