//! What the stage tells the process that started it, over a socket pair: once the listeners and the device, and on a
//! failure the reason.

use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use crate::error::CaptureError;

/// The namespace is ready; its descriptors come with this byte.
const READY: u8 = b'+';
/// The system refuses it; a text follows.
const REFUSED: u8 = b'-';
/// The command was not executed, with status 126 or 127; a text follows.
const NOT_EXECUTABLE: u8 = b'x';
const NOT_FOUND: u8 = b'?';
/// The other side may start the command.
const GO: u8 = b'!';
/// The device, and two listeners.
const MOST_DESCRIPTORS: usize = 3;

/// Hands over the device and the listeners.
pub(crate) fn send_ready(channel: &UnixStream, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    sendmsg(channel, &[IoSlice::new(&[READY])], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Reports a failure. The other side may be gone; then the report is of no use.
pub(crate) fn send_failure(mut channel: &UnixStream, error: &CaptureError) {
    let kind = match error {
        CaptureError::Command { status: 127, .. } => NOT_FOUND,
        CaptureError::Command { .. } => NOT_EXECUTABLE,
        CaptureError::Refused(_) | CaptureError::Io(_) => REFUSED,
    };
    let _ = channel.write_all(&[&[kind], error.to_string().as_bytes()].concat());
}

/// Waits until the command may start. Fails if the process that started this one has ended.
pub(crate) fn await_go(mut channel: &UnixStream) -> io::Result<()> {
    let mut byte = [0];
    channel.read_exact(&mut byte)?;
    if byte == [GO] { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// Lets the command start.
pub(crate) async fn send_go(channel: &tokio::net::UnixStream) -> io::Result<()> {
    loop {
        channel.writable().await?;
        match channel.try_write(&[GO]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            result => return result.map(drop),
        }
    }
}

/// Waits for the device and the listeners, in the order in which they were sent.
pub(crate) async fn receive_ready(channel: &tokio::net::UnixStream) -> Result<Vec<OwnedFd>, CaptureError> {
    let mut kind = [0];
    loop {
        channel.readable().await?;
        let received = channel.try_io(tokio::io::Interest::READABLE, || receive(channel.as_fd(), &mut kind));
        match received {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
            Ok((0, _)) => return Err(ended_too_early().into()),
            Ok((_, descriptors)) if kind == [READY] => return Ok(descriptors),
            Ok(_) => return Err(failure(kind, &receive_text(channel).await?)),
        }
    }
}

/// Waits until the command is executed.
pub(crate) async fn receive_end(channel: &tokio::net::UnixStream) -> Result<(), CaptureError> {
    let text = receive_text(channel).await?;
    match text.split_first() {
        // `exec` closed the other end.
        None => Ok(()),
        Some((kind, text)) => Err(failure([*kind], text)),
    }
}

fn receive(channel: BorrowedFd<'_>, kind: &mut [u8; 1]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = recvmsg(channel, &mut [IoSliceMut::new(kind)], &mut ancillary, flags)?;
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(passed) = message {
            descriptors.extend(passed);
        }
    }
    Ok((received.bytes, descriptors))
}

/// Everything until the other end is closed, at most [`MOST_TEXT`] bytes.
async fn receive_text(channel: &tokio::net::UnixStream) -> io::Result<Vec<u8>> {
    let (mut text, mut chunk) = (Vec::new(), [0; 512]);
    while text.len() < MOST_TEXT {
        channel.readable().await?;
        match channel.try_read(&mut chunk) {
            Ok(0) => break,
            Ok(length) => text.extend_from_slice(chunk.get(..length).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(text)
}

fn failure(kind: [u8; 1], text: &[u8]) -> CaptureError {
    let text = String::from_utf8_lossy(text).into_owned();
    match kind {
        [NOT_FOUND] => CaptureError::Command { status: 127, text },
        [NOT_EXECUTABLE] => CaptureError::Command { status: 126, text },
        _ => CaptureError::Refused(text),
    }
}

fn ended_too_early() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "it ended too early")
}

const MOST_TEXT: usize = 8192;
