//! The settings of a run, from those of a contender.

use manyway_proto::{ConfigError, ConnectionConfig, RateAlgorithm, TargetRate};
use manyway_sim::TcpCongestion;

use crate::LabError;
use crate::contender::{Carrier, ManywaySettings, RENO_2002, Wire, thesis};

/// The settings of both ends of a run.
#[derive(Debug, Clone)]
pub(super) struct Setup {
    pub(super) wire: Wire,
    pub(super) config: ConnectionConfig,
    /// TCP below the paths, instead of UDP.
    pub(super) tcp: Option<Tcp>,
    /// What the receiver of bulk wants.
    pub(super) target: Option<TargetRate>,
}

/// How paths use TCP.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tcp {
    /// Connections for each pair of addresses, unless a target wants another number.
    pub(super) connections: usize,
    pub(super) congestion: TcpCongestion,
}

/// Most paths of a connection where a pair of addresses may have several.
const PATH_LIMIT: u32 = 31;

impl Setup {
    pub(super) fn new(base: &ConnectionConfig, settings: &ManywaySettings) -> Result<Self, LabError> {
        let unknown = |error: ConfigError| LabError::Unsupported(error.to_string());
        let mut config = base.clone();
        if settings.wire == Wire::Mmsp1 {
            thesis(&mut config, settings.detection).map_err(unknown)?;
        }
        if let Some(name) = &settings.scheduler {
            config.set_scheduler(name).map_err(unknown)?;
        }
        if let Some(mode) = settings.pairs {
            config.pairs = mode;
        }
        let target = settings.target.map(|target| target.setting(settings.connections)).transpose();
        let target = target.map_err(unknown)?;
        let over_tcp = match settings.carrier {
            Carrier::Udp => false,
            Carrier::Tcp => true,
            Carrier::Auto => {
                let text = "carrier=auto takes real sockets: in virtual time paths go over UDP or over TCP";
                return Err(LabError::Unsupported(text.to_owned()));
            }
        };
        let tcp = over_tcp.then(|| {
            let congestion = congestion_of_tcp(settings.congestion.as_deref())?;
            let connections = match &target {
                // It begins with one by itself.
                Some(target) if target.algorithm == RateAlgorithm::Advanced => 1,
                Some(target) => target.connections,
                None => settings.connections.unwrap_or(1),
            };
            Ok(Tcp { connections: connections.into(), congestion })
        });
        let tcp = tcp.transpose()?;
        if tcp.is_some() {
            config.path_limit = PATH_LIMIT;
        } else if let Some(name) = &settings.congestion {
            config.set_congestion(name).map_err(unknown)?;
        }
        Ok(Self { wire: settings.wire, config, tcp, target })
    }
}

/// The congestion control of the modelled TCP; CUBIC is that of most systems.
fn congestion_of_tcp(name: Option<&str>) -> Result<TcpCongestion, LabError> {
    match name {
        None | Some("cubic") => Ok(TcpCongestion::Cubic),
        Some("reno" | "new-reno") => Ok(TcpCongestion::Reno),
        Some(RENO_2002) => Ok(TcpCongestion::Reno2002),
        Some(name) => Err(LabError::Unsupported(format!(
            "TCP in virtual time has the congestion controls cubic, reno and {RENO_2002}, not {name}"
        ))),
    }
}
