//! Answers of an endpoint that keep no state: SYN-ACK, and RST, ERROR and FIN-DONE to packets of no connection.

use manyway_wire::Writer;
use manyway_wire::mmsp1::{
    Cause, ErrorCode, FinDone, HEADER_LEN, Header, Info, Opening, Syn, SynAck, encode_error, encode_rst,
};
use smallvec::SmallVec;

use super::Mmsp1Endpoint;
use crate::mmsp1::{Named, write_packet};
use crate::{FourTuple, Instant};

/// Headers of IP and UDP, which count for the amplification limit.
const IP_AND_UDP: usize = 28;
/// Bytes of a SYN-ACK and of its packet without lists of addresses: header, block, fixed fields, header of INFO.
const SYN_ACK_FIXED: usize = HEADER_LEN + 4 + 16 + 4;
/// Bytes of an INFO without addresses.
const INFO_FIXED: usize = 88;
/// Largest packet of an answer.
const LARGEST: usize = 1200;

/// A SYN that is to be answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) tuple: FourTuple,
    pub(super) header: Header,
    /// Bytes of its datagram.
    pub(super) size: usize,
    pub(super) syn: &'a Syn<'a>,
}

impl Mmsp1Endpoint {
    /// The SYN-ACK for a SYN. It has at most three times the bytes of the SYN (spec 3.57).
    pub(super) fn syn_ack(
        &mut self,
        now: Instant,
        asked: &Asked<'_>,
        server: Opening,
        named: &Named,
    ) -> Vec<u8> {
        let most = (3 * (IP_AND_UDP + asked.size) - IP_AND_UDP).min(LARGEST);
        let room = most.saturating_sub(SYN_ACK_FIXED + INFO_FIXED);
        let addresses = named.in_syn_ack(room);
        let used = list_len(4, addresses.ipv4.len()) + list_len(16, addresses.ipv6.len());
        let room = room.saturating_sub(used);
        let all = asked.syn.addresses;
        let named = all.listed.iter().chain(all.ipv4).filter(|octets| **octets != [0; 4]);
        let ipv4: SmallVec<[[u8; 4]; 16]> = named.copied().collect();
        let ipv4 = ipv4.get(..(room / 4).min(255).min(ipv4.len())).unwrap_or_default();
        let left = room - 4 * ipv4.len();
        let ipv6 = all.ipv6.get(..(left / 16).min(255).min(all.ipv6.len())).unwrap_or_default();
        let info = Info {
            key: 0,
            made_at_millis: 0,
            lifetime: std::time::Duration::ZERO,
            client: asked.syn.opening,
            server,
            ports: [asked.header.source_port, asked.header.destination_port],
            address: asked.tuple.remote,
            ipv4,
            ipv6,
        };
        let info = self.keys.seal(now, &info);
        let syn_ack = SynAck { opening: server, addresses, info: &info, unrecognised: None };
        packet(asked.header.answer(asked.syn.opening.tag), |w| syn_ack.encode(w))
    }

    /// The answer to a PING whose INFO has expired: a SYN-ACK with the same values and a new INFO (spec 3.56).
    pub(super) fn renewed(&mut self, now: Instant, header: Header, info: &Info<'_>) -> Vec<u8> {
        let sealed = self.keys.seal(now, info);
        let addresses = manyway_wire::mmsp1::Addresses::default();
        let syn_ack = SynAck { opening: info.server, addresses, info: &sealed, unrecognised: None };
        packet(header.answer(info.client.tag), |w| syn_ack.encode(w))
    }
}

/// Bytes of a list of addresses in a parameter.
fn list_len(size: usize, count: usize) -> usize {
    if count == 0 { 0 } else { 4 + size * count }
}

/// RST with flag T and this cause, under the connection id of the packet that it answers.
pub(super) fn reflected_rst(header: Header, cause: Option<Cause<'_>>) -> Vec<u8> {
    packet(header.answer(header.connection), |w| {
        encode_rst(w, true, cause.into_iter());
    })
}

/// RST without T under the connection id of a packet with a SYN that cannot be read (spec 3.52).
pub(super) fn rst_to_syn(header: Header, code: ErrorCode) -> Vec<u8> {
    let information: &[u8] = if code == ErrorCode::INVALID_FIELD { &[Syn::KIND] } else { &[] };
    packet(header.answer(header.connection), |w| {
        encode_rst(w, false, std::iter::once(Cause { code, information }));
    })
}

/// ERROR with this cause under a tag of the peer.
pub(super) fn error(header: Header, cause: Cause<'_>) -> Vec<u8> {
    packet(header, |w| {
        encode_error(w, std::iter::once(cause));
    })
}

/// FIN-DONE under this header.
pub(super) fn fin_done(header: Header, reflected: bool) -> Vec<u8> {
    packet(header, |w| FinDone { reflected }.encode(w))
}

fn packet(header: Header, write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_packet(&mut bytes, header, write);
    bytes
}
