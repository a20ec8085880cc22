//! Datagrams that come to a port of the server: each flow has a socket of its own here.

use manyway_egress::{EgressError, FlowReceiver, FlowSender, Reason, accept_flow};
use manyway_transfer::MessageHalves;
use tokio::time::{Instant, sleep_until, timeout};

use super::super::flows::IDLE;
use super::addresses::Addresses;
use super::rules::{Forwarded, PATIENCE, forwarded};
use super::service::Service;
use crate::args::Protocol;

/// Carries a flow that the server opened.
pub(super) async fn attend(halves: MessageHalves, rules: &[Forwarded]) -> Result<(), EgressError> {
    let incoming = accept_flow(halves).await?;
    let Some(Forwarded { rule, treatment, addresses }) = forwarded(rules, incoming.number, Protocol::Udp)
    else {
        return Ok(incoming.refuse(Reason::Other).await?);
    };
    let connecting = async { Service::connect(addresses.of(&rule.destination).await?).await };
    match timeout(PATIENCE, connecting).await {
        Ok(Ok(service)) => carry(service, addresses, incoming.accept(*treatment).await?).await,
        Ok(Err(_)) => Ok(incoming.refuse(Reason::HostUnreachable).await?),
        Err(_) => Ok(incoming.refuse(Reason::TimedOut).await?),
    }
}

/// Carries both directions until the server ends the flow, or it is idle.
async fn carry(
    mut service: Service,
    addresses: &Addresses,
    (mut sender, mut receiver): (FlowSender, FlowReceiver),
) -> Result<(), EgressError> {
    let mut last = Instant::now();
    let mut has_answered = false;
    loop {
        tokio::select! {
            datagram = receiver.receive() => {
                let Some(datagram) = datagram? else { return Ok(()) };
                last = Instant::now();
                service.send(datagram.payload).await;
            }
            payload = service.receive() => {
                last = Instant::now();
                sender.send(None, &payload)?;
                if !std::mem::replace(&mut has_answered, true) {
                    addresses.on_answer(service.address());
                }
            }
            () = sleep_until(last + IDLE) => return Ok(()),
        }
    }
}
