//! The cases of ETSI TS 102 369 that have a counterpart in MMSP/1, by their numbers: a tester plays the peer, and the
//! endpoint is the system under test. `docs/mmsp1-etsi.md` tells the purpose of each, and why others are left out.

mod acknowledgement;
mod bundling;
mod data;
mod duplicate;
mod errors;
mod failure;
mod malformed;
mod set_up;
mod termination;

use manyway_proto::ConnectionConfig;
use manyway_wire::Writer;
use manyway_wire::mmsp1::{Addresses, Block, Fin, FinDone, Header, Opening, Syn, SynAck, Tag};

use super::tester::{Sent, Tester, packet};

/// A block with this body.
fn block(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind, 0];
    bytes.extend_from_slice(&u16::try_from(4 + body.len()).unwrap().to_be_bytes());
    bytes.extend_from_slice(body);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The bytes of a block.
fn encoded(write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut Writer::new(&mut bytes, 2000));
    bytes
}

/// DATA of the peer with a whole ordered message on stream 0.
fn data(tester: &Tester, number: u16) -> Vec<u8> {
    encoded(|w| tester.data(number.into(), 0, number, b"text").encode(w))
}

fn fin(tester: &Tester) -> Vec<u8> {
    let ack = tester.told.unwrap().tseq.minus(1);
    encoded(|w| Fin { ack }.encode(w))
}

fn fin_ack() -> Vec<u8> {
    encoded(|w| Block::FinAck.encode(w))
}

fn fin_done() -> Vec<u8> {
    encoded(|w| FinDone { reflected: false }.encode(w))
}

fn syn(opening: Opening, addresses: Addresses<'_>) -> Vec<u8> {
    encoded(|w| Syn { opening, addresses, unrecognised: None }.encode(w))
}

fn syn_ack(opening: Opening, addresses: Addresses<'_>) -> Vec<u8> {
    encoded(|w| SynAck { opening, addresses, info: b"cookie", unrecognised: None }.encode(w))
}

/// A client of MMSP/1 that has sent SYN, with the header of answers to it.
fn waits_for_syn_ack() -> (Tester, Sent, Header) {
    let mut tester = Tester::client(ConnectionConfig::mmsp1());
    let syn = tester.take();
    let [Block::Syn(asked)] = syn.blocks()[..] else { panic!("{:?}", syn.names()) };
    let header = syn.header().answer(asked.opening.tag);
    (tester, syn, header)
}

/// A client of MMSP/1 that has sent PING.
fn waits_for_pong() -> (Tester, Sent) {
    let (mut tester, syn, _) = waits_for_syn_ack();
    tester.answer_syn(&syn, super::tester::PEER);
    assert_eq!(tester.take().names(), ["PING"]);
    (tester, syn)
}

/// A server that has sent FIN and waits for FIN-ACK.
fn fin_sent() -> Tester {
    let mut tester = Tester::accepted();
    let now = tester.now;
    tester.connection().close(now, 0, "");
    assert_eq!(tester.take_names(), ["FIN"]);
    tester
}

/// A server that has sent FIN-ACK and waits for FIN-DONE.
fn fin_ack_sent() -> Tester {
    let mut tester = Tester::accepted();
    let fin = fin(&tester);
    tester.send_raw(&fin);
    assert_eq!(tester.take_names(), ["FIN-ACK"]);
    tester
}

/// A server of MMSP/1 without connections.
fn closed() -> Tester {
    Tester::server(ConnectionConfig::mmsp1())
}

/// Sends a packet of the peer under a tag.
fn send_under(tester: &mut Tester, tag: Tag, payload: &[u8]) {
    let header = tester.header_with(tag);
    tester.deliver_bytes(super::tester::PEER, packet(header, |w| w.bytes(payload)));
}

/// Sends a SYN with these values.
fn ask_with(tester: &mut Tester, opening: Opening, addresses: Addresses<'_>) {
    let payload = syn(opening, addresses);
    send_under(tester, opening.tag, &payload);
}
