//! Programs of others that carry a program as the verbs of `manyway` do, over one route: `ssh -D` and wireguard-go.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use manyway_sim::pair::Side;

use super::helper::Helper;
use super::process::Trouble;
use crate::contender::Verb;
use crate::error::LabError;
use crate::hosts::Hosts;
use crate::stop::Stop;

/// The ends of the route.
pub(crate) type Route = (IpAddr, IpAddr);

/// Programs that a peer needs, each with an argument with which it only tells about itself.
pub(super) fn programs(verb: Verb) -> &'static [(&'static str, &'static str)] {
    match verb {
        Verb::Ssh => &[("ssh", "-V"), (SSHD, "-?"), ("ssh-keygen", "-?")],
        Verb::WireGuard => &[("wireguard-go", "--version"), ("wg", "--version")],
        Verb::Forward | Verb::Proxy | Verb::Run | Verb::Tunnel | Verb::Direct => &[],
    }
}

/// Starts `ssh -D` at this port of the client, and a server of its own; `place` has their keys. Dropping them ends both.
pub(super) fn ssh(
    hosts: &Hosts,
    place: &Path,
    (client, server): Route,
    port: u16,
    stop: &Stop,
) -> Result<[Helper; 2], Trouble> {
    // Debian makes it when its service starts.
    fs::create_dir_all("/run/sshd").map_err(io("making /run/sshd"))?;
    for name in ["host", "user"] {
        let mut make = Command::new("ssh-keygen");
        make.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(place.join(name));
        output_of(&mut make)?;
    }
    let settings = format!(
        "Port {SSH}\nListenAddress {server}\nHostKey {0}/host\nAuthorizedKeysFile {0}/user.pub\nPidFile none\nUsePAM no\n\
         StrictModes no\nPermitRootLogin yes\nPasswordAuthentication no\nUseDNS no\nMaxSessions 100\n",
        place.display()
    );
    fs::write(place.join("sshd"), settings).map_err(io("writing the settings of sshd"))?;
    let mut command = hosts.command(Side::Server, Path::new(SSHD));
    command.args(["-D", "-e", "-f"]).arg(place.join("sshd"));
    let sshd = Helper::start("sshd", command)?;
    until_open(hosts, SocketAddr::new(server, SSH), stop)?;
    let mut command = hosts.command(Side::Client, Path::new("ssh"));
    command.args(["-F", "none", "-N", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o"]);
    command
        .arg(format!("UserKnownHostsFile={}", place.join("known").display()))
        .arg("-i")
        .arg(place.join("user"));
    command.args(["-b", &client.to_string(), "-D", &format!("127.0.0.1:{port}"), "-p", &SSH.to_string()]);
    command.arg(format!("root@{server}"));
    let ssh = Helper::start("ssh -D", command)?;
    until_open(hosts, SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port), stop)?;
    Ok([ssh, sshd])
}

/// A name for a device that no other run has.
fn device(end: &str) -> String {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    format!("mw{end}{}-{}", std::process::id(), RUNS.fetch_add(1, Ordering::Relaxed))
}

/// Removes the sockets for settings that wireguard-go leaves behind when it is killed.
pub(super) fn remove_sockets() {
    let own = |name: &str| {
        ["mwc", "mws"].iter().any(|end| name.starts_with(&format!("{end}{}-", std::process::id())))
    };
    for entry in fs::read_dir("/run/wireguard").into_iter().flatten().flatten() {
        if own(&entry.file_name().to_string_lossy()) {
            // Another run may have removed it.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Starts wireguard-go at both ends, over which the client reaches `destination`. Dropping them ends both.
pub(super) fn wireguard(
    hosts: &Hosts,
    place: &Path,
    (_, server): Route,
    destination: Ipv4Addr,
    stop: &Stop,
) -> Result<[Helper; 2], Trouble> {
    let ends = [(Side::Client, "c"), (Side::Server, "s")];
    let mut keys = Vec::new();
    for (_, end) in ends {
        let private = output_of(Command::new("wg").arg("genkey"))?;
        let file = place.join(end);
        fs::write(&file, &private).map_err(io("writing a key of WireGuard"))?;
        let public = output_of(Command::new("sh").args(["-c", "wg pubkey < \"$0\""]).arg(&file))?;
        keys.push((file, public));
    }
    let (own, far) = (keys.iter(), keys.iter().rev());
    let mut helpers = Vec::new();
    for (((side, end), (file, _)), (_, public)) in ends.into_iter().zip(own).zip(far) {
        // The socket for settings has the name of the device and is not in the namespace.
        let device = device(end);
        let mut command = hosts.command(side, Path::new("wireguard-go"));
        command.args(["-f", &device]);
        helpers.push(Helper::start("wireguard-go", command)?);
        let set = || {
            let mut command = hosts.command(side, Path::new("wg"));
            command.args(["set", &device, "listen-port", "51820", "private-key"]).arg(file);
            command.args(["peer", public, "allowed-ips", "0.0.0.0/0"]);
            if side == Side::Client {
                command.args(["endpoint", &SocketAddr::new(server, 51_820).to_string()]);
            }
            output_of(&mut command).is_ok()
        };
        wait("wireguard-go", stop, set)?;
        let (address, to) = match side {
            Side::Client => ("10.98.0.2", destination.to_string()),
            Side::Server => ("10.98.0.1", "10.98.0.2".to_owned()),
        };
        let lines = format!(
            "address add {address}/32 dev {device}\nlink set {device} up\nroute add {to}/32 dev {device} src {address}"
        );
        hosts.ip(side, &lines).map_err(Trouble::Lab)?;
    }
    let mut helpers = helpers.into_iter();
    match (helpers.next(), helpers.next()) {
        (Some(client), Some(server)) => Ok([client, server]),
        _ => Err(Trouble::Failure("wireguard-go has not started".to_owned())),
    }
}

/// The version of wireguard-go, in its own words.
pub(crate) fn wireguard_version() -> String {
    let told = output_of(Command::new("wireguard-go").arg("--version")).unwrap_or_default();
    told.lines().next().unwrap_or("wireguard-go of an unknown version").to_owned()
}

/// What a program that ends at once prints.
fn output_of(command: &mut Command) -> Result<String, Trouble> {
    let output = command.output().map_err(io("running a program of the system"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let program = command.get_program().to_string_lossy().into_owned();
    Err(Trouble::Failure(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim())))
}

/// Waits until the client can connect to an address.
fn until_open(hosts: &Hosts, address: SocketAddr, stop: &Stop) -> Result<(), Trouble> {
    wait("ssh", stop, || {
        let connected = hosts.inside(Side::Client, || TcpStream::connect_timeout(&address, LOOK * 10));
        matches!(connected, Ok(Ok(_)))
    })
}

fn wait(what: &str, stop: &Stop, mut is_ready: impl FnMut() -> bool) -> Result<(), Trouble> {
    let deadline = Instant::now() + PATIENCE;
    while !is_ready() {
        stop.check().map_err(Trouble::Lab)?;
        if Instant::now() > deadline {
            return Err(Trouble::Failure(format!("{what} is not ready")));
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

fn io(doing: &'static str) -> impl Fn(std::io::Error) -> Trouble {
    move |error| Trouble::Lab(LabError::Io { doing: doing.to_owned(), error })
}

/// It starts by its whole path alone.
const SSHD: &str = "/usr/sbin/sshd";
const SSH: u16 = 2222;
/// Time for a peer to be ready.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(50);
