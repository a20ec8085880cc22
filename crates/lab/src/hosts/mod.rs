//! Two separate hosts: network namespaces with TUN devices as interfaces, addresses and source routing.
//!
//! ```no_run
//! # fn scenario() -> manyway_lab::Scenario { unimplemented!() }
//! use manyway_lab::emulator::Emulator;
//! use manyway_lab::hosts::Hosts;
//! use manyway_lab::scenario::Side;
//! use std::path::Path;
//!
//! let scenario = scenario();
//! let hosts = Hosts::make(&scenario)?;
//! let emulator = Emulator::start(&scenario, &hosts, 7)?;
//! emulator.begin();
//! let server = hosts.addresses(Side::Server, 0)[0];
//! hosts.command(Side::Client, Path::new("ping")).args(["-c", "1", &server.to_string()]).status().unwrap();
//! println!("{}", serde_json::to_string(&emulator.finish()?.totals).unwrap());
//! # Ok::<(), manyway_lab::LabError>(())
//! ```

mod namespace;
mod plan;
mod system;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use manyway_sim::pair::Side;

use crate::{LabError, Scenario};

use namespace::Namespace;
use plan::Plan;

pub use plan::default_address;

/// The two hosts of a scenario. Dropping them kills what still runs inside and removes them; leftovers of a killed
/// program are removed by the next one.
#[derive(Debug)]
pub struct Hosts {
    // The devices are closed before the namespaces.
    devices: Vec<OwnedFd>,
    addresses: [Vec<Vec<IpAddr>>; 2],
    operator: Operator,
    namespaces: [Namespace; 2],
}

impl Hosts {
    /// Whether hosts can be created here: creates two namespaces and removes them.
    ///
    /// # Errors
    /// [`LabError::Unsupported`]: the user is not root, `ip` or `/dev/net/tun` is missing, or the system allows no
    /// namespaces. The text says what `manyway-lab sim` can do instead.
    pub fn check() -> Result<(), LabError> {
        namespaces().map(drop)
    }

    /// Creates the hosts of a scenario, after removing leftovers of killed programs.
    ///
    /// Takes about a twentieth of a second.
    ///
    /// # Errors
    /// As [`Self::check`]; [`LabError::System`] or [`LabError::Io`] if the system refuses something.
    pub fn make(scenario: &Scenario) -> Result<Self, LabError> {
        let namespaces = namespaces()?;
        namespace::remove_leftovers()?;
        let plan = Plan::new(scenario);
        let mut devices = Vec::new();
        for (side, namespace) in SIDES.into_iter().zip(&namespaces) {
            let name = namespace.name();
            let names = plan.names(side);
            devices.extend(namespace::inside(name, || settings().and_then(|()| open(&names)))??);
            let interfaces: Result<String, _> = (0..names.len()).map(|at| plan.set_up(side, at)).collect();
            system::ip_script(name, &format!("link set lo up\n{}", interfaces?))?;
        }
        let addresses = SIDES.map(|side| plan.addresses(side));
        let names = namespaces.each_ref().map(|namespace| namespace.name().to_owned());
        let operator = Operator { names: Arc::new(names), plan: Arc::new(Mutex::new(plan)) };
        Ok(Self { devices, addresses, operator, namespaces })
    }

    /// The command that runs `program` on a host. A signal to its process reaches the program.
    pub fn command(&self, side: Side, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.name(side)]).arg(program);
        command
    }

    /// Runs a command of `ip` on a host.
    pub(crate) fn ip(&self, side: Side, line: &str) -> Result<(), LabError> {
        system::ip_script(self.name(side), line)
    }

    /// Runs `act` on a thread of its own on a host, and returns its result. Sockets that it creates belong to the host
    /// for ever, even if other threads use them.
    ///
    /// # Errors
    /// [`LabError::Io`] if the thread cannot enter the host.
    pub fn inside<T: Send>(&self, side: Side, act: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        namespace::inside(self.name(side), act)
    }

    /// The original addresses of an interface, by its index; empty if there is no such interface. A later
    /// [`Change::Readdress`](crate::scenario::Change::Readdress) is not visible here.
    pub fn addresses(&self, side: Side, interface: usize) -> &[IpAddr] {
        let [client, server] = &self.addresses;
        let interfaces = match side {
            Side::Client => client,
            Side::Server => server,
        };
        interfaces.get(interface).map_or(&[], Vec::as_slice)
    }

    /// The name of a host's network namespace.
    pub fn name(&self, side: Side) -> &str {
        let [client, server] = &self.namespaces;
        match side {
            Side::Client => client.name(),
            Side::Server => server.name(),
        }
    }

    /// The devices of all interfaces, the client's first.
    pub(crate) fn devices(&self) -> &[OwnedFd] {
        &self.devices
    }

    /// The addresses of all interfaces, the client's first.
    pub(crate) fn all_addresses(&self) -> Vec<Vec<IpAddr>> {
        self.addresses.concat()
    }

    pub(crate) fn operator(&self) -> Operator {
        self.operator.clone()
    }
}

/// The namespaces of two hosts.
fn namespaces() -> Result<[Namespace; 2], LabError> {
    let without = |reason: String| {
        let text = format!("{reason}. Without it, `manyway-lab sim` runs the same scenarios in virtual time");
        LabError::Unsupported(text)
    };
    if !rustix::process::geteuid().is_root() {
        return Err(without("the lab makes network namespaces, which needs root".into()));
    }
    if let Err(error) = std::fs::File::open("/dev/net/tun") {
        return Err(without(format!("the lab needs /dev/net/tun ({error})")));
    }
    if let Err(error) = system::ip(&["-V"]) {
        return Err(without(format!("the lab needs the program ip of iproute2 ({error})")));
    }
    Namespace::pair().map_err(|error| without(format!("the lab needs network namespaces ({error})")))
}

/// Changes interfaces of hosts while they are in use. Its calls take some milliseconds each.
#[derive(Debug, Clone)]
pub(crate) struct Operator {
    names: Arc<[String; 2]>,
    plan: Arc<Mutex<Plan>>,
}

impl Operator {
    pub(crate) fn take_down(&self, side: Side, interface: usize) -> Result<(), LabError> {
        let script = self.plan().set_state(side, interface, false)?;
        system::ip_script(self.name(side), &script)
    }

    pub(crate) fn bring_up(&self, side: Side, interface: usize) -> Result<(), LabError> {
        let script = self.plan().set_state(side, interface, true)?;
        system::ip_script(self.name(side), &script)
    }

    /// Replaces an interface's first address; returns all its current addresses.
    pub(crate) fn readdress(
        &self,
        side: Side,
        interface: usize,
        address: IpAddr,
    ) -> Result<Vec<IpAddr>, LabError> {
        let mut plan = self.plan();
        let lines = plan.readdress(side, interface, address)?;
        system::ip_script(self.name(side), &lines.here)?;
        system::ip_attempts(self.name(side.other()), &lines.there_old);
        system::ip_script(self.name(side.other()), &lines.there_new)?;
        Ok(plan.addresses(side).into_iter().nth(interface).unwrap_or_default())
    }

    /// Packets that the devices of a host dropped because the emulator did not read them in time, per interface; zeros
    /// for a removed host.
    pub(crate) fn overruns(&self, side: Side) -> Vec<u64> {
        let read = || std::fs::read_to_string("/proc/thread-self/net/dev");
        let table = namespace::inside(self.name(side), read).ok().and_then(Result::ok).unwrap_or_default();
        self.plan().names(side).iter().map(|name| dropped(&table, name).unwrap_or(0)).collect()
    }

    fn name(&self, side: Side) -> &str {
        let [client, server] = &*self.names;
        match side {
            Side::Client => client,
            Side::Server => server,
        }
    }

    fn plan(&self) -> std::sync::MutexGuard<'_, Plan> {
        // Each change of the plan is one assignment: a panic elsewhere leaves it consistent.
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Dropped packets of an interface, from a table in the form of `/proc/net/dev`.
fn dropped(table: &str, name: &str) -> Option<u64> {
    let numbers = table.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'))?;
    // Eight numbers of received data; bytes, packets and errors of sent data.
    numbers.split_whitespace().nth(11)?.parse().ok()
}

const SIDES: [Side; 2] = [Side::Client, Side::Server];

/// Settings of the namespace of the calling thread, below `/proc/sys/net`.
const SETTINGS: [(&str, &str); 11] = [
    // A host with several interfaces accepts packets on any of them.
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
    // Buffers large enough for any link of a scenario.
    ("ipv4/tcp_rmem", "4096 131072 67108864"),
    ("ipv4/tcp_wmem", "4096 16384 67108864"),
    // Each run starts without metrics of earlier ones.
    ("ipv4/tcp_no_metrics_save", "1"),
    ("ipv6/conf/all/accept_dad", "0"),
    ("ipv6/conf/default/accept_dad", "0"),
    ("ipv6/conf/default/accept_ra", "0"),
    // Only the addresses of the scenario.
    ("ipv6/conf/default/addr_gen_mode", "1"),
    ("ipv6/conf/all/keep_addr_on_down", "1"),
    ("ipv6/conf/default/keep_addr_on_down", "1"),
];

fn settings() -> Result<(), LabError> {
    for (name, value) in SETTINGS {
        let path = Path::new("/proc/sys/net").join(name);
        match std::fs::write(&path, value) {
            Ok(()) => {}
            // A system without IPv6.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(LabError::Io { doing: format!("setting {name} to {value}"), error }),
        }
    }
    Ok(())
}

fn open(names: &[String]) -> Result<Vec<OwnedFd>, LabError> {
    let open = |name: &String| {
        manyway_capture::open_tun(name)
            .map_err(|error| LabError::Io { doing: format!("making the interface {name}"), error })
    };
    names.iter().map(open).collect()
}
