//! What the system granted to new sockets, and what it did not.

use manyway_proto::LocalAddress;

use super::Driver;
use crate::DEFAULT_PORT;
use crate::advice::Advice;
use crate::udp::DeviceBinding;

impl Driver {
    /// Tells once what the system did not grant to the sockets that were made since the last call.
    pub(super) fn note_granted(&mut self) {
        let wanted = self.sockets.buffers();
        for (local, granted) in self.sockets.take_granted() {
            tracing::debug!(%local, ?granted, "socket");
            if granted.receive_buffer < wanted.receive {
                let granted = granted.receive_buffer;
                self.advise(Advice::ReceiveBuffer { wanted: wanted.receive, granted });
            }
            if granted.send_buffer < wanted.send {
                let granted = granted.send_buffer;
                self.advise(Advice::SendBuffer { wanted: wanted.send, granted });
            }
            if let DeviceBinding::Refused { reason } = granted.device {
                self.advise(self.not_tied(local, reason));
            }
        }
    }

    fn not_tied(&self, local: LocalAddress, reason: String) -> Advice {
        let address = local.address.ip();
        Advice::NotTied {
            interface: self.interface_name(local.interface).unwrap_or_else(|| local.interface.to_string()),
            address,
            gateway: self.watcher.snapshot().gateway(local.interface, address),
            table: u32::from(DEFAULT_PORT) + local.interface,
            reason,
        }
    }

    /// Small buffers are the rule, and only fast paths suffer from them; sockets that are not tied may cost a network.
    fn advise(&self, advice: Advice) {
        if !self.advice.add(advice.clone()) {
            return;
        }
        match advice {
            Advice::ReceiveBuffer { .. } | Advice::SendBuffer { .. } => tracing::info!("{advice}"),
            Advice::NotTied { .. } => tracing::warn!("{advice}"),
        }
    }
}
