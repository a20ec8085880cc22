//! `manyway tunnel --site`: this machine at the network of a server.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use manyway_capture::packet::clamp_segment_size;
use manyway_capture::{SITE_DEVICE, Site as Device, SiteConfig, Tun};
use manyway_egress::{EgressError, Filter, Header, Joined, Joining, Verdict, join};
use manyway_terminal::signal::Signal;
use manyway_terminal::{CommandError, json, note};
use serde_json::{Value, json};
use tokio::time::{Interval, interval};

use super::super::super::bond::{Bond, Purpose};
use super::super::super::direction::Direction;
use super::super::super::session::NetSession;
use super::super::super::signal::{interrupted, until_interrupted};
use super::super::explain;
use super::networks::{Unusable, check, routes};
use crate::args::{GlobalArgs, TunnelArgs};
use crate::serving::notify::{Notice, tell};
use crate::traffic::packet_treatment;

/// Carries packets between sites and nothing else until a signal, and returns it.
///
/// # Errors
/// An option is for more than that, the server is not reached or refuses, or the system refuses the device.
pub(in crate::command::egress) async fn alone(
    global: &GlobalArgs,
    server: &str,
    arguments: &TunnelArgs,
) -> Result<Signal, CommandError> {
    if arguments.kill_switch || !arguments.lans.is_empty() || !arguments.bypass.is_empty() {
        return Err(CommandError::usage(
            "with --site nothing else goes by the tunnel: --route says what does, such as 0.0.0.0/0 and ::/0, or leave out \
             --kill-switch, --lan and --bypass",
        ));
    }
    Direction::Both.tell_what_decides(global);
    let bond = Bond::start(global, server, Purpose::Sites).await?;
    let served = serve(global, arguments, &bond).await;
    bond.end("the client is stopping").await;
    served
}

async fn serve(global: &GlobalArgs, arguments: &TunnelArgs, bond: &Bond) -> Result<Signal, CommandError> {
    let site = until_interrupted(Site::join(bond, &arguments.announce)).await?;
    tell(Notice::Ready);
    if global.json {
        json::print(&site.facts())?;
    } else if !global.quiet {
        site.lines().iter().for_each(|line| note(line));
    }
    tokio::select! {
        error = site.carry(bond) => Err(error),
        error = bond.keep() => Err(error),
        signal = interrupted() => {
            if !global.quiet {
                note(&format!("{}: closing", signal.name()));
            }
            Ok(signal)
        }
    }
}

/// A place at the network of a server.
pub(in crate::command::egress) struct Site {
    announced: Vec<IpNet>,
    joined: Joined,
    place: Place,
}

/// What this machine has of it.
struct Place {
    device: Device,
    tun: Tun,
    filter: Filter,
    routes: Vec<IpNet>,
    /// Networks of the server that are not used, and why not.
    left_out: Vec<String>,
}

/// Why no packets are carried any more.
enum End {
    /// The stream is gone, and with it mostly the connection.
    Stream,
    /// For good.
    Final(CommandError),
}

impl Site {
    /// Asks for a place, and makes the device.
    ///
    /// # Errors
    /// The server refuses, a network is unusable here, or the system refuses the device.
    pub(in crate::command::egress) async fn join(
        bond: &Bond,
        announced: &[IpNet],
    ) -> Result<Self, CommandError> {
        let session = bond.session().await.ok_or_else(|| CommandError::failed("the server is away"))?;
        let joined = ask(&session, announced, Vec::new()).await?;
        let place = Place::open(&joined, announced)?;
        Ok(Self { announced: announced.to_vec(), joined, place })
    }

    /// For programs.
    pub(in crate::command::egress) fn facts(&self) -> Value {
        let shown = |networks: &[IpNet]| networks.iter().map(ToString::to_string).collect::<Vec<_>>();
        json!({
            "site": SITE_DEVICE,
            "addresses": shown(&self.joined.assignment.addresses),
            "networks": shown(&self.place.routes),
            "announced": shown(&self.announced),
            "mtu": self.joined.assignment.mtu,
        })
    }

    /// For people.
    pub(in crate::command::egress) fn lines(&self) -> Vec<String> {
        let addresses = &self.joined.assignment.addresses;
        site_lines((addresses, &self.place.routes), &self.announced, &self.place.left_out)
    }

    /// Carries packets, and joins again after the connection to the server broke. Ends only when that is useless, with the
    /// reason.
    pub(in crate::command::egress) async fn carry(mut self, bond: &Bond) -> CommandError {
        loop {
            let since = Instant::now();
            match self.place.pass(&mut self.joined, bond).await {
                End::Final(error) => return error,
                End::Stream if since.elapsed() < PAUSE => tokio::time::sleep(PAUSE).await,
                End::Stream => {}
            }
            self = match self.again(bond).await {
                Ok(site) => site,
                Err(error) => return error,
            };
        }
    }

    /// Asks for the same place again, as soon as there is a connection.
    async fn again(self, bond: &Bond) -> Result<Self, CommandError> {
        let Self { announced, joined: before, place } = self;
        let wanted: Vec<_> = before.assignment.addresses.iter().map(IpNet::addr).collect();
        let assignment = before.assignment;
        let joined = tokio::select! {
            joined = ask_until_there(bond, &announced, &wanted) => joined,
            // What waits would be too late.
            error = place.discard() => return Err(error),
        };
        let place = if joined.assignment == assignment {
            place
        } else {
            // First its name is free again.
            drop(place);
            Place::open(&joined, &announced)?
        };
        let site = Self { announced, joined, place };
        if site.joined.assignment != assignment && !bond.global().quiet {
            site.lines().iter().for_each(|line| note(line));
        }
        Ok(site)
    }
}

async fn ask_until_there(bond: &Bond, announced: &[IpNet], wanted: &[IpAddr]) -> Joined {
    let mut is_told = bond.global().quiet;
    loop {
        let asked = match bond.session().await {
            Some(session) => ask(&session, announced, wanted.to_vec()).await.map_err(Some),
            None => Err(None),
        };
        match asked {
            Ok(joined) => return joined,
            Err(Some(error)) if !is_told => {
                note(&format!("--site: {error}; trying again"));
                is_told = true;
            }
            Err(_) => {}
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn ask(session: &NetSession, announced: &[IpNet], wanted: Vec<IpAddr>) -> Result<Joined, CommandError> {
    let joining = Joining { wanted, networks: announced.to_vec() };
    join(session, &joining).await.map_err(|error| explain(&error, session.0.close_reason()))
}

/// A network that the server announces is left out.
pub(in crate::command::egress) fn not_used(network: &IpNet, why: &Unusable) -> String {
    format!("not used: {network} of the server {why}")
}

impl Place {
    fn open(joined: &Joined, announced: &[IpNet]) -> Result<Self, CommandError> {
        let assignment = &joined.assignment;
        let snapshot = routes()?;
        let mut routes: Vec<_> = assignment.addresses.iter().map(IpNet::trunc).collect();
        for network in &routes {
            check(&snapshot, network).map_err(|why| {
                CommandError::failed(format!(
                    "{network}, the network of the server, {why}; the server may have another"
                ))
            })?;
        }
        let mut left_out = Vec::new();
        for network in &assignment.networks {
            match check(&snapshot, network) {
                Ok(()) => routes.push(*network),
                Err(why) => left_out.push(not_used(network, &why)),
            }
        }
        let addresses: Vec<IpAddr> = assignment.addresses.iter().map(IpNet::addr).collect();
        // egress 11.4
        let own = addresses.iter().map(|it| IpNet::from(*it)).chain(announced.iter().copied()).collect();
        let filter = Filter::new(assignment.mtu, routes.clone(), own);
        let (mtu, behind) = (assignment.mtu, announced.to_vec());
        let config = SiteConfig { mtu, addresses, routes: routes.clone(), behind };
        let (device, tun) = Device::open(config).map_err(CommandError::failed)?;
        Ok(Self { device, tun, filter, routes, left_out })
    }

    /// Passes packets both ways.
    async fn pass(&self, joined: &mut Joined, bond: &Bond) -> End {
        let Joined { sender, receiver, .. } = joined;
        let mut buffer = vec![0; self.tun.mtu().into()];
        let mut looks = looks();
        loop {
            tokio::select! {
                read = self.tun.receive(&mut buffer) => {
                    let Ok(length) = read else { return self.gone() };
                    let packet = buffer.get_mut(..length).unwrap_or_default();
                    if !self.leads_to(packet) {
                        continue;
                    }
                    clamp_segment_size(packet, self.tun.mtu());
                    let treatment = packet_treatment(&bond.global().traffic_rules, packet);
                    // What finds no room is lost, as on any network.
                    if sender.send(packet, treatment).is_err() {
                        return End::Stream;
                    }
                }
                packet = receiver.receive() => match packet {
                    Ok(Some(packet)) => self.take(&packet),
                    Err(error @ EgressError::Refused(_)) => return End::Final(explain(&error, None)),
                    Ok(None) | Err(_) => return End::Stream,
                },
                _ = looks.tick() => match look_after(&self.device) {
                    Ok(true) if !bond.global().quiet => note(SET_AGAIN),
                    Ok(_) => {}
                    Err(error) => return End::Final(error),
                }
            }
        }
    }

    /// Whether a packet of this machine is for others; what the kernel says to a link on its own is not.
    fn leads_to(&self, packet: &[u8]) -> bool {
        let header = Header::parse(packet);
        header.is_some_and(|it| self.routes.iter().any(|network| network.contains(&it.destination)))
    }

    fn take(&self, packet: &[u8]) {
        match self.filter.check(packet) {
            Verdict::Passed => {
                let _ = self.tun.try_send(packet);
            }
            verdict @ (Verdict::QueueFull
            | Verdict::Malformed
            | Verdict::TooLarge(_)
            | Verdict::Source(_)
            | Verdict::Destination(_)) => tracing::debug!(?verdict, "a packet of the server is dropped"),
        }
    }

    /// Reads packets from the device and drops them, as long as there is no stream for them.
    async fn discard(&self) -> CommandError {
        let mut buffer = vec![0; self.tun.mtu().into()];
        while self.tun.receive(&mut buffer).await.is_ok() {}
        match self.gone() {
            End::Final(error) => error,
            End::Stream => CommandError::failed("the device is gone"),
        }
    }

    fn gone(&self) -> End {
        let why = if self.device.is_there() { "cannot be read" } else { "is gone" };
        End::Final(CommandError::failed(format!("{SITE_DEVICE} {why}")))
    }
}

/// Puts back what other programs have removed; returns whether anything was missing.
pub(super) fn look_after(device: &Device) -> Result<bool, CommandError> {
    match device.restore() {
        Ok(was_missing) => Ok(was_missing),
        Err(error) if !device.is_there() => {
            Err(CommandError::failed(format!("{SITE_DEVICE} is gone: {error}")))
        }
        Err(error) => {
            tracing::warn!(reason = %error, "a route between sites was not set again yet");
            Ok(false)
        }
    }
}

/// The lines about the network of a site: the addresses of this machine, the networks that the device leads to, those
/// behind this machine, and why others are left out.
pub(in crate::command::egress) fn site_lines(
    (addresses, routes): (&[IpNet], &[IpNet]),
    announced: &[IpNet],
    left_out: &[String],
) -> Vec<String> {
    let listed = |networks: &[IpNet]| networks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let own = listed(addresses);
    let mut lines =
        vec![format!("this machine is {own} by {SITE_DEVICE}, which leads to {}", listed(routes))];
    if !announced.is_empty() {
        lines.push(format!("others reach {} behind this machine", listed(announced)));
    }
    lines.extend(left_out.iter().cloned());
    lines.push(COST.to_owned());
    lines
}

/// Ticks at which routes are looked at.
pub(super) fn looks() -> Interval {
    interval(LOOK)
}

pub(super) const SET_AGAIN: &str = "the routes between sites were removed by another program, and set again";
/// What packets cost that are not ended at this machine.
pub(super) const COST: &str = "TCP between sites travels as packets in their order: a lost or late packet delays those \
                               behind it by up to 0.25 s, and one connection may not fill all networks; --route \
                               carries TCP to hosts that the server reaches itself without that";
/// How often routes are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Pause after the server refused what it granted before.
const PAUSE: Duration = Duration::from_millis(500);
