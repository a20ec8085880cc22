//! `manyway serve --tun`: the network of sites at the server.

use std::sync::Arc;

use ipnet::IpNet;
use manyway_capture::packet::{Unreachable, clamp_segment_size};
use manyway_capture::{SITE_DEVICE, Site as Device, SiteConfig, Tun};
use manyway_egress::{Hub, HubConfig, Port, Verdict};
use manyway_terminal::CommandError;
use serde_json::json;

use super::client::{COST, SET_AGAIN, look_after, looks};
use super::networks::{check, routes};
use crate::args::{GlobalArgs, ServeArgs};
use crate::serving::journal::Journal;
use crate::traffic::{TrafficRule, packet_treatment};

/// The network, and its device.
pub(in crate::command) struct Sites {
    hub: Hub,
    device: Device,
    tun: Arc<Tun>,
    config: HubConfig,
    rules: Vec<TrafficRule>,
}

/// Gives the system what comes from clients.
struct TunPort(Arc<Tun>);

impl Port for TunPort {
    fn put(&self, packet: &[u8]) -> bool {
        self.0.try_send(packet).is_ok()
    }
}

impl Sites {
    /// Makes the device; `None` without `--tun`.
    ///
    /// # Errors
    /// The options contradict each other, a network is unusable here, or the system refuses the device.
    pub(in crate::command) fn open(
        global: &GlobalArgs,
        arguments: &ServeArgs,
    ) -> Result<Option<Self>, CommandError> {
        let usual = HubConfig::default();
        let config = HubConfig {
            networks: arguments.tun.clone(),
            announced: arguments.tun_announce.clone(),
            behind: arguments.tun_behind.clone(),
            fixed: arguments.tun_address.clone(),
            mtu: arguments.tun_mtu.unwrap_or(usual.mtu),
            ..usual
        };
        if config.networks.is_empty() {
            let HubConfig { announced, behind, fixed, .. } = config;
            if announced.is_empty() && behind.is_empty() && fixed.is_empty() && arguments.tun_mtu.is_none() {
                return Ok(None);
            }
            let text = "--tun-announce, --tun-behind, --tun-address and --tun-mtu are about the network of --tun NET: \
                        add that";
            return Err(CommandError::usage(text));
        }
        let servers = config.servers().map_err(CommandError::usage)?;
        let behind = config.behind.iter().map(|(_, network)| *network);
        let reached: Vec<IpNet> = config.networks.iter().copied().chain(behind).collect();
        let snapshot = routes()?;
        for network in &reached {
            check(&snapshot, network).map_err(|why| CommandError::usage(format!("{network} {why}")))?;
        }
        let site = SiteConfig {
            mtu: config.mtu,
            addresses: servers.iter().map(IpNet::addr).collect(),
            routes: reached,
            behind: config.announced.clone(),
        };
        let (device, tun) = Device::open(site).map_err(CommandError::failed)?;
        let tun = Arc::new(tun);
        let hub = Hub::new(config.clone(), TunPort(Arc::clone(&tun))).map_err(CommandError::usage)?;
        Ok(Some(Self { hub, device, tun, config, rules: global.traffic_rules.clone() }))
    }

    /// The network, for clients.
    pub(in crate::command) fn hub(&self) -> Hub {
        self.hub.clone()
    }

    /// Logs what the network is.
    pub(in crate::command) fn announce(&self, journal: &Journal) {
        let shown = |networks: &[IpNet]| networks.iter().map(ToString::to_string).collect::<Vec<_>>();
        let behind: Vec<_> =
            self.config.behind.iter().map(|(name, network)| format!("{name}={network}")).collect();
        let own = shown(self.hub.addresses());
        let lines = [
            format!(
                "joining sites at {}: this host is {} by {SITE_DEVICE}",
                shown(&self.config.networks).join(", "),
                own.join(", ")
            ),
            COST.to_owned(),
        ];
        let facts = json!({
            "site": SITE_DEVICE, "addresses": own, "announced": shown(&self.config.announced), "behind": behind,
            "mtu": self.config.mtu,
        });
        journal.server("site", &lines, facts);
    }

    /// Passes the packets of this host on to clients until the device is gone.
    pub(in crate::command) async fn carry(self, journal: Journal) {
        let mut buffer = vec![0; self.tun.mtu().into()];
        let mut answer = Vec::new();
        let mut looks = looks();
        let gone = loop {
            tokio::select! {
                read = self.tun.receive(&mut buffer) => {
                    let length = match read {
                        Ok(length) => length,
                        Err(error) => break error.to_string(),
                    };
                    let packet = buffer.get_mut(..length).unwrap_or_default();
                    clamp_segment_size(packet, self.tun.mtu());
                    let verdict = self.hub.deliver(packet, packet_treatment(&self.rules, packet));
                    answer.clear();
                    if error_of(verdict).is_some_and(|error| error.compose(packet, &mut answer)) {
                        // A program that does not hear of it waits for an answer.
                        let _ = self.tun.try_send(&answer);
                    }
                }
                _ = looks.tick() => match look_after(&self.device) {
                    Ok(true) => journal.remark(SET_AGAIN.to_owned()),
                    Ok(false) => {}
                    Err(error) => break error.to_string(),
                }
            }
        };
        journal.remark(format!(
            "packets between sites are not carried any more: {gone}; start the server again"
        ));
    }
}

/// How ICMP tells the fate of a packet of this host.
fn error_of(verdict: Verdict) -> Option<Unreachable> {
    match verdict {
        Verdict::Destination(_) => Some(Unreachable::Host),
        Verdict::TooLarge(mtu) => Some(Unreachable::TooLarge(mtu)),
        Verdict::Passed | Verdict::QueueFull | Verdict::Malformed | Verdict::Source(_) => None,
    }
}
