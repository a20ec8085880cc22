//! Settings of TCP in the network namespace of an agent, which lasts as long as the run.

use std::fs;

/// TCP as of 2002: losses by three repeated acknowledgements (RFC 2581, RFC 2582), and nothing that tells reordering from
/// loss.
const TCP_2002: [(&str, &str); 8] = [
    ("ipv4/tcp_sack", "0"),
    ("ipv4/tcp_dsack", "0"),
    ("ipv4/tcp_recovery", "0"),
    ("ipv4/tcp_early_retrans", "0"),
    ("ipv4/tcp_frto", "0"),
    ("ipv4/tcp_reordering", "3"),
    ("ipv4/tcp_max_reordering", "3"),
    // With time stamps Linux finds that a retransmission was spurious, and takes it back.
    ("ipv4/tcp_timestamps", "0"),
];

/// Makes TCP what it was in 2002.
///
/// # Errors
/// The system refuses a setting.
pub(super) fn set_tcp_of_2002() -> Result<(), String> {
    TCP_2002.into_iter().try_for_each(|(setting, value)| set(setting, value))
}

/// Sets a value below `/proc/sys/net`.
///
/// # Errors
/// The system refuses it.
pub(super) fn set(setting: &str, value: &str) -> Result<(), String> {
    fs::write(format!("/proc/sys/net/{setting}"), value)
        .map_err(|error| format!("setting {setting} to {value}: {error}"))
}
