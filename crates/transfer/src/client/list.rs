//! Lists a directory of the other side.

use manyway_session::Session;

use crate::entry::Entry;
use crate::error::TransferError;
use crate::failure::{Failure, Reason};
use crate::frame::Frame;
use crate::name::RelativePath;
use crate::request::Request;
use crate::wire::{finish, read_acceptance, read_frame, write_request};

/// Most entries that are accepted from one answer.
pub const MAX_LISTED: usize = 1_000_000;

/// Lists a directory, `None` for the served one itself: its files and directories by name, without deeper levels. Names
/// that cannot be transferred and links are left out.
///
/// # Errors
/// The other side refuses, for example because there is no such directory, or the connection broke.
pub async fn list<S: Session>(session: &S, path: Option<RelativePath>) -> Result<Vec<Entry>, TransferError> {
    let (mut send, mut receive) = session.open().await.map_err(TransferError::stream("opening a stream"))?;
    write_request(&mut send, Request::List(path)).await?;
    finish(&mut send).await?;
    read_acceptance(&mut receive).await?;
    let mut entries = Vec::new();
    loop {
        match read_frame(&mut receive).await? {
            Frame::Entry(entry) if entries.len() < MAX_LISTED => entries.push(entry),
            Frame::Entry(_) => return Err(TransferError::Local(Failure::new(Reason::Limit))),
            Frame::Done(_) => return Ok(entries),
            Frame::Refused(failure) => return Err(TransferError::Refused(failure)),
            Frame::Request(_)
            | Frame::Accepted(_)
            | Frame::Hello { .. }
            | Frame::End { .. }
            | Frame::Abandoned { .. }
            | Frame::Start { .. }
            | Frame::Hole { .. }
            | Frame::Answer(_)
            | Frame::Verdict(_)
            | Frame::Interval(_)
            | Frame::Summary(_)
            | Frame::Account(_) => return Err(TransferError::Unexpected { wanted: "an entry" }),
        }
    }
}
