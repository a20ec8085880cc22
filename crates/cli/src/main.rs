//! The command.

use std::io::{self, Write as _};
use std::process::ExitCode as ProcessExitCode;

use clap::Parser as _;
use manyway_cli::args::{Cli, Command};
use manyway_cli::command::demo;
use manyway_cli::command::error::CommandError;
use manyway_cli::exit_code::ExitCode;
use manyway_cli::{documents, logging};

fn main() -> ProcessExitCode {
    // A wrong command line ends here, with status 2.
    let cli = Cli::parse();
    logging::start(&cli.global);
    run(&cli).into()
}

fn run(cli: &Cli) -> ExitCode {
    match &cli.command {
        Command::Completion(arguments) => print(|out| documents::completion(arguments.shell, out)),
        Command::Man => print(documents::manual),
        Command::Demo(arguments) => outcome(demo::run(&cli.global, arguments)),
        Command::Serve(_) | Command::Send(_) | Command::Get(_) | Command::Bench(_) => {
            tracing::error!("this build has no network");
            ExitCode::Failed
        }
    }
}

/// Says why a command failed.
fn outcome(result: Result<ExitCode, CommandError>) -> ExitCode {
    result.unwrap_or_else(|error| {
        tracing::error!("{error}");
        error.code
    })
}

/// Writes a document to standard output; a reader that has seen enough (`| head`) is no failure.
fn print(write: impl FnOnce(&mut io::StdoutLock<'static>) -> io::Result<()>) -> ExitCode {
    let mut out = io::stdout().lock();
    match write(&mut out).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::Ok,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::Ok,
        Err(reason) => {
            tracing::error!(%reason, "cannot write to standard output");
            ExitCode::Failed
        }
    }
}
