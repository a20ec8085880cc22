//! The connections: each asks once when it is open, and once in every round.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use super::options::FlowsOptions;
use crate::error::LabError;
use crate::measures::Spread;
use crate::stop::Stop;

/// Bytes of a request, and of its answer.
pub(super) const REQUEST: usize = 100;

/// A request without an answer for so long is none.
const PATIENCE: Duration = Duration::from_secs(30);

/// Open connections.
pub(super) struct Load {
    sockets: Vec<TcpStream>,
    /// Seconds of each until its first answer.
    opening: Vec<f64>,
    took: Duration,
}

impl Load {
    /// Opens connections to the listeners in turn, at a constant rate.
    pub(super) async fn open(listening: &[SocketAddr], options: &FlowsOptions) -> Result<Self, LabError> {
        let begin = Instant::now();
        let each = Duration::from_secs(1) / options.rate.max(1);
        let mut opening = JoinSet::new();
        for (number, address) in (0..options.flows.max(1)).zip(listening.iter().copied().cycle()) {
            options.stop.check()?;
            sleep_until(begin + each * number).await;
            opening.spawn(async move {
                let begun = Instant::now();
                let socket = within(TcpStream::connect(address)).await?;
                // A request is one small write.
                socket.set_nodelay(true).map_err(failed)?;
                asked(socket, begun).await
            });
        }
        let mut load = Self { sockets: Vec::new(), opening: Vec::new(), took: Duration::ZERO };
        load.opening = load.collect(opening, &options.stop).await?;
        load.took = begin.elapsed();
        Ok(load)
    }

    /// Asks on every connection, the first and the last a second apart.
    pub(super) async fn round(&mut self, stop: &Stop) -> Result<Spread, LabError> {
        let begin = Instant::now();
        let sockets = std::mem::take(&mut self.sockets);
        let each = Duration::from_secs(1) / u32::try_from(sockets.len()).unwrap_or(u32::MAX).max(1);
        let mut asking = JoinSet::new();
        for (number, socket) in (0..).zip(sockets) {
            asking.spawn(async move {
                let due = begin + each * number;
                sleep_until(due).await;
                asked(socket, due).await
            });
        }
        let seconds = self.collect(asking, stop).await?;
        spread(&seconds)
    }

    /// Opened and answered connections a second.
    pub(super) fn rate(&self) -> f64 {
        let count = u32::try_from(self.opening.len()).unwrap_or(u32::MAX);
        f64::from(count) / self.took.as_secs_f64().max(1e-9)
    }

    pub(super) fn opening(&self) -> Result<Spread, LabError> {
        spread(&self.opening)
    }

    /// Keeps the sockets, and returns how long each waited for its answer.
    async fn collect(&mut self, mut asking: JoinSet<Asked>, stop: &Stop) -> Result<Vec<f64>, LabError> {
        let mut seconds = Vec::with_capacity(asking.len());
        while let Some(asked) = asking.join_next().await {
            stop.check()?;
            let asked = asked.map_err(|error| LabError::Unsupported(format!("a request failed: {error}")))?;
            let (socket, waited) = asked?;
            self.sockets.push(socket);
            seconds.push(waited.as_secs_f64());
        }
        Ok(seconds)
    }
}

type Asked = Result<(TcpStream, Duration), LabError>;

/// Sends a request and reads its answer; returns the time since `begun`.
async fn asked(mut socket: TcpStream, begun: Instant) -> Asked {
    let mut bytes = [7; REQUEST];
    within(socket.write_all(&bytes)).await?;
    within(socket.read_exact(&mut bytes)).await?;
    Ok((socket, begun.elapsed()))
}

async fn within<T>(work: impl Future<Output = std::io::Result<T>>) -> Result<T, LabError> {
    let late = |_| LabError::Unsupported(format!("a connection got no answer for {PATIENCE:?}"));
    timeout(PATIENCE, work).await.map_err(late)?.map_err(failed)
}

fn failed(error: std::io::Error) -> LabError {
    LabError::Io { doing: "asking over a connection".to_owned(), error }
}

fn spread(seconds: &[f64]) -> Result<Spread, LabError> {
    let none = || LabError::Unsupported("no connection was answered".to_owned());
    Spread::of(seconds.iter().copied()).ok_or_else(none)
}
