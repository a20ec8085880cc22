//! How what a program sends is treated on its way, in both directions.

use std::time::Duration;

use manyway_session::Urgency;

use crate::codec::{CodecError, Fields};

/// How a connection or a flow is treated on its way, in both directions. By default its behaviour decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Treatment {
    /// Which data go first. `None`: as the traffic is.
    pub class: Option<Urgency>,
    /// How long a datagram is worth sending, in whole milliseconds from 1 to 65 535. `None`: as the class has it; without
    /// effect for a TCP connection.
    pub lifetime: Option<Duration>,
}

impl Treatment {
    // egress 2.6
    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        out.push(match self.class {
            None => BY_BEHAVIOUR,
            Some(Urgency::Interactive) => INTERACTIVE,
            Some(Urgency::Deadline) => DEADLINE,
            Some(Urgency::Bulk) => BULK,
        });
        let lifetime = self.lifetime.map_or(0, |it| it.as_millis().clamp(1, u128::from(u16::MAX)));
        out.extend_from_slice(&u16::try_from(lifetime).unwrap_or(u16::MAX).to_be_bytes());
    }

    pub(crate) fn decode(fields: &mut Fields<'_>) -> Result<Self, CodecError> {
        let class = match fields.u8("class")? {
            BY_BEHAVIOUR => None,
            INTERACTIVE => Some(Urgency::Interactive),
            DEADLINE => Some(Urgency::Deadline),
            BULK => Some(Urgency::Bulk),
            class => return Err(CodecError::Value { field: "class", value: class.into() }),
        };
        let lifetime = fields.u16("lifetime")?;
        let lifetime = (lifetime != 0).then(|| Duration::from_millis(lifetime.into()));
        Ok(Self { class, lifetime })
    }
}

const BY_BEHAVIOUR: u8 = 0;
const INTERACTIVE: u8 = 1;
const DEADLINE: u8 = 2;
const BULK: u8 = 3;
