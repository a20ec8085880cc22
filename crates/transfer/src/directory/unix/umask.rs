//! The umask of the user.

use std::sync::OnceLock;

use rustix::fs::Mode;

use super::number;
use crate::entry::MODE_MASK;

/// The umask of this process at the time of the first call.
// transfer 5.4
pub(crate) fn umask() -> u16 {
    static UMASK: OnceLock<u16> = OnceLock::new();
    *UMASK.get_or_init(|| told_by_the_system().unwrap_or_else(exchanged) & MODE_MASK)
}

/// Linux reports it without changing it.
fn told_by_the_system() -> Option<u16> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
    u16::from_str_radix(mask.trim(), 8).ok()
}

/// Elsewhere it can only be exchanged: for a moment it is the strictest one.
fn exchanged() -> u16 {
    let mask = rustix::process::umask(Mode::RWXG | Mode::RWXO);
    rustix::process::umask(mask);
    number(mask.as_raw_mode())
}
