//! Documents generated from the definition of a command line.

use std::io::{self, Write};

use clap::Command;
use clap::builder::PossibleValuesParser;
use clap_complete::Shell;
use manyway_proto::{congestion, scheduler};

/// Writes the completion script of a shell for a command, with the known values of its options.
///
/// # Errors
/// `out` is closed or full.
pub fn completion(command: Command, shell: Shell, out: &mut impl Write) -> io::Result<()> {
    let name = command.get_name().to_owned();
    // The generator panics on a closed pipe, so it writes into memory.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut with_values(command), name, &mut script);
    out.write_all(with_interfaces(shell, &String::from_utf8_lossy(&script)).as_bytes())
}

/// The command line with the known values of its options. Options also accept others, such as settings after a name.
fn with_values(command: Command) -> Command {
    let profiles = congestion::PROFILES.map(|(profile, _)| profile);
    let controls: Vec<_> = profiles.into_iter().chain(congestion::names()).collect();
    each(command, &|command| {
        command.mut_args(|argument| {
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
    })
}

/// Changes a command and all its subcommands.
fn each(command: Command, change: &impl Fn(Command) -> Command) -> Command {
    let mut command = change(command);
    let names: Vec<_> = command.get_subcommands().map(|below| below.get_name().to_owned()).collect();
    for name in names {
        command = command.mut_subcommand(name, |below| each(below, change));
    }
    command
}

/// Inserts a call that lists the interfaces of the machine at completion time where the script has the placeholder.
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

/// Placeholder in the script for the names of interfaces.
const INTERFACES: &str = "INTERFACES";

/// Writes the manual page of a command and all its subcommands.
///
/// # Errors
/// `out` is closed or full.
pub fn manual(mut command: Command, out: &mut impl Write) -> io::Result<()> {
    command.build();
    clap_mangen::Man::new(command.clone()).render(out)?;
    let is_shown = |below: &&Command| below.get_name() != "help" && !below.is_hide_set();
    for subcommand in command.get_subcommands().filter(is_shown) {
        clap_mangen::Man::new(subcommand.clone()).render(out)?;
    }
    Ok(())
}
