//! What is made from the definition of the command line itself.

use std::io::{self, Write};

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::args::Cli;

/// Writes the completion script of a shell.
///
/// # Errors
/// `out` is closed or full.
pub fn completion(shell: Shell, out: &mut impl Write) -> io::Result<()> {
    // The generator panics on a closed pipe, so it writes into memory.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "manyway", &mut script);
    out.write_all(&script)
}

/// Writes the manual page of the command and all its subcommands.
///
/// # Errors
/// `out` is closed or full.
pub fn manual(out: &mut impl Write) -> io::Result<()> {
    let mut command = Cli::command();
    command.build();
    clap_mangen::Man::new(command.clone()).render(out)?;
    for subcommand in command.get_subcommands().filter(|s| s.get_name() != "help") {
        clap_mangen::Man::new(subcommand.clone()).render(out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completion_and_manual_know_every_command() {
        let mut text = Vec::new();
        completion(Shell::Bash, &mut text).unwrap();
        manual(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        for name in ["demo", "serve", "send", "get", "bench", "ping", "paths", "keys", "rendezvous", "decode"]
        {
            assert!(text.matches(name).count() > 2, "{name}");
        }
    }
}
