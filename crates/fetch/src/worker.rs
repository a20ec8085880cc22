//! One interface: fetches piece after piece.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::{Response, StatusCode, header};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use crate::content_range::{ContentRange, length_of_unsatisfied};
use crate::error::Fault;
use crate::figures::InterfaceState;
use crate::http::{Connection, of_http};
use crate::job::Job;
use crate::locate::{of_status, tag_of, text_of};
use crate::meter;
use crate::network::{Interface, Network};
use crate::part::Block;
use crate::schedule::Piece;
use crate::tag::Tag;

/// How often an interface without work looks for some, and one that waits for bytes looks whether it still has to.
const LOOK: Duration = Duration::from_millis(100);
/// A connection that delivers nothing for so long is closed.
const SILENCE: Duration = Duration::from_secs(5);
/// Pauses after failures: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// Fetches until it is aborted, or nothing is written any more.
pub(crate) async fn run<N: Network>(
    job: Arc<Job<N>>,
    interface: Interface,
    mut connection: Option<Connection>,
    blocks: mpsc::Sender<Block>,
) {
    let mut pause = FIRST_PAUSE;
    while !blocks.is_closed() {
        let Some(piece) = job.take(&interface) else {
            tokio::select! {
                () = job.changed.notified() => {}
                () = sleep(LOOK) => {}
            }
            continue;
        };
        tracing::debug!(interface = interface.name, bytes = ?piece.bytes, "asks for a piece");
        match fetch(&job, &interface, &mut connection, (&piece, &blocks)).await {
            Ok(()) => pause = FIRST_PAUSE,
            Err(fault) => {
                connection = None;
                let wished = fault.retry_after();
                job.fail(&interface, fault);
                sleep(wished.map_or(pause, |wished| wished.max(pause))).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

/// Fetches one piece, or as much of it as is left to this interface.
async fn fetch<N: Network>(
    job: &Job<N>,
    interface: &Interface,
    connection: &mut Option<Connection>,
    (piece, blocks): (&Piece, &mpsc::Sender<Block>),
) -> Result<(), Fault> {
    let response = ask(job, interface, connection, piece).await?;
    let length = check(job, &response, piece)?;
    let is_over = read(job, interface, response.into_body(), (piece, length), blocks).await?;
    if !is_over {
        // The rest of the response is of no use.
        *connection = None;
    }
    Ok(())
}

/// Gets the response to the request for a piece, over the last connection if that is of use.
async fn ask<N: Network>(
    job: &Job<N>,
    interface: &Interface,
    connection: &mut Option<Connection>,
    piece: &Piece,
) -> Result<Response<Incoming>, Fault> {
    let (dialler, patience) = (&job.dialler, job.dialler.patience);
    let tag = job.asks_for_version().then_some(&job.tag);
    if let Some(open) = connection.as_mut().filter(|open| !open.is_closed()) {
        match open.get(&job.address, Some(&piece.bytes), tag, patience).await {
            // Servers close connections that were idle or have served enough.
            Err(fault) if fault.is_of_network() => {}
            result => return result,
        }
    }
    let mut open = dialler.open(interface, &job.address, &job.remotes).await?;
    let response = open.get(&job.address, Some(&piece.bytes), tag, patience).await?;
    dialler.figures.set_state(&interface.name, InterfaceState::Connected);
    *connection = Some(open);
    Ok(response)
}

/// Whether the response has the bytes that were asked for, of the right version; returns how many.
fn check<N>(job: &Job<N>, response: &Response<Incoming>, piece: &Piece) -> Result<u64, Fault> {
    let tag = tag_of(response);
    let range = text_of(response, &header::CONTENT_RANGE);
    match response.status() {
        StatusCode::PARTIAL_CONTENT => {}
        StatusCode::OK if tag == Tag::Strong(job.tag.clone()) && job.asks_for_version() => {
            // Some servers know only dates there (RFC 9110, section 13.1.5, asks for more).
            job.ask_without_version();
            return Err(Fault::Network("the server ignores If-Range; asking without it".to_owned()));
        }
        StatusCode::OK if matches!(tag, Tag::Strong(_)) && tag != Tag::Strong(job.tag.clone()) => {
            return Err(Fault::Changed);
        }
        StatusCode::OK => {
            return Err(Fault::Unfit("the server sends all of the file instead of a part".to_owned()));
        }
        StatusCode::RANGE_NOT_SATISFIABLE => {
            let length = range.as_deref().and_then(length_of_unsatisfied);
            let is_same = length.is_none_or(|length| length == job.length);
            let refused = Fault::Unfit("the server refuses a part of the file".to_owned());
            return Err(if is_same { refused } else { Fault::Changed });
        }
        _ => return Err(of_status(response)),
    }
    match tag {
        Tag::Strong(tag) if tag == job.tag => {}
        Tag::Strong(_) => return Err(Fault::Changed),
        // RFC 9110, section 15.3.7: a part names its version if the whole file would.
        Tag::Weak | Tag::Missing => {
            return Err(Fault::Unfit("the server does not name the version of a part".to_owned()));
        }
    }
    let unfit = |range: &str| Fault::Unfit(format!("the server sends other bytes than asked for: {range}"));
    let text = range.unwrap_or_default();
    let Some(range) = ContentRange::parse(&text) else {
        return Err(unfit(if text.is_empty() { "it does not say which" } else { &text }));
    };
    if range.length.is_some_and(|length| length != job.length) {
        return Err(Fault::Changed);
    }
    if range.bytes.start != piece.bytes.start || range.bytes.end > piece.bytes.end {
        return Err(unfit(&text));
    }
    let length = range.bytes.end - range.bytes.start;
    match text_of(response, &header::CONTENT_LENGTH).and_then(|text| text.parse::<u64>().ok()) {
        Some(size) if size != length => {
            Err(Fault::Unfit(format!("the server sends {size} bytes and calls them {text}")))
        }
        Some(_) | None => Ok(length),
    }
}

/// Reads the body, up to the end of the piece; returns whether the body is over, too.
async fn read<N: Network>(
    job: &Job<N>,
    interface: &Interface,
    mut body: Incoming,
    (piece, length): (&Piece, u64),
    blocks: &mpsc::Sender<Block>,
) -> Result<bool, Fault> {
    let mut left = length;
    let mut heard_at = Instant::now();
    while left > 0 {
        while let Some(wait) = job.limit.as_ref().and_then(|limit| limit.wait()) {
            sleep(wait).await;
            heard_at = Instant::now();
        }
        let frame = match timeout(LOOK, body.frame()).await {
            Ok(frame) => frame,
            Err(_) if !job.holds(interface, piece) => return Ok(false),
            Err(_) if heard_at.elapsed() >= SILENCE => {
                return Err(Fault::Network(format!("nothing came for {} s", SILENCE.as_secs())));
            }
            Err(_) => {
                if heard_at.elapsed() >= meter::SILENCE {
                    job.dialler.figures.set_state(&interface.name, InterfaceState::Silent);
                }
                continue;
            }
        };
        let Some(frame) = frame else { return Err(early()) };
        let Ok(mut data) = frame.map_err(|error| of_http(&error))?.into_data() else { continue };
        if data.is_empty() {
            continue;
        }
        if heard_at.elapsed() >= meter::SILENCE {
            job.dialler.figures.set_state(&interface.name, InterfaceState::Connected);
        }
        heard_at = Instant::now();
        if let Some(limit) = &job.limit {
            limit.spend(data.len());
        }
        let size = u64::try_from(data.len()).unwrap_or(u64::MAX);
        if size > left {
            data.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        }
        left = left.saturating_sub(size);
        let Ok(place) = blocks.reserve().await else { return Ok(false) };
        let grant = job.deliver(interface, piece, data, place);
        if grant.is_last {
            // The end of a body without further bytes is known only after another look.
            let is_over = left == 0 && (body.is_end_stream() || ends_now(&mut body).await);
            return Ok(is_over);
        }
    }
    // The server may send less than asked for.
    job.give_back(&interface.name);
    Ok(ends_now(&mut body).await)
}

async fn ends_now(body: &mut Incoming) -> bool {
    matches!(timeout(LOOK, body.frame()).await, Ok(None))
}

fn early() -> Fault {
    Fault::Network("the server closed the connection early".to_owned())
}
