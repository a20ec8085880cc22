//! The network of sites of a server, on systems that have one.

use std::sync::Arc;

#[cfg(target_os = "linux")]
use manyway::Wire;
use manyway_egress::Gateway;
use manyway_terminal::CommandError;
#[cfg(target_os = "linux")]
use tokio::task::JoinSet;

use crate::args::{GlobalArgs, ServeArgs};
use crate::serving::journal::Journal;
use crate::serving::streams::Egress;

/// The network of sites, if there is one.
#[cfg(target_os = "linux")]
pub(super) type Sites = super::super::egress::sites::server::Sites;

/// Makes the device.
///
/// # Errors
/// As [`Sites::open`].
#[cfg(target_os = "linux")]
pub(super) fn open(global: &GlobalArgs, arguments: &ServeArgs) -> Result<Option<Sites>, CommandError> {
    if global.wire == Wire::Mmsp1 && !arguments.tun.is_empty() {
        return Err(CommandError::usage("--tun is for clients with a ticket or key: leave out --wire mmsp1"));
    }
    Sites::open(global, arguments)
}

/// What clients may use beside files, and the task that passes the packets of this host on to them.
#[cfg(target_os = "linux")]
pub(super) fn start(
    sites: Option<Sites>,
    gateway: Option<Gateway>,
    journal: &Journal,
) -> (Arc<Egress>, JoinSet<()>) {
    let mut tasks = JoinSet::new();
    let Some(sites) = sites else { return (Egress::new(gateway, None), tasks) };
    sites.announce(journal);
    let egress = Egress::new(gateway, Some(sites.hub()));
    tasks.spawn(sites.carry(journal.clone()));
    (egress, tasks)
}

/// Fails where it is asked for.
#[cfg(not(target_os = "linux"))]
pub(super) fn open(_: &GlobalArgs, arguments: &ServeArgs) -> Result<(), CommandError> {
    if arguments.tun.is_empty() {
        return Ok(());
    }
    Err(CommandError::usage("--tun needs Linux"))
}

/// As on Linux, without packets.
#[cfg(not(target_os = "linux"))]
pub(super) fn start((): (), gateway: Option<Gateway>, _: &Journal) -> (Arc<Egress>, ()) {
    (Egress::new(gateway, None), ())
}
