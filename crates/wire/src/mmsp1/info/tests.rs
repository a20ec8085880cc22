use super::*;
use crate::mmsp1::{Tag, Tseq};

const CLIENT: Opening = Opening { tag: Tag(1), window: 0, outgoing: 1, incoming: u16::MAX, tseq: Tseq(0) };
const SERVER: Opening =
    Opening { tag: Tag(u32::MAX), window: u32::MAX, outgoing: u16::MAX, incoming: 1, tseq: Tseq(u32::MAX) };

fn info<'a>(ipv4: &'a [[u8; 4]], ipv6: &'a [[u8; 16]]) -> Info<'a> {
    Info {
        key: 7,
        made_at_millis: 0x0102_0304_0506_0708,
        lifetime: Duration::from_secs(10),
        client: CLIENT,
        server: SERVER,
        ports: [1, 16_383],
        address: "192.0.2.1:40000".parse().unwrap(),
        ipv4,
        ipv6,
    }
}

fn written(info: &Info<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    info.encode_covered(&mut Writer::new(&mut bytes, 1 << 16));
    bytes.extend([0xee; Info::MAC_LEN]);
    assert_eq!(bytes.len(), info.encoded_len());
    bytes
}

// spec 3.59
#[test]
fn every_field_comes_back_with_what_the_mac_covers() {
    for ipv4 in [&[][..], &[[10, 0, 0, 1]], &[[10, 0, 0, 1]; 255]] {
        for ipv6 in [&[][..], &[[0x20; 16]; 2]] {
            for address in ["192.0.2.1:40000", "[2001:db8::1]:1"] {
                let info = Info { address: address.parse().unwrap(), ..info(ipv4, ipv6) };
                let bytes = written(&info);
                let (read, covered, mac) = Info::decode(&bytes).unwrap();
                assert_eq!((read, mac), (info, &[0xee; 16]));
                assert_eq!(covered, &bytes[..bytes.len() - 16]);
            }
        }
    }
}

// spec 3.57: a SYN without addresses has 60 bytes with those of IP and UDP, its SYN-ACK at most 180
#[test]
fn an_info_without_addresses_fits_a_syn_ack_of_three_times_the_syn() {
    let (syn, outer) = (12 + 20, 28);
    let syn_ack = 12 + 20 + 4 + info(&[], &[]).encoded_len();
    assert!(syn_ack + outer <= 3 * (syn + outer), "{syn_ack}");
}

// spec 3.59
#[test]
fn more_addresses_than_their_count_can_tell_are_cut() {
    let listed = [[10, 0, 0, 1]; 300];
    let bytes = written(&info(&listed, &[]));
    assert_eq!(Info::decode(&bytes).unwrap().0, info(&listed[..255], &[]));
}

// spec 3.59
#[test]
fn what_no_server_made_is_refused() {
    let right = written(&info(&[[10, 0, 0, 1]], &[]));
    for length in 0..right.len() {
        assert!(Info::decode(&right[..length]).is_err(), "{length}");
    }
    // version, number of addresses, tags and streams of both
    for (at, value) in [(0, 0), (0, 2), (2, 0), (2, 2), (3, 1)] {
        let mut wrong = right.clone();
        wrong[at] = value;
        assert!(Info::decode(&wrong).is_err(), "{at}");
    }
    for begin in [16, 32] {
        for field in [0..4, 8..10, 10..12] {
            let mut wrong = right.clone();
            wrong[begin + field.start..begin + field.end].fill(0);
            assert!(Info::decode(&wrong).is_err(), "{begin} {field:?}");
        }
    }
}
