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
