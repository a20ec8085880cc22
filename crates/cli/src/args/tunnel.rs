//! `manyway tunnel`.

use std::net::IpAddr;

use clap::{Args, ValueEnum};
use ipnet::IpNet;

/// Arguments of `tunnel`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub struct TunnelArgs {
    /// The server, started with --egress, or with --tun for --site: ticket, @FILE containing it, saved name, or HOST:PORT
    #[arg(value_name = "TICKET", required_unless_present = "clear")]
    pub server: Option<String>,
    /// Send only this network through the tunnel; repeatable. Default: everything except networks that have their own
    /// route, such as the local one. With --site: none
    #[arg(long = "route", value_name = "NET", value_parser = parse_network)]
    pub routes: Vec<IpNet>,
    /// Exclude this network; repeatable
    #[arg(long, value_name = "NET", value_parser = parse_network)]
    pub bypass: Vec<IpNet>,
    /// DNS: the server answers every query, or the name servers of this machine do, as without a tunnel
    #[arg(long, value_enum, value_name = "WHICH", default_value = "server")]
    pub dns: DnsSource,
    /// Also serve hosts behind this interface, for which this machine is the router; repeatable
    #[arg(long = "lan", value_name = "IF")]
    pub lans: Vec<String>,
    /// Join the network of sites of a server with --tun: whole packets of any protocol go between this machine, the server's
    /// network, and networks behind either end
    #[arg(long)]
    pub site: bool,
    /// With --site, let others reach this network behind this machine, which is its router; repeatable; the
    /// server's --tun-behind permits it
    #[arg(long, value_name = "NET", value_parser = parse_network, requires = "site")]
    pub announce: Vec<IpNet>,
    /// Block all traffic outside the tunnel while it runs. The block stays if the tunnel crashes or is killed; Ctrl-C,
    /// SIGTERM, --clear or the next tunnel end it
    #[arg(long)]
    pub kill_switch: bool,
    /// Remove the block that a killed tunnel left behind
    #[arg(long, conflicts_with_all = ["server", "routes", "bypass", "dns", "lans", "kill_switch", "site"])]
    pub clear: bool,
}

/// Which name servers answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DnsSource {
    /// The name server that the server asks.
    Server,
    /// The name servers of this machine.
    Local,
}

/// A network, or a single address.
///
/// # Errors
/// The error text shows the right form.
pub fn parse_network(text: &str) -> Result<IpNet, String> {
    let network: IpNet = text
        .parse()
        .or_else(|_| text.parse::<IpAddr>().map(IpNet::from))
        .map_err(|_| format!("{text:?} is no network: write it like 10.1.0.0/16 or 2001:db8::/32"))?;
    if network == network.trunc() {
        Ok(network)
    } else {
        Err(format!("the network of {} bits begins at {}", network.prefix_len(), network.trunc().addr()))
    }
}

const EXAMPLES: &str = "\
Examples:
  sudo manyway tunnel @home.ticket
  sudo manyway tunnel home --route 10.1.0.0/16      one network alone
  sudo manyway tunnel home --bypass 203.0.113.0/24  all but one network
  sudo manyway tunnel home --kill-switch            nothing without the tunnel
  sudo manyway tunnel home --lan eth1               for hosts behind eth1, too
  sudo manyway tunnel home --site --announce 192.168.5.0/24     between sites

Needs root, and Linux 5.12. The device, its routes and the redirection go with the process, also when it is killed; \
routing rules that look into an empty table may stay then, and the next tunnel removes them. No file is changed. \
Manyway's own packets do not enter the tunnel.";

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn a_server_is_needed_unless_the_block_is_ended() {
        let parse = |words: &[&str]| Cli::try_parse_from([&["manyway", "tunnel"], words].concat());
        for good in [
            &["home"][..],
            &["home", "--kill-switch", "--lan", "eth1", "--lan", "eth2"],
            &["--clear"],
            &["home", "--site", "--announce", "192.168.5.0/24"],
        ] {
            assert!(parse(good).is_ok(), "{good:?}");
        }
        for wrong in [
            &[][..],
            &["--kill-switch"],
            &["home", "--clear"],
            &["--clear", "--lan", "eth1"],
            &["--clear", "--site"],
            &["home", "--announce", "192.168.5.0/24"],
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn networks_begin_at_their_first_address() {
        for (text, shown) in [("10.1.0.0/16", "10.1.0.0/16"), ("::/0", "::/0"), ("192.0.2.7", "192.0.2.7/32")]
        {
            assert_eq!(parse_network(text).map(|network| network.to_string()).as_deref(), Ok(shown));
        }
        assert_eq!(parse_network("10.1.2.3/16").unwrap_err(), "the network of 16 bits begins at 10.1.0.0");
        for wrong in ["", "all", "10.1.0.0/33", "example.org"] {
            assert!(parse_network(wrong).is_err(), "{wrong}");
        }
    }
}
