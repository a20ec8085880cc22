//! Why a command failed, and what the shell is told.

use std::fmt;
use std::io::ErrorKind;

use manyway::interfaces::Exclusion;
use manyway::{BindFailure, CAP_REACHED, ClosedBy, ConnectError, ConnectionError, Undelivered};
use manyway_transfer::{Failure, TransferError};
use serde_json::{Map, Value, json};

use crate::exit_code::ExitCode;
use crate::home::HomeError;
use crate::output::{address, cause, without_numbers, without_secrets};

/// The code by which a server closes a connection that is one too many for it or for the client's rights, or for which a
/// cap leaves it no interface.
pub const REFUSED_BY_LIMIT: u64 = CAP_REACHED;

/// The end of a command that did not do what it should.
#[derive(Debug)]
pub struct CommandError {
    /// What the shell is told.
    pub code: ExitCode,
    /// What the user is told: the cause, and the next step where there is one.
    pub text: String,
    /// What programs are told beside it: how far the command came.
    pub facts: Map<String, Value>,
}

impl CommandError {
    /// An error with a code and a text, without tickets and numbers of the system.
    pub fn new(code: ExitCode, text: impl fmt::Display) -> Self {
        Self { code, text: without_secrets(&without_numbers(&text.to_string())), facts: Map::new() }
    }

    /// The command line makes no sense.
    pub fn usage(text: impl fmt::Display) -> Self {
        Self::new(ExitCode::Usage, text)
    }

    /// A port of a server can not be bound; `--listen` chooses others.
    pub fn of_listen(error: &BindFailure) -> Self {
        let is_choice = |kind| {
            matches!(kind, ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable | ErrorKind::PermissionDenied)
        };
        match error {
            BindFailure::Socket(at) if is_choice(at.source.kind()) => {
                let text = error.to_string().replace(&at.local.to_string(), &address(at.local.address));
                let next = "--listen ADDR:PORT chooses another address or port";
                Self::new(ExitCode::Failed, format!("{text}; {next}"))
            }
            BindFailure::Socket(_) | BindFailure::System(_) | BindFailure::Config(_) | _ => {
                Self::new(ExitCode::Failed, error)
            }
        }
    }

    /// The same error with what is known of the work all the same.
    pub fn with_facts(self, facts: Map<String, Value>) -> Self {
        Self { facts, ..self }
    }

    /// The error as the one document for programs, with its facts.
    pub fn to_json(&self) -> Value {
        let mut document = self.facts.clone();
        let error = json!({ "code": self.code.number(), "kind": self.code.name(), "text": self.text });
        document.insert("error".to_owned(), error);
        document.into()
    }

    /// A transfer ended early: if the connection is to blame, its own reason says more.
    pub fn of_transfer(error: &TransferError, connection: Option<ConnectionError>) -> Self {
        match connection {
            Some(
                reason @ (ConnectionError::Authentication { .. }
                | ConnectionError::Closed { by: ClosedBy::Peer, code: REFUSED_BY_LIMIT, .. }
                | ConnectionError::Closed { by: ClosedBy::Us, code: CAP_REACHED, .. }),
            ) => Self::of_connection(&reason),
            Some(reason) if error.is_resumable() => Self::new(ExitCode::Incomplete, broken(error, &reason)),
            _ => Self::new(ExitCode::from(error), error),
        }
    }

    /// As [`Self::of_transfer`] for work of which nothing is kept, so that there is nothing to take up again.
    pub fn of_measurement(error: &TransferError, connection: Option<ConnectionError>) -> Self {
        let told = Self::of_transfer(error, connection.clone());
        match connection {
            Some(reason) if told.code == ExitCode::Incomplete => {
                Self::new(ExitCode::Failed, broken(error, &reason))
            }
            _ if told.code == ExitCode::Incomplete => Self::new(ExitCode::Failed, error),
            _ => told,
        }
    }

    fn of_connection(error: &ConnectionError) -> Self {
        #[expect(clippy::wildcard_enum_match_arm, reason = "the protocol's list is open")]
        match error {
            ConnectionError::Authentication { reason, .. } => Self::new(
                ExitCode::Authentication,
                format!(
                    "{reason}; check that the ticket is the one that the server gave out, neither expired nor revoked, \
                     or that the server lets this client's key in: `manyway keys list` there tells"
                ),
            ),
            ConnectionError::Closed { by: ClosedBy::Peer, code: REFUSED_BY_LIMIT, reason } => {
                Self::new(ExitCode::Policy, format!("the server refused: {reason}"))
            }
            ConnectionError::Closed { by: ClosedBy::Us, code: CAP_REACHED, reason } => Self::new(
                ExitCode::Policy,
                format!("{reason}, and no other interface leads to the server; {RAISE}"),
            ),
            ConnectionError::ConnectTimeout => Self::new(
                ExitCode::Unreachable,
                "no answer from any address of the server; is `manyway serve` running there, and does its firewall \
                 let UDP to its port through?",
            ),
            ConnectionError::Unreachable { remote, undelivered } => {
                let text = error.to_string().replace(&remote.to_string(), &address(*remote));
                let next = match undelivered {
                    Undelivered::PortClosed => "; is `manyway serve` running there, and at this port?",
                    Undelivered::Unreachable => "",
                };
                Self::new(ExitCode::Unreachable, text + next)
            }
            other => Self::new(ExitCode::Failed, other),
        }
    }
}

/// What to do about a cap.
const RAISE: &str = "`manyway caps` shows what was used, and --cap raises a cap";

/// Why a stream broke, with what the connection says of it.
fn broken(error: &TransferError, reason: &ConnectionError) -> String {
    let (text, reason) = (error.to_string(), reason.to_string());
    // The stream may have said it already.
    if text.contains(&reason) { format!("connection lost: {reason}") } else { format!("{text}: {reason}") }
}

impl From<HomeError> for CommandError {
    fn from(error: HomeError) -> Self {
        Self::new(ExitCode::Failed, error)
    }
}

impl From<ConnectError> for CommandError {
    fn from(error: ConnectError) -> Self {
        match &error {
            ConnectError::Failed(
                ConnectionError::IdleTimeout | ConnectionError::NoPath | ConnectionError::Reset,
            ) => Self::new(ExitCode::Unreachable, &error),
            ConnectError::Failed(reason) => Self::of_connection(reason),
            ConnectError::NoInterface(excluded)
                if excluded.iter().any(|it| matches!(it.reason, Exclusion::CapReached { .. })) =>
            {
                Self::new(ExitCode::Policy, format!("{error}; {RAISE}"))
            }
            ConnectError::Resolve(_) | ConnectError::NoInterface(_) | ConnectError::Start(_) => {
                Self::new(ExitCode::Unreachable, &error)
            }
            ConnectError::Socket(_) | ConnectError::Config(_) | ConnectError::EndpointClosed | _ => {
                Self::new(ExitCode::Failed, &error)
            }
        }
    }
}

impl From<ConnectionError> for CommandError {
    fn from(error: ConnectionError) -> Self {
        Self::of_connection(&error)
    }
}

impl From<BindFailure> for CommandError {
    fn from(error: BindFailure) -> Self {
        Self::new(ExitCode::Failed, error)
    }
}

impl From<Failure> for CommandError {
    fn from(error: Failure) -> Self {
        Self::new(ExitCode::Failed, error)
    }
}

impl From<std::io::Error> for CommandError {
    /// Nothing but standard output breaks as a pipe here: its reader has seen enough (`| head`).
    fn from(error: std::io::Error) -> Self {
        let is_broken = error.kind() == ErrorKind::BrokenPipe;
        let code = if is_broken { ExitCode::OutputClosed } else { ExitCode::Failed };
        Self::new(code, cause(&error))
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for CommandError {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn the_reason_of_a_broken_transfer_is_given_once() {
        let text = |source| {
            let error = TransferError::Stream { doing: "reading", source };
            let error = CommandError::of_transfer(&error, Some(ConnectionError::NoPath));
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
    fn a_measurement_that_broke_has_failed_and_is_not_taken_up_again() {
        let error = TransferError::Stream { doing: "sending filler", source: io::Error::other("reset") };
        let told = CommandError::of_measurement(&error, Some(ConnectionError::NoPath));
        let text = format!("connection lost while sending filler: reset: {}", ConnectionError::NoPath);
        assert_eq!((told.code, told.text), (ExitCode::Failed, text));
        let refused =
            ConnectionError::Closed { by: ClosedBy::Peer, code: REFUSED_BY_LIMIT, reason: "2".into() };
        assert_eq!(CommandError::of_measurement(&error, Some(refused)).code, ExitCode::Policy);
        for reason in [ConnectionError::IdleTimeout, ConnectionError::NoPath, ConnectionError::Reset] {
            assert_eq!(CommandError::from(reason.clone()).code, ExitCode::Failed);
            assert_eq!(CommandError::from(ConnectError::Failed(reason)).code, ExitCode::Unreachable);
        }
    }

    #[test]
    fn programs_are_told_the_code_its_name_and_the_text() {
        let error = CommandError::usage("no such thing");
        let expected = json!({ "error": { "code": 2, "kind": "usage", "text": "no such thing" } });
        assert_eq!(error.to_json(), expected);
        let facts = Map::from_iter([("bytes".to_owned(), 7.into())]);
        let with_facts = error.with_facts(facts).to_json();
        assert_eq!((&with_facts["bytes"], &with_facts["error"]), (&7.into(), &expected["error"]));
    }

    #[test]
    fn a_limit_of_the_server_is_a_policy() {
        let closed = |code| ConnectionError::Closed { by: ClosedBy::Peer, code, reason: "2 at once".into() };
        let limit = CommandError::from(closed(REFUSED_BY_LIMIT));
        assert_eq!((limit.code, limit.text.as_str()), (ExitCode::Policy, "the server refused: 2 at once"));
        let cap = ConnectionError::Closed {
            by: ClosedBy::Us,
            code: CAP_REACHED,
            reason: "wwan0: cap of 5 GB reached, again from 2026-12-01".into(),
        };
        let told = CommandError::from(cap.clone());
        assert_eq!(told.code, ExitCode::Policy);
        assert!(told.text.starts_with("wwan0: cap of 5 GB reached, again from 2026-12-01, and"), "{told}");
        let broken = TransferError::Stream { doing: "reading", source: io::Error::other("closed") };
        for end in [CommandError::of_transfer, CommandError::of_measurement] {
            assert_eq!(end(&broken, Some(cap.clone())).text, told.text);
        }
        let in_transfer = |code| CommandError::of_transfer(&broken, Some(closed(code))).code;
        assert_eq!(in_transfer(REFUSED_BY_LIMIT), ExitCode::Policy);
        assert_eq!(in_transfer(0), ExitCode::Incomplete);
    }

    #[test]
    fn a_reader_that_has_seen_enough_is_told_by_the_status_alone() {
        let broken = || CommandError::from(io::Error::from(ErrorKind::BrokenPipe));
        assert_eq!(broken().code, ExitCode::OutputClosed);
        for code in [ExitCode::Ok, ExitCode::Failed] {
            assert_eq!(code.after_printing(Err(broken())).unwrap(), code, "the work was done");
        }
        let full = CommandError::from(io::Error::from(ErrorKind::StorageFull));
        assert_eq!(full.text, "the disk is full");
        assert_eq!(ExitCode::Ok.after_printing(Err(full)).unwrap_err().code, ExitCode::Failed);
    }
}
