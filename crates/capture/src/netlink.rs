//! Requests to the kernel by netlink (netlink(7)): messages with attributes, each acknowledged.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

/// `NLM_F_REQUEST`, `NLM_F_ACK`, and what makes a request create something.
const REQUEST: u16 = 0x01;
const ACKNOWLEDGE: u16 = 0x04;
const CREATE: u16 = 0x400;
const EXCLUSIVE: u16 = 0x200;
const APPEND: u16 = 0x800;
/// The attribute has attributes inside.
const NESTED: u16 = 0x8000;
/// Type of a message that acknowledges or refuses (`NLMSG_ERROR`).
const ANSWER: u16 = 2;
/// `struct nlmsghdr`.
const HEADER: usize = 16;
/// The kernel answers at once; this is for one that does not.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a message asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    /// Change something.
    Set,
    /// Create something, or change what there is.
    Create,
    /// Create something that there is not yet.
    CreateNew,
    /// Create something at the end of a list.
    Append,
    /// Begin or end a batch, which is not acknowledged.
    Mark,
}

/// A request.
#[derive(Debug)]
pub(crate) struct Message {
    kind: u16,
    flags: u16,
    body: Vec<u8>,
}

impl Message {
    /// A message of this type, which begins with a fixed structure.
    pub(crate) fn new(kind: u16, verb: Verb, fixed: &[u8]) -> Self {
        let flags = match verb {
            Verb::Set => REQUEST | ACKNOWLEDGE,
            Verb::Create => REQUEST | ACKNOWLEDGE | CREATE,
            Verb::CreateNew => REQUEST | ACKNOWLEDGE | CREATE | EXCLUSIVE,
            Verb::Append => REQUEST | ACKNOWLEDGE | CREATE | APPEND,
            Verb::Mark => REQUEST,
        };
        Self { kind, flags, body: fixed.to_vec() }
    }

    /// Adds an attribute.
    pub(crate) fn with(mut self, kind: u16, value: &[u8]) -> Self {
        put(&mut self.body, kind, value);
        self
    }

    /// Adds an attribute with attributes inside.
    pub(crate) fn with_nested(mut self, kind: u16, inside: &Attributes) -> Self {
        put(&mut self.body, kind | NESTED, &inside.0);
        self
    }

    /// The same, of which the kernel reports a failure alone.
    pub(crate) fn unacknowledged(mut self) -> Self {
        self.flags &= !ACKNOWLEDGE;
        self
    }

    fn is_acknowledged(&self) -> bool {
        self.flags & ACKNOWLEDGE != 0
    }

    fn finished(self) -> Vec<u8> {
        let length = u32::try_from(HEADER + self.body.len()).unwrap_or(u32::MAX);
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend([self.kind, self.flags].map(u16::to_ne_bytes).concat());
        // The sequence number and the port, which a single socket with requests in turn does not need.
        bytes.extend([0; 8]);
        bytes.extend(self.body);
        pad(&mut bytes);
        bytes
    }
}

/// Attributes inside of another one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Attributes(Vec<u8>);

impl Attributes {
    /// Adds an attribute.
    pub(crate) fn with(mut self, kind: u16, value: &[u8]) -> Self {
        put(&mut self.0, kind, value);
        self
    }

    /// Adds an attribute with attributes inside.
    pub(crate) fn with_nested(mut self, kind: u16, inside: &Self) -> Self {
        put(&mut self.0, kind | NESTED, &inside.0);
        self
    }
}

fn put(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
    bytes.extend(length.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    pad(bytes);
}

fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

/// A socket for requests.
#[derive(Debug)]
pub(crate) struct Netlink(OwnedFd);

impl Netlink {
    /// For a part of the kernel; `None` is `NETLINK_ROUTE`, the number 0.
    pub(crate) fn open(protocol: Option<Protocol>) -> io::Result<Self> {
        let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
        let socket = socket_with(family, kind, SocketFlags::CLOEXEC, protocol)?;
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
        Ok(Self(socket))
    }

    /// Sends messages together, and waits until the kernel has done what they ask for.
    pub(crate) fn request(&self, messages: impl IntoIterator<Item = Message>) -> io::Result<()> {
        let (mut bytes, mut open) = (Vec::new(), 0_usize);
        for message in messages {
            open += usize::from(message.is_acknowledged());
            bytes.extend(message.finished());
        }
        // What is left of answers to a request that failed in its middle is not for this one.
        let mut buffer = [0; 8192];
        while recv(&self.0, &mut buffer[..], RecvFlags::DONTWAIT).is_ok() {}
        send(&self.0, &bytes, SendFlags::empty())?;
        while open > 0 {
            let (_, length) = recv(&self.0, &mut buffer[..], RecvFlags::empty())?;
            let mut rest = buffer.get(..length).unwrap_or_default();
            while let Some((kind, body, after)) = split(rest) {
                if kind == ANSWER {
                    check(body)?;
                    open = open.saturating_sub(1);
                }
                rest = after;
            }
        }
        Ok(())
    }
}

/// Does something that may have been done already, and tells whether it was missing.
pub(crate) fn ensure(netlink: &Netlink, message: Message) -> io::Result<bool> {
    match netlink.request([message]) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// The type and body of the first message, and what follows it.
fn split(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let kind = u16::from_ne_bytes(*rest.first_chunk()?);
    let length = usize::try_from(u32::from_ne_bytes(*length)).ok()?;
    let body = bytes.get(HEADER..length)?;
    let after = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((kind, body, after))
}

/// The error number in an answer; 0 acknowledges.
fn check(body: &[u8]) -> io::Result<()> {
    let number = body.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes));
    match number {
        Some(0) => Ok(()),
        Some(number) => Err(io::Error::from_raw_os_error(number.wrapping_neg())),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_to_four_bytes_and_their_length_leaves_the_padding_out() {
        let inside = Attributes::default().with(1, b"abc");
        let bytes = Message::new(7, Verb::Set, &[9; 4]).with(2, b"x").with_nested(3, &inside).finished();
        let mut expected = Vec::new();
        expected.extend(40_u32.to_ne_bytes());
        expected.extend([7_u16, REQUEST | ACKNOWLEDGE].map(u16::to_ne_bytes).concat());
        expected.extend([0; 8]);
        expected.extend([9; 4]);
        expected.extend([5_u16, 2].map(u16::to_ne_bytes).concat());
        expected.extend(b"x\0\0\0");
        expected.extend([12_u16, 3 | NESTED, 7, 1].map(u16::to_ne_bytes).concat());
        expected.extend(b"abc\0");
        assert_eq!(bytes, expected);
    }

    #[test]
    fn answers_are_read_and_malformed_ones_are_errors() {
        let answer = |number: i32| {
            let mut bytes = 36_u32.to_ne_bytes().to_vec();
            bytes.extend([ANSWER, 0].map(u16::to_ne_bytes).concat());
            bytes.extend([0; 8]);
            bytes.extend(number.to_ne_bytes());
            bytes.extend([0; 16]);
            bytes
        };
        let two = [answer(0), answer(-1)].concat();
        let (kind, body, rest) = split(&two).unwrap();
        assert_eq!((kind, check(body).is_ok()), (ANSWER, true));
        let (_, body, rest) = split(rest).unwrap();
        assert_eq!(check(body).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert!(rest.is_empty() && split(rest).is_none());
        for length in 0..two.len() {
            let _ = split(&two[..length]).map(|(_, body, _)| check(body));
        }
        // A length that is shorter than a header, or longer than the message.
        for wrong in [0_u32, 15, 37, u32::MAX] {
            let mut bytes = answer(0);
            bytes[..4].copy_from_slice(&wrong.to_ne_bytes());
            assert!(split(&bytes).is_none(), "{wrong}");
        }
    }
}
