//! Rejects options of scenarios before another command, so that no option is accepted and ignored.

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};

/// Checks that no option precedes the name of a command that would ignore it.
///
/// # Errors
/// Such an option was given.
pub fn check_places(command: &mut Command, matches: &ArgMatches) -> Result<(), clap::Error> {
    let Some((name, below)) = matches.subcommand() else { return Ok(()) };
    let is_given = |argument: &&Arg| {
        let source = matches.value_source(argument.get_id().as_str());
        !argument.is_global_set() && source == Some(ValueSource::CommandLine)
    };
    let given = command.get_arguments().find(is_given).map(ToString::to_string);
    if let Some(argument) = given {
        let text = format!("'{argument}' stands before '{name}', which does not see it there");
        return Err(command.error(ErrorKind::ArgumentConflict, text));
    }
    command.find_subcommand_mut(name).map_or(Ok(()), |command| check_places(command, below))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::args::Cli;

    fn check(words: &[&str]) -> Result<(), clap::Error> {
        let mut command = Cli::command();
        let matches = command.try_get_matches_from_mut([&["manyway-lab"], words].concat())?;
        check_places(&mut command, &matches)
    }

    #[test]
    fn an_option_before_a_command_that_does_not_see_it_is_refused() {
        for (words, option) in [
            (&["-n", "3", "gates"][..], "--repeat"),
            (&["--scheduler", "blest", "sim", "two-50"], "--scheduler"),
            (&["sim", "-c", "manyway", "list"], "--contenders"),
        ] {
            let error = check(words).unwrap_err().to_string();
            assert!(error.contains(option) && error.contains("stands before"), "{error}");
        }
        for words in
            [&["gates", "-n", "3"][..], &["-q", "sim", "--scheduler", "blest"], &["-n", "3", "two-50"]]
        {
            assert!(check(words).is_ok(), "{words:?}");
        }
    }
}
