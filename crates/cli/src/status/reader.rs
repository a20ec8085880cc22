//! Reads the boards of all running commands.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;

use super::control::{Answer, Request};
use super::document::Document;
use super::place;

/// Time limit for a command to send a document.
const PATIENCE: Duration = Duration::from_secs(3);
/// The longest line that is read.
const LONGEST: u64 = 16 << 20;

/// The publishing commands, by their sockets.
#[derive(Debug, Default)]
pub struct Reader {
    streams: BTreeMap<PathBuf, BufReader<UnixStream>>,
}

impl Reader {
    /// The current documents of all commands, by process ID. It takes half a second; a command that does not answer is
    /// left out, and the socket of a killed one is removed.
    pub async fn documents(&mut self) -> Vec<Document> {
        let sockets = place::sockets();
        self.streams.retain(|path, _| sockets.contains(path));
        for path in sockets {
            if self.streams.contains_key(&path) {
                continue;
            }
            if let Some(stream) = connect(&path).await {
                self.streams.insert(path, BufReader::new(stream));
            }
        }
        let mut documents = Vec::new();
        let mut ended = Vec::new();
        for (path, stream) in &mut self.streams {
            match tokio::time::timeout(PATIENCE, newest(stream)).await {
                Ok(Ok(document)) => documents.push(document),
                Ok(Err(_)) | Err(_) => ended.push(path.clone()),
            }
        }
        for path in ended {
            self.streams.remove(&path);
        }
        documents.sort_by_key(|document| document.pid);
        documents
    }
}

/// Asks every running command, or the one with this process ID; a command that does not answer is left out.
pub async fn ask(request: &Request, pid: Option<u32>) -> Vec<Answer> {
    let mut answers = Vec::new();
    for path in place::sockets() {
        let asked = tokio::time::timeout(PATIENCE, ask_at(&path, request, pid)).await;
        answers.extend(asked.ok().flatten());
    }
    answers.sort_by_key(|answer| answer.pid);
    answers
}

async fn ask_at(path: &Path, request: &Request, pid: Option<u32>) -> Option<Answer> {
    let mut stream = BufReader::new(connect(path).await?);
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

async fn connect(path: &Path) -> Option<UnixStream> {
    match UnixStream::connect(path).await {
        Ok(stream) => Some(stream),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            // No other command would remove it unless one starts.
            let _ = std::fs::remove_file(path);
            None
        }
        Err(_) => None,
    }
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
