//! The waiting data of a connection, for schedulers.

use crate::ByteCount;
use crate::scheduler::NextUp;

/// The waiting data, for a scheduler's view.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backlog {
    pub(crate) backlog: ByteCount,
    pub(crate) deferred: ByteCount,
    pub(crate) retransmissions: ByteCount,
    pub(crate) credit_left: ByteCount,
    pub(crate) credit_total: ByteCount,
    pub(crate) next: Option<NextUp>,
}
