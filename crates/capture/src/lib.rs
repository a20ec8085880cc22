//! Runs a command in user, network and mount namespaces of its own, as an ordinary user, and hands out what the command
//! sends: each TCP connection as a socket with its destination, everything else as IP packets.
//!
//! The namespace has two devices, `lo` and a TUN device, whose only reader is this process. So nothing that the command
//! sends can go past it: there is no other way out, also after this process has died.
//!
//! ```text
//! command ── TCP ── nat output chain: redirect ── listener ── Connections::accept ─┐
//!         ── UDP, ICMP, … ── TUN device ── Tun::receive ───────────────────────────┴─ this process
//! ```
//!
//! A process with threads cannot enter a user namespace. So [`Prepared::new`] starts a second process, the *stage*: by
//! default the same program, which has to call [`enter_stage`] first. The stage makes the namespaces, passes listeners
//! and device back, gives up all capabilities, and becomes the command.
//!
//! A [`Tunnel`] does the same for a whole machine, with root: its routes lead to the TUN device. A [`Site`] is a TUN device
//! for whole packets between sites.
//!
//! Linux alone has these namespaces: elsewhere the crate has only its [`packet`] module.
#![deny(unsafe_code)]

pub mod packet;

#[cfg(target_os = "linux")]
mod channel;
#[cfg(target_os = "linux")]
mod command;
#[cfg(target_os = "linux")]
mod connections;
#[cfg(target_os = "linux")]
mod error;
#[cfg(target_os = "linux")]
mod kernel;
#[cfg(target_os = "linux")]
mod kill_switch;
#[cfg(target_os = "linux")]
mod netlink;
#[cfg(target_os = "linux")]
mod network;
#[cfg(target_os = "linux")]
mod nftables;
#[cfg(target_os = "linux")]
mod plan;
#[cfg(target_os = "linux")]
mod prepared;
#[cfg(target_os = "linux")]
mod site;
#[cfg(target_os = "linux")]
mod stage;
#[cfg(target_os = "linux")]
mod tcp;
#[cfg(target_os = "linux")]
mod tun;
#[cfg(target_os = "linux")]
mod tunnel;

#[cfg(target_os = "linux")]
pub use self::command::{CommandSignal, RunningCommand};
#[cfg(target_os = "linux")]
pub use self::connections::Connections;
#[cfg(target_os = "linux")]
pub use self::error::{CaptureError, TunnelError};
#[cfg(target_os = "linux")]
pub use self::kernel::open_tun;
#[cfg(target_os = "linux")]
pub use self::kill_switch::KillSwitch;
#[cfg(target_os = "linux")]
pub use self::plan::{
    ADDRESS_V4, ADDRESS_V6, Config, DEVICE, LARGEST_MTU, Launcher, PROBE, PROBE_V6, RESOLVER, RESOLVER_V6,
    SITE_DEVICE, TUNNEL_DEVICE, TUNNEL_MARK,
};
#[cfg(target_os = "linux")]
pub use self::prepared::{Captured, Prepared};
#[cfg(target_os = "linux")]
pub use self::site::{Site, SiteConfig};
#[cfg(target_os = "linux")]
pub use self::stage::enter_stage;
#[cfg(target_os = "linux")]
pub use self::tcp::{Attempt, Connection, Stack};
#[cfg(target_os = "linux")]
pub use self::tun::Tun;
#[cfg(target_os = "linux")]
pub use self::tunnel::{Tunnel, TunnelConfig};
