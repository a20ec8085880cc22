//! Both directions of a flow of datagrams, as both ends have them.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use manyway_session::{Delivery, Message, MessageHalves, MessageReceiver, MessageSender, Session, Urgency};
use tokio::time::{Instant, sleep_until};

use crate::allowance::Allowance;
use crate::answer::{Answer, Reason, Refusal};
use crate::datagram::{DATAGRAM, Datagram, FRAME};
use crate::destination::Destination;
use crate::early::keep;
use crate::error::EgressError;
use crate::order::Resequencer;
use crate::quota::Quota;
use crate::request::{FlowKind, Request};
use crate::treatment::Treatment;

/// Opens a flow of datagrams: the server's end gets a socket of its own. Datagrams may be sent at once; a refusal
/// is the first thing that [`FlowReceiver::receive`] returns. Both directions are treated alike.
///
/// # Errors
/// The connection carries no messages, or it is gone.
// egress 8.1
pub async fn open_flow<S: Session>(
    session: &S,
    kind: FlowKind,
    destination: Option<&Destination>,
    treatment: Treatment,
) -> Result<(FlowSender, FlowReceiver), EgressError> {
    request_flow(session, &Request::Flow(kind, destination.cloned()), treatment).await
}

/// Opens a stream of messages with this request.
pub(crate) async fn request_flow<S: Session>(
    session: &S,
    request: &Request,
    treatment: Treatment,
) -> Result<(FlowSender, FlowReceiver), EgressError> {
    let (send, receive) = session.open().await?;
    let halves = S::messages(send, receive).ok_or_else(|| Refusal::new(Reason::Unsupported))?;
    let (mut sender, receiver) = flow(halves, &Quota::unlimited());
    sender.treat(treatment);
    if treatment != Treatment::default() {
        sender.send_request(&Request::Treatment(treatment)).await?;
    }
    sender.send_request(request).await?;
    Ok((sender, receiver))
}

/// The halves of a stream, as those of a flow.
pub(crate) fn flow((sender, receiver): MessageHalves, quota: &Quota) -> (FlowSender, FlowReceiver) {
    let now = Instant::now();
    let (course, treatment) = (Course::new(now), Treatment::default());
    let sender = FlowSender { sender: Some(sender), course, treatment };
    let order = Resequencer::new(now, quota);
    (sender, FlowReceiver { receiver, order, early: VecDeque::new(), peer: None, has_ended: false })
}

/// Sends the datagrams of a flow. Dropping it ends the flow.
pub struct FlowSender {
    /// `None` once it was released.
    sender: Option<Box<dyn MessageSender>>,
    course: Course,
    treatment: Treatment,
}

impl fmt::Debug for FlowSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowSender").field("course", &self.course).finish_non_exhaustive()
    }
}

impl FlowSender {
    /// Sends a datagram, to the destination of the flow or to another one; returns whether there was room for it. One
    /// that cannot arrive within 0.5 s (bulk: 0.25 s), or the lifetime of its [`Treatment`](crate::Treatment), is dropped
    /// on the way, as a network does. A flow of little traffic goes before bulk data.
    ///
    /// # Errors
    /// The flow has ended.
    pub fn send(&mut self, to: Option<&Destination>, payload: &[u8]) -> io::Result<bool> {
        self.send_message(Datagram::encode(self.course.next, to, payload), payload.len())
    }

    /// Tells the other side why a datagram of its own did not arrive; `quote` is the beginning of its payload.
    pub(crate) fn send_error(
        &mut self,
        about: Option<&Destination>,
        reason: Reason,
        quote: &[u8],
    ) -> io::Result<bool> {
        let quote = quote.get(..Datagram::MAX_QUOTE).unwrap_or(quote);
        self.send_message(Datagram::encode_error(self.course.next, about, reason, quote), quote.len())
    }

    fn send_message(&mut self, message: Bytes, payload: usize) -> io::Result<bool> {
        let sender = self.sender.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        self.course.send(&mut **sender, message, payload, self.treatment)
    }

    /// Treats later datagrams like this.
    pub(crate) fn treat(&mut self, treatment: Treatment) {
        self.treatment = treatment;
    }

    pub(crate) async fn send_request(&mut self, request: &Request) -> io::Result<()> {
        let mut frame = Vec::new();
        request.encode(&mut frame);
        self.send_frame(frame).await
    }

    pub(crate) async fn send_answer(&mut self, answer: Answer) -> io::Result<()> {
        let mut frame = Vec::new();
        answer.encode(&mut frame);
        self.send_frame(frame).await
    }

    async fn send_frame(&mut self, frame: Vec<u8>) -> io::Result<()> {
        send_frame(&mut **self.sender.as_mut().ok_or(io::ErrorKind::BrokenPipe)?, frame).await
    }

    /// The half of the stream itself, for another use.
    pub(crate) fn release(mut self) -> Option<Box<dyn MessageSender>> {
        self.sender.take()
    }
}

/// Sends a request or an answer.
pub(crate) async fn send_frame(sender: &mut dyn MessageSender, frame: Vec<u8>) -> io::Result<()> {
    let delivery = Delivery { protocol: FRAME, is_ordered: true, ..Delivery::default() };
    sender.send(frame.into(), delivery).await
}

impl Drop for FlowSender {
    fn drop(&mut self) {
        // Datagrams promise nothing about their end, so a reset would tell no more.
        if let Some(sender) = &mut self.sender {
            sender.finish();
        }
    }
}

/// What arrives in a flow.
pub(crate) enum Arrival {
    Frame(Bytes),
    Datagram(Datagram),
}

/// Receives the datagrams of a flow, in the order in which they were sent as far as that needs no long wait. Dropping
/// it ends the flow.
pub struct FlowReceiver {
    receiver: Box<dyn MessageReceiver>,
    order: Resequencer<Datagram>,
    /// Those that came before the frame that was waited for.
    early: VecDeque<Datagram>,
    peer: Option<SocketAddr>,
    has_ended: bool,
}

impl fmt::Debug for FlowReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowReceiver").field("order", &self.order).finish_non_exhaustive()
    }
}

impl FlowReceiver {
    /// The address that the flow's destination has, once the server has answered.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// Takes the next datagram; `None` when the other side has ended the flow. May be cancelled; nothing is lost.
    ///
    /// # Errors
    /// [`EgressError::Refused`] if the server refuses the flow, or the stream broke.
    pub async fn receive(&mut self) -> Result<Option<Datagram>, EgressError> {
        if let Some(datagram) = self.early.pop_front() {
            return Ok(Some(datagram));
        }
        loop {
            match self.arrival().await? {
                Some(Arrival::Datagram(datagram)) => return Ok(Some(datagram)),
                Some(Arrival::Frame(frame)) => match Answer::decode(&frame)? {
                    Answer::Done(peer) => self.peer = peer,
                    Answer::Refused(refusal) => return Err(refusal.into()),
                },
                None => return Ok(None),
            }
        }
    }

    /// The half of the stream itself, for another use.
    pub(crate) fn release(self) -> Box<dyn MessageReceiver> {
        self.receiver
    }

    /// Waits for a frame. The last datagrams that overtake it are kept for [`Self::receive`].
    // egress 9.8
    pub(crate) async fn frame(&mut self) -> Result<Bytes, EgressError> {
        loop {
            match self.arrival().await? {
                Some(Arrival::Frame(frame)) => return Ok(frame),
                Some(Arrival::Datagram(datagram)) => {
                    keep(&mut self.early, datagram, |datagram| datagram.payload.len());
                }
                None => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            }
        }
    }

    pub(crate) async fn arrival(&mut self) -> Result<Option<Arrival>, EgressError> {
        loop {
            let next = if self.has_ended { self.order.drain() } else { self.order.pop(Instant::now()) };
            if let Some(datagram) = next {
                return Ok(Some(Arrival::Datagram(datagram)));
            }
            if self.has_ended {
                return Ok(None);
            }
            let deadline = self.order.deadline();
            let message = tokio::select! {
                message = self.receiver.receive() => message?,
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => continue,
            };
            match message {
                Some(Message { protocol: FRAME, data, .. }) => return Ok(Some(Arrival::Frame(data))),
                Some(message) => self.order.push(Instant::now(), Datagram::decode(&message.data)?),
                None => self.has_ended = true,
            }
        }
    }
}

/// What a sender remembers of a flow: the number of its next datagram, and how much it has sent lately.
#[derive(Debug)]
pub(crate) struct Course {
    pub(crate) next: u32,
    allowance: Allowance,
}

impl Course {
    pub(crate) fn new(now: Instant) -> Self {
        Self { next: 0, allowance: Allowance::new(now) }
    }

    /// Sends a message with the next number; returns whether there was room for it.
    // egress 8.5
    pub(crate) fn send(
        &mut self,
        sender: &mut dyn MessageSender,
        message: Bytes,
        payload: usize,
        treatment: Treatment,
    ) -> io::Result<bool> {
        let behaviour = self.allowance.urgency(Instant::now(), payload + OVERHEAD);
        let urgency = treatment.class.unwrap_or(behaviour);
        let usual = if urgency == Urgency::Bulk { BULK_LIFETIME } else { LIFETIME };
        let lifetime = treatment.lifetime.unwrap_or(usual);
        let delivery = Delivery { protocol: DATAGRAM, is_ordered: false, lifetime: Some(lifetime), urgency };
        let is_sent = sender.try_send(message, delivery)?;
        self.next = self.next.wrapping_add(u32::from(is_sent));
        Ok(is_sent)
    }
}

/// Headers of a datagram on a link.
const OVERHEAD: usize = 28;
/// How long a datagram is worth sending. Bulk data of UDP has congestion control of its own, which a long queue misleads.
const LIFETIME: Duration = Duration::from_millis(500);
const BULK_LIFETIME: Duration = Duration::from_millis(250);
