//! The features of this machine that a contender needs.

use std::fs;

use crate::contender::Contender;
use crate::error::LabError;

/// Checks that the system has what a contender needs.
///
/// # Errors
/// [`LabError::Unsupported`] names what is missing and how to get it.
pub(super) fn check(contender: &Contender) -> Result<(), LabError> {
    let (congestion, is_multipath) = match contender {
        Contender::Tcp { congestion, .. } => (Some(congestion.as_str()), false),
        Contender::Mptcp { congestion } => (Some(congestion.as_str()), true),
        Contender::Possible { congestion } => (congestion.as_deref(), false),
        Contender::Manyway(_) | Contender::Chunks(_) | Contender::Through(_) | Contender::External(_) => {
            (None, false)
        }
    };
    if is_multipath {
        let setting = fs::read_to_string("/proc/sys/net/mptcp/enabled");
        has_multipath(setting.ok().as_deref()).map_err(|reason| skipped(contender, &reason))?;
    }
    congestion.map_or(Ok(()), |name| check_congestion(contender, name))
}

/// Checks that the system has a congestion control.
///
/// # Errors
/// As [`check`].
pub(super) fn check_congestion(contender: &Contender, name: &str) -> Result<(), LabError> {
    has(name).map_err(|reason| skipped(contender, &reason))
}

/// Checks that the system has a congestion control; the error says what is missing and how to get it.
pub(super) fn has(name: &str) -> Result<(), String> {
    let available = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    has_congestion(&available.unwrap_or_default(), name)
}

/// The settings are made for each network namespace; here it counts that the system has them.
fn has_multipath(setting: Option<&str>) -> Result<(), String> {
    match setting {
        Some(_) => Ok(()),
        None => {
            Err("this system has no multipath TCP; it takes Linux 5.6 or later with CONFIG_MPTCP".to_owned())
        }
    }
}

fn has_congestion(available: &str, name: &str) -> Result<(), String> {
    if available.split_whitespace().any(|known| known == name) {
        return Ok(());
    }
    Err(format!(
        "the system's TCP has no {name}, only {}; try `modprobe tcp_{name}`",
        available.split_whitespace().collect::<Vec<_>>().join(", ")
    ))
}

pub(super) fn skipped(contender: &Contender, reason: &str) -> LabError {
    LabError::Unsupported(format!("{contender} is skipped: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_congestion_control_is_named_with_the_way_to_get_it() {
        assert_eq!(has_congestion("reno cubic\n", "cubic"), Ok(()));
        let reason = has_congestion("reno cubic\n", "bbr").unwrap_err();
        assert_eq!(reason, "the system's TCP has no bbr, only reno, cubic; try `modprobe tcp_bbr`");
    }

    #[test]
    fn missing_multipath_tcp_is_reported() {
        assert_eq!(has_multipath(Some("0\n")), Ok(()));
        assert!(has_multipath(None).unwrap_err().contains("CONFIG_MPTCP"));
    }
}
