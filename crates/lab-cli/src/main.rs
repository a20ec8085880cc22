//! The command.

use std::process::ExitCode as ProcessExitCode;

use clap::{CommandFactory as _, FromArgMatches as _};
use manyway_lab_cli::args::{self, Action, Cli};
use manyway_lab_cli::command::{agent, experiments, lab, sim};
use manyway_terminal::ending::{Reader, fail, fail_to_parse, print};
use manyway_terminal::{CommandError, ExitCode, documents, logging};

fn main() -> ProcessExitCode {
    let cli = match parse() {
        Ok(cli) => cli,
        Err(error) => return fail_to_parse(&error).into(),
    };
    let reader = if cli.global.json { Reader::Program } else { Reader::Person };
    logging::start(cli.global.verbosity(), None);
    run(&cli).unwrap_or_else(|error| fail(&error, reader)).into()
}

fn parse() -> Result<Cli, clap::Error> {
    let mut command = Cli::command();
    let matches = command.try_get_matches_from_mut(std::env::args_os())?;
    args::check_places(&mut command, &matches)?;
    Cli::from_arg_matches(&matches)
}

fn run(cli: &Cli) -> Result<ExitCode, CommandError> {
    let global = &cli.global;
    match &cli.action {
        None => lab::run(global, &cli.scenarios),
        Some(Action::Lab(action)) => lab::act(global, action),
        Some(Action::Sim(arguments)) => sim::run(global, arguments),
        Some(Action::Experiments(arguments)) => experiments::run(global, arguments),
        Some(Action::Programs(arguments)) => experiments::run_programs(global, arguments),
        Some(Action::LabAgent) => agent::run(),
        Some(Action::LabEcho) => agent::echo(),
        Some(Action::Completion(arguments)) => {
            print(|out| documents::completion(Cli::command(), arguments.shell, out))
        }
        Some(Action::Man) => print(|out| documents::manual(Cli::command(), out)),
    }
}
