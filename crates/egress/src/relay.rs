//! Copies both directions between a local stream and a stream to the other side.

use std::fmt;
use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::quota::{Buffer, Quota};

/// Bytes that were copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Volume {
    /// From the local stream to the other side.
    pub sent: u64,
    /// From the other side to the local stream.
    pub received: u64,
}

/// Why a connection broke, and at which end. Both ends have to be reset.
#[derive(Debug)]
#[non_exhaustive]
pub enum RelayError {
    /// At the local stream.
    Local(io::Error),
    /// At the stream to the other side.
    Remote(io::Error),
}

impl fmt::Display for RelayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(error) => write!(f, "the local end broke: {error}"),
            Self::Remote(error) => write!(f, "the other end broke: {error}"),
        }
    }
}

impl std::error::Error for RelayError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Local(error) | Self::Remote(error) => Some(error),
        }
    }
}

/// Copies both directions until both have ended in order. Each ends by itself: the other may go on (half-close). Data
/// that a writer does not accept is not read, so a slow reader stops the writer at the other side.
///
/// Halves of the remote stream that are dropped before their end reset the stream. After an error, the caller resets
/// the local one.
///
/// # Errors
/// One of the streams broke.
// egress 4.1 to 4.3
pub async fn relay<LR, LW, W, R>(
    (mut local_read, mut local_write): (LR, LW),
    (mut send, mut receive): (W, R),
    quota: &Quota,
) -> Result<Volume, RelayError>
where
    LR: AsyncRead + Unpin,
    LW: AsyncWrite + Unpin,
    W: AsyncWrite + Unpin,
    R: AsyncRead + Unpin,
{
    let outwards = async {
        let copied = copy(&mut local_read, &mut send, quota).await;
        copied.map_err(|broken| broken.at(RelayError::Local, RelayError::Remote))
    };
    let inwards = async {
        let copied = copy(&mut receive, &mut local_write, quota).await;
        copied.map_err(|broken| broken.at(RelayError::Remote, RelayError::Local))
    };
    let (sent, received) = tokio::try_join!(outwards, inwards)?;
    Ok(Volume { sent, received })
}

enum Broken {
    Reading(io::Error),
    Writing(io::Error),
}

impl Broken {
    fn at<E>(self, reader: impl FnOnce(io::Error) -> E, writer: impl FnOnce(io::Error) -> E) -> E {
        match self {
            Self::Reading(error) => reader(error),
            Self::Writing(error) => writer(error),
        }
    }
}

async fn copy<R, W>(from: &mut R, to: &mut W, quota: &Quota) -> Result<u64, Broken>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut buffer = Buffer::new(quota);
    let mut copied = 0;
    loop {
        let length = from.read(buffer.space()).await.map_err(Broken::Reading)?;
        if length == 0 {
            break;
        }
        to.write_all(buffer.filled(length)).await.map_err(Broken::Writing)?;
        to.flush().await.map_err(Broken::Writing)?;
        copied += u64::try_from(length).unwrap_or(0);
        buffer.adapt(length);
    }
    drop(buffer);
    to.shutdown().await.map_err(Broken::Writing)?;
    Ok(copied)
}
