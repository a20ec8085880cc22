//! Results on standard output, everything else on standard error.

use std::io::{self, Write as _};
use std::process::ExitCode;

/// Prints a result, or says why there is none.
pub(crate) fn show(result: Result<String, String>) -> ExitCode {
    match result {
        Ok(text) => {
            let printed = io::stdout().write_all(text.as_bytes());
            if printed.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            tell(&format!("{error}\n"));
            ExitCode::FAILURE
        }
    }
}

/// Prints a line of a result.
pub(crate) fn print(line: &str) -> Result<(), String> {
    writeln!(io::stdout(), "{line}").map_err(text)
}

/// Writes to standard error.
pub(crate) fn tell(text: &str) {
    // A failure cannot be reported.
    drop(io::stderr().write_all(text.as_bytes()));
}

/// An error as text.
pub(crate) fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
