//! Why one file or one request failed, in a form that can be transferred.

use std::fmt;
use std::io;
use std::path::Path;

use crate::codec::{CodecError, Fields, cut, put_text};
use crate::name::{NameError, printable};

/// The kind of a failure, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// A system error without a kind of its own here.
    Other,
    /// No such file or directory.
    NotFound,
    /// The user of the program lacks the permission.
    PermissionDenied,
    /// No space left on the device, or the quota is used up.
    DiskFull,
    /// The file system cannot be written to, or the server serves read-only.
    ReadOnly,
    /// A directory stands where a file should be.
    IsDirectory,
    /// A file stands where a directory should be.
    NotDirectory,
    /// A device, a socket or a pipe where a file should be.
    NotFile,
    /// A symbolic link, which is not followed.
    SymbolicLink,
    /// The name is not allowed.
    Name,
    /// The content does not match its hash.
    Hash,
    /// The file grew or shrank while it was sent.
    Changed,
    /// Another request is writing the same file.
    Busy,
    /// The other side abandoned the file.
    Abandoned,
    /// The receiver did not request this file.
    NotRequested,
    /// The version or verb of the request is unknown.
    Unsupported,
    /// The request could not be decoded.
    Malformed,
    /// The request asks for more than the server allows.
    Limit,
    /// Left out on purpose: a symbolic link, a device, a file that the receiver keeps. This is no failure.
    LeftOut,
    /// The file ended before its announced size.
    Shorter,
}

impl Reason {
    const ALL: [Self; 20] = [
        Self::Other,
        Self::NotFound,
        Self::PermissionDenied,
        Self::DiskFull,
        Self::ReadOnly,
        Self::IsDirectory,
        Self::NotDirectory,
        Self::NotFile,
        Self::SymbolicLink,
        Self::Name,
        Self::Hash,
        Self::Changed,
        Self::Busy,
        Self::Abandoned,
        Self::NotRequested,
        Self::Unsupported,
        Self::Malformed,
        Self::Limit,
        Self::LeftOut,
        Self::Shorter,
    ];

    /// The number on the wire.
    // transfer 1.10
    pub fn code(self) -> u8 {
        Self::ALL.iter().position(|r| *r == self).and_then(|p| u8::try_from(p).ok()).unwrap_or(0)
    }

    /// The reason of a number; one that is not known is [`Reason::Other`].
    pub fn from_code(code: u8) -> Self {
        Self::ALL.get(usize::from(code)).copied().unwrap_or(Self::Other)
    }

    /// The reason in words.
    pub fn text(self) -> &'static str {
        match self {
            Self::Other => "the system reports an error",
            Self::NotFound => "no such file or directory",
            Self::PermissionDenied => "permission denied",
            Self::DiskFull => "the disk is full",
            Self::ReadOnly => "read-only",
            Self::IsDirectory => "a directory is in the way",
            Self::NotDirectory => "not a directory",
            Self::NotFile => "exists and is not a regular file",
            Self::SymbolicLink => "a symbolic link is in the way",
            Self::Name => "the name is not allowed",
            Self::Hash => "the content does not fit its hash",
            Self::Changed => "the file changed while it was sent",
            Self::Busy => "the same file is being received already",
            Self::Abandoned => "given up by the sender",
            Self::NotRequested => "this file was not requested",
            Self::Unsupported => "not supported by the other side",
            Self::Malformed => "the request was not understood",
            Self::Limit => "more than the other side allows",
            Self::LeftOut => "left out",
            Self::Shorter => "the file is shorter than its announced size",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// A reason and, where there is more to say, a sentence about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The kind.
    pub reason: Reason,
    /// More about it, at most [`Failure::MAX_TEXT`] bytes; may be empty.
    pub text: String,
}

impl Failure {
    /// Most bytes of text that are transferred; longer ones are cut.
    pub const MAX_TEXT: usize = 512;

    /// A failure that its reason explains in full.
    pub fn new(reason: Reason) -> Self {
        Self { reason, text: String::new() }
    }

    /// A failure with a sentence about it.
    pub fn with_text(reason: Reason, text: impl Into<String>) -> Self {
        let mut text = text.into();
        text.truncate(cut(&text, Self::MAX_TEXT).len());
        Self { reason, text }
    }

    /// The same failure with the place where it happened.
    pub fn at(self, place: &Path) -> Self {
        let text = match self.text.as_str() {
            "" => place.display().to_string(),
            text => format!("{}: {text}", place.display()),
        };
        Self::with_text(self.reason, text)
    }

    /// The failure as the reason of a refusal.
    pub fn refusal(&self) -> String {
        // The text itself says what is read-only.
        if self.reason == Reason::ReadOnly && !self.text.is_empty() {
            return printable(&self.text);
        }
        self.to_string()
    }

    /// Translates a system error.
    pub fn from_io(error: &io::Error) -> Self {
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "the system has far more kinds than people can act on"
        )]
        let reason = match error.kind() {
            io::ErrorKind::NotFound => Reason::NotFound,
            io::ErrorKind::PermissionDenied => Reason::PermissionDenied,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Reason::DiskFull,
            io::ErrorKind::ReadOnlyFilesystem => Reason::ReadOnly,
            io::ErrorKind::IsADirectory => Reason::IsDirectory,
            io::ErrorKind::NotADirectory => Reason::NotDirectory,
            io::ErrorKind::InvalidFilename => Reason::Name,
            io::ErrorKind::ResourceBusy | io::ErrorKind::WouldBlock => Reason::Busy,
            _ => return Self::with_text(Reason::Other, system_text(error)),
        };
        Self::new(reason)
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.reason.code());
        put_text(out, &self.text);
    }

    pub(crate) fn decode(fields: &mut Fields<'_>) -> Result<Self, CodecError> {
        let reason = Reason::from_code(fields.u8("reason")?);
        let text = fields.text("failure text", Self::MAX_TEXT)?.to_owned();
        Ok(Self { reason, text })
    }
}

impl From<NameError> for Failure {
    fn from(error: NameError) -> Self {
        Self::with_text(Reason::Name, error.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The text may come from the other side.
        match (self.reason, printable(&self.text)) {
            (reason, text) if text.is_empty() => reason.fmt(f),
            // The text alone tells which error it is.
            (Reason::Other, text) => f.write_str(&text),
            (Reason::NotFile, name) => write!(f, "{name} {}", Reason::NotFile),
            (reason, text) => write!(f, "{reason}: {text}"),
        }
    }
}

/// A system error in the form of all messages: in lower case, without its number.
fn system_text(error: &io::Error) -> String {
    let text = error.to_string();
    let text = match (error.raw_os_error(), text.rsplit_once(" (os error ")) {
        (Some(_), Some((text, _))) => text,
        _ => text.as_str(),
    };
    let mut characters = text.chars();
    let Some(first) = characters.next() else { return String::new() };
    let rest = characters.as_str();
    // An abbreviation keeps its capitals.
    let is_word = rest.chars().next().is_none_or(|second| !second.is_uppercase());
    if is_word { format!("{}{rest}", first.to_lowercase()) } else { text.to_owned() }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn system_errors_are_printed_in_lower_case_and_without_their_number() {
        let text = |code| Failure::from_io(&io::Error::from_raw_os_error(code)).to_string();
        assert_eq!(text(2), "no such file or directory");
        assert_eq!(text(28), "the disk is full");
        let other = text(5);
        assert!(!other.contains("os error") && !other.contains("system reports"), "{other}");
        assert!(other.starts_with(|first: char| first.is_lowercase()), "{other}");
        assert_eq!(system_text(&io::Error::other("TLS failed")), "TLS failed");
        let at = Failure::from_io(&io::Error::other("Odd")).at(Path::new("/x"));
        assert_eq!(at.to_string(), "/x: odd");
    }

    #[test]
    fn every_reason_survives_its_code() {
        for reason in Reason::ALL {
            assert_eq!(Reason::from_code(reason.code()), reason);
        }
        assert_eq!(Reason::from_code(250), Reason::Other);
    }

    #[test]
    fn a_full_disk_has_a_plain_message() {
        let Ok(mut full) = std::fs::File::options().write(true).open("/dev/full") else { return };
        let error = full.write_all(b"x").unwrap_err();
        assert_eq!(Failure::from_io(&error).to_string(), "the disk is full");
    }

    #[test]
    fn a_failure_with_its_place_repeats_nothing() {
        let at = |failure: Failure| failure.at(Path::new("a/b")).to_string();
        assert_eq!(at(Failure::new(Reason::NotFound)), "no such file or directory: a/b");
        assert_eq!(at(Failure::with_text(Reason::Other, "odd")), "a/b: odd");
    }

    #[test]
    fn a_long_text_is_cut_at_a_character() {
        let failure = Failure::with_text(Reason::Other, "ü".repeat(400));
        assert_eq!(failure.text.len(), 512);
    }
}
