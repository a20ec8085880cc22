//! Configures multipath TCP in the network namespace.

use std::fs;
use std::process::Command;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::namespace;
use crate::agent::document::{End, Multipath};

/// Configures the path manager for every address of this end, and the congestion control of subflows.
///
/// The client opens a subflow from each of its addresses. If the server has several addresses it announces them, and
/// the client opens a subflow to each.
pub(super) fn prepare(end: End, multipath: &Multipath, congestion: &str) -> Result<(), String> {
    namespace::set("mptcp/enabled", "1")?;
    // Subflows that the system opens itself use that of the connection, on older systems that of the namespace. The
    // latter is limited to those that the system allows to all users; `review` checks the result.
    let _ = namespace::set("ipv4/tcp_congestion_control", congestion);
    ip(&["mptcp", "limits", "set", "subflows", MOST, "add_addr_accepted", MOST])?;
    ip(&["mptcp", "endpoint", "flush"])?;
    let flags: &[&str] = match (end, multipath.is_meshed) {
        (End::Client, true) => &["subflow", "fullmesh"],
        (End::Client, false) => &["subflow"],
        (End::Server, true) => &["signal"],
        (End::Server, false) => return Ok(()),
    };
    for (address, interface) in &multipath.locals {
        let address = address.to_string();
        ip(&[&["mptcp", "endpoint", "add", &address, "dev", interface], flags].concat())?;
    }
    Ok(())
}

/// Waits until this many connections have all their subflows.
pub(super) async fn settle(end: End, multipath: &Multipath, connections: usize) -> Vec<String> {
    let expected = multipath.subflows.saturating_sub(1) * connections;
    let deadline = Instant::now() + SETTLE;
    loop {
        let joined = joined_subflows(end);
        if joined >= expected {
            return Vec::new();
        }
        if Instant::now() >= deadline {
            return vec![format!(
                "only {joined} of {expected} further subflows of multipath TCP were there at the begin"
            )];
        }
        sleep(LOOK).await;
    }
}

/// Reports subflows without the requested congestion control, as far as `ss` shows them.
pub(super) async fn review(congestion: &str) -> Vec<String> {
    let output = tokio::process::Command::new("ss").args(["-tinH", "state", "established"]).output().await;
    let Ok(output) = output else {
        return vec!["the congestion control of subflows was not checked: there is no `ss`".to_owned()];
    };
    judged(&String::from_utf8_lossy(&output.stdout), congestion).into_iter().collect()
}

/// The remarks from the lines of `ss`. Details of a connection are on lines that begin with a space.
fn judged(text: &str, congestion: &str) -> Option<String> {
    let details: Vec<&str> = text.lines().filter(|line| line.starts_with(char::is_whitespace)).collect();
    if details.is_empty() {
        return Some("the congestion control of subflows was not checked: `ss` showed none".to_owned());
    }
    let is_other = |line: &&&str| !line.split_whitespace().any(|word| word == congestion);
    let others: Vec<String> =
        details.iter().filter(is_other).map(|line| line.trim().chars().take(60).collect()).collect();
    (!others.is_empty()).then(|| {
        format!(
            "{} subflows had another congestion control than {congestion}: {}",
            others.len(),
            others.join("; ")
        )
    })
}

/// Complete subflows of this namespace's connections, beside their first.
fn joined_subflows(end: End) -> usize {
    let counter = match end {
        End::Client => "MPJoinSynAckRx",
        End::Server => "MPJoinAckRx",
    };
    // The names of counters are on one line, their values on the next.
    let Ok(text) = fs::read_to_string("/proc/self/net/netstat") else { return 0 };
    let mut lines = text.lines().filter(|line| line.starts_with("MPTcpExt:"));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return 0 };
    let mut counters = names.split_whitespace().zip(values.split_whitespace());
    counters.find(|(name, _)| *name == counter).and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
}

fn ip(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(arguments).output().map_err(|error| format!("ip: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(format!("ip {}: {}", arguments.join(" "), text.trim()))
}

/// Most subflows beside the first, and addresses of the server; the system's own limit.
const MOST: &str = "8";
/// Time for subflows to be established.
const SETTLE: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_list_of_subflows_is_no_proof() {
        assert!(judged("", "cubic").unwrap().contains("was not checked"));
    }

    #[test]
    fn connections_with_another_congestion_control_are_found() {
        let text = "0 0 10.0.0.1:1 10.0.0.2:2\n\t cubic wscale:7,7 rto:204\n0 0 10.0.1.1:1 10.0.1.2:2\n\t bbr wscale:7,7\n";
        let expected = "1 subflows had another congestion control than cubic: bbr wscale:7,7";
        assert_eq!(judged(text, "cubic").as_deref(), Some(expected));
        let cubic: String = text.lines().take(2).map(|line| format!("{line}\n")).collect();
        assert_eq!(judged(&cubic, "cubic"), None);
    }
}
