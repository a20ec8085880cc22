//! TCP segments in their packets.

use std::net::{IpAddr, SocketAddr};

use etherparse::{IpNumber, IpSlice, PacketBuilder, TcpHeader, TcpOptionElement, TcpSlice};

use crate::packet::{HOP_LIMIT, checksum, is_of_a_host};

/// Both ends of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Ends {
    pub(super) program: SocketAddr,
    pub(super) destination: SocketAddr,
}

/// What a segment does beside carrying data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Control {
    #[default]
    None,
    /// SYN
    Open,
    /// FIN
    End,
    /// RST
    Reset,
}

/// A segment of a program, or for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Segment<'a> {
    pub(super) sequence: u32,
    pub(super) acknowledgement: Option<u32>,
    pub(super) control: Control,
    /// As it is in the header.
    pub(super) window: u16,
    /// Of a segment that opens: the largest segment that its sender takes, and by how many bits its windows are scaled.
    pub(super) largest: Option<u16>,
    pub(super) scale: Option<u8>,
    pub(super) data: &'a [u8],
}

impl<'a> Segment<'a> {
    /// Reads the packet of a program. `None` for what is damaged or no TCP between two hosts. Packets with IPv6 extension
    /// headers are none either: no system sends TCP with them by default.
    pub(super) fn parse(packet: &'a [u8]) -> Option<(Ends, Self)> {
        let ip = IpSlice::from_slice(packet).ok()?;
        let payload = ip.payload();
        let header = if let Some(v4) = ip.ipv4() { v4.header().slice().len() } else { IPV6_HEADER };
        let is_plain = !ip.is_fragmenting_payload()
            && payload.ip_number == IpNumber::TCP
            && header + payload.payload.len() == packet.len();
        let (from, to) = (ip.source_addr(), ip.destination_addr());
        if !is_plain || !is_of_a_host(from) || !is_of_a_host(to) {
            return None;
        }
        let tcp = TcpSlice::from_slice(payload.payload).ok()?;
        if checksum(Some(((from, to), IpNumber::TCP.0)), payload.payload) != 0 {
            return None;
        }
        let (mut largest, mut scale) = (None, None);
        if tcp.syn() {
            for option in tcp.options_iterator().map_while(Result::ok) {
                match option {
                    TcpOptionElement::MaximumSegmentSize(size) => largest = Some(size),
                    // RFC 7323, 2.3
                    TcpOptionElement::WindowScale(bits) => scale = Some(bits.min(14)),
                    TcpOptionElement::Noop
                    | TcpOptionElement::SelectiveAcknowledgementPermitted
                    | TcpOptionElement::SelectiveAcknowledgement(..)
                    | TcpOptionElement::Timestamp(..) => {}
                }
            }
        }
        let ends = Ends {
            program: SocketAddr::new(from, tcp.source_port()),
            destination: SocketAddr::new(to, tcp.destination_port()),
        };
        let segment = Self {
            sequence: tcp.sequence_number(),
            acknowledgement: tcp.ack().then(|| tcp.acknowledgment_number()),
            control: match (tcp.rst(), tcp.syn(), tcp.fin()) {
                (true, ..) => Control::Reset,
                (false, true, _) => Control::Open,
                (false, false, true) => Control::End,
                (false, false, false) => Control::None,
            },
            window: tcp.window_size(),
            largest,
            scale,
            data: tcp.payload(),
        };
        Some((ends, segment))
    }

    /// The packet that carries it to the program. It has at most 65 535 bytes.
    pub(super) fn compose(&self, ends: &Ends) -> Vec<u8> {
        let (from, to) = (ends.destination, ends.program);
        let mut tcp = TcpHeader::new(from.port(), to.port(), self.sequence, self.window);
        tcp.ack = self.acknowledgement.is_some();
        tcp.acknowledgment_number = self.acknowledgement.unwrap_or_default();
        match self.control {
            Control::None => {}
            Control::Open => tcp.syn = true,
            Control::End => tcp.fin = true,
            Control::Reset => tcp.rst = true,
        }
        tcp.psh = !self.data.is_empty();
        let options: Vec<_> = self
            .largest
            .map(TcpOptionElement::MaximumSegmentSize)
            .into_iter()
            .chain(self.scale.map(TcpOptionElement::WindowScale))
            .collect();
        // Two options always have room.
        let _ = tcp.set_options(&options);
        let ip = match (from.ip(), to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => PacketBuilder::ipv4(from.octets(), to.octets(), HOP_LIMIT),
            (IpAddr::V6(from), IpAddr::V6(to)) => PacketBuilder::ipv6(from.octets(), to.octets(), HOP_LIMIT),
            // A packet has addresses of one family.
            _ => return Vec::new(),
        };
        let mut packet = Vec::with_capacity(MOST_HEADERS + self.data.len());
        // It fails for lengths alone.
        let _ = ip.tcp_header(tcp).write(&mut packet, self.data);
        packet
    }

    /// The reset that answers it where it belongs to no connection.
    // RFC 9293, 3.10.7.1
    pub(super) fn refusal(&self) -> Segment<'static> {
        let length = u32::try_from(self.data.len()).unwrap_or_default();
        let length = length + u32::from(matches!(self.control, Control::Open | Control::End));
        let (sequence, acknowledgement) = match self.acknowledgement {
            Some(next) => (next, None),
            None => (0, Some(self.sequence.wrapping_add(length))),
        };
        Segment { sequence, acknowledgement, control: Control::Reset, ..Segment::default() }
    }
}

const IPV6_HEADER: usize = 40;
/// Of IPv6, TCP and its options.
const MOST_HEADERS: usize = 40 + 20 + 8;
