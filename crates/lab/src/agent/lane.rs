//! One bidirectional connection or stream: bytes, or messages of Manyway.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use manyway::{ReceiveStream, SendStream};
use manyway_proto::MessageOptions;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::UdpSocket;

use crate::scenario::message_options;

/// Both halves.
pub(super) struct Lane {
    pub(super) read: Reading,
    pub(super) write: Writing,
}

/// The receiving half.
pub(super) enum Reading {
    Bytes(Box<dyn AsyncRead + Send + Unpin>),
    Messages(ReceiveStream),
    /// A message each.
    Datagrams(Arc<UdpSocket>),
}

/// The sending half.
pub(super) enum Writing {
    Bytes(Box<dyn AsyncWrite + Send + Unpin>),
    /// With the lifetime of a message, if limited.
    Messages(SendStream, Option<Duration>),
    Datagrams(Arc<UdpSocket>),
}

impl Lane {
    pub(super) fn of_bytes(
        read: impl AsyncRead + Send + Unpin + 'static,
        write: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self { read: Reading::Bytes(Box::new(read)), write: Writing::Bytes(Box::new(write)) }
    }

    pub(super) fn of_messages(read: ReceiveStream, write: SendStream, lifetime: Option<Duration>) -> Self {
        Self { read: Reading::Messages(read), write: Writing::Messages(write, lifetime) }
    }

    pub(super) fn of_datagrams(socket: UdpSocket) -> Self {
        let socket = Arc::new(socket);
        Self { read: Reading::Datagrams(Arc::clone(&socket)), write: Writing::Datagrams(socket) }
    }
}

impl Reading {
    /// Receives available data: any number of bytes, or one message. 0 is the end.
    pub(super) async fn take(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Bytes(read) => read.read(buffer).await,
            Self::Messages(stream) => {
                let Some(message) = stream.receive_message().await? else { return Ok(0) };
                let length = message.data.len();
                let place = buffer.get_mut(..length);
                place.ok_or(io::ErrorKind::InvalidData)?.copy_from_slice(&message.data);
                Ok(length)
            }
            Self::Datagrams(socket) => loop {
                match socket.recv(buffer).await {
                    // Shorter ones are control texts that came twice.
                    Ok(length) if length < SHORTEST_MESSAGE => {}
                    Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                    received => return received,
                }
            },
        }
    }

    /// Reads a control text of the other end.
    pub(super) async fn hear(&mut self, words: &mut [u8]) -> io::Result<()> {
        let mut heard = 0;
        while let Some(rest) = words.get_mut(heard..).filter(|rest| !rest.is_empty()) {
            match self.take(rest).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                length => heard += length,
            }
        }
        Ok(())
    }
}

impl Writing {
    /// Writes a piece of bulk or a message.
    pub(super) async fn put(&mut self, piece: &[u8]) -> io::Result<()> {
        match self {
            Self::Bytes(write) => {
                write.write_all(piece).await?;
                write.flush().await
            }
            Self::Messages(stream, lifetime) => {
                stream.send_message(Bytes::copy_from_slice(piece), message_options(*lifetime)).await?;
                Ok(())
            }
            Self::Datagrams(socket) => match socket.send(piece).await {
                // That is about an earlier one, and a program of datagrams goes on.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
                sent => sent.map(drop),
            },
        }
    }

    /// Sends a control text reliably.
    pub(super) async fn say(&mut self, words: &[u8]) -> io::Result<()> {
        match self {
            Self::Bytes(_) | Self::Datagrams(_) => self.put(words).await,
            Self::Messages(stream, _) => {
                stream.send_message(Bytes::copy_from_slice(words), MessageOptions::default()).await?;
                Ok(())
            }
        }
    }

    /// Finishes this half, and waits, where that is visible, until the other end has everything.
    pub(super) async fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Bytes(write) => write.shutdown().await,
            Self::Messages(stream, _) => {
                stream.finish()?;
                Ok(stream.delivered().await?)
            }
            // They have no end.
            Self::Datagrams(_) => Ok(()),
        }
    }
}

/// Least bytes of a message: its number and its time.
pub(super) const SHORTEST_MESSAGE: usize = 16;
