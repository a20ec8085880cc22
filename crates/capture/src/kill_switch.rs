//! Blocks what would go past a tunnel.

use std::io;

use ipnet::IpNet;

use crate::error::{TunnelError, failed};
use crate::nftables::block;
use crate::tunnel::TunnelConfig;

/// Blocks what goes past a tunnel to the networks that the tunnel is for: before it has begun, if its routes are removed,
/// and after its end, however that came. Dropping it changes nothing: only [`KillSwitch::lift`] does, from any process.
///
/// Free are loopback, multicast, link-local addresses, DHCP, and packets with [`TUNNEL_MARK`](crate::TUNNEL_MARK). What
/// this host forwards for others than the hosts of a LAN is not touched.
///
/// Needs `CAP_NET_ADMIN` over its network namespace.
#[derive(Debug)]
pub struct KillSwitch {
    tunnelled: Vec<IpNet>,
    direct: Vec<IpNet>,
    lans: Vec<String>,
}

impl KillSwitch {
    /// Blocks from now on what goes to the [`routes`](TunnelConfig::routes) of a tunnel, but not what goes to `direct`, some
    /// hundred networks at most; of forwarded packets those of its [`lans`](TunnelConfig::lans). It replaces an earlier one without a gap.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn engage(config: &TunnelConfig, direct: Vec<IpNet>) -> Result<Self, TunnelError> {
        let (tunnelled, lans) = (config.routes.clone(), config.lans.clone());
        let switch = Self { tunnelled, direct, lans };
        switch.close().map_err(failed("the kill switch cannot be set by nftables"))?;
        Ok(switch)
    }

    /// Lets these networks be reached from now on, and sets the block again if another program has removed it.
    ///
    /// # Errors
    /// The kernel refuses. What was blocked is blocked still, unless it was removed.
    pub fn follow(&mut self, direct: Vec<IpNet>) -> io::Result<()> {
        if self.direct != direct || !block::is_closed()? {
            self.direct = direct;
            self.close()?;
        }
        Ok(())
    }

    /// Ends the block. Returns whether there was one.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn lift() -> Result<bool, TunnelError> {
        block::open_again().map_err(failed("the kill switch cannot be lifted (are you root?)"))
    }

    fn close(&self) -> io::Result<()> {
        block::close(&self.tunnelled, &self.direct, &self.lans)
    }
}
