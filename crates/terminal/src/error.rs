//! Why a command failed, and its exit status.

use std::fmt;
use std::io::ErrorKind;

use serde_json::{Map, Value, json};

use crate::exit_code::ExitCode;
use crate::mask::{without_numbers, without_secrets};

/// The failure of a command.
#[derive(Debug)]
pub struct CommandError {
    /// The exit status.
    pub code: ExitCode,
    /// The message for the user: the cause, and the next step where there is one.
    pub text: String,
    /// Further facts for programs: the progress of the command.
    pub facts: Map<String, Value>,
}

impl CommandError {
    /// An error with a code and a text, in which tickets and error numbers of the system are masked.
    pub fn new(code: ExitCode, text: impl fmt::Display) -> Self {
        Self { code, text: without_secrets(&without_numbers(&text.to_string())), facts: Map::new() }
    }

    /// A wrong command line.
    pub fn usage(text: impl fmt::Display) -> Self {
        Self::new(ExitCode::Usage, text)
    }

    /// A failure.
    pub fn failed(text: impl fmt::Display) -> Self {
        Self::new(ExitCode::Failed, text)
    }

    /// The same error with facts about the work done so far.
    pub fn with_facts(self, facts: Map<String, Value>) -> Self {
        Self { facts, ..self }
    }

    /// The error as the only document for programs, with its facts.
    pub fn to_json(&self) -> Value {
        let mut document = self.facts.clone();
        let error = json!({ "code": self.code.number(), "kind": self.code.name(), "text": self.text });
        document.insert("error".to_owned(), error);
        document.into()
    }
}

impl ExitCode {
    /// The exit code of a command that has done its work, where `printed` is the result of printing: a reader that
    /// closes the pipe early is no error.
    ///
    /// # Errors
    /// That of `printed` otherwise.
    pub fn after_printing(self, printed: Result<(), CommandError>) -> Result<Self, CommandError> {
        match printed {
            Err(error) if error.code != Self::OutputClosed => Err(error),
            Err(_) | Ok(()) => Ok(self),
        }
    }
}

impl From<std::io::Error> for CommandError {
    /// Only standard output breaks as a pipe here: its reader has seen enough (`| head`).
    fn from(error: std::io::Error) -> Self {
        let is_broken = error.kind() == ErrorKind::BrokenPipe;
        let code = if is_broken { ExitCode::OutputClosed } else { ExitCode::Failed };
        if error.kind() == ErrorKind::StorageFull {
            return Self::new(code, "the disk is full");
        }
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
    use std::io;

    use super::*;

    #[test]
    fn programs_get_the_code_its_name_and_the_text() {
        let error = CommandError::usage("no such thing");
        let expected = json!({ "error": { "code": 2, "kind": "usage", "text": "no such thing" } });
        assert_eq!(error.to_json(), expected);
        let facts = Map::from_iter([("bytes".to_owned(), 7.into())]);
        let with_facts = error.with_facts(facts).to_json();
        assert_eq!((&with_facts["bytes"], &with_facts["error"]), (&7.into(), &expected["error"]));
    }

    #[test]
    fn a_reader_that_has_seen_enough_is_told_by_the_status_alone() {
        let broken = || CommandError::from(io::Error::from(ErrorKind::BrokenPipe));
        assert_eq!(broken().code, ExitCode::OutputClosed);
        for code in [ExitCode::Ok, ExitCode::Failed] {
            assert_eq!(code.after_printing(Err(broken())).unwrap(), code, "the work was done");
        }
        let full = CommandError::from(io::Error::from(ErrorKind::StorageFull));
        assert_eq!(ExitCode::Ok.after_printing(Err(full)).unwrap_err().code, ExitCode::Failed);
    }
}
