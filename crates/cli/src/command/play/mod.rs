//! `manyway play`: media of a server for the players of this host.

mod figures;
mod report;
mod source;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::{Child, Command as Process};
use std::sync::Arc;
use std::time::{Duration, Instant};

use manyway::{CarrierChoice, Rate, TargetRate};
use manyway_play::{Config, PlayServer, TargetChoice, url_path};
use manyway_terminal::{CommandError, ExitCode, ProgressMode, json};
use manyway_transfer::{Failure, Reason, RelativePath, TransferError, read_part};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::bond::{Bond, Purpose};
use super::direction::Direction;
use super::egress::listening::listen;
use super::error::of_measurement;
use super::signal::interrupted;
use super::watch::{PathWatch, Paths};
use crate::args::{GlobalArgs, PlayArgs, PlayRate};
use crate::output::opening::Opening;
use crate::output::progress::ProgressView;
use figures::MediaFigures;
use report::Report;
use source::BondSource;

/// How often figures are looked at.
const EVERY: Duration = Duration::from_millis(250);

/// Serves players until Ctrl-C or SIGTERM, or until the player that was started ends.
///
/// # Errors
/// The port is taken, the server is not reached or has no such file, or the player cannot be started.
pub async fn run(global: &GlobalArgs, arguments: &PlayArgs) -> Result<ExitCode, CommandError> {
    let listener = listen("--listen", arguments.listen).await?;
    let address = listener.local_addr()?;
    let report = arguments.report.as_deref().map(Report::create).transpose()?;
    Direction::In.tell_what_decides(global);
    let mut global = global.clone();
    if global.carrier != CarrierChoice::Udp && arguments.rate != Some(PlayRate::Max) {
        // As many as a target is held with, from the beginning.
        global.connections.get_or_insert_with(|| TargetRate::new(Rate::default()).connections);
    }
    let global = &global;
    let bond = Arc::new(Bond::start(global, &arguments.server, Purpose::Files).await?);
    let path = match find(&bond, arguments.path.as_ref()).await {
        Ok(path) => path,
        Err(error) => {
            bond.end(&error.to_string()).await;
            return Err(error);
        }
    };
    let url = format!("http://{}{path}", reachable(address));
    let result = show(global, (arguments, report), (listener, address), (&bond, &url)).await;
    bond.end("the client is stopping").await;
    result
}

/// The path of the URL that is wanted.
async fn find(bond: &Bond, path: Option<&RelativePath>) -> Result<String, CommandError> {
    let Some(path) = path else { return Ok("/".to_owned()) };
    let away = || CommandError::new(ExitCode::Unreachable, "the connection to the server is lost");
    let session = bond.session().await.ok_or_else(away)?;
    match read_part(&session, path.clone(), 0..0).await {
        Ok(_) => Ok(url_path(path.as_str())),
        Err(TransferError::Refused(failure)) if failure.reason == Reason::NotFile => {
            Ok(url_path(path.as_str()) + "/")
        }
        Err(TransferError::Refused(failure)) if failure.reason == Reason::Unsupported => {
            Err(CommandError::failed(
                "the server is too old to send parts of files; install the newest version there",
            ))
        }
        Err(TransferError::Refused(failure)) => {
            Err(CommandError::failed(Failure { text: String::new(), ..failure }.at(path.as_str().as_ref())))
        }
        Err(error) => Err(of_measurement(&error, session.0.close_reason())),
    }
}

/// An address at which a player of this host reaches a listener.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    SocketAddr::new(ip, address.port())
}

async fn show(
    global: &GlobalArgs,
    (arguments, report): (&PlayArgs, Option<Report<'_>>),
    (listener, address): (TcpListener, SocketAddr),
    (bond, url): (&Arc<Bond>, &str),
) -> Result<ExitCode, CommandError> {
    let mut config = Config::default();
    config.buffer = arguments.buffer;
    config.target = match arguments.rate {
        None => TargetChoice::OfMedia,
        Some(PlayRate::Of(rate)) => TargetChoice::Fixed(rate.bits_per_second()),
        Some(PlayRate::Max) => TargetChoice::Unlimited,
    };
    let server = PlayServer::new(BondSource::new(Arc::clone(bond), global.connections), config);
    announce(global, arguments, address, url)?;
    let mut player = start(global, arguments, url)?;
    let mut tasks = JoinSet::new();
    let serving = server.clone();
    tasks.spawn(async move { serving.serve(listener).await });
    let mode = match ProgressMode::detect(global.quiet || global.json || player.is_some()) {
        ProgressMode::Terminal => ProgressMode::Terminal,
        ProgressMode::Plain | ProgressMode::Silent => ProgressMode::Silent,
    };
    let view = Arc::new(ProgressView::new(mode, "playing"));
    if mode == ProgressMode::Terminal {
        global.desk.set_view(&view);
        tasks.spawn(watch_paths(Arc::clone(bond), Arc::clone(&view)));
    }
    let mut media = MediaFigures::new(global.json && !global.quiet);
    let ended = until_ended((bond, player.as_mut()), (&server, &mut media), &view).await;
    if let Some(player) = &mut player {
        // One that has ended cannot be ended again.
        let _ = player.kill();
        let _ = player.wait();
    }
    tasks.shutdown().await;
    view.finish();
    media.sample(server.figures(), Instant::now())?;
    media.finish(global)?;
    if let Some(report) = report {
        report.write(&media)?;
    }
    ended
}

/// Waits for the end, and looks at the figures meanwhile.
async fn until_ended(
    (bond, mut player): (&Bond, Option<&mut Child>),
    (server, media): (&PlayServer<BondSource>, &mut MediaFigures),
    view: &ProgressView,
) -> Result<ExitCode, CommandError> {
    let mut tick = tokio::time::interval(EVERY);
    let (kept, stopped) = (bond.keep(), interrupted());
    tokio::pin!(kept, stopped);
    loop {
        tokio::select! {
            error = &mut kept => return Err(error),
            name = &mut stopped => {
                if !bond.global().quiet {
                    bond.global().desk.tell(&format!("{name}: closing"));
                }
                return Ok(ExitCode::Ok);
            }
            _ = tick.tick() => {
                media.sample(server.figures(), Instant::now())?;
                view.set_text(|width| media.line(width));
                let ended = player.as_mut().map(|player| player.try_wait()).transpose()?.flatten();
                match ended {
                    None => {}
                    Some(status) if status.success() => return Ok(ExitCode::Ok),
                    Some(status) => return Err(CommandError::failed(format!("the player ended: {status}"))),
                }
            }
        }
    }
}

/// Shows the paths of one connection after the other.
async fn watch_paths(bond: Arc<Bond>, view: Arc<ProgressView>) {
    let (paths, started) = (Paths::default(), Instant::now());
    loop {
        if let Some(session) = bond.session().await {
            let watch = PathWatch::start(&session.0, Arc::clone(&view), &paths, (Direction::In, started));
            session.0.closed().await;
            drop(watch);
        }
    }
}

/// Starts the player, if there is one.
fn start(global: &GlobalArgs, arguments: &PlayArgs, url: &str) -> Result<Option<Child>, CommandError> {
    let Some((program, own)) = arguments.player.split_first() else { return Ok(None) };
    let mut process = Process::new(program);
    if global.json {
        // Standard output is for documents alone.
        process.stdout(std::io::stderr());
    }
    process.args(own).arg(url).spawn().map(Some).map_err(|error| {
        CommandError::failed(format!("{}: {}", program.display(), crate::output::cause(&error)))
    })
}

/// The URL to standard output, the rest to standard error.
fn announce(
    global: &GlobalArgs,
    arguments: &PlayArgs,
    address: SocketAddr,
    url: &str,
) -> Result<(), CommandError> {
    if global.json {
        let listening = crate::output::address(address);
        return Ok(json::print(&json!({ "url": url, "listening": listening }))?);
    }
    opening(address, url, !arguments.player.is_empty()).print(global.quiet)
}

fn opening(address: SocketAddr, url: &str, has_player: bool) -> Opening {
    let shown = crate::output::address(address);
    let warning = format!("warning: any host that reaches {shown} can read all files of this ticket");
    Opening::default()
        .message_if_some((!address.ip().is_loopback()).then_some(warning))
        .data(url)
        .message_if_some(
            (!has_player).then_some("open it in a browser, or with mpv, vlc or ffplay; Ctrl-C ends it"),
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_lines_of_a_server_for_players_fit_every_terminal() {
        for width in [80, 120] {
            let at = |listening: &str, has_player| {
                let listening = listening.parse().unwrap();
                let url = format!("http://{}/films/film.mp4", reachable(listening));
                opening(listening, &url, has_player).screen(width)
            };
            let screens = [at("127.0.0.1:8080", false), at("[::]:8080", true)].join("\n\n");
            insta::assert_snapshot!(format!("play_{width}"), screens);
        }
    }
}
