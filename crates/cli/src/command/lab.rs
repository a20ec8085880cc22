//! `manyway lab` and `manyway sim`: run `manyway-lab`, which does all comparisons over emulated links.

use std::env::consts::EXE_SUFFIX;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::process::Command;

use manyway_terminal::{CommandError, ExitCode};

/// Whether the command line begins with such a command. Its options are not those of `manyway`.
pub fn is_named(first: Option<OsString>) -> bool {
    first.is_some_and(|word| is_verb(&word))
}

/// Replaces this process by `manyway-lab` with the arguments of the command line.
///
/// # Errors
/// It is not installed, or the system cannot run it.
pub fn run(words: impl Iterator<Item = OsString>) -> Result<ExitCode, CommandError> {
    let program = program();
    let error = replace_by(Command::new(&program).args(arguments(words)));
    Err(if error.kind() == ErrorKind::NotFound {
        CommandError::failed(NOT_INSTALLED)
    } else {
        CommandError::failed(format!("{}: {error}", program.display()))
    })
}

/// The arguments of `manyway-lab`: all but the word `lab`. The word `sim` is one of its own commands.
fn arguments(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<_> = words.collect();
    let verb = words.iter().position(is_verb);
    if let Some(lab) = verb.filter(|verb| words.get(*verb).is_some_and(|word| word == "lab")) {
        words.remove(lab);
    }
    words
}

fn is_verb(word: &OsString) -> bool {
    word == "lab" || word == "sim"
}

/// The program beside this one, or else that of the search path.
fn program() -> OsString {
    let name = format!("manyway-lab{EXE_SUFFIX}");
    let beside = std::env::current_exe().map(|here| here.with_file_name(&name));
    match beside {
        Ok(program) if program.is_file() => program.into(),
        Ok(_) | Err(_) => name.into(),
    }
}

#[cfg(unix)]
fn replace_by(command: &mut Command) -> io::Error {
    use std::os::unix::process::CommandExt as _;
    command.exec()
}

/// No process can be replaced here: this one waits, and exits with the same status.
#[cfg(not(unix))]
fn replace_by(command: &mut Command) -> io::Error {
    match command.status() {
        Ok(status) => std::process::exit(status.code().unwrap_or(1)),
        Err(error) => error,
    }
}

const NOT_INSTALLED: &str = "manyway-lab is not installed, neither beside manyway nor in PATH; \
    `cargo install --locked --path crates/lab-cli` in a clone of the repository installs it";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lab_gets_all_arguments_but_its_own_name() {
        for (words, expected) in [
            (&["lab", "two-50", "-n", "3"][..], &["two-50", "-n", "3"][..]),
            (&["--json", "lab", "list"], &["--json", "list"]),
            (&["sim", "lab", "--quick"], &["sim", "lab", "--quick"]),
            (&["lab", "lab"], &["lab"]),
        ] {
            assert_eq!(arguments(words.iter().map(OsString::from)), expected, "{words:?}");
        }
    }
}
