//! How a program ends after a wrong command line, a failure, or a printed document.

use std::ffi::OsString;
use std::io::{self, Write as _};

use crate::{Colour, CommandError, ExitCode, json, note, without_secrets};

/// The reader of standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// A person.
    Person,
    /// A program, which asked for JSON.
    Program,
}

impl Reader {
    /// The reader according to the arguments of this process, where they were not or could not be parsed.
    pub fn of_this_process() -> Self {
        let asks = |word: &OsString| ["--json", "--json-document", "-J"].iter().any(|option| word == option);
        let mut words = std::env::args_os().skip(1).take_while(|word| word != "--");
        if words.any(|word| asks(&word)) { Self::Program } else { Self::Person }
    }
}

/// Reports why a command failed: to people on standard error, to programs that asked for JSON on standard output. If
/// standard output was closed, only the status remains.
pub fn fail(error: &CommandError, reader: Reader) -> ExitCode {
    fail_with(error, reader, |error| note(&format!("error: {error}")))
}

/// As [`fail`], with another form on standard error.
pub fn fail_with(error: &CommandError, reader: Reader, tell: impl FnOnce(&CommandError)) -> ExitCode {
    if error.code != ExitCode::OutputClosed {
        tell(error);
        if reader == Reader::Program {
            // The error is reported already.
            let _ = json::print(&error.to_json());
        }
    }
    error.code
}

/// Help and version were requested; anything else is a wrong command line.
pub fn fail_to_parse(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        let printed = error.print().and_then(|()| io::stdout().flush());
        return printed.map_or_else(|error| fail(&error.into(), Reader::Person), |()| ExitCode::Ok);
    }
    note(&usage_text(error));
    if Reader::of_this_process() == Reader::Program {
        let text = without_secrets(&error.to_string());
        // The error message, which may have several lines, ends before the usage.
        let lines: Vec<_> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
        let reason = lines.join(" ");
        let reason = reason.strip_prefix("error: ").unwrap_or(&reason);
        let _ = json::print(&CommandError::usage(reason).to_json());
    }
    ExitCode::Usage
}

/// The error of a command line, with colours where they are shown.
fn usage_text(error: &clap::Error) -> String {
    let text = error.render();
    let text = match Colour::of_messages() {
        Colour::With => text.ansi().to_string(),
        Colour::Without => text.to_string(),
    };
    without_secrets(without_escape(&text).trim_end())
}

/// Without the advice to pass an unknown option on as a value (`use '-- -u'`), which no command wants.
fn without_escape(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    let is_escape = |line: &&str| line.contains("tip:") && line.contains(" as a value, use '");
    if let Some(at) = lines.iter().position(is_escape) {
        lines.remove(at);
        if lines.get(at).is_some_and(|line| line.is_empty()) {
            lines.remove(at);
        }
    }
    lines.join("\n")
}

/// Writes a document to standard output.
///
/// # Errors
/// Standard output is closed or full.
pub fn print(
    write: impl FnOnce(&mut io::StdoutLock<'static>) -> io::Result<()>,
) -> Result<ExitCode, CommandError> {
    let mut out = io::stdout().lock();
    write(&mut out).and_then(|()| out.flush())?;
    Ok(ExitCode::Ok)
}
