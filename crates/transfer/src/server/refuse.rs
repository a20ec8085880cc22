//! Refusals of requests.

use tokio::io::AsyncWrite;
use tracing::debug;

use crate::error::TransferError;
use crate::failure::Failure;
use crate::frame::Frame;
use crate::wire::{finish, write_frame};

/// Refuses a request. The failure stands even if the client left before it was told whole.
// transfer 1.7
pub(super) async fn refuse<W: AsyncWrite + Unpin>(
    send: &mut W,
    failure: Failure,
) -> Result<(), TransferError> {
    if let Err(error) = tell(send, &failure).await {
        debug!(%error, "the client left before the refusal was sent");
    }
    Err(TransferError::Local(failure))
}

async fn tell<W: AsyncWrite + Unpin>(send: &mut W, failure: &Failure) -> Result<(), TransferError> {
    write_frame(send, &Frame::Refused(failure.clone())).await?;
    finish(send).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Reason;

    #[tokio::test]
    async fn a_refusal_is_one_though_the_client_has_left() {
        let (mut send, client) = tokio::io::duplex(1024);
        drop(client);
        let failure = Failure::new(Reason::Malformed);
        let result = refuse(&mut send, failure.clone()).await;
        assert!(matches!(&result, Err(TransferError::Local(local)) if *local == failure), "{result:?}");
    }
}
