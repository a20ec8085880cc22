//! `manyway get URL`: a file from an ordinary web server, over every interface at once.

mod network;
mod watch;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use manyway_fetch::{
    Destination, Event, FetchError, Fetched, Figures, Limit, Observer, Outlet, Plan, Present, RootCertStore,
    WebAddress, authorities, client_config, fetch,
};
use manyway_terminal::{CommandError, ExitCode, ProgressMode};
use manyway_transfer::{Failure, Progress as _, ProgressEvent, Reason, Report, Totals};

use super::error::RAISE;
use super::output::{can_be_directory, new_name, open_special, refuse_json, special_file};
use super::signal::interrupted;
use super::summary::{End, ForeignFile, Summary};
use super::tally::Tally;
use super::transfer::{AGAIN, gave_up_after, pause};
use super::watch::moment;
use crate::args::{GetArgs, GlobalArgs, Retries, Trust};
use crate::output::cause;
use crate::output::progress::ProgressView;
use crate::serving::limit::Bucket;
use network::{HostNetwork, Watch};
use watch::InterfaceWatch;

/// Fetches the file.
///
/// # Errors
/// If the server is not reached or has no such file, the file cannot be stored, or the download breaks too often.
pub async fn run(global: &GlobalArgs, arguments: &GetArgs) -> Result<ExitCode, CommandError> {
    refuse_weights(global)?;
    let place = Place::of(global, &arguments.output).await?;
    let (end, is_stream) = (place.end, place.is_stream);
    let plan = plan(global, arguments, place.destination)?;
    let (network, counting) = HostNetwork::start(global, plan.figures.clone())?;
    let view = ProgressView::new(ProgressMode::detect(global.quiet), "fetching");
    let view = Arc::new(view.counting(global.board.files()));
    global.desk.set_view(&view);
    let started = Instant::now();
    let run = Run {
        global,
        retry: if is_stream { Retries::AtMost(0) } else { arguments.transfer.retry },
        output: &arguments.output,
        end,
        tally: Arc::new(Tally::new(Arc::clone(&view))),
        watch: InterfaceWatch::start(plan.figures.clone(), Arc::clone(&view)),
        view,
        started,
        network,
        _counting: counting,
    };
    run.until_done(&plan).await
}

/// A download with its attempts.
struct Run<'a> {
    global: &'a GlobalArgs,
    retry: Retries,
    /// Where the file goes, as the user wrote it.
    output: &'a Path,
    end: End,
    tally: Arc<Tally>,
    view: Arc<ProgressView>,
    watch: InterfaceWatch,
    network: Arc<HostNetwork>,
    started: Instant,
    _counting: Watch,
}

impl Run<'_> {
    async fn until_done(&self, plan: &Plan) -> Result<ExitCode, CommandError> {
        let mut repetitions = 0;
        let error = loop {
            self.tally.begin();
            let (error, is_kept) = match self.attempt(plan).await {
                Ok(fetched) => return self.finish(&fetched),
                Err(failed) => failed,
            };
            if error.code != ExitCode::Incomplete || !self.retry.allow(repetitions) {
                break give_up(error, is_kept, repetitions);
            }
            repetitions += 1;
            let of = match self.retry {
                Retries::AtMost(most) => format!("{repetitions} of {most}"),
                Retries::Forever => repetitions.to_string(),
            };
            self.view.message(&format!("{error}; trying again, attempt {of}"));
            self.view.set_reconnecting(format!("trying again, attempt {of}"));
            if let Err(error) = pause().await {
                break give_up(error, is_kept, repetitions);
            }
        };
        self.view.finish();
        let counts = self.tally.so_far();
        if counts.totals.files == 0 {
            return Err(error);
        }
        let summary = Summary::new("fetched", counts, self.started.elapsed(), self.watch.rows());
        // The progress says nothing about a file that cannot be stored, or has another sum.
        if error.code != ExitCode::Failed {
            summary.tell_part(self.global);
        }
        Err(summary.explain(error))
    }

    /// One attempt; if it fails, also whether what has arrived is of use to the next.
    async fn attempt(&self, plan: &Plan) -> Result<Fetched, (CommandError, bool)> {
        let mut signal = None;
        let stop = async {
            tokio::select! {
                caught = interrupted() => signal = Some(caught),
                () = self.network.exhausted() => {}
            }
        };
        let result = fetch(plan, &self.network, &self.observer(), stop).await;
        result.map_err(|error| {
            let is_kept = is_kept(&error);
            let caps = self.network.caps_reached();
            let told = match (error, signal) {
                (FetchError::Stopped { .. }, Some(signal)) => signal.error(),
                (FetchError::Stopped { .. }, None) => CommandError::new(
                    ExitCode::Policy,
                    format!("{caps}, and no other interface leads to the server; {RAISE}"),
                ),
                (error @ FetchError::NoInterface { .. }, None) if !caps.is_empty() => {
                    CommandError::new(ExitCode::Policy, format!("{error}; {RAISE}"))
                }
                (FetchError::Local { source, .. }, _) if self.end == End::Messages => self.of_output(source),
                (error, _) => of_fetch(&error),
            };
            (told, is_kept)
        })
    }

    /// The output failed; a reader that closed standard output has seen enough.
    fn of_output(&self, error: io::Error) -> CommandError {
        if self.output == Path::new("-") {
            return error.into();
        }
        CommandError::failed(Failure::from_io(&error).at(self.output))
    }

    fn observer(&self) -> Observer {
        let (tally, view, started) = (Arc::clone(&self.tally), Arc::clone(&self.view), self.started);
        Arc::new(move |event: Event<'_>| match event {
            Event::Found { name, length } => {
                let size = length.unwrap_or(0);
                tally.on_progress(ProgressEvent::Totals(Totals { files: 1, bytes: size }));
                tally.on_progress(ProgressEvent::Started { name, size: length });
            }
            Event::Resumed { bytes } => tally.on_progress(ProgressEvent::Resumed { bytes }),
            Event::Advanced { bytes } => tally.on_progress(ProgressEvent::Advanced { bytes }),
            Event::Said { text } => view.message(text),
            Event::Interface { text } => view.message(&format!("{} {text}", moment(started.elapsed()))),
            _ => {}
        })
    }

    fn finish(&self, fetched: &Fetched) -> Result<ExitCode, CommandError> {
        let path = fetched.path.strip_prefix(".").unwrap_or(&fetched.path).display().to_string();
        let mut report = Report::default();
        if fetched.is_kept {
            self.view.message(&format!("skipping {path}: it is there"));
            report.left_out = 1;
        } else {
            (report.verified, report.bytes) = (1, fetched.length);
            self.tally.on_progress(ProgressEvent::Verified { name: &path });
        }
        self.view.finish();
        let counts = self.tally.end(report);
        let summary = Summary::new("fetched", counts, self.started.elapsed(), self.watch.rows());
        let file = ForeignFile { path, is_verified: fetched.is_verified };
        summary.of_foreign(file).finish(self.global, self.end)
    }
}

/// The scheduler of what this end sends has no part in a download.
fn refuse_weights(global: &GlobalArgs) -> Result<(), CommandError> {
    let named = global.interfaces.iter().filter(|_| !global.interfaces_of_settings);
    match named.map(|wish| &wish.rule).find(|rule| rule.cost != 0 || rule.weight != 1) {
        Some(rule) => Err(CommandError::usage(format!(
            "-I {}: cost and weight have no use with a URL: each interface fetches as fast as it can; role=backup keeps \
             one in reserve",
            rule.pattern
        ))),
        None => Ok(()),
    }
}

fn plan(global: &GlobalArgs, arguments: &GetArgs, destination: Destination) -> Result<Plan, CommandError> {
    let address = WebAddress::parse(&arguments.ticket).map_err(CommandError::usage)?;
    let roots = trusted(global, address.is_encrypted())?;
    let limit = arguments
        .transfer
        .bwlimit
        .map(|rate| Arc::new(RateLimit(Bucket::new(rate, tokio::time::Instant::now()))) as Arc<dyn Limit>);
    Ok(Plan {
        destination,
        address,
        present: match (arguments.keep, arguments.backup) {
            (true, _) => Present::Keep,
            (false, true) => Present::BackUp,
            (false, false) => Present::Replace,
        },
        sum: arguments.sha256,
        patience: global.connect_timeout(),
        limit,
        tls: client_config(roots).map_err(CommandError::failed)?,
        figures: Figures::default(),
    })
}

/// Where the file and the summary go.
struct Place {
    destination: Destination,
    end: End,
    /// Whether what was written is gone, so that there is no second attempt.
    is_stream: bool,
}

impl Place {
    async fn of(global: &GlobalArgs, output: &Path) -> Result<Self, CommandError> {
        let stream =
            |outlet| Self { destination: Destination::Output(outlet), end: End::Messages, is_stream: true };
        if output == Path::new("-") {
            refuse_json(global)?;
            return Ok(stream(Outlet::new(io::stdout())));
        }
        if let Some(kind) = special_file(output) {
            return Ok(stream(Outlet::new(open_special(output, kind).await?)));
        }
        let (directory, destination) = match new_name(output)? {
            Some((into, name)) => (into.clone(), Destination::File(into.join(name.as_str()))),
            None => (output.to_owned(), Destination::Directory(output.to_owned())),
        };
        can_be_directory(&directory)?;
        Ok(Self { destination, end: End::Output, is_stream: false })
    }
}

/// The authorities that vouch for the server: those of the system, or of a file.
fn trusted(global: &GlobalArgs, is_needed: bool) -> Result<RootCertStore, CommandError> {
    match (&global.trust, global.trust()) {
        (Some(Trust::Keys), _) => Err(CommandError::usage(
            "--trust keys is for Manyway servers: a web server has a certificate; name system, or a file with its \
             authority",
        )),
        (_, Some(Trust::File(file))) => of_file(file),
        (_, Some(Trust::System | Trust::Keys) | None) => of_system(is_needed),
    }
}

fn of_file(file: &PathBuf) -> Result<RootCertStore, CommandError> {
    let usage =
        |reason: &dyn std::fmt::Display| CommandError::usage(format!("--trust {}: {reason}", file.display()));
    let pem = std::fs::read(file).map_err(|error| usage(&cause(&error)))?;
    authorities(&pem).map_err(|reason| usage(&reason))
}

fn of_system(is_needed: bool) -> Result<RootCertStore, CommandError> {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(reason = %error, "an authority of the system can not be read");
    }
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() && is_needed {
        return Err(CommandError::failed(
            "this system trusts no authority; install its package of certificates (ca-certificates), or name a file by \
             --trust FILE",
        ));
    }
    Ok(roots)
}

/// A limit of what all interfaces receive together.
#[derive(Debug)]
struct RateLimit(Bucket);

impl Limit for RateLimit {
    fn wait(&self) -> Option<Duration> {
        self.0.wait(tokio::time::Instant::now())
    }

    fn spend(&self, bytes: usize) {
        self.0.spend(bytes);
    }
}

/// The exit status and text of a failure.
fn of_fetch(error: &FetchError) -> CommandError {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the library's list is open")]
    match error {
        FetchError::Address { .. } => CommandError::usage(error),
        FetchError::Resolve { .. } | FetchError::NoInterface { .. } | FetchError::Unreachable { .. } => {
            CommandError::new(ExitCode::Unreachable, error)
        }
        FetchError::Untrusted { .. } => CommandError::new(
            ExitCode::Authentication,
            format!("{error}; if you trust its authority, name a file with that: --trust FILE"),
        ),
        FetchError::Status { code: 401 | 407, .. } => CommandError::new(ExitCode::Authentication, error),
        FetchError::Local { path, source } => {
            let failure = Failure::from_io(source);
            let next = if failure.reason == Reason::DiskFull { DISK_FULL } else { "" };
            CommandError::failed(format!("{}{next}", failure.at(path)))
        }
        error if error.is_transient() => CommandError::new(ExitCode::Incomplete, error),
        _ => CommandError::failed(error),
    }
}

/// What to do about a full disk.
const DISK_FULL: &str = "; make room and run the same command again";

/// Whether what has arrived is of use to another run.
fn is_kept(error: &FetchError) -> bool {
    matches!(
        error,
        FetchError::Broken { is_kept: true, .. }
            | FetchError::Stopped { is_kept: true }
            | FetchError::Status { .. }
    )
}

/// Says what to do about a download that this command gives up.
fn give_up(error: CommandError, is_kept: bool, repetitions: u32) -> CommandError {
    let next = if error.code.is_interruption() && is_kept {
        format!("; {AGAIN} to go on")
    } else if error.code == ExitCode::Incomplete {
        let attempts = gave_up_after(repetitions);
        match is_kept {
            true => format!("; {attempts}what has arrived is kept, {AGAIN} to resume"),
            false => format!("; {attempts}{AGAIN} to start again"),
        }
    } else {
        return error;
    };
    CommandError { text: format!("{error}{next}"), ..error }
}
