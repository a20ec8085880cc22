//! Facts as `tracing` events: connections and paths at `info`, decisions at `debug`, each packet at `trace`.

use tracing::{debug, info, trace};

use super::Fact;

pub(crate) fn log(fact: &Fact) {
    match fact {
        Fact::PacketSent { path, packet_number, size, ack_eliciting } => {
            trace!(path = path.0, packet = packet_number, bytes = size, ack_eliciting, "sent");
        }
        Fact::PacketReceived { path, packet_number, size } => {
            trace!(path = path.0, packet = packet_number, bytes = size, "received");
        }
        Fact::PacketsLost { path, packets, bytes } => {
            debug!(path = path.0, packets, bytes = bytes.get(), "lost");
        }
        Fact::SpuriousLoss { path, packets } => {
            debug!(path = path.0, packets, "lost packets arrived after all");
        }
        Fact::Reinjected { path, packets } => {
            debug!(path = path.0, packets, "sent again on other paths");
        }
        Fact::Path(event) => {
            info!(path = event.path.0, state = %event.state, reason = %event.reason, "path");
        }
        Fact::DatagramSize { path, size } => {
            debug!(path = path.0, bytes = size, "size of datagrams");
        }
        Fact::KeyUpdate => debug!("keys changed"),
        Fact::PeerKeyUpdate => debug!("keys changed by the peer"),
        Fact::Established => info!("established"),
        Fact::PacketLost { .. } | Fact::Metrics(_) => {}
    }
}
