//! What leads from ports of the server to services here.

use std::time::Duration;

use manyway_egress::Treatment;

use super::addresses::Addresses;
use crate::args::{ForwardRule, Protocol};

/// A rule, and how its connections are treated.
pub(super) struct Forwarded {
    pub(super) rule: ForwardRule,
    pub(super) treatment: Treatment,
    /// Where datagrams go.
    pub(super) addresses: Addresses,
}

/// The rule with this number, if it is of this protocol.
pub(super) fn forwarded(rules: &[Forwarded], number: u16, protocol: Protocol) -> Option<&Forwarded> {
    rules.get(usize::from(number)).filter(|forwarded| forwarded.rule.protocol == protocol)
}

/// How long a destination may take to answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
