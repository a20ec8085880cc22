//! Tickets: everything that a client needs to reach a server and to be accepted, as one word to copy.
//!
//! `mw1` and the lower-case base32 (RFC 4648, no padding) of
//!
//! ```text
//! version 1 byte | hash of the server's key 16 | secret 16 | number of addresses 1 | addresses | checksum 4
//!   address:  4 | IPv4 address 4  | port 2
//!             6 | IPv6 address 16 | port 2
//!             0 | length 1 | name | port 2
//! ```
//!
//! The checksum is the first four bytes of BLAKE3 in key-derivation mode over everything before it. It detects typing
//! mistakes. It does not stop attackers: the writer of a ticket can write its checksum.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::str::FromStr;

use data_encoding::{BASE32_NOPAD, Encoding};

mod host;
#[cfg(test)]
mod tests;

pub use host::{Host, HostName, HostPort, HostPortError};

/// What a server hands out: its key hash, the secret that grants access, and its addresses.
///
/// Its text form is a secret. [`Debug`](fmt::Debug) hides the secret part; [`Display`](fmt::Display) prints everything,
/// since that is what a user copies.
///
/// ```
/// use manyway::{HostPort, Ticket};
/// let ticket = Ticket::new([1; 16], [2; 16], vec!["192.0.2.7".parse()?, "example.org:5000".parse()?])?;
/// let text = ticket.to_string();
/// assert!(text.starts_with("mw1"));
/// assert_eq!(text.to_uppercase().parse::<Ticket>()?, ticket);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Ticket {
    server_key_hash: [u8; 16],
    secret: [u8; 16],
    hosts: Vec<HostPort>,
}

impl Ticket {
    /// Most addresses of a ticket.
    pub const MAX_HOSTS: usize = 16;

    const PREFIX: &str = "mw1";
    const VERSION: u8 = 1;
    const CHECKSUM: usize = 4;
    const CONTEXT: &str = "manyway ticket checksum, version 1";
    /// More than sixteen names of full length need; a longer text is refused unread.
    const MAX_TEXT: usize = 16 * 1024;

    /// Makes a ticket of the first 16 bytes of SHA-256 over the server's public key, the secret, and the server's
    /// addresses, best first.
    ///
    /// # Errors
    /// [`TicketError::Hosts`] unless there are 1 to [`MAX_HOSTS`](Self::MAX_HOSTS) addresses.
    pub fn new(
        server_key_hash: [u8; 16],
        secret: [u8; 16],
        hosts: Vec<HostPort>,
    ) -> Result<Self, TicketError> {
        if hosts.is_empty() || hosts.len() > Self::MAX_HOSTS {
            return Err(TicketError::Hosts { count: hosts.len() });
        }
        let hosts = hosts.into_iter().map(HostPort::without_zone).collect();
        Ok(Self { server_key_hash, secret, hosts })
    }

    /// Generates a secret from the system's random numbers. Every holder of a ticket with it may connect to the servers
    /// that accept it.
    ///
    /// # Errors
    /// If the system gives none.
    pub fn generate_secret() -> io::Result<[u8; 16]> {
        let mut secret = [0; 16];
        ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut secret)
            .map_err(|_| io::Error::other("the system gives no random numbers"))?;
        Ok(secret)
    }

    /// The first 16 bytes of SHA-256 over the server's public key; the client accepts no other server.
    pub fn server_key_hash(&self) -> &[u8; 16] {
        &self.server_key_hash
    }

    /// The secret from which the client derives its own key.
    pub fn secret(&self) -> &[u8; 16] {
        &self.secret
    }

    /// The addresses of the server, best first; never empty.
    pub fn hosts(&self) -> &[HostPort] {
        &self.hosts
    }

    /// The same ticket with further addresses behind its own, in the place of the last ones where there is no room.
    pub(crate) fn with_hosts(&self, hosts: impl IntoIterator<Item = HostPort>) -> Self {
        let mut further: Vec<_> = hosts.into_iter().filter(|host| !self.hosts.contains(host)).collect();
        further.truncate(Self::MAX_HOSTS - 1);
        let mut ticket = self.clone();
        ticket.hosts.truncate(Self::MAX_HOSTS - further.len());
        ticket.hosts.append(&mut further);
        ticket
    }

    /// The ticket without its text form, for a channel that detects damage itself.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.body()
    }

    /// Reads [`Self::to_bytes`].
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, TicketError> {
        Self::decode(bytes).map_err(|_| TicketError::Malformed)
    }

    fn body(&self) -> Vec<u8> {
        let mut body = vec![Self::VERSION];
        body.extend_from_slice(&self.server_key_hash);
        body.extend_from_slice(&self.secret);
        body.push(u8::try_from(self.hosts.len()).unwrap_or(u8::MAX));
        for host in &self.hosts {
            match host.host() {
                Host::Ip(IpAddr::V4(address)) => {
                    body.push(4);
                    body.extend_from_slice(&address.octets());
                }
                Host::Ip(IpAddr::V6(address)) => {
                    body.push(6);
                    body.extend_from_slice(&address.octets());
                }
                Host::Name(name) => {
                    body.push(0);
                    body.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
                    body.extend_from_slice(name.as_bytes());
                }
            }
            body.extend_from_slice(&host.port().to_be_bytes());
        }
        body
    }

    fn checksum(body: &[u8]) -> [u8; Self::CHECKSUM] {
        let mut sum = [0; Self::CHECKSUM];
        blake3::Hasher::new_derive_key(Self::CONTEXT).update(body).finalize_xof().fill(&mut sum);
        sum
    }

    fn decode(body: &[u8]) -> Result<Self, Fault> {
        let mut fields = Fields(body);
        let [version] = fields.take()?;
        if version != Self::VERSION {
            return Err(Fault::Version(version));
        }
        let server_key_hash = fields.take()?;
        let secret = fields.take()?;
        let [count] = fields.take()?;
        let mut hosts = Vec::new();
        for _ in 0..count {
            hosts.push(fields.host()?);
        }
        if !fields.0.is_empty() {
            return Err(Fault::Nonsense);
        }
        Self::new(server_key_hash, secret, hosts).map_err(|_| Fault::Nonsense)
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("server_key_hash", &data_encoding::HEXLOWER.encode(&self.server_key_hash))
            .field("secret", &format_args!("(hidden)"))
            .field("hosts", &self.hosts)
            .finish()
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = self.body();
        bytes.extend_from_slice(&Self::checksum(&bytes));
        let mut text = BASE32_NOPAD.encode(&bytes);
        text.make_ascii_lowercase();
        write!(f, "{}{text}", Self::PREFIX)
    }
}

impl FromStr for Ticket {
    type Err = TicketError;

    fn from_str(text: &str) -> Result<Self, TicketError> {
        let text = text.trim();
        if text.len() > Self::MAX_TEXT {
            return Err(TicketError::NotATicket);
        }
        let text = text.to_ascii_lowercase();
        let Some(code) = text.strip_prefix(Self::PREFIX) else {
            let other_version = text
                .strip_prefix("mw")
                .and_then(|rest| rest.chars().next())
                .filter(char::is_ascii_digit)
                .and_then(|digit| digit.to_digit(10))
                .and_then(|digit| u8::try_from(digit).ok());
            return Err(match other_version {
                Some(version) => TicketError::UnknownVersion { version },
                None => TicketError::NotATicket,
            });
        };
        if let Some((position, character)) =
            code.char_indices().find(|(_, c)| !matches!(c, 'a'..='z' | '2'..='7'))
        {
            let position = Self::PREFIX.len() + position + 1;
            return Err(TicketError::Character { character, position });
        }
        let code = code.to_ascii_uppercase();
        // No text of whole bytes has this length: at least one character is missing.
        let bytes = base32_without_checks().decode(code.as_bytes()).map_err(|_| TicketError::Truncated)?;
        let Some((body, sum)) = bytes.split_last_chunk::<{ Self::CHECKSUM }>() else {
            return Err(TicketError::Truncated);
        };
        let intact = BASE32_NOPAD.encode(&bytes) == code && Self::checksum(body) == *sum;
        match (Self::decode(body), intact) {
            (Ok(ticket), true) => Ok(ticket),
            (Err(Fault::Version(version)), true) => Err(TicketError::UnknownVersion { version }),
            (Err(Fault::Short | Fault::Nonsense), true) => Err(TicketError::Malformed),
            (Err(Fault::Short), false) => Err(TicketError::Truncated),
            (Ok(_) | Err(Fault::Version(_) | Fault::Nonsense), false) => Err(TicketError::Mistyped),
        }
    }
}

/// Base32 that ignores the unused bits of the last character, so that a truncated text can be diagnosed.
fn base32_without_checks() -> Encoding {
    let mut specification = BASE32_NOPAD.specification();
    specification.check_trailing_bits = false;
    specification.encoding().unwrap_or(BASE32_NOPAD)
}

/// Why bytes are not the body of a ticket.
enum Fault {
    Version(u8),
    Short,
    Nonsense,
}

/// The bytes not read yet.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let (field, rest) = self.0.split_first_chunk::<N>().ok_or(Fault::Short)?;
        self.0 = rest;
        Ok(*field)
    }

    fn slice(&mut self, length: usize) -> Result<&'a [u8], Fault> {
        let (field, rest) = self.0.split_at_checked(length).ok_or(Fault::Short)?;
        self.0 = rest;
        Ok(field)
    }

    fn host(&mut self) -> Result<HostPort, Fault> {
        let [kind] = self.take()?;
        let host = match kind {
            4 => Host::Ip(IpAddr::from(self.take::<4>()?)),
            6 => Host::Ip(IpAddr::from(self.take::<16>()?)),
            0 => {
                let [length] = self.take()?;
                let name =
                    std::str::from_utf8(self.slice(usize::from(length))?).map_err(|_| Fault::Nonsense)?;
                Host::name(name).map_err(|_| Fault::Nonsense)?
            }
            _ => return Err(Fault::Nonsense),
        };
        Ok(HostPort::new(host, u16::from_be_bytes(self.take()?)))
    }
}

/// Why a text is no ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TicketError {
    /// It does not begin like a ticket.
    NotATicket,
    /// It was made by a later version.
    UnknownVersion {
        /// The version it says.
        version: u8,
    },
    /// A character that no ticket contains.
    Character {
        /// The character.
        character: char,
        /// Its position, counted from one.
        position: usize,
    },
    /// Its end, or another part of it, is missing.
    Truncated,
    /// The checksum does not match: some characters are wrong.
    Mistyped,
    /// The checksum matches but the content is invalid: the program that made it has a bug.
    Malformed,
    /// A ticket holds 1 to [`Ticket::MAX_HOSTS`] addresses.
    Hosts {
        /// Number of addresses given.
        count: usize,
    },
}

impl fmt::Display for TicketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotATicket => {
                write!(f, "this is not a ticket; one begins with \"mw1\" and is printed by `manyway serve`")
            }
            Self::UnknownVersion { version } => {
                write!(f, "the ticket is of version {version}, which a newer Manyway made; update this one")
            }
            Self::Character { character, position } => {
                write!(f, "{character:?} at place {position} occurs in no ticket; copy it again")
            }
            Self::Truncated => write!(f, "the ticket is cut off; copy the whole line"),
            Self::Mistyped => write!(f, "checksum mismatch; copy it again"),
            Self::Malformed => write!(f, "the ticket is intact but has invalid content; ask for a new one"),
            Self::Hosts { count } => {
                write!(f, "a ticket holds 1 to {} addresses, not {count}", Ticket::MAX_HOSTS)
            }
        }
    }
}

impl std::error::Error for TicketError {}
