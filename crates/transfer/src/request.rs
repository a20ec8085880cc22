//! The first frame of every stream: the request of its opener.

use crate::bench::request::{AccountRequest, BenchRequest, MessagesRequest};
use crate::codec::{CodecError, Fields, put_text};
use crate::name::RelativePath;
use crate::rules::Rules;

/// The newest version of the transfer protocol that this crate speaks, and the oldest.
pub const VERSION: u8 = 3;

/// Files and bytes that are about to follow: an announcement for progress displays, not a promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Files and directories.
    pub files: u64,
    /// Bytes of content.
    pub bytes: u64,
}

/// The request of the opener of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) enum Request {
    /// Sends the application's name and version, and requests the other side's.
    Hello {
        /// Name and version, such as `manyway/0.1.0`; at most [`Request::MAX_APPLICATION`] bytes.
        application: String,
    },
    /// Files follow on this stream.
    Put(Totals),
    /// Requests files; an empty list requests everything.
    Get(GetRequest),
    /// Requests the content of a directory; `None` is the served directory itself.
    List(Option<RelativePath>),
    /// Sends or receives bytes that are discarded.
    Bench(BenchRequest),
    /// Keeps the account of a bench run.
    Account(AccountRequest),
    /// Answers messages.
    Messages(MessagesRequest),
    /// Requests a part of a file.
    Read(ReadRequest),
}

/// Which part of which file is requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReadRequest {
    /// Its name.
    pub(crate) path: RelativePath,
    /// The first byte.
    pub(crate) offset: u64,
    /// Number of bytes; what lies beyond the end of the file does not count.
    pub(crate) length: u64,
}

/// Which files are requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GetRequest {
    /// Which parts of them are sent.
    pub(crate) rules: Rules,
    /// Their names; empty requests everything.
    pub(crate) paths: Vec<RelativePath>,
}

impl Request {
    /// Most bytes of an application's name.
    pub(crate) const MAX_APPLICATION: usize = 128;
    /// Most paths in one `Get`.
    pub(crate) const MAX_PATHS: usize = 1024;

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        match self {
            Self::Hello { application } => {
                out.push(HELLO);
                put_text(out, application);
            }
            Self::Put(totals) => {
                out.push(PUT);
                totals.encode(out);
            }
            Self::Get(GetRequest { rules, paths }) => {
                out.push(GET);
                rules.encode(out);
                out.extend_from_slice(&u16::try_from(paths.len()).unwrap_or(u16::MAX).to_be_bytes());
                for path in paths {
                    put_text(out, path.as_str());
                }
            }
            Self::List(path) => {
                out.push(LIST);
                put_text(out, path.as_ref().map_or("", RelativePath::as_str));
            }
            Self::Bench(request) => {
                out.push(BENCH);
                request.encode(out);
            }
            Self::Account(request) => {
                out.push(ACCOUNT);
                request.encode(out);
            }
            Self::Messages(request) => {
                out.push(MESSAGES);
                request.encode(out);
            }
            Self::Read(ReadRequest { path, offset, length }) => {
                out.push(READ);
                out.extend_from_slice(&offset.to_be_bytes());
                out.extend_from_slice(&length.to_be_bytes());
                put_text(out, path.as_str());
            }
        }
    }

    /// Reads a request. The outer error is a malformed one, the inner one an unknown version or verb.
    // transfer 1.5: version and verb are read before anything else
    pub(crate) fn decode(fields: &mut Fields<'_>) -> Result<Result<Self, Unknown>, CodecError> {
        let version = fields.u8("version")?;
        if version != VERSION {
            return Ok(Err(Unknown::Version(version)));
        }
        let request = match fields.u8("verb")? {
            HELLO => {
                Self::Hello { application: fields.text("application", Self::MAX_APPLICATION)?.to_owned() }
            }
            PUT => Self::Put(Totals::decode(fields)?),
            GET => Self::Get(GetRequest { rules: Rules::decode(fields)?, paths: decode_paths(fields)? }),
            LIST => Self::List(match fields.text("path", RelativePath::MAX_LENGTH)? {
                "" => None,
                path => Some(RelativePath::parse(path)?),
            }),
            BENCH => Self::Bench(BenchRequest::decode(fields)?),
            ACCOUNT => Self::Account(AccountRequest::decode(fields)?),
            MESSAGES => Self::Messages(MessagesRequest::decode(fields)?),
            READ => Self::Read(ReadRequest {
                offset: fields.u64("offset")?,
                length: fields.u64("length")?,
                path: RelativePath::parse(fields.text("path", RelativePath::MAX_LENGTH)?)?,
            }),
            verb => return Ok(Err(Unknown::Verb(verb))),
        };
        fields.finish()?;
        Ok(Ok(request))
    }
}

/// The unknown part of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unknown {
    Version(u8),
    Verb(u8),
}

impl Totals {
    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.files.to_be_bytes());
        out.extend_from_slice(&self.bytes.to_be_bytes());
    }

    pub(crate) fn decode(fields: &mut Fields<'_>) -> Result<Self, CodecError> {
        Ok(Self { files: fields.u64("files")?, bytes: fields.u64("bytes")? })
    }
}

fn decode_paths(fields: &mut Fields<'_>) -> Result<Vec<RelativePath>, CodecError> {
    let count = usize::from(fields.u16("number of paths")?);
    if count > Request::MAX_PATHS {
        return Err(CodecError::TooLong { field: "list of paths", length: count, limit: Request::MAX_PATHS });
    }
    // The frame bounds what is read; no memory is reserved for a number that the peer merely claims.
    let mut paths = Vec::new();
    for _ in 0..count {
        paths.push(RelativePath::parse(fields.text("path", RelativePath::MAX_LENGTH)?)?);
    }
    Ok(paths)
}

const HELLO: u8 = 1;
const PUT: u8 = 2;
const GET: u8 = 3;
const LIST: u8 = 4;
const BENCH: u8 = 5;
const ACCOUNT: u8 = 6;
const MESSAGES: u8 = 7;
const READ: u8 = 8;
