//! The four-way handshake (spec 3.50 to 3.5c; figure 3.15 of the thesis), as a machine that runs by a table.
//!
//! The client keeps a [`Handshake`] from its SYN on. A server keeps nothing before a valid PING: its rows are those from
//! CLOSED, and its endpoint does what they say.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::table::{Transition, find};
use crate::repeat::Repeat;
use crate::{FourTuple, Instant};

/// Wait for an answer while no round-trip time is known (spec 3.77).
pub(crate) const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Addresses of a server to which PING goes.
const MOST_TARGETS: usize = 8;
/// Allowance for the delay of an answer at the peer (spec 3.78).
pub(crate) const ANSWER_DELAY: Duration = Duration::from_millis(20);

/// The states of figure 3.15.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandshakeState {
    Closed,
    SynSent,
    InfoPinged,
    Established,
}

/// What happens during a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandshakeEvent {
    /// The application connects.
    Connect,
    /// A listener receives SYN.
    Syn,
    /// PING with an INFO that is valid; for a connection that exists, one with its tags, which may have expired.
    ValidPing,
    StalePing,
    ForgedPing,
    /// SYN-ACK under the own tag: the first one, or one of the same server.
    SynAck,
    /// SYN-ACK that cannot be read.
    BadSynAck,
    /// A SYN from where the own one went, with a tag that is not larger than the own one.
    PeerSynSmaller,
    /// The same, with a larger tag.
    PeerSynLarger,
    Pong,
    /// SACK or DATA under the own tag.
    Data,
    /// An answer is overdue, and another packet may go.
    Timer,
    /// An answer to the last packet is overdue.
    LastTimer,
    /// RST from an address, and another address is known.
    Rst,
    /// RST from the last address.
    LastRst,
    /// The application gives up.
    Close,
}

/// What the endpoint does about an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandshakeAction {
    SendSyn,
    RepeatSyn,
    NextAddress,
    AnswerSyn,
    AnswerFault,
    Drop,
    SendPing,
    RepeatPing,
    ReplaceInfo,
    Complete,
    Serve,
    RenewInfo,
    RefusePing,
    SendPong,
    GiveUp,
    Report,
    Forget,
    SendRst,
}

type Row = Transition<HandshakeState, HandshakeEvent, HandshakeAction>;

/// All transitions; whatever has no row is ignored.
pub(crate) static TABLE: [Row; 21] = {
    use HandshakeAction as Action;
    use HandshakeEvent as Event;
    use HandshakeState::{Closed, Established, InfoPinged, SynSent};
    const CLOSED: &[HandshakeState] = &[Closed];
    const SYN_SENT: &[HandshakeState] = &[SynSent];
    const INFO_PINGED: &[HandshakeState] = &[InfoPinged];
    const BOTH: &[HandshakeState] = &[SynSent, InfoPinged];
    [
        row(CLOSED, Event::Connect, Action::SendSyn, SynSent),
        row(CLOSED, Event::Syn, Action::AnswerSyn, Closed),
        row(CLOSED, Event::StalePing, Action::RenewInfo, Closed),
        row(CLOSED, Event::ForgedPing, Action::RefusePing, Closed),
        row(CLOSED, Event::ValidPing, Action::Serve, Established),
        row(SYN_SENT, Event::Timer, Action::RepeatSyn, SynSent),
        row(SYN_SENT, Event::BadSynAck, Action::AnswerFault, SynSent),
        row(SYN_SENT, Event::PeerSynSmaller, Action::Drop, SynSent),
        row(SYN_SENT, Event::PeerSynLarger, Action::AnswerSyn, SynSent),
        row(SYN_SENT, Event::ValidPing, Action::Serve, Established),
        row(SYN_SENT, Event::SynAck, Action::SendPing, InfoPinged),
        row(INFO_PINGED, Event::Timer, Action::RepeatPing, InfoPinged),
        row(INFO_PINGED, Event::SynAck, Action::ReplaceInfo, InfoPinged),
        row(INFO_PINGED, Event::Pong, Action::Complete, Established),
        row(INFO_PINGED, Event::Data, Action::Complete, Established),
        row(BOTH, Event::Rst, Action::NextAddress, SynSent),
        row(BOTH, Event::LastRst, Action::Report, Closed),
        row(BOTH, Event::LastTimer, Action::GiveUp, Closed),
        row(SYN_SENT, Event::Close, Action::Forget, Closed),
        row(INFO_PINGED, Event::Close, Action::SendRst, Closed),
        row(&[Established], Event::ValidPing, Action::SendPong, Established),
    ]
};

const fn row(
    from: &'static [HandshakeState],
    event: HandshakeEvent,
    action: HandshakeAction,
    to: HandshakeState,
) -> Row {
    Transition { from, event, action, to }
}

/// What an event did to the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moved {
    /// It goes on, or was over before.
    No,
    /// It is complete. With [`HandshakeEvent::ValidPing`] this endpoint is the server.
    Established,
    /// There will be no connection.
    Ended(HandshakeEnd),
}

/// Why there will be no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandshakeEnd {
    /// Six packets earned no answer.
    NoAnswer,
    /// Each address answered with RST.
    Refused,
    /// The application closed.
    Closed,
}

/// A packet of the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandshakePacket {
    Syn,
    /// PING with [`Handshake::info`].
    Ping,
    Rst,
}

/// The handshake of one connection.
#[derive(Debug)]
pub(crate) struct Handshake {
    state: HandshakeState,
    repeat: Option<Repeat>,
    /// Address pairs that may be tried.
    places: Vec<FourTuple>,
    /// Address pairs for the present packet, in turn.
    targets: Vec<FourTuple>,
    turn: usize,
    info: Vec<u8>,
    /// When SYN went, if it went once: otherwise the answer may belong to any of them (Karn's algorithm).
    syn_at: Option<Instant>,
    rtt: Option<Duration>,
    /// Where RST goes.
    reset: Option<FourTuple>,
}

impl Handshake {
    /// The handshake of a client that knows these address pairs.
    pub(crate) fn client(now: Instant, places: Vec<FourTuple>) -> Self {
        let mut handshake = Self::new(places);
        handshake.step(now, HandshakeEvent::Connect);
        handshake
    }

    /// The handshake of a server, complete with the valid PING.
    pub(crate) fn server(now: Instant) -> Self {
        let mut handshake = Self::new(Vec::new());
        handshake.step(now, HandshakeEvent::ValidPing);
        handshake
    }

    fn new(places: Vec<FourTuple>) -> Self {
        Self {
            state: HandshakeState::Closed,
            repeat: None,
            places,
            targets: Vec::new(),
            turn: 0,
            info: Vec::new(),
            syn_at: None,
            rtt: None,
            reset: None,
        }
    }

    pub(crate) fn state(&self) -> HandshakeState {
        self.state
    }

    /// INFO for PING.
    pub(crate) fn info(&self) -> &[u8] {
        &self.info
    }

    /// The time from SYN to SYN-ACK, if SYN went once.
    pub(crate) fn rtt(&self) -> Option<Duration> {
        self.rtt
    }

    /// Whether this pair may be, or was, tried.
    pub(crate) fn is_candidate(&self, pair: &FourTuple) -> bool {
        self.places.contains(pair) || self.targets.contains(pair)
    }

    /// The attempt ends without a further packet.
    pub(crate) fn give_up(&mut self) {
        (self.repeat, self.reset) = (None, None);
    }

    /// Nothing can be sent between these addresses. The last pair stays, because that may change; false if it is the last.
    pub(crate) fn on_refused(&mut self, pair: &FourTuple) -> bool {
        let is_last = self.places.iter().all(|known| known == pair);
        for list in [&mut self.places, &mut self.targets] {
            if !list.iter().all(|known| known == pair) {
                list.retain(|known| known != pair);
            }
        }
        !is_last
    }

    /// Any event but [`HandshakeEvent::SynAck`] and [`HandshakeEvent::Rst`], which have calls of their own, and those of timers.
    pub(crate) fn on(&mut self, now: Instant, event: HandshakeEvent) -> Moved {
        self.step(now, event)
    }

    /// SYN-ACK under the own tag came at the pair `from`, and named further addresses of the server. The caller drops one with another server tag than before.
    pub(crate) fn on_syn_ack(
        &mut self,
        now: Instant,
        from: FourTuple,
        info: &[u8],
        named: &[IpAddr],
    ) -> Moved {
        let is_first = self.state == HandshakeState::SynSent;
        if is_first {
            self.rtt = self.syn_at.map(|at| now - at);
            // spec 3.111: PING goes from the address at which SYN-ACK came, because INFO is bound to it, to the addresses
            // of the server that answered.
            let ipv4 = from.remote.ip().to_canonical().is_ipv4();
            let named = named.iter().filter(|address| address.is_ipv4() == ipv4);
            let others = named.map(|address| {
                let mut other = from;
                other.remote.set_ip(*address);
                other
            });
            self.targets = std::iter::once(from).chain(others).collect();
            self.targets.truncate(MOST_TARGETS);
        } else if info == self.info {
            return Moved::No;
        }
        if is_first || self.state == HandshakeState::InfoPinged {
            self.info = info.to_vec();
        }
        self.step(now, HandshakeEvent::SynAck)
    }

    /// RST came from `remote` under a right tag: the attempt over that address ends (spec 3.5c).
    pub(crate) fn on_rst(&mut self, now: Instant, remote: SocketAddr) -> Moved {
        let pinged =
            self.targets.first().filter(|_| self.state == HandshakeState::InfoPinged).map(|pair| pair.remote);
        let known = self.places.len();
        self.places.retain(|pair| pair.remote != remote);
        if pinged.map_or(self.places.len() == known, |pinged| pinged != remote) {
            self.targets.retain(|pair| pair.remote != remote);
            return Moved::No;
        }
        self.step(now, if self.places.is_empty() { HandshakeEvent::LastRst } else { HandshakeEvent::Rst })
    }

    /// The deadline has come.
    pub(crate) fn on_timeout(&mut self, now: Instant) -> Moved {
        if self.repeat.is_some_and(|repeat| repeat.is_exhausted(now)) {
            return self.step(now, HandshakeEvent::LastTimer);
        }
        Moved::No
    }

    /// The host slept until now: the count of packets starts again.
    pub(crate) fn on_wake(&mut self, now: Instant) {
        if let Some(repeat) = &mut self.repeat {
            *repeat = Repeat::new(now, FIRST_WAIT);
        }
    }

    fn step(&mut self, now: Instant, event: HandshakeEvent) -> Moved {
        let Some(row) = find(&TABLE, self.state, event) else { return Moved::No };
        let was = std::mem::replace(&mut self.state, row.to);
        match row.action {
            HandshakeAction::SendSyn | HandshakeAction::NextAddress => {
                (self.syn_at, self.rtt) = (None, None);
                self.targets.clone_from(&self.places);
                self.begin(now, FIRST_WAIT);
            }
            HandshakeAction::SendPing => {
                self.begin(now, self.rtt.map_or(FIRST_WAIT, |rtt| 3 * rtt + ANSWER_DELAY));
            }
            HandshakeAction::ReplaceInfo => {
                if let Some(repeat) = &mut self.repeat {
                    repeat.expedite(now);
                    self.turn = 0;
                }
            }
            HandshakeAction::SendRst => {
                self.reset = self.targets.first().copied();
                self.repeat = None;
            }
            HandshakeAction::Complete
            | HandshakeAction::Serve
            | HandshakeAction::GiveUp
            | HandshakeAction::Report
            | HandshakeAction::Forget => self.repeat = None,
            // Answers are the caller's, and `take_due` repeats.
            HandshakeAction::RepeatSyn
            | HandshakeAction::RepeatPing
            | HandshakeAction::AnswerSyn
            | HandshakeAction::AnswerFault
            | HandshakeAction::RenewInfo
            | HandshakeAction::RefusePing
            | HandshakeAction::SendPong
            | HandshakeAction::Drop => {}
        }
        row.action.moved(was != row.to)
    }

    fn begin(&mut self, now: Instant, wait: Duration) {
        self.turn = 0;
        self.repeat = Some(Repeat::new(now, wait));
    }

    /// The packet that is due, and the addresses between which it goes.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<(FourTuple, HandshakePacket)> {
        if let Some(tuple) = self.reset.take() {
            return Some((tuple, HandshakePacket::Rst));
        }
        let packet = match self.state {
            HandshakeState::SynSent => HandshakePacket::Syn,
            HandshakeState::InfoPinged => HandshakePacket::Ping,
            HandshakeState::Closed | HandshakeState::Established => return None,
        };
        let before = self.repeat.as_mut()?.take_due(now)?;
        if before > 0 {
            self.step(now, HandshakeEvent::Timer);
        }
        if packet == HandshakePacket::Syn {
            self.syn_at = Some(now).filter(|_| before == 0);
        }
        let target = *self.targets.get(self.turn % self.targets.len().max(1))?;
        self.turn += 1;
        Some((target, packet))
    }

    /// When [`Self::take_due`] or [`Self::on_timeout`] has something to do.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.repeat.map(|repeat| repeat.deadline())
    }
}

impl HandshakeAction {
    fn moved(self, is_new_state: bool) -> Moved {
        match self {
            Self::Complete | Self::Serve if is_new_state => Moved::Established,
            Self::GiveUp => Moved::Ended(HandshakeEnd::NoAnswer),
            Self::Report => Moved::Ended(HandshakeEnd::Refused),
            Self::Forget | Self::SendRst => Moved::Ended(HandshakeEnd::Closed),
            Self::SendSyn
            | Self::RepeatSyn
            | Self::NextAddress
            | Self::AnswerSyn
            | Self::AnswerFault
            | Self::Drop
            | Self::SendPing
            | Self::RepeatPing
            | Self::ReplaceInfo
            | Self::Complete
            | Self::Serve
            | Self::RenewInfo
            | Self::RefusePing
            | Self::SendPong => Moved::No,
        }
    }
}

impl fmt::Display for HandshakeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "CLOSED",
            Self::SynSent => "SYN-SENT",
            Self::InfoPinged => "INFO-PINGED",
            Self::Established => "ESTABLISHED",
        })
    }
}

impl fmt::Display for HandshakeEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "application connects",
            Self::Syn => "SYN",
            Self::ValidPing => "PING, INFO valid",
            Self::StalePing => "PING, INFO expired",
            Self::ForgedPing => "PING, INFO forged",
            Self::SynAck => "SYN-ACK",
            Self::BadSynAck => "SYN-ACK that cannot be read",
            Self::PeerSynSmaller => "SYN, tag not larger than the own one",
            Self::PeerSynLarger => "SYN, tag larger than the own one",
            Self::Pong => "PONG",
            Self::Data => "SACK or DATA",
            Self::Timer => "timer",
            Self::LastTimer => "sixth timer",
            Self::Rst => "RST, another address known",
            Self::LastRst => "RST from the last address",
            Self::Close => "application closes",
        })
    }
}

impl fmt::Display for HandshakeAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SendSyn => "send SYN, start SYN timer",
            Self::RepeatSyn => "send SYN to the next address",
            Self::NextAddress => "send SYN to another address",
            Self::AnswerSyn => "send SYN-ACK with INFO, keep nothing",
            Self::AnswerFault => "send RST or ERROR",
            Self::Drop => "drop it",
            Self::SendPing => "stop SYN timer, send PING, start INFO timer",
            Self::RepeatPing => "send PING to the next address",
            Self::ReplaceInfo => "send PING with the new INFO",
            Self::Complete => "stop INFO timer",
            Self::Serve => "make the connection, send PONG",
            Self::RenewInfo => "send ERROR 0x0009, send SYN-ACK with a new INFO",
            Self::RefusePing => "send RST 0x0009",
            Self::SendPong => "send PONG",
            Self::GiveUp => "give up",
            Self::Report => "tell the application",
            Self::Forget => "keep nothing",
            Self::SendRst => "send RST",
        })
    }
}

#[cfg(test)]
#[path = "handshake/tests.rs"]
mod tests;
