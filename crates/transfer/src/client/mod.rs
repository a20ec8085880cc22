//! The side that sends requests.

mod fetch;
mod get;
mod list;
mod part;
mod put;

pub use fetch::{Outlet, fetch};
pub use get::{GetPlan, get, get_with};
pub use list::{MAX_LISTED, list};
pub use part::{Part, read_part};
pub use put::put;

use manyway_session::Session;

use crate::error::TransferError;
use crate::frame::Frame;
use crate::request::Request;
use crate::wire::{finish, read_frame, write_request};

/// What the other side reports about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// Name and version of its application.
    pub application: String,
    /// The oldest version of the transfer protocol that it supports.
    pub oldest: u8,
    /// The newest.
    pub newest: u8,
    /// Whether it refuses to receive files.
    pub read_only: bool,
}

/// Exchanges name and version of the application with the other side.
///
/// # Errors
/// The connection is gone, or the answer cannot be decoded.
pub async fn hello<S: Session>(session: &S, application: &str) -> Result<Hello, TransferError> {
    let (mut send, mut receive) = session.open().await.map_err(TransferError::stream("opening a stream"))?;
    write_request(&mut send, Request::Hello { application: application.to_owned() }).await?;
    finish(&mut send).await?;
    match read_frame(&mut receive).await? {
        Frame::Hello { application, oldest, newest, read_only } => {
            Ok(Hello { application, oldest, newest, read_only })
        }
        Frame::Refused(failure) => Err(TransferError::Refused(failure)),
        Frame::Request(_)
        | Frame::Accepted(_)
        | Frame::Entry(_)
        | Frame::End { .. }
        | Frame::Abandoned { .. }
        | Frame::Done(_)
        | Frame::Start { .. }
        | Frame::Hole { .. }
        | Frame::Answer(_)
        | Frame::Verdict(_)
        | Frame::Interval(_)
        | Frame::Summary(_)
        | Frame::Account(_) => Err(TransferError::Unexpected { wanted: "hello" }),
    }
}
