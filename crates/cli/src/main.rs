//! The command.

use std::io::{self, Write as _};
use std::process::ExitCode as ProcessExitCode;
use std::time::Duration;

use clap::Parser as _;
use manyway_cli::args::{Cli, Command};
use manyway_cli::command::error::CommandError;
use manyway_cli::command::{bench, demo, get, paths, ping, send, serve};
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
        Command::Serve(arguments) => block_on(async {
            serve::run(&cli.global, arguments).await?;
            Ok(ExitCode::Ok)
        }),
        Command::Send(arguments) => block_on(send::run(&cli.global, arguments)),
        Command::Get(arguments) => block_on(get::run(&cli.global, arguments)),
        Command::Bench(arguments) => block_on(bench::run(&cli.global, arguments)),
        Command::Ping(arguments) => block_on(ping::run(&cli.global, arguments)),
        Command::Paths(arguments) => block_on(paths::run(&cli.global, arguments)),
        Command::Demo(arguments) => demo::run(&cli.global, arguments).unwrap_or_else(|error| fail(&error)),
    }
}

/// Runs a command to its end and says why it failed, if it did.
fn block_on(command: impl Future<Output = Result<ExitCode, CommandError>>) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&CommandError::from(error)),
    };
    let code = runtime.block_on(command).unwrap_or_else(|error| fail(&error));
    // Threads that still read or write find their queues closed.
    runtime.shutdown_timeout(END_TIME);
    code
}

/// For threads that are busy with a file.
const END_TIME: Duration = Duration::from_secs(1);

#[expect(clippy::print_stderr, reason = "this is what the user is told")]
fn fail(error: &CommandError) -> ExitCode {
    if error.code != ExitCode::Ok {
        eprintln!("manyway: {error}");
    }
    error.code
}

/// Writes a document to standard output.
fn print(write: impl FnOnce(&mut io::StdoutLock<'static>) -> io::Result<()>) -> ExitCode {
    let mut out = io::stdout().lock();
    match write(&mut out).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::Ok,
        Err(error) => fail(&CommandError::from(error)),
    }
}
