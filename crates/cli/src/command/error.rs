//! Maps failures of connections and transfers to exit statuses and messages.

use std::io::ErrorKind;

use manyway::interfaces::Exclusion;
use manyway::{BindFailure, CAP_REACHED, ClosedBy, ConnectError, ConnectionError, Undelivered};
use manyway_terminal::{CommandError, ExitCode};
use manyway_transfer::{Reason, Report, TransferError};

use super::port_holder;
use crate::args::Protocol;
use crate::home::HomeError;
use crate::output::address;

/// The code with which a server closes a connection beyond its own limit or that of the client's rights, or one without
/// an interface left because of a cap.
pub const REFUSED_BY_LIMIT: u64 = CAP_REACHED;

/// A port of a server cannot be bound; `--listen` selects others.
pub fn of_listen(error: &BindFailure) -> CommandError {
    let why = |protocol: Protocol, at, source, remedy| {
        let why = port_holder::why_not_bound((protocol, at), source, remedy);
        CommandError::failed(format!("{} {}: {why}", protocol.name().to_uppercase(), address(at)))
    };
    match error {
        BindFailure::Socket(at) if is_of_address(&at.source) => {
            let remedy = "--listen ADDR:PORT chooses another address or port";
            why(Protocol::Udp, at.local.address, &at.source, remedy)
        }
        BindFailure::Tcp { address: at, source } => {
            why(Protocol::Tcp, *at, source, "--listen ADDR:PORT and --tls-port PORT choose others")
        }
        BindFailure::Socket(_) | BindFailure::System(_) | BindFailure::Config(_) | _ => {
            CommandError::failed(error)
        }
    }
}

/// Whether another address or port may do.
fn is_of_address(source: &std::io::Error) -> bool {
    matches!(source.kind(), ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable | ErrorKind::PermissionDenied)
}

/// A transfer ended early: if the connection ended, its reason is more precise.
pub fn of_transfer(error: &TransferError, connection: Option<ConnectionError>) -> CommandError {
    match connection {
        Some(
            reason @ (ConnectionError::Authentication { .. }
            | ConnectionError::Closed { by: ClosedBy::Peer, code: REFUSED_BY_LIMIT, .. }
            | ConnectionError::Closed { by: ClosedBy::Us, code: CAP_REACHED, .. }),
        ) => of_connection(reason),
        Some(reason) if error.is_resumable() => {
            CommandError::new(ExitCode::Incomplete, broken(error, &reason))
        }
        _ if error.is_resumable() => CommandError::new(ExitCode::Incomplete, error),
        _ => CommandError::failed(error),
    }
}

/// As [`of_transfer`] for work that leaves no result, so that there is nothing to resume.
pub fn of_measurement(error: &TransferError, connection: Option<ConnectionError>) -> CommandError {
    let told = of_transfer(error, connection.clone());
    match connection {
        Some(reason) if told.code == ExitCode::Incomplete => {
            CommandError::new(ExitCode::Failed, broken(error, &reason))
        }
        _ if told.code == ExitCode::Incomplete => CommandError::failed(error),
        _ => told,
    }
}

/// The credential by which this end authenticated itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credential {
    /// The secret of a ticket.
    Ticket,
    /// The user's own key.
    Key,
    /// A ticket or a key.
    Unknown,
}

/// The server refused this end's ticket or key; `None` if an authentication failed for another reason.
pub fn of_refusal(reason: &str, credential: Credential) -> Option<CommandError> {
    let is_access_denied = reason.contains(ACCESS_DENIED);
    let text = match credential {
        Credential::Ticket => {
            "the server refused this ticket: it is revoked, expired or another server's; `manyway keys list tickets` \
             there shows those that it accepts"
        }
        Credential::Key => {
            "the server refused this client's key: it was never added there, or it was removed; `manyway keys show` here \
             prints it, `manyway keys add client NAME KEY` there lets it in"
        }
        Credential::Unknown => {
            "the server refused this ticket or key: it is revoked, expired or another server's; `manyway keys list` \
             there shows those that it accepts, `manyway keys add client` there lets a key in"
        }
    };
    is_access_denied
        .then(|| CommandError::new(ExitCode::Authentication, format!("{text} (TLS {ACCESS_DENIED})")))
}

/// How a server reports that it does not accept a client's key (RFC 8446, section 6.2: `access_denied`).
const ACCESS_DENIED: &str = "alert 49";

/// A connection ended.
pub fn of_connection(error: ConnectionError) -> CommandError {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the protocol's list is open")]
    match error {
        ConnectionError::Authentication { reason, shown } => of_refusal(&reason, Credential::Unknown)
            .unwrap_or_else(|| {
                let next = if shown.is_some() {
                    "; check that the ticket is this server's: `manyway keys show --ticket` there prints it"
                } else {
                    "; `manyway keys list` there shows which tickets and keys it accepts"
                };
                CommandError::new(ExitCode::Authentication, reason + next)
            }),
        ConnectionError::Closed { by: ClosedBy::Peer, code: REFUSED_BY_LIMIT, reason } => {
            CommandError::new(ExitCode::Policy, format!("the server refused: {reason}"))
        }
        ConnectionError::Closed { by: ClosedBy::Us, code: CAP_REACHED, reason } => CommandError::new(
            ExitCode::Policy,
            format!("{reason}, and no other interface leads to the server; {RAISE}"),
        ),
        ConnectionError::ConnectTimeout => CommandError::new(
            ExitCode::Unreachable,
            "no answer from any address of the server; is `manyway serve` running there, and does its firewall \
                 let UDP to its port through?",
        ),
        ConnectionError::Unreachable { remote, ref undelivered } => {
            let text = error.to_string().replace(&remote.to_string(), &address(remote));
            let next = match undelivered {
                Undelivered::PortClosed => "; is `manyway serve` running there, and at this port?",
                Undelivered::Unreachable => "",
                Undelivered::NoNeighbour => "; is the host on, and is this its address?",
            };
            CommandError::new(ExitCode::Unreachable, text + next)
        }
        other => CommandError::failed(other),
    }
}

/// A connection cannot be established.
pub fn of_connect(error: ConnectError) -> CommandError {
    match error {
        ConnectError::Failed(
            ConnectionError::IdleTimeout | ConnectionError::NoPath | ConnectionError::Reset,
        ) => CommandError::new(ExitCode::Unreachable, error),
        ConnectError::Failed(reason) => of_connection(reason),
        ConnectError::NoInterface(ref excluded)
            if excluded.iter().any(|it| matches!(it.reason, Exclusion::CapReached { .. })) =>
        {
            CommandError::new(ExitCode::Policy, format!("{error}; {RAISE}"))
        }
        ConnectError::Resolve(_) | ConnectError::NoInterface(_) | ConnectError::Start(_) => {
            CommandError::new(ExitCode::Unreachable, error)
        }
        ConnectError::Socket(_) | ConnectError::Config(_) | ConnectError::EndpointClosed | _ => {
            CommandError::failed(error)
        }
    }
}

/// The code for a transfer that completed: incomplete if the same command can resume all failed files.
pub fn code_of_report(report: &Report) -> ExitCode {
    let is_resumable = |reason| matches!(reason, Reason::DiskFull | Reason::Busy | Reason::Changed);
    if report.is_complete() {
        ExitCode::Ok
    } else if report.failed.iter().all(|failed| is_resumable(failed.failure.reason)) {
        ExitCode::Incomplete
    } else {
        ExitCode::Failed
    }
}

/// What to do about a reached cap.
pub(super) const RAISE: &str = "`manyway caps` shows what was used, and --cap raises a cap";

/// Why a stream broke, with the reason of the connection's end.
fn broken(error: &TransferError, reason: &ConnectionError) -> String {
    let (text, reason) = (error.to_string(), reason.to_string());
    // The stream may have named the reason already.
    if text.contains(&reason) { format!("connection lost: {reason}") } else { format!("{text}: {reason}") }
}

impl From<HomeError> for CommandError {
    fn from(error: HomeError) -> Self {
        Self::failed(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn the_reason_of_a_broken_transfer_is_printed_once() {
        let text = |source| {
            let error = TransferError::Stream { doing: "reading", source };
            let error = of_transfer(&error, Some(ConnectionError::NoPath));
            assert_eq!(error.code, ExitCode::Incomplete);
            error.text
        };
        let path = ConnectionError::NoPath;
        let once = format!("connection lost: {path}");
        assert_eq!(text(io::Error::other(ConnectionError::NoPath)), once);
        let both = format!("connection lost while reading: reset: {path}");
        assert_eq!(text(io::Error::other("reset")), both);
    }

    #[test]
    fn a_broken_measurement_has_failed_and_is_not_resumable() {
        let error = TransferError::Stream { doing: "sending filler", source: io::Error::other("reset") };
        let told = of_measurement(&error, Some(ConnectionError::NoPath));
        let text = format!("connection lost while sending filler: reset: {}", ConnectionError::NoPath);
        assert_eq!((told.code, told.text), (ExitCode::Failed, text));
        let refused =
            ConnectionError::Closed { by: ClosedBy::Peer, code: REFUSED_BY_LIMIT, reason: "2".into() };
        assert_eq!(of_measurement(&error, Some(refused)).code, ExitCode::Policy);
        for reason in [ConnectionError::IdleTimeout, ConnectionError::NoPath, ConnectionError::Reset] {
            assert_eq!(of_connection(reason.clone()).code, ExitCode::Failed);
            assert_eq!(of_connect(ConnectError::Failed(reason)).code, ExitCode::Unreachable);
        }
    }

    #[test]
    fn a_refused_ticket_or_key_says_first_what_it_means() {
        let refused = |reason: &str| {
            of_connection(ConnectionError::Authentication { reason: reason.to_owned(), shown: None })
        };
        let alert = "the key that the peer showed is not accepted here (TLS alert 49)";
        let told = refused(alert);
        assert_eq!(told.code, ExitCode::Authentication);
        assert_eq!(
            told.text,
            "the server refused this ticket or key: it is revoked, expired or another server's; `manyway keys list` \
             there shows those that it accepts, `manyway keys add client` there lets a key in (TLS alert 49)"
        );
        // The text of servers of earlier versions.
        assert_eq!(refused("TLS handshake failed with alert 49: not accepted").text, told.text);
        let text = |credential| of_refusal(alert, credential).unwrap().text;
        assert!(
            text(Credential::Ticket).starts_with("the server refused this ticket: it is revoked, expired or")
        );
        assert!(text(Credential::Key).starts_with("the server refused this client's key: "));
        let revoked = refused("the ticket alice is no longer valid: it was revoked");
        assert!(
            revoked.text.starts_with("the ticket alice is no longer valid: it was revoked; "),
            "{revoked}"
        );
    }

    #[test]
    fn a_limit_of_the_server_is_a_policy() {
        let closed = |code| ConnectionError::Closed { by: ClosedBy::Peer, code, reason: "2 at once".into() };
        let limit = of_connection(closed(REFUSED_BY_LIMIT));
        assert_eq!((limit.code, limit.text.as_str()), (ExitCode::Policy, "the server refused: 2 at once"));
        let cap = ConnectionError::Closed {
            by: ClosedBy::Us,
            code: CAP_REACHED,
            reason: "wwan0: cap of 5 GB reached, again from 2026-12-01".into(),
        };
        let told = of_connection(cap.clone());
        assert_eq!(told.code, ExitCode::Policy);
        assert!(told.text.starts_with("wwan0: cap of 5 GB reached, again from 2026-12-01, and"), "{told}");
        let broken = TransferError::Stream { doing: "reading", source: io::Error::other("closed") };
        for end in [of_transfer, of_measurement] {
            assert_eq!(end(&broken, Some(cap.clone())).text, told.text);
        }
        let in_transfer = |code| of_transfer(&broken, Some(closed(code))).code;
        assert_eq!(in_transfer(REFUSED_BY_LIMIT), ExitCode::Policy);
        assert_eq!(in_transfer(0), ExitCode::Incomplete);
    }
}
