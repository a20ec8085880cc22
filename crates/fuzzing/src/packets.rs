//! IP packets of a command that `manyway run` has started.

use manyway_capture::packet::{Packet, Unreachable};

const REASONS: [Unreachable; 3] = [Unreachable::Port, Unreachable::Prohibited, Unreachable::TooLarge(1280)];

/// Parses a packet, and answers it in every way.
pub fn run(data: &[u8]) {
    #[cfg(target_os = "linux")]
    manyway_capture::Stack::new(1500, |answer| assert!(Packet::parse(answer).is_ok())).receive(data);
    let mut answers = Vec::new();
    match Packet::parse(data) {
        Ok(Packet::Datagram(datagram)) => {
            let mut packet = Vec::new();
            datagram.compose(&mut packet).unwrap();
            assert_eq!(Packet::parse(&packet), Ok(Packet::Datagram(datagram)));
        }
        Ok(Packet::Echo(echo)) => {
            let mut packet = Vec::new();
            echo.compose(&mut packet).unwrap();
            assert_eq!(Packet::parse(&packet), Ok(Packet::Echo(echo)));
            packet.clear();
            echo.compose_reply(&mut packet).unwrap();
            answers.push(packet);
        }
        Ok(_) | Err(_) => {}
    }
    for reason in REASONS {
        let mut answer = Vec::new();
        if reason.compose(data, &mut answer) {
            answers.push(answer);
        }
    }
    for answer in answers {
        assert!(matches!(Packet::parse(&answer), Ok(Packet::Other(1 | 58))));
        // Otherwise two ends could answer each other for ever.
        assert!(!Unreachable::Port.compose(&answer, &mut Vec::new()));
    }
}
