//! Both directions of a stream of packets, as both ends have them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::io;

use bytes::Bytes;
use manyway_session::{Message, MessageReceiver, MessageSender};
use tokio::time::{Instant, sleep_until};

use super::header::{Header, LANES};
use crate::answer::Answer;
use crate::codec::{CodecError, Fields};
use crate::datagram::FRAME;
use crate::error::EgressError;
use crate::flow::Course;
use crate::order::{Numbered, Resequencer};
use crate::quota::Quota;
use crate::treatment::Treatment;

/// Sends packets. Dropping it ends the stream.
pub struct PacketSender {
    sender: Box<dyn MessageSender>,
    /// One for each lane.
    lanes: Vec<Course>,
}

impl fmt::Debug for PacketSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacketSender").finish_non_exhaustive()
    }
}

impl PacketSender {
    pub(super) fn new(sender: Box<dyn MessageSender>) -> Self {
        let now = Instant::now();
        Self { sender, lanes: (0..LANES).map(|_| Course::new(now)).collect() }
    }

    /// Sends an IP packet; returns whether there was room for it. By default a flow of little traffic goes before bulk data, and
    /// what cannot arrive within half a second is dropped on the way, as datagrams of UDP are. What is no packet is not sent.
    ///
    /// # Errors
    /// The stream has ended.
    pub fn send(&mut self, packet: &[u8], treatment: Treatment) -> io::Result<bool> {
        let Some(header) = Header::parse(packet) else { return Ok(false) };
        let Some(course) = self.lanes.get_mut(usize::from(header.lane())) else { return Ok(false) };
        let message = encode(header.lane(), course.next, packet);
        course.send(&mut *self.sender, message, packet.len(), treatment)
    }

    pub(super) async fn send_frame(&mut self, frame: Vec<u8>) -> io::Result<()> {
        crate::flow::send_frame(&mut *self.sender, frame).await
    }
}

impl Drop for PacketSender {
    fn drop(&mut self) {
        self.sender.finish();
    }
}

/// A packet, and its place in its lane.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Numbering {
    number: u32,
    packet: Bytes,
}

impl Numbered for Numbering {
    fn number(&self) -> u32 {
        self.number
    }

    fn size(&self) -> usize {
        self.packet.len()
    }
}

// egress 11.5
fn encode(lane: u16, number: u32, packet: &[u8]) -> Bytes {
    [&lane.to_be_bytes()[..], &number.to_be_bytes(), packet].concat().into()
}

fn decode(message: &Bytes) -> Result<(u16, Numbering), CodecError> {
    let mut fields = Fields::new(message);
    let lane = fields.u16("lane")?;
    if lane >= LANES {
        return Err(CodecError::Value { field: "lane", value: lane.into() });
    }
    let number = u32::from_be_bytes(fields.array("number")?);
    Ok((lane, Numbering { number, packet: message.slice_ref(fields.rest()) }))
}

/// Receives packets, those of each flow in the order in which they were sent as far as that needs no long wait. Dropping
/// it ends the stream.
pub struct PacketReceiver {
    receiver: Box<dyn MessageReceiver>,
    lanes: BTreeMap<u16, Resequencer<Numbering>>,
    /// Lanes in which packets wait for others.
    waiting: BTreeSet<u16>,
    ready: VecDeque<Bytes>,
    quota: Quota,
    has_ended: bool,
}

impl fmt::Debug for PacketReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacketReceiver").field("waiting", &self.waiting).finish_non_exhaustive()
    }
}

/// What arrives.
pub(super) enum Arrival {
    Frame(Bytes),
    Packet(Bytes),
}

impl PacketReceiver {
    /// What waits for its order is taken from the quota.
    pub(super) fn new(receiver: Box<dyn MessageReceiver>, quota: Quota) -> Self {
        let (lanes, waiting, ready) = (BTreeMap::new(), BTreeSet::new(), VecDeque::new());
        Self { receiver, lanes, waiting, ready, quota, has_ended: false }
    }

    /// Takes the next packet; `None` when the other side has ended the stream. May be cancelled; nothing is lost.
    ///
    /// # Errors
    /// [`EgressError::Refused`] if the server lets this client go, or the stream broke.
    pub async fn receive(&mut self) -> Result<Option<Bytes>, EgressError> {
        loop {
            match self.arrival().await? {
                Some(Arrival::Packet(packet)) => return Ok(Some(packet)),
                Some(Arrival::Frame(frame)) => {
                    if let Answer::Refused(refusal) = Answer::decode(&frame)? {
                        return Err(refusal.into());
                    }
                }
                None => return Ok(None),
            }
        }
    }

    pub(super) async fn arrival(&mut self) -> Result<Option<Arrival>, EgressError> {
        loop {
            if let Some(packet) = self.ready.pop_front() {
                return Ok(Some(Arrival::Packet(packet)));
            }
            if self.has_ended {
                return Ok(None);
            }
            let deadlines = self.waiting.iter().filter_map(|lane| self.lanes.get(lane)?.deadline());
            let deadline = deadlines.min();
            let message = tokio::select! {
                message = self.receiver.receive() => message?,
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                    self.on_time(Instant::now());
                    continue;
                }
            };
            match message {
                Some(Message { protocol: FRAME, data, .. }) => return Ok(Some(Arrival::Frame(data))),
                Some(message) => {
                    let (lane, packet) = decode(&message.data)?;
                    self.on_packet(Instant::now(), lane, packet);
                }
                None => {
                    self.has_ended = true;
                    let lanes = self.lanes.values_mut();
                    let rest = lanes.flat_map(|order| std::iter::from_fn(|| order.drain()));
                    self.ready.extend(rest.map(|it| it.packet));
                }
            }
        }
    }

    fn on_packet(&mut self, now: Instant, lane: u16, packet: Numbering) {
        let order = self.lanes.entry(lane).or_insert_with(|| Resequencer::new(now, &self.quota));
        order.push(now, packet);
        self.collect(now, lane);
    }

    /// Goes on where nothing is worth waiting for any more.
    fn on_time(&mut self, now: Instant) {
        std::mem::take(&mut self.waiting).into_iter().for_each(|lane| self.collect(now, lane));
    }

    fn collect(&mut self, now: Instant, lane: u16) {
        let Some(order) = self.lanes.get_mut(&lane) else { return };
        while let Some(Numbering { packet, .. }) = order.pop(now) {
            self.ready.push_back(packet);
        }
        if order.deadline().is_some() {
            self.waiting.insert(lane);
        } else {
            self.waiting.remove(&lane);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // egress 11.5
    #[test]
    fn a_message_has_the_bytes_of_the_specification_and_an_unknown_lane_is_refused() {
        let message = encode(0x0107, 7, b"packet");
        assert_eq!(&message[..], b"\x01\x07\0\0\0\x07packet");
        let packet = Numbering { number: 7, packet: Bytes::from_static(b"packet") };
        assert_eq!(decode(&message), Ok((0x0107, packet)));
        assert!(decode(&encode(LANES, 0, b"packet")).is_err());
        assert!(decode(&Bytes::from_static(&[0; 5])).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let bytes = Bytes::from(bytes);
            if let Ok((lane, Numbering { number, packet })) = decode(&bytes) {
                prop_assert_eq!(encode(lane, number, &packet), bytes);
            }
        }
    }
}
