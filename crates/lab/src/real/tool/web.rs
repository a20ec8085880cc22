//! A web server for one download.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use manyway_sim::pair::Side;

use super::shared::{LOOK, PATIENCE, READ};
use crate::error::LabError;
use crate::hosts::Hosts;
use crate::real::process::Trouble;

/// A web server whose only page goes on for the duration of a run. Dropping it ends it.
pub(super) struct Web {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Web {
    pub(super) fn start(hosts: &Hosts, address: SocketAddr, lasts: Duration) -> Result<Self, Trouble> {
        let io = |error| Trouble::Lab(LabError::Io { doing: format!("listening at {address}"), error });
        let listener = hosts.inside(Side::Server, || TcpListener::bind(address)).map_err(Trouble::Lab)?;
        let listener = listener.map_err(io)?;
        listener.set_nonblocking(true).map_err(io)?;
        let ended = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&ended);
        let serve = move || {
            while !stop.load(Ordering::Relaxed) {
                match listener.accept() {
                    // A reader that leaves has its own reasons.
                    Ok((socket, _)) => drop(answer(socket, lasts, &stop)),
                    Err(_) => thread::sleep(LOOK),
                }
            }
        };
        Ok(Self { ended, thread: Some(thread::spawn(serve)) })
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It has nothing to tell.
            let _ = thread.join();
        }
    }
}

/// Reads a request, and sends until the time is over.
fn answer(mut socket: TcpStream, lasts: Duration, stop: &AtomicBool) -> io::Result<()> {
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    let mut lines = BufReader::new(socket.try_clone()?.take(MOST_REQUEST)).lines();
    while !lines.next().transpose()?.is_none_or(|line| line.is_empty()) {}
    socket.write_all(
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/octet-stream\r\n\r\n",
    )?;
    let mut page = vec![0; READ];
    blake3::Hasher::new().finalize_xof().fill(&mut page);
    let end = Instant::now() + lasts;
    while Instant::now() < end && !stop.load(Ordering::Relaxed) {
        socket.write_all(&page)?;
    }
    Ok(())
}

/// Bytes of a request.
const MOST_REQUEST: u64 = 64 << 10;
