//! `manyway completion`.

use clap::Args;
use clap_complete::Shell;

/// Arguments of `completion`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct CompletionArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  manyway completion bash > /etc/bash_completion.d/manyway
  manyway completion fish > ~/.config/fish/completions/manyway.fish";

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use manyway_terminal::documents::{completion, manual};

    use super::*;
    use crate::args::Cli;

    #[test]
    fn completion_offers_the_values_of_options() {
        for (shell, interfaces) in [
            (Shell::Bash, "compgen -W \"$(ls /sys/class/net"),
            (Shell::Zsh, "{compadd $(ls /sys/class/net"),
            (Shell::Fish, "(ls /sys/class/net"),
        ] {
            let mut script = Vec::new();
            completion(Cli::command(), shell, &mut script).unwrap();
            let script = String::from_utf8(script).unwrap();
            assert!(script.contains("round-robin") && script.contains("coupled-cubic"), "{shell}");
            assert!(script.contains(interfaces), "{shell}");
            assert!(script.contains("mmsp1") && script.contains("auto"), "{shell}");
            for list in ["keys list servers --names", "keys list --names"] {
                assert!(script.contains(list), "{list} for {shell}");
            }
            assert!(!script.contains("LIST_OF_"), "{shell}");
        }
    }

    /// What fish offers behind these words.
    #[test]
    fn completion_offers_names_and_interfaces_by_position() {
        let mut script = Vec::new();
        completion(Cli::command(), Shell::Fish, &mut script).unwrap();
        let script = String::from_utf8(script).unwrap();
        for (when, list) in [
            ("get", "manyway keys list servers --names"),
            ("ping", "manyway keys list servers --names"),
            ("keys; and __fish_seen_subcommand_from remove", "manyway keys list --names"),
            ("caps; and __fish_seen_subcommand_from clear", "ls /sys/class/net"),
        ] {
            let line = format!("-n \"__fish_seen_subcommand_from {when}\" -a \"({list}");
            assert!(script.contains(&line), "{line}");
        }
    }

    #[test]
    fn completion_and_manual_know_every_command() {
        let mut text = Vec::new();
        completion(Cli::command(), Shell::Bash, &mut text).unwrap();
        manual(Cli::command(), &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        for name in ["demo", "serve", "send", "get", "bench", "ping", "paths", "keys", "rendezvous", "decode"]
        {
            assert!(text.matches(name).count() > 2, "{name}");
        }
    }
}
