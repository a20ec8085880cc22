use super::*;
use crate::mmsp1::{
    Addresses, Cause, Fin, FinDone, Opening, Probe, Sseq, Tag, Tseq, encode_rst, encode_sack,
};
use crate::mmsp1::{Ping, Syn};
use crate::writer::Writer;

fn written(write: impl FnOnce(&mut Writer<'_>)) -> Vec<String> {
    let mut bytes = Vec::new();
    write(&mut Writer::new(&mut bytes, 1200));
    crate::mmsp1::testing::walk(&bytes).into_iter().map(|block| block.unwrap().to_string()).collect()
}

#[test]
fn a_block_prints_as_one_line() {
    let data = Data {
        tseq: Tseq(9),
        stream: 2,
        sseq: Sseq(0),
        protocol: 51,
        unordered: true,
        fragment: Fragment::First,
        data: b"abc",
    };
    let words = "DATA tseq 9, stream 2, sseq 0, payload protocol 51, 3 bytes, first, unordered";
    assert_eq!(Block::Data(data).to_string(), words);
    let (ranges, duplicates) = ([2..=3, 5..=5], [Tseq(4), Tseq(4)]);
    let words = written(|w| {
        encode_sack(w, Tseq(u32::MAX - 3), 7, ranges.into_iter(), duplicates.into_iter()).unwrap();
    });
    let expected = "SACK ack 4294967292, window 7, ranges 4294967294-4294967295,1, duplicates 4,4";
    assert_eq!(words, [expected]);
    assert_eq!(Block::Pong.to_string(), "PONG");
    assert_eq!(Block::Fin(Fin { ack: Tseq(1) }).to_string(), "FIN ack 1");
    assert_eq!(Block::FinDone(FinDone { reflected: false }).to_string(), "FIN-DONE");
    assert_eq!(Block::FinDone(FinDone { reflected: true }).to_string(), "FIN-DONE reflected");
    let ping = Ping { info: &[0xa1, 2], unrecognised: Some(16) };
    assert_eq!(Block::Ping(ping).to_string(), "PING info a102, unrecognised parameter 16");
}

#[test]
fn addresses_and_causes_print_as_lists() {
    let addresses = Addresses { listed: &[[192, 0, 2, 1], [0; 4]], ipv4: &[], ipv6: &[[0; 16]] };
    let opening = Opening { tag: Tag(0xabc), window: 5, outgoing: 2, incoming: 3, tseq: Tseq(4) };
    let words = Block::Syn(Syn { opening, addresses, unrecognised: None }).to_string();
    let expected = "SYN tag 00000abc, window 5, outgoing streams 2, incoming streams 3, tseq 4, \
                    addresses 192.0.2.1,::";
    assert_eq!(words, expected);
    let causes = [
        Cause { code: ErrorCode::STALE_INFO, information: &[0, 0, 1, 0] },
        Cause { code: ErrorCode(99), information: &[1, 2] },
        Cause { code: ErrorCode::NO_INFO, information: &[] },
    ];
    let words = written(|w| {
        encode_rst(w, true, causes.into_iter());
    });
    let expected =
        "RST stale or invalid INFO (0x0009) 256ms ago; code 0x0063 0102; no INFO (0x0008), reflected";
    assert_eq!(words, [expected]);
    let address = "192.0.2.9".parse().unwrap();
    let data = ProbeData { sent_micros: 2500, path: 1, address, nonce: 1, mac: 2 };
    let words = Block::Probe(Probe { data, unrecognised: None }).to_string();
    let expected =
        "PROBE sent 2.5ms, path 1, address 192.0.2.9, nonce 0000000000000001, mac 0000000000000002";
    assert_eq!(words, expected);
}
