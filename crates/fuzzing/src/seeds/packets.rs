//! Datagrams, echo requests and errors over both versions of IP.

use manyway_capture::packet::{Datagram, Unreachable};

use super::seed::Seed;

/// An echo request of `ping` from 198.18.0.1 to 192.0.2.1, and one from `fd6d::1` to `2001:db8::1`.
const ECHO_V4: &[u8] = b"\x45\0\0\x20\0\0\x40\0\x40\x01\xb2\xc8\xc6\x12\0\x01\xc0\0\x02\x01\
    \x08\0\x19\x27\0\x01\0\x07ping";
const ECHO_V6: &[u8] = b"\x60\0\0\0\0\x0c\x3a\x40\xfd\x6d\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\
    \x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\x80\0\x75\xb7\0\x01\0\x07ping";

pub(super) fn seeds() -> Vec<Seed> {
    let mut seeds = vec![
        Seed::new("packets", "echo-v4", ECHO_V4.to_vec()),
        Seed::new("packets", "echo-v6", ECHO_V6.to_vec()),
    ];
    for (name, source, destination) in
        [("v4", "198.18.0.1:4000", "192.0.2.1:53"), ("v6", "[fd6d::1]:4000", "[2001:db8::1]:53")]
    {
        let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
        let (mut packet, mut error) = (Vec::new(), Vec::new());
        Datagram { source, destination, payload: b"query" }.compose(&mut packet).unwrap();
        Unreachable::Port.compose(&packet, &mut error);
        seeds.push(Seed::new("packets", format!("datagram-{name}"), packet));
        seeds.push(Seed::new("packets", format!("error-{name}"), error));
    }
    seeds
}
