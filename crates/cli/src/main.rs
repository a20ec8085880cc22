//! The command.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode as ProcessExitCode;
use std::time::Duration;

use clap::FromArgMatches as _;
use manyway_cli::args::{self, Cli, Command, GlobalArgs};
use manyway_cli::command::error::CommandError;
use manyway_cli::command::names::check_interfaces;
use manyway_cli::command::{
    bench, caps, decode, demo, egress, get, keys, lab, lab_agent, paths, ping, rendezvous, send, serve, sim,
    status,
};
use manyway_cli::exit_code::ExitCode;
use manyway_cli::{config, documents, logging, output};

fn main() -> ProcessExitCode {
    if asks_for_shared_options() {
        return print(|out| write!(out, "{}", args::shared_options())).unwrap_or(ExitCode::Failed).into();
    }
    let (mut cli, unused) = match parse() {
        Ok(parsed) => parsed,
        Err(error) => return fail_to_parse(&error).into(),
    };
    if let Some(text) = unused {
        return fail(&cli, &CommandError::usage(text)).into();
    }
    if let Err(error) = config::complete(&mut cli) {
        return fail(&cli, &error).into();
    }
    logging::start(&cli.global);
    run(&cli).into()
}

/// The command line, and what is wrong with it if an option means nothing to its command.
fn parse() -> Result<(Cli, Option<String>), clap::Error> {
    let matches = args::command().try_get_matches()?;
    let unused = args::unused(&matches);
    Ok((Cli::from_arg_matches(&matches)?, unused))
}

/// Whether it is `manyway help options`.
fn asks_for_shared_options() -> bool {
    std::env::args_os().skip(1).eq(["help", "options"])
}

fn run(cli: &Cli) -> ExitCode {
    let global = &cli.global;
    let done = |result: Result<ExitCode, CommandError>| result.unwrap_or_else(|error| fail(cli, &error));
    match &cli.command {
        Command::Completion(arguments) => done(print(|out| documents::completion(arguments.shell, out))),
        Command::Man => done(print(documents::manual)),
        Command::Keys(arguments) => done(block_on(async {
            keys::run(global, arguments)?;
            Ok(ExitCode::Ok)
        })),
        Command::Caps(arguments) => done(block_on(async { caps::run(global, arguments) })),
        Command::Serve(arguments) => done(block_on(shown(global, "serve", async {
            serve::run(global, arguments).await?;
            Ok(ExitCode::Ok)
        }))),
        Command::Send(arguments) => done(block_on(shown(global, "send", send::run(global, arguments)))),
        Command::Get(arguments) => done(block_on(shown(global, "get", get::run(global, arguments)))),
        Command::Bench(arguments) => done(block_on(shown(global, "bench", bench::run(global, arguments)))),
        Command::Ping(arguments) => done(block_on(shown(global, "ping", ping::run(global, arguments)))),
        Command::Paths(arguments) => done(block_on(shown(global, "paths", paths::run(global, arguments)))),
        Command::Status(arguments) => done(block_on(status::run(global, arguments))),
        Command::Pipe(arguments) => {
            done(block_on(shown(global, "pipe", egress::pipe::run(global, arguments))))
        }
        Command::Forward(arguments) => {
            done(block_on(shown(global, "forward", egress::forward::run(global, arguments))))
        }
        Command::Proxy(arguments) => {
            done(block_on(shown(global, "proxy", egress::proxy::run(global, arguments))))
        }
        Command::Rendezvous(arguments) => done(block_on(async {
            rendezvous::run(global, arguments).await?;
            Ok(ExitCode::Ok)
        })),
        Command::Decode(arguments) => done(decode::run(global, arguments)),
        Command::Demo(arguments) => done(demo::run(global, arguments)),
        Command::Lab(arguments) => done(lab::run(global, arguments)),
        Command::Sim(arguments) => done(sim::run(global, arguments)),
        Command::LabAgent(_) => done(lab_agent::run()),
    }
}

/// Runs a command so that `manyway status` sees it.
async fn shown(
    global: &GlobalArgs,
    verb: &'static str,
    command: impl Future<Output = Result<ExitCode, CommandError>>,
) -> Result<ExitCode, CommandError> {
    check_interfaces(global)?;
    global.board.open(verb);
    command.await
}

/// Runs a command to its end.
fn block_on(command: impl Future<Output = Result<ExitCode, CommandError>>) -> Result<ExitCode, CommandError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let result = runtime.block_on(command);
    // Threads that still read or write find their queues closed.
    runtime.shutdown_timeout(END_TIME);
    result
}

/// For threads that are busy with a file.
const END_TIME: Duration = Duration::from_secs(1);

/// Tells why a command failed: people on standard error, programs that asked for JSON on standard output.
fn fail(cli: &Cli, error: &CommandError) -> ExitCode {
    if error.code != ExitCode::Ok {
        output::note(&format!("error: {error}"));
        if cli.wants_json() {
            // Whoever has closed standard output does not want to know.
            let _ = output::json::print(&error.to_json());
        }
    }
    error.code
}

/// Help and version are asked for; all else is a wrong command line.
fn fail_to_parse(error: &clap::Error) -> ExitCode {
    // Nothing more can be done if nobody listens.
    let _ = error.print();
    if !error.use_stderr() {
        return ExitCode::Ok;
    }
    let asks = |word: &OsString| ["--json", "--json-document", "-J"].iter().any(|option| word == option);
    if std::env::args_os().skip(1).take_while(|word| word != "--").any(|word| asks(&word)) {
        let text = error.to_string();
        // What is wrong, which may take several lines, ends before the usage.
        let lines: Vec<_> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
        let reason = lines.join(" ");
        let reason = reason.strip_prefix("error: ").unwrap_or(&reason);
        let _ = output::json::print(&CommandError::usage(reason).to_json());
    }
    ExitCode::Usage
}

/// Writes a document to standard output.
fn print(
    write: impl FnOnce(&mut io::StdoutLock<'static>) -> io::Result<()>,
) -> Result<ExitCode, CommandError> {
    let mut out = io::stdout().lock();
    write(&mut out).and_then(|()| out.flush())?;
    Ok(ExitCode::Ok)
}
