//! Reads the boards of all running commands.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::task::JoinSet;

use super::control::{Answer, Request};
use super::document::Document;
use super::place;

/// Time limit for a command to send a document.
const PATIENCE: Duration = Duration::from_secs(3);
/// The longest line that is read.
const LONGEST: u64 = 16 << 20;

/// The answers of the running commands.
#[derive(Debug)]
pub struct Reading<T> {
    /// Of each command that answered, by process ID.
    pub answers: Vec<T>,
    /// The sockets of those that did not answer within three seconds. The process may be stopped or overloaded.
    pub unanswered: Vec<PathBuf>,
}

impl<T> Reading<T> {
    /// A sentence for each command that did not answer.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        self.unanswered.iter().map(|path| format!("the command at {} does not answer", path.display()))
    }
}

/// The publishing commands, by their sockets.
#[derive(Debug, Default)]
pub struct Reader {
    streams: BTreeMap<PathBuf, BufReader<UnixStream>>,
}

impl Reader {
    /// The current documents of all commands. It takes half a second, or three if a command does not answer. The socket
    /// of a killed one is removed.
    pub async fn documents(&mut self) -> Reading<Document> {
        let mut reading = Reading { answers: Vec::new(), unanswered: Vec::new() };
        let mut streams = std::mem::take(&mut self.streams);
        let mut asked = JoinSet::new();
        for path in place::sockets() {
            let stream = streams.remove(&path);
            asked.spawn(async move {
                let answer = tokio::time::timeout(PATIENCE, document_at(&path, stream)).await;
                (path, answer.unwrap_or_else(|elapsed| Err(elapsed.into())))
            });
        }
        while let Some(Ok((path, answer))) = asked.join_next().await {
            match answer {
                Ok((stream, document)) => {
                    reading.answers.push(document);
                    self.streams.insert(path, stream);
                }
                Err(error) if is_unanswered(&error) => reading.unanswered.push(path),
                // It ended.
                Err(_) => {}
            }
        }
        reading.unanswered.sort();
        reading.answers.sort_by_key(|document| document.pid);
        reading
    }
}

/// Asks every running command, or the one with this process ID.
pub async fn ask(request: &Request, pid: Option<u32>) -> Reading<Answer> {
    let mut reading = Reading { answers: Vec::new(), unanswered: Vec::new() };
    for path in place::sockets() {
        match tokio::time::timeout(PATIENCE, ask_at(&path, request, pid)).await {
            Ok(answer) => reading.answers.extend(answer),
            Err(_) => reading.unanswered.push(path),
        }
    }
    reading.answers.sort_by_key(|answer| answer.pid);
    reading
}

/// Whether the time was over, or the backlog of the socket is full.
fn is_unanswered(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

async fn document_at(
    path: &Path,
    stream: Option<BufReader<UnixStream>>,
) -> io::Result<(BufReader<UnixStream>, Document)> {
    let mut stream = match stream {
        Some(stream) => stream,
        None => BufReader::new(connect(path).await?),
    };
    let document = newest(&mut stream).await?;
    Ok((stream, document))
}

async fn ask_at(path: &Path, request: &Request, pid: Option<u32>) -> Option<Answer> {
    let mut stream = BufReader::new(connect(path).await.ok()?);
    if let Some(pid) = pid {
        // The name of a socket says little: its process may be that of another namespace.
        let document: Document = serde_json::from_slice(&line(&mut stream).await.ok()?).ok()?;
        if document.pid != pid {
            return None;
        }
    }
    let mut request = serde_json::to_vec(request).ok()?;
    request.push(b'\n');
    stream.get_mut().write_all(&request).await.ok()?;
    loop {
        // Documents may come before.
        if let Ok(answer) = serde_json::from_slice(&line(&mut stream).await.ok()?) {
            return Some(answer);
        }
    }
}

async fn connect(path: &Path) -> io::Result<UnixStream> {
    let connected = UnixStream::connect(path).await;
    if connected.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
        // No other command would remove it unless one starts.
        let _ = std::fs::remove_file(path);
    }
    connected
}

/// The last of the waiting documents, or the next one.
async fn newest(stream: &mut BufReader<UnixStream>) -> io::Result<Document> {
    let mut document = read(stream).await?;
    // Documents that were sent while nothing was read are old.
    while stream.buffer().contains(&b'\n') {
        document = read(stream).await?;
    }
    Ok(document)
}

async fn read(stream: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Document> {
    serde_json::from_slice(&line(stream).await?).map_err(io::Error::other)
}

async fn line(stream: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let read = stream.take(LONGEST).read_until(b'\n', &mut line).await?;
    if read == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(line) }
}
