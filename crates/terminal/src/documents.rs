//! Documents generated from the definition of a command line.

use std::io::{self, Write};

use clap::builder::PossibleValuesParser;
use clap::{Arg, Command};
use clap_complete::Shell;
use manyway_proto::{congestion, scheduler};

/// Writes the completion script of a shell for a command, with the known values of its options.
///
/// # Errors
/// `out` is closed or full.
pub fn completion(command: Command, shell: Shell, out: &mut impl Write) -> io::Result<()> {
    let name = command.get_name().to_owned();
    let mut command = with_values(command);
    // The generator panics on a closed pipe, so it writes into memory.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    let mut script = with_lists(shell, &String::from_utf8_lossy(&script));
    if shell == Shell::Fish {
        // Its generator knows the values of options alone.
        script += &positionals_for_fish(&command, &[]);
    }
    out.write_all(script.as_bytes())
}

/// The command line with the known values of its options. Options also accept others, such as settings after a name.
fn with_values(command: Command) -> Command {
    let profiles = congestion::PROFILES.map(|(profile, _)| profile);
    let controls: Vec<_> = profiles.into_iter().chain(congestion::names()).collect();
    each(command, &|command| {
        command.mut_args(|argument| {
            let values = match argument.get_id().as_str() {
                "scheduler" => scheduler::names().collect(),
                "congestion" | "control" => controls.clone(),
                "pairs" => vec!["local-disjoint", "disjoint", "full-mesh"],
                "trust" => vec!["keys", "system"],
                "carrier" => vec!["auto", "udp", "tcp"],
                "wire" => vec!["mmsp2", "mmsp1"],
                _ => match list_of(&argument) {
                    Some(list) => vec![list.placeholder],
                    None => return argument,
                },
            };
            argument.value_parser(PossibleValuesParser::new(values))
        })
    })
}

/// Values that only the machine knows, at completion time.
struct List {
    placeholder: &'static str,
    /// Prints them.
    command: &'static str,
}

const LISTS: [List; 3] = [
    List { placeholder: "LIST_OF_INTERFACES", command: "ls /sys/class/net 2>/dev/null" },
    List { placeholder: "LIST_OF_SERVERS", command: "manyway keys list servers --names 2>/dev/null" },
    List { placeholder: "LIST_OF_ENTRIES", command: "manyway keys list --names 2>/dev/null" },
];

/// The list of an argument, by the name of its value.
fn list_of(argument: &Arg) -> Option<&'static List> {
    let value = argument.get_value_names()?.first()?.as_str();
    let [interfaces, servers, entries] = &LISTS;
    match (value, argument.get_id().as_str()) {
        ("IF" | "IF|ADDR", _) => Some(interfaces),
        ("TICKET" | "SERVER", _) => Some(servers),
        ("NAME", "names") => Some(entries),
        _ => None,
    }
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

/// Puts the command of each list where the script has its placeholder.
fn with_lists(shell: Shell, script: &str) -> String {
    LISTS.iter().fold(script.to_owned(), |script, List { placeholder, command }| match shell {
        Shell::Bash => script.replace(placeholder, &format!("$({command})")),
        Shell::Fish => script.replace(&format!("{placeholder}\\t''"), &format!("({command})")),
        Shell::Zsh => script.replace(&format!("({placeholder})"), &format!("{{compadd $({command})}}")),
        Shell::Elvish | Shell::PowerShell | _ => script,
    })
}

/// Lines that offer the lists of arguments by position; files stay on offer beside them.
fn positionals_for_fish(command: &Command, above: &[&str]) -> String {
    let mut lines = String::new();
    let seen = |verb: &&str| format!("__fish_seen_subcommand_from {verb}");
    let when = above.iter().map(seen).collect::<Vec<_>>().join("; and ");
    for list in command.get_positionals().filter_map(list_of) {
        lines += &format!("complete -c manyway -n \"{when}\" -a \"({})\"\n", list.command);
    }
    for below in command.get_subcommands() {
        lines += &positionals_for_fish(below, &[above, &[below.get_name()]].concat());
    }
    lines
}

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
