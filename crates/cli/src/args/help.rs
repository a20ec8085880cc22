//! Help that fits a screen: what a command needs, and where the common options are explained.

use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::{Arg, ArgAction, Command, CommandFactory as _};

use super::Cli;
use super::scope::shows_interfaces;

/// The heading of the options that every command understands.
pub(super) const SHARED: &str = "Options of every command";
/// Those of them that each command shows.
const SHOWN: [&str; 4] = ["json", "quiet", "verbose", "interfaces"];
const MORE: &str = "Options for interfaces, scheduling, trust and settings: manyway help options";

/// The command line as it is parsed: `--help` shows only some of the common options, each in one line.
pub fn command() -> Command {
    brief(hide_interfaces(hide_shared(Cli::command())))
}

/// The arguments with `help VERB` rewritten to `VERB --help`: clap's own form gives each option a paragraph.
pub fn with_help_as_option(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<_> = words.into_iter().collect();
    let is_option = |word: &OsString| word.as_encoded_bytes().starts_with(b"-");
    let verb = words.iter().skip(1).position(|word| !is_option(word)).map(|at| at + 1);
    if let Some(at) = verb.filter(|at| words.get(*at).is_some_and(|word| word == "help")) {
        words.remove(at);
        words.push("--help".into());
    }
    words
}

/// The output of `manyway help options`: every common option, explained in full.
pub fn shared_options() -> StyledStr {
    let command = Cli::command();
    let shared = command.get_arguments().filter(|argument| is_shared(argument)).cloned();
    Command::new("manyway")
        .disable_help_flag(true)
        .disable_version_flag(true)
        .max_term_width(100)
        .args(shared)
        .help_template("Options of every command. They may stand before or after its name.\n\n{all-args}")
        .render_long_help()
}

fn is_shared(argument: &Arg) -> bool {
    argument.get_help_heading() == Some(SHARED)
}

fn hide_shared(command: Command) -> Command {
    command.mut_args(|argument| {
        let is_hidden = is_shared(&argument) && !SHOWN.contains(&argument.get_id().as_str());
        if is_hidden { argument.hide(true) } else { argument }
    })
}

/// Hides `-I` in the help of the commands that ignore it.
fn hide_interfaces(command: Command) -> Command {
    let Some(option) = command.get_arguments().find(|argument| argument.get_id() == "interfaces") else {
        return command;
    };
    let hidden = option.clone().hide(true);
    command.mut_subcommands(|below| {
        if shows_interfaces(below.get_name()) { below } else { below.arg(hidden.clone()) }
    })
}

/// Gives a command and its subcommands a `--help` of one line an option, with a pointer to the rest.
fn brief(command: Command) -> Command {
    let help = Arg::new("help").short('h').long("help").action(ArgAction::HelpShort).help("Print help");
    let names: Vec<_> = command.get_subcommands().map(|below| below.get_name().to_owned()).collect();
    // `help` is a command of the first level only.
    let has_help_below = names.is_empty() || command.get_name() == "manyway";
    let mut command = command.disable_help_flag(true).arg(help).disable_help_subcommand(!has_help_below);
    let after = command.get_after_help().map(|text| format!("{text}\n\n")).unwrap_or_default();
    command = command.after_help(after + MORE);
    for name in names {
        command = command.mut_subcommand(name, brief);
    }
    command
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use manyway::{congestion, scheduler};

    use super::*;

    fn help_of(name: &str, width: usize) -> String {
        let mut command = command().term_width(width).max_term_width(width);
        command.build();
        let verb = command.find_subcommand_mut(name).unwrap();
        verb.render_help().to_string()
    }

    #[test]
    fn the_help_of_each_everyday_command_fits_a_screen_of_80_columns() {
        for (name, most) in [
            ("send", 40),
            ("get", 44),
            ("play", 44),
            ("ping", 36),
            ("paths", 38),
            ("status", 32),
            ("caps", 40),
            ("keys", 40),
            ("demo", 40),
            ("serve", 62),
        ] {
            let text = help_of(name, 80);
            let lines = text.lines().count();
            assert!(lines <= most, "{name} has {lines} lines:\n{text}");
            assert!(text.contains("manyway help options"), "{text}");
        }
    }

    #[test]
    fn interfaces_are_in_the_help_of_the_commands_that_choose_them() {
        for (name, is_shown) in [
            ("send", true),
            ("paths", true),
            ("caps", true),
            ("keys", false),
            ("status", false),
            ("serve", false),
            ("demo", false),
            ("decode", false),
        ] {
            assert_eq!(help_of(name, 80).contains("--interface"), is_shown, "{name}");
        }
        let mut command = command().term_width(80);
        command.build();
        let list = command.find_subcommand_mut("keys").unwrap().find_subcommand_mut("list").unwrap();
        assert!(!list.render_help().to_string().contains("--interface"));
    }

    #[test]
    fn help_before_a_verb_is_its_help_option() {
        let words = |text: &str| with_help_as_option(text.split(' ').map(OsString::from)).join(" ".as_ref());
        for (written, read) in [
            ("manyway help send", "manyway send --help"),
            ("manyway -q help keys add", "manyway -q keys add --help"),
            ("manyway help", "manyway --help"),
            ("manyway send help", "manyway send help"),
            ("manyway keys list", "manyway keys list"),
        ] {
            assert_eq!(words(written), read);
        }
    }

    /// Every command with the text after its options.
    fn texts(command: &Command) -> Vec<(String, String)> {
        let own = command.get_after_help().map(|text| (command.get_name().to_owned(), text.to_string()));
        own.into_iter().chain(command.get_subcommands().flat_map(texts)).collect()
    }

    #[test]
    fn paragraphs_are_wrapped_by_the_terminal_alone_and_examples_fit_80_columns() {
        for (name, text) in texts(&command()) {
            let lines: Vec<_> = text.lines().collect();
            for line in &lines {
                assert!(!line.starts_with(' ') || line.chars().count() <= 80, "{name}: {line}");
            }
            let is_sentence = |line: &str| !line.is_empty() && !line.starts_with(' ') && !line.ends_with(':');
            for pair in lines.windows(2) {
                assert!(!pair.iter().all(|line| is_sentence(line)), "{name}: {pair:#?}");
            }
        }
    }

    #[test]
    fn options_of_every_command_are_explained_in_one_place() {
        let text = shared_options().to_string();
        for part in ["--interface", "--scheduler", "--cap", "--trust", "--no-config", "round-robin"] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(!help_of("send", 80).contains("--scheduler"));
    }

    #[test]
    fn hidden_options_are_parsed_all_the_same() {
        command().debug_assert();
        let matches =
            command().try_get_matches_from(["manyway", "get", "mw1x", "--scheduler", "blest"]).unwrap();
        assert_eq!(matches.get_one::<String>("scheduler").map(String::as_str), Some("blest"));
    }

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
}
