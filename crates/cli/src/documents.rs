//! What is made from the definition of the command line itself.

use std::io::{self, Write};

use clap::builder::PossibleValuesParser;
use clap::{Command, CommandFactory as _};
use clap_complete::Shell;
use manyway::{congestion, scheduler};

use crate::args::Cli;

/// Writes the completion script of a shell.
///
/// # Errors
/// `out` is closed or full.
pub fn completion(shell: Shell, out: &mut impl Write) -> io::Result<()> {
    // The generator panics on a closed pipe, so it writes into memory.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut with_values(), "manyway", &mut script);
    out.write_all(with_interfaces(shell, &String::from_utf8_lossy(&script)).as_bytes())
}

/// The command line with the values that its options know. They also take others, such as settings behind a name.
fn with_values() -> Command {
    let profiles = congestion::PROFILES.map(|(profile, _)| profile);
    let controls: Vec<_> = profiles.into_iter().chain(congestion::names()).collect();
    Cli::command().mut_args(|argument| {
        let values = match argument.get_id().as_str() {
            "scheduler" => scheduler::names().collect(),
            "congestion" => controls.clone(),
            "pairs" => vec!["local-disjoint", "disjoint", "full-mesh"],
            "trust" => vec!["keys", "system"],
            "interfaces" | "exclude" => vec![INTERFACES],
            _ => return argument,
        };
        argument.value_parser(PossibleValuesParser::new(values))
    })
}

/// Puts what lists the interfaces of the machine, at the moment of completion, where the script has a word for it.
fn with_interfaces(shell: Shell, script: &str) -> String {
    let list = "ls /sys/class/net 2>/dev/null";
    match shell {
        Shell::Bash => script.replace(INTERFACES, &format!("$({list})")),
        Shell::Fish => script.replace(&format!("{INTERFACES}\\t''"), &format!("({list})")),
        // A function that comes with the shell.
        Shell::Zsh => script.replace(&format!("({INTERFACES})"), "_net_interfaces"),
        Shell::Elvish | Shell::PowerShell | _ => script.to_owned(),
    }
}

/// Stands in the script for the names of interfaces.
const INTERFACES: &str = "INTERFACES";

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
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// The names in the first column of the table with this head.
    fn names_in(page: &str, head: &str) -> BTreeSet<String> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
        let text = std::fs::read_to_string(path).unwrap();
        let rows = text.lines().skip_while(|line| !line.starts_with(head)).skip(2);
        let cells = rows.map_while(|line| line.strip_prefix('|')?.split('|').next());
        cells.map(|cell| cell.split('`').nth(1).unwrap_or_default().to_owned()).collect()
    }

    /// The words in the long help of an option of every command.
    fn words_of_help(option: &str) -> BTreeSet<String> {
        let command = Cli::command();
        let argument = command.get_arguments().find(|argument| argument.get_id() == option).unwrap();
        let text = argument.get_long_help().unwrap().to_string();
        text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').map(str::to_owned).collect()
    }

    #[test]
    fn pages_and_help_name_every_scheduler_congestion_control_and_profile_and_no_other() {
        let profiles = congestion::PROFILES.map(|(profile, _)| profile);
        for (page, head, option, names) in [
            ("schedulers.md", "| name | settings |", "scheduler", scheduler::names().collect::<Vec<_>>()),
            ("congestion.md", "| name | what it is |", "congestion", congestion::names().collect()),
            ("congestion.md", "| profile |", "congestion", profiles.to_vec()),
        ] {
            let names: BTreeSet<_> = names.into_iter().map(str::to_owned).collect();
            assert_eq!(names_in(page, head), names, "{page}");
            let help = words_of_help(option);
            let left_out: Vec<_> = names.difference(&help).collect();
            assert!(left_out.is_empty(), "--{option} does not name {left_out:?}");
        }
    }

    #[test]
    fn completion_offers_the_values_of_options() {
        for (shell, interfaces) in [
            (Shell::Bash, "compgen -W \"$(ls /sys/class/net"),
            (Shell::Zsh, ":_net_interfaces"),
            (Shell::Fish, "(ls /sys/class/net"),
        ] {
            let mut script = Vec::new();
            completion(shell, &mut script).unwrap();
            let script = String::from_utf8(script).unwrap();
            assert!(script.contains("round-robin") && script.contains("coupled-cubic"), "{shell}");
            assert!(script.contains(interfaces), "{shell}");
        }
    }

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
