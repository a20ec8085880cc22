//! The command.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode as ProcessExitCode;
use std::time::Duration;

use clap::FromArgMatches as _;
use manyway_cli::args::{self, Cli, Command, GlobalArgs, LogFormat};
use manyway_cli::command::error::CommandError;
use manyway_cli::command::names::check_interfaces;
use manyway_cli::command::{
    bench, caps, decode, demo, egress, get, keys, lab, lab_agent, paths, ping, rendezvous, send, serve, sim,
    status,
};
use manyway_cli::exit_code::ExitCode;
use manyway_cli::output::tint::Colour;
use manyway_cli::serving::journal::json_line;
use manyway_cli::{config, documents, logging, output};

fn main() -> ProcessExitCode {
    if is_alone(&["help", "options"]) {
        let printed = print(|out| write!(out, "{}", args::shared_options()));
        return printed.unwrap_or_else(|error| fail(&error, Reader::PERSON)).into();
    }
    if is_alone(&["lab-agent"]) {
        logging::start(&GlobalArgs::default(), LogFormat::Text);
        return lab_agent::run().unwrap_or_else(|error| fail(&error, Reader::PERSON)).into();
    }
    let (mut cli, unused) = match parse() {
        Ok(parsed) => parsed,
        Err(error) => return fail_to_parse(&error).into(),
    };
    let reader = Reader { wants_json: cli.wants_json(), log: cli.log_format() };
    if let Some(text) = unused {
        return fail(&CommandError::usage(text), reader).into();
    }
    if let Err(error) = config::complete(&mut cli) {
        return fail(&error, reader).into();
    }
    logging::start(&cli.global, reader.log);
    run(&cli).unwrap_or_else(|error| fail(&error, reader)).into()
}

/// The command line, and what is wrong with it if an option means nothing to its command.
fn parse() -> Result<(Cli, Option<String>), clap::Error> {
    let words = args::with_help_as_option(std::env::args_os());
    let matches = args::command().try_get_matches_from(words)?;
    let unused = args::unused(&matches);
    Ok((Cli::from_arg_matches(&matches)?, unused))
}

/// Whether these words are the whole command line: it is no list of commands that has them.
fn is_alone(words: &[&str]) -> bool {
    std::env::args_os().skip(1).eq(words.iter().copied())
}

fn run(cli: &Cli) -> Result<ExitCode, CommandError> {
    let global = &cli.global;
    match &cli.command {
        Command::Completion(arguments) => print(|out| documents::completion(arguments.shell, out)),
        Command::Man => print(documents::manual),
        Command::Keys(arguments) => block_on(async {
            keys::run(global, arguments)?;
            Ok(ExitCode::Ok)
        }),
        Command::Caps(arguments) => block_on(async { caps::run(global, arguments) }),
        Command::Serve(arguments) => block_on(shown(global, "serve", async {
            serve::run(global, arguments).await?;
            Ok(ExitCode::Ok)
        })),
        Command::Send(arguments) => block_on(shown(global, "send", send::run(global, arguments))),
        Command::Get(arguments) => block_on(shown(global, "get", get::run(global, arguments))),
        Command::Bench(arguments) => block_on(shown(global, "bench", bench::run(global, arguments))),
        Command::Ping(arguments) => block_on(shown(global, "ping", ping::run(global, arguments))),
        Command::Paths(arguments) => block_on(shown(global, "paths", paths::run(global, arguments))),
        Command::Status(arguments) => block_on(status::run(global, arguments)),
        Command::Pipe(arguments) => block_on(shown(global, "pipe", egress::pipe::run(global, arguments))),
        Command::Forward(arguments) => {
            block_on(shown(global, "forward", egress::forward::run(global, arguments)))
        }
        Command::Proxy(arguments) => block_on(shown(global, "proxy", egress::proxy::run(global, arguments))),
        Command::Rendezvous(arguments) => block_on(async {
            rendezvous::run(global, arguments).await?;
            Ok(ExitCode::Ok)
        }),
        Command::Decode(arguments) => decode::run(global, arguments),
        Command::Demo(arguments) => demo::run(global, arguments),
        Command::Lab(arguments) => lab::run(global, arguments),
        Command::Sim(arguments) => sim::run(global, arguments),
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

/// Who reads what the command says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reader {
    /// Whether a program reads standard output.
    wants_json: bool,
    /// The form of what goes to standard error.
    log: LogFormat,
}

impl Reader {
    const PERSON: Self = Self { wants_json: false, log: LogFormat::Text };
}

/// Tells why a command failed: people on standard error, programs that asked for JSON on standard output. A reader that
/// has closed standard output is told by the status alone.
fn fail(error: &CommandError, reader: Reader) -> ExitCode {
    if error.code != ExitCode::OutputClosed {
        match reader.log {
            LogFormat::Text => output::note(&format!("error: {error}")),
            LogFormat::Json => output::stderr::line(&json_line("error", None, error.to_json())),
        }
        if reader.wants_json {
            // The error is told already.
            let _ = output::json::print(&error.to_json());
        }
    }
    error.code
}

/// Help and version are asked for; all else is a wrong command line.
fn fail_to_parse(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        let printed = error.print().and_then(|()| io::stdout().flush());
        return printed.map_or_else(|error| fail(&error.into(), Reader::PERSON), |()| ExitCode::Ok);
    }
    output::note(&usage_text(error));
    let asks = |word: &OsString| ["--json", "--json-document", "-J"].iter().any(|option| word == option);
    if std::env::args_os().skip(1).take_while(|word| word != "--").any(|word| asks(&word)) {
        let text = output::without_secrets(&error.to_string());
        // What is wrong, which may take several lines, ends before the usage.
        let lines: Vec<_> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
        let reason = lines.join(" ");
        let reason = reason.strip_prefix("error: ").unwrap_or(&reason);
        let _ = output::json::print(&CommandError::usage(reason).to_json());
    }
    ExitCode::Usage
}

/// What is wrong with a command line, with colours where they are shown.
fn usage_text(error: &clap::Error) -> String {
    let text = error.render();
    let text = match Colour::of_messages() {
        Colour::With => text.ansi().to_string(),
        Colour::Without => text.to_string(),
    };
    output::without_secrets(text.trim_end())
}

/// Writes a document to standard output.
fn print(
    write: impl FnOnce(&mut io::StdoutLock<'static>) -> io::Result<()>,
) -> Result<ExitCode, CommandError> {
    let mut out = io::stdout().lock();
    write(&mut out).and_then(|()| out.flush())?;
    Ok(ExitCode::Ok)
}
