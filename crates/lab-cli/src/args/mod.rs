//! The command line.

mod campaign;
mod completion;
mod experiments;
mod global;
mod lab;
mod places;
mod sim;

pub use campaign::{CampaignArgs, SettingsArgs, Ways};
pub use completion::CompletionArgs;
pub use experiments::{ExperimentsArgs, Only, SeriesArgs};
pub use global::GlobalArgs;
#[cfg(all(test, target_os = "linux"))]
pub(crate) use lab::PROPERTIES;
pub use lab::{CpuArgs, FlowsArgs, LabAction, NameList, ScenarioArgs, ShareArgs, UpArgs, ValidateArgs};
pub use places::check_places;
pub use sim::{MatrixArgs, SimAction, SimArgs};

use clap::{Parser, Subcommand};

/// Compare Manyway with TCP and others, on real sockets over emulated links and in virtual time.
#[derive(Debug, Parser)]
#[command(name = "manyway-lab", version, max_term_width = 100, after_help = lab::EXAMPLES)]
#[command(arg_required_else_help = true, propagate_version = true)]
pub struct Cli {
    /// What to run on real sockets.
    #[command(flatten)]
    pub scenarios: ScenarioArgs,
    /// Something else than running scenarios on real sockets.
    #[command(subcommand)]
    pub action: Option<Action>,
    /// What every command understands; last, since its heading holds for whatever follows.
    #[command(flatten)]
    pub global: GlobalArgs,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// What is about real sockets.
    #[command(flatten)]
    Lab(LabAction),
    /// Run Manyway through the same scenarios in virtual time
    Sim(Box<SimArgs>),
    /// Run the experiments of the documents, and make one page of all
    #[command(after_help = experiments::EXAMPLES)]
    Experiments(ExperimentsArgs),
    /// Measure programs over `manyway forward`, `proxy`, `run` and `tunnel` beside their peers
    #[command(after_help = experiments::PROGRAMS_EXAMPLES)]
    Programs(SeriesArgs),
    /// Be one end of a run of the lab, which starts this itself
    ///
    /// It reads its assignment, a JSON document, and orders from standard input, and answers with JSON lines.
    #[command(hide = true)]
    LabAgent,
    /// Be the destination of `flows`, which starts this itself
    #[command(hide = true)]
    LabEcho,
    /// Print a completion script for a shell
    Completion(CompletionArgs),
    /// Print the manual page
    Man,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn options_of_every_command_stand_before_or_after_its_name() {
        for words in
            [&["--json", "sim", "two-50"][..], &["sim", "--json", "list"], &["sim", "list", "--json"]]
        {
            let cli = Cli::try_parse_from([&["manyway-lab"], words].concat()).unwrap();
            assert!(cli.global.json && matches!(cli.action, Some(Action::Sim(_))), "{words:?}");
        }
    }
}
