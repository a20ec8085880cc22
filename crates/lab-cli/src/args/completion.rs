//! `manyway-lab completion`.

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
  manyway-lab completion bash > /etc/bash_completion.d/manyway-lab
  manyway-lab completion fish > ~/.config/fish/completions/manyway-lab.fish";

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use manyway_terminal::documents::{completion, manual};

    use super::*;
    use crate::args::Cli;

    #[test]
    fn completion_offers_the_values_of_options_of_every_command() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            completion(Cli::command(), shell, &mut script).unwrap();
            let script = String::from_utf8(script).unwrap();
            // Of the program itself and of `sim`.
            assert!(script.matches("coupled-cubic").count() >= 2, "{shell}");
            assert!(script.contains("round-robin") && script.contains("full-mesh"), "{shell}");
        }
    }

    #[test]
    fn the_manual_has_every_command_but_that_of_agents() {
        let mut text = Vec::new();
        manual(Cli::command(), &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        for name in ["sim", "gates", "agree", "share", "validate", "cpu", "up"] {
            assert!(text.contains(&format!(".TH manyway-lab-{name} ")), "{name}");
        }
        assert!(!text.contains("lab-agent"));
    }
}
