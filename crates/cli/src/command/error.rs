//! Why a command failed, and what the shell is told.

use std::fmt;

use manyway::{BindFailure, ConnectError, ConnectionError};
use manyway_transfer::{Failure, TransferError};

use crate::exit_code::ExitCode;

/// The end of a command that did not do what it should.
#[derive(Debug)]
pub struct CommandError {
    /// What the shell is told.
    pub code: ExitCode,
    /// What the user is told: the cause, and the next step where there is one.
    pub text: String,
}

impl CommandError {
    /// An error with a code and a text.
    pub fn new(code: ExitCode, text: impl fmt::Display) -> Self {
        Self { code, text: text.to_string() }
    }

    /// The command line makes no sense.
    pub fn usage(text: impl fmt::Display) -> Self {
        Self::new(ExitCode::Usage, text)
    }

    /// A transfer ended early: if the connection is to blame, its own reason says more.
    pub fn of_transfer(error: &TransferError, connection: Option<ConnectionError>) -> Self {
        match connection {
            Some(reason @ ConnectionError::Authentication { .. }) => Self::of_connection(&reason),
            Some(reason) if error.is_resumable() => {
                let (mut text, reason) = (error.to_string(), reason.to_string());
                // The stream may have said it already.
                if !text.contains(&reason) {
                    text += &format!(": {reason}");
                }
                Self::new(ExitCode::Incomplete, text + "; run the same command again")
            }
            _ => Self::new(ExitCode::from(error), error),
        }
    }

    fn of_connection(error: &ConnectionError) -> Self {
        #[expect(clippy::wildcard_enum_match_arm, reason = "the protocol's list is open")]
        match error {
            ConnectionError::Authentication { reason } => Self::new(
                ExitCode::Authentication,
                format!("{reason}; check that the ticket is the one that `manyway serve` prints now"),
            ),
            ConnectionError::ConnectTimeout => Self::new(
                ExitCode::Unreachable,
                "no answer from any address of the ticket; is `manyway serve` running there, and does its firewall \
                 let UDP to its port through?",
            ),
            ConnectionError::IdleTimeout | ConnectionError::NoPath | ConnectionError::Reset => {
                Self::new(ExitCode::Incomplete, error)
            }
            other => Self::new(ExitCode::Failed, other),
        }
    }
}

impl From<ConnectError> for CommandError {
    fn from(error: ConnectError) -> Self {
        match &error {
            ConnectError::Failed(reason) => Self::of_connection(reason),
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
    /// Nothing but standard output breaks as a pipe here; a reader that has seen enough (`| head`) is no failure.
    fn from(error: std::io::Error) -> Self {
        let is_broken = error.kind() == std::io::ErrorKind::BrokenPipe;
        let code = if is_broken { ExitCode::Ok } else { ExitCode::Failed };
        Self::new(code, error)
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
        let once = format!("the connection broke while reading: {path}; run the same command again");
        assert_eq!(text(io::Error::other(ConnectionError::NoPath)), once);
        let both = format!("the connection broke while reading: reset: {path}; run the same command again");
        assert_eq!(text(io::Error::other("reset")), both);
    }

    #[test]
    fn a_reader_that_has_seen_enough_is_no_failure() {
        let broken = || CommandError::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!(broken().code, ExitCode::Ok);
        assert_eq!(ExitCode::Failed.after_printing(Err(broken())).unwrap(), ExitCode::Failed);
        let full = CommandError::from(io::Error::from(io::ErrorKind::StorageFull));
        assert_eq!(ExitCode::Ok.after_printing(Err(full)).unwrap_err().code, ExitCode::Failed);
    }
}
