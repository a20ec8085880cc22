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
            (Shell::Zsh, ":_net_interfaces"),
            (Shell::Fish, "(ls /sys/class/net"),
        ] {
            let mut script = Vec::new();
            completion(Cli::command(), shell, &mut script).unwrap();
            let script = String::from_utf8(script).unwrap();
            assert!(script.contains("round-robin") && script.contains("coupled-cubic"), "{shell}");
            assert!(script.contains(interfaces), "{shell}");
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
