//! The command.

use std::io::Write as _;
use std::process::ExitCode as ProcessExitCode;
use std::time::Duration;

use clap::{CommandFactory as _, FromArgMatches as _};
use manyway_cli::args::{self, Cli, Command, LogFormat};
use manyway_cli::command::names::check_interfaces;
use manyway_cli::command::{
    bench, caps, decode, demo, egress, get, keys, lab, paths, ping, play, rendezvous, send, serve, status,
};
use manyway_cli::config;
use manyway_cli::serving::journal::json_line;
use manyway_terminal::ending::{Reader, fail, fail_to_parse, fail_with, print};
use manyway_terminal::{CommandError, ExitCode, documents, logging, stderr};
use serde_json::json;

fn main() -> ProcessExitCode {
    // Before anything else: this process may have been started to become the command of `manyway run`.
    #[cfg(target_os = "linux")]
    if let Some(status) = manyway_capture::enter_stage() {
        return status.into();
    }
    if is_alone(&["help", "options"]) {
        let printed = print(|out| write!(out, "{}", args::shared_options()));
        return printed.unwrap_or_else(|error| fail(&error, Reader::Person)).into();
    }
    if lab::is_named(std::env::args_os().nth(1)) {
        return run_lab().unwrap_or_else(|error| fail(&error, Reader::of_this_process())).into();
    }
    let (mut cli, unused) = match parse() {
        Ok(parsed) => parsed,
        Err(error) => return fail_to_parse(&error).into(),
    };
    let reader = if cli.wants_json() { Reader::Program } else { Reader::Person };
    let format = cli.log_format();
    let fail = |error: &CommandError| match format {
        LogFormat::Text => fail(error, reader),
        LogFormat::Json => {
            fail_with(error, reader, |error| stderr::line(&json_line("error", None, error.to_json())))
        }
    };
    if let Some(text) = unused {
        return fail(&CommandError::usage(text)).into();
    }
    if let Err(error) = config::complete(&mut cli) {
        return fail(&error).into();
    }
    let document: Option<logging::Document> = match format {
        LogFormat::Text => None,
        LogFormat::Json => {
            Some(|level, text| json_line("log", None, json!({ "level": level, "text": text })))
        }
    };
    logging::start(cli.global.verbosity(), document);
    run(&cli).unwrap_or_else(|error| fail(&error)).into()
}

/// Parses the command line, and tells which option does not apply to its command or its wire.
fn parse() -> Result<(Cli, Option<String>), clap::Error> {
    let words = args::with_help_as_option(std::env::args_os());
    let matches = args::command().try_get_matches_from(words)?;
    let unused = args::unused(&matches).or_else(|| args::unfit_for_wire(&matches));
    Ok((Cli::from_arg_matches(&matches)?, unused))
}

/// Whether these words are the whole command line, so that it names no other command.
fn is_alone(words: &[&str]) -> bool {
    std::env::args_os().skip(1).eq(words.iter().copied())
}

fn run(cli: &Cli) -> Result<ExitCode, CommandError> {
    let global = &cli.global;
    match &cli.command {
        Command::Completion(arguments) => {
            print(|out| documents::completion(Cli::command(), arguments.shell, out))
        }
        Command::Man => print(|out| documents::manual(Cli::command(), out)),
        Command::Keys(arguments) => block_on(async {
            keys::run(global, arguments)?;
            Ok(ExitCode::Ok)
        }),
        Command::Caps(arguments) => block_on(async { caps::run(global, arguments) }),
        Command::Serve(arguments) => block_on(shown(cli, "serve", async {
            serve::run(global, arguments).await?;
            Ok(ExitCode::Ok)
        })),
        Command::Send(arguments) => block_on(shown(cli, "send", send::run(global, arguments))),
        Command::Get(arguments) => block_on(shown(cli, "get", get::run(global, arguments))),
        Command::Play(arguments) => block_on(shown(cli, "play", play::run(global, arguments))),
        Command::Bench(arguments) => block_on(shown(cli, "bench", bench::run(global, arguments))),
        Command::Ping(arguments) => block_on(shown(cli, "ping", ping::run(global, arguments))),
        Command::Paths(arguments) => block_on(shown(cli, "paths", paths::run(global, arguments))),
        Command::Status(arguments) => block_on(status::run(global, arguments)),
        Command::Pipe(arguments) => block_on(shown(cli, "pipe", egress::pipe::run(global, arguments))),
        Command::Forward(arguments) => {
            block_on(shown(cli, "forward", egress::forward::run(global, arguments)))
        }
        Command::Proxy(arguments) => block_on(shown(cli, "proxy", egress::proxy::run(global, arguments))),
        Command::Run(arguments) => block_on(shown(cli, "run", egress::run::run(global, arguments))),
        Command::Tunnel(arguments) => block_on(shown(cli, "tunnel", egress::tunnel::run(global, arguments))),
        Command::Rendezvous(arguments) => block_on(async {
            rendezvous::run(global, arguments).await?;
            Ok(ExitCode::Ok)
        }),
        Command::Decode(arguments) => decode::run(global, arguments),
        Command::Demo(arguments) => demo::run(global, arguments),
        Command::Lab(_) | Command::Sim(_) => run_lab(),
    }
}

/// Runs `manyway-lab` with the arguments of the command line unchanged.
fn run_lab() -> Result<ExitCode, CommandError> {
    lab::run(std::env::args_os().skip(1))
}

/// Runs a command so that `manyway status` shows it.
async fn shown(
    cli: &Cli,
    verb: &'static str,
    command: impl Future<Output = Result<ExitCode, CommandError>>,
) -> Result<ExitCode, CommandError> {
    for warning in check_interfaces(&cli.global)? {
        warn(cli, &warning);
    }
    cli.global.board.open(verb);
    command.await
}

fn warn(cli: &Cli, text: &str) {
    match cli.log_format() {
        _ if cli.global.quiet => {}
        LogFormat::Text => cli.global.desk.tell(&format!("warning: {text}")),
        LogFormat::Json => stderr::line(&json_line("note", None, json!({ "text": text }))),
    }
}

/// Runs a command to its end.
fn block_on(command: impl Future<Output = Result<ExitCode, CommandError>>) -> Result<ExitCode, CommandError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let result = runtime.block_on(command);
    // Threads that still read or write find their queues closed.
    runtime.shutdown_timeout(END_TIME);
    result
}

/// Time limit for threads that work on a file.
const END_TIME: Duration = Duration::from_secs(1);
