//! Collects advice from what the system granted to new sockets and what it refused.

use manyway_proto::LocalAddress;

use super::Driver;
use crate::DEFAULT_PORT;
use crate::advice::Advice;
use crate::udp::DeviceBinding;

impl Driver {
    /// Reports once what the system refused to the sockets made since the last call.
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

    /// Logs advice. Small buffers are common and matter to fast paths only; an unbound socket may cost a whole network.
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
