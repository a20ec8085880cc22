//! What the command sends beside TCP: UDP, with it DNS, and ICMP.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use manyway_capture::Tun;
use manyway_capture::packet::{Packet, Unreachable};

use super::super::bond::EgressBond;

/// Serves the packets of the command, and never ends.
///
/// The server carries TCP alone until now: each datagram and each echo request is answered by ICMP that a rule forbids
/// it, so that programs need not wait for an answer.
pub(super) async fn datagrams(tun: &Tun, _bond: &Arc<EgressBond>) -> Infallible {
    let Err(error) = answer_all(tun).await;
    tracing::warn!(reason = %error, "the device of the command is gone");
    std::future::pending().await
}

async fn answer_all(tun: &Tun) -> io::Result<Infallible> {
    let mut buffer = vec![0; tun.mtu().into()];
    let mut answer = Vec::new();
    loop {
        let length = tun.receive(&mut buffer).await?;
        let packet = buffer.get(..length).unwrap_or_default();
        match Packet::parse(packet) {
            Ok(Packet::Datagram(_) | Packet::Echo(_)) => {}
            Ok(_) | Err(_) => continue,
        }
        answer.clear();
        if Unreachable::Prohibited.compose(packet, &mut answer) {
            // The kernel takes an answer or drops it; the command waits for none.
            let _ = tun.send(&answer).await;
        }
    }
}
