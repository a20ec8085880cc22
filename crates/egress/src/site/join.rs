//! The client's end.

use manyway_session::Session;

use super::assignment::Assignment;
use super::hub::quota;
use super::joining::Joining;
use super::stream::{Arrival, PacketReceiver, PacketSender};
use crate::answer::{Reason, Refusal};
use crate::error::EgressError;
use crate::flow::send_frame;
use crate::request::Request;

/// A client's place at the server's network.
#[derive(Debug)]
pub struct Joined {
    /// What the server gave.
    pub assignment: Assignment,
    /// Sends packets to the server's side.
    pub sender: PacketSender,
    /// Receives packets from there.
    pub receiver: PacketReceiver,
}

/// Asks the server for a place at its network, and waits for the answer.
///
/// # Errors
/// [`EgressError::Refused`] with the reason, or the stream broke.
// egress 11.11
pub async fn join<S: Session>(session: &S, joining: &Joining) -> Result<Joined, EgressError> {
    let (send, receive) = session.open().await?;
    let (mut sender, receiver) =
        S::messages(send, receive).ok_or_else(|| Refusal::new(Reason::Unsupported))?;
    let mut frame = Vec::new();
    Request::Packets(joining.clone()).encode(&mut frame);
    send_frame(&mut *sender, frame).await?;
    let (sender, mut receiver) = (PacketSender::new(sender), PacketReceiver::new(receiver, quota()));
    loop {
        match receiver.arrival().await? {
            Some(Arrival::Frame(frame)) => {
                let assignment = Assignment::decode(&frame)??;
                return Ok(Joined { assignment, sender, receiver });
            }
            // It has overtaken the answer.
            Some(Arrival::Packet(_)) => {}
            None => return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into()),
        }
    }
}
