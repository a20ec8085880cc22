//! The lines of `manyway paths`, for people and for programs.

use std::collections::BTreeSet;
use std::time::Duration;

use manyway::Rate;
use manyway::interfaces::{AddressReport, Exclusion, InterfaceKind, LinkState};
use manyway::{Carrier, PathReport, PathState, Unused, Why};
use serde_json::{Value, json};

use super::reverse_path;
use crate::caps::CapState;
use crate::output::address;
use crate::output::book::milliseconds;
use crate::output::grid::{Cell, Grid};
use crate::output::names::{Traits, distinct, host_of};
use crate::output::path::{exclusion_words, why_words};
use crate::output::tint::Tint;
use crate::output::units::{fine_percent, megabits, percent};

/// One address pair, or a local address that leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct PairRow {
    pub(super) interface: Option<String>,
    pub(super) local: Option<String>,
    pub(super) remote: Option<String>,
    /// What carries its path.
    pub(super) carrier: Option<Carrier>,
    pub(super) path: Option<u32>,
    pub(super) role: Option<String>,
    pub(super) state: Option<PathState>,
    pub(super) rtt: Option<Duration>,
    /// Pings: lost and sent.
    pub(super) loss: Option<(u64, u64)>,
    /// Its current rate; `None` if it carries nothing.
    pub(super) rate: Option<Rate>,
    /// Whether it is used, and why.
    pub(super) why: Option<Why>,
    /// The command that may help where no answer arrives.
    pub(super) advice: Option<String>,
    /// The cap of the interface, and its use.
    pub(super) cap: Option<CapState>,
}

/// The results of a path's pings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Pinged {
    pub(super) rtt: Option<Duration>,
    pub(super) lost: u64,
    pub(super) asked: u64,
    /// Time since the last answer.
    pub(super) silent: Duration,
}

impl PairRow {
    /// A row from a report, with the results of the path's pings and its current rate.
    pub(super) fn of(report: &PathReport, pinged: Option<Pinged>, rate: Option<Rate>) -> Self {
        let path = report.path.as_ref();
        let pinged = pinged.unwrap_or_default();
        let answers = path.is_some_and(|path| !matches!(path.state, PathState::Validating | PathState::Dead));
        let rtt = pinged.rtt.filter(|_| answers);
        let is_overdue = pinged.silent > SILENCE + 2 * rtt.unwrap_or_default();
        // The transport notices a failure once there is data; the pings notice it before.
        let is_well = matches!(
            report.why,
            Why::Used(_) | Why::Unused(Unused::NotNeeded { .. } | Unused::PeerSendsElsewhere { .. })
        );
        let why = if is_well && is_overdue {
            let carrier = path.map(|path| path.tuple.carrier).unwrap_or_default();
            Why::Unused(Unused::NoAnswer { waited: pinged.silent, carrier })
        } else {
            report.why.clone()
        };
        let is_silent = matches!(why, Why::Unused(Unused::NoAnswer { .. }));
        let place = report.interface.as_deref().zip(report.local).filter(|_| is_silent);
        Self {
            interface: report.interface.clone(),
            local: report.local.map(|local| local.to_string()),
            remote: report.remote.map(address),
            carrier: path.map(|path| path.tuple.carrier),
            path: path.map(|path| path.id.0),
            role: report.role.map(|role| role.to_string()),
            state: path.map(|path| path.state),
            rtt,
            loss: (pinged.asked > 0).then_some((pinged.lost, pinged.asked)),
            rate,
            why: Some(why),
            advice: place.and_then(|(interface, local)| reverse_path::advice(interface, local)),
            cap: None,
        }
    }

    /// The peer's address, and the carrier unless it is UDP.
    fn remote_text(&self) -> Option<String> {
        let remote = self.remote.as_ref()?;
        let carrier = self.carrier.filter(|carrier| !carrier.is_datagram());
        Some(carrier.map_or_else(|| remote.clone(), |carrier| format!("{remote} {carrier}")))
    }

    /// The document for programs; `all` is the rate of all paths together.
    pub(super) fn json(&self, all: Rate) -> Value {
        let share = self.rate.map(|rate| (rate.bits_per_second(), all.bits_per_second()));
        let part = |pair: Option<(u64, u64)>| {
            let (part, whole) = pair.filter(|(_, whole)| *whole > 0)?;
            #[expect(clippy::cast_precision_loss, reason = "a share")]
            Some(part as f64 / whole as f64)
        };
        json!({
            "interface": self.interface, "local": self.local, "remote": self.remote,
            "carrier": self.carrier.map(|carrier| carrier.to_string()),
            "path": self.path, "role": self.role, "state": self.state.map(PathState::word),
            "rtt": self.rtt.map(|rtt| rtt.as_secs_f64()), "loss": part(self.loss),
            "bits_per_second": self.rate.map(Rate::bits_per_second), "share": part(share),
            "used": self.why.as_ref().is_some_and(Why::is_used),
            "reason": self.why.as_ref().map(Why::word),
            "why": self.why.as_ref().map(Why::to_string),
            "advice": self.advice,
            "cap": self.cap.map(|cap| cap.json()),
        })
    }
}

/// The advice below the table: each command once.
pub(super) fn advice_text(rows: &[PairRow]) -> String {
    let commands: BTreeSet<_> = rows.iter().filter_map(|row| row.advice.as_deref()).collect();
    if commands.is_empty() {
        return String::new();
    }
    let head =
        "perhaps this system drops the answers, since its routes to the peer lead out elsewhere; as root:\n";
    commands.into_iter().fold(head.to_owned(), |text, command| text + "  " + command + "\n")
}

/// A path without an answer for this long and two round trips, at five pings a second, is not shown as used.
const SILENCE: Duration = Duration::from_secs(1);

/// The rows to show: every path, and of an interface without any the pair or address that came closest to use; nothing
/// of loopback, and no address with link scope.
pub(super) fn worth_showing(rows: &[PairRow]) -> Vec<&PairRow> {
    let has_path =
        |interface: &Option<String>| rows.iter().any(|row| row.path.is_some() && row.interface == *interface);
    let mut without_path: BTreeSet<&str> = BTreeSet::new();
    let mut shown = Vec::new();
    for row in rows {
        if row.path.is_some() {
            shown.push(row);
            continue;
        }
        let is_noise = matches!(
            &row.why,
            Some(Why::Unused(Unused::Excluded(
                Exclusion::Loopback | Exclusion::LinkLocal | Exclusion::OtherAddress | Exclusion::PeerIsLocal
            )))
        );
        let name = row.interface.as_deref().unwrap_or_default();
        if !is_noise && !has_path(&row.interface) && without_path.insert(name) {
            shown.push(row);
        }
    }
    shown
}

/// The table of pairs.
pub(super) fn pair_table(rows: &[&PairRow]) -> Grid {
    let mut grid = Grid::new()
        .words("path")
        .words("state")
        .numbers("rtt ms")
        .numbers("loss")
        .numbers("Mbit/s")
        .numbers("share")
        .spare_words("local")
        .spare_words("remote")
        .spare_words("role");
    let has_caps = rows.iter().any(|row| row.cap.is_some());
    if has_caps {
        grid = grid.spare_words("cap");
    }
    let mut grid = grid.remark("why");
    let all = sum(rows.iter().copied()).bits_per_second();
    for (row, name) in rows.iter().zip(names(rows)) {
        let state = row.state.map_or_else(Cell::none, |state| Cell::new(state.word(), Tint::of_state(state)));
        let share = row.rate.map(|rate| percent(rate.bits_per_second(), all));
        let why = match (&row.why, &row.interface) {
            (Some(Why::Unused(Unused::Excluded(exclusion))), Some(name)) => {
                exclusion_words(exclusion, Some(name))
            }
            (why, _) => why.as_ref().map(why_words).unwrap_or_default(),
        };
        let cells = [
            Cell::or_none(name),
            state,
            Cell::or_none(row.rtt.map(milliseconds)),
            Cell::or_none(row.loss.map(|(lost, asked)| fine_percent(lost, asked))),
            Cell::or_none(row.rate.map(megabits)),
            Cell::or_none(share),
            Cell::or_none(row.local.clone()),
            Cell::or_none(row.remote_text()),
            Cell::or_none(row.role.clone()),
        ];
        let cap = has_caps.then(|| Cell::or_none(row.cap.map(|cap| cap.text())));
        grid.row(cells.into_iter().chain(cap).chain([Cell::from(why)]));
    }
    grid
}

/// The name of each path, and the interface of a pair that has none.
fn names(rows: &[&PairRow]) -> Vec<Option<String>> {
    let traits = |row: &PairRow| {
        row.path?;
        let remote = host_of(row.remote.as_deref()?).to_owned();
        let base = row.interface.clone().unwrap_or_else(|| remote.clone());
        let (carrier, local) = (row.carrier.unwrap_or_default().to_string(), row.local.clone());
        Some(Traits { base, carrier, local: local.unwrap_or_default(), remote })
    };
    let paths: Vec<_> = rows.iter().map(|row| traits(row)).collect();
    let mut names = distinct(&paths.iter().flatten().cloned().collect::<Vec<_>>()).into_iter();
    let name = |(row, path): (&&PairRow, Option<Traits>)| {
        path.map_or_else(|| row.interface.clone(), |_| names.next())
    };
    rows.iter().zip(paths).map(name).collect()
}

/// The rate of all paths together.
pub(super) fn sum<'a>(rows: impl IntoIterator<Item = &'a PairRow>) -> Rate {
    rows.into_iter().filter_map(|row| row.rate).sum()
}

/// Whether a local address is worth a row.
pub(super) fn leads_somewhere(own: &AddressReport) -> bool {
    !matches!(own.excluded, Some(Exclusion::Loopback | Exclusion::LinkLocal))
}

/// The table of the addresses of this host, where there is no peer; each with the cap of its interface.
pub(super) fn address_table(addresses: &[(&AddressReport, Option<CapState>)]) -> Grid {
    let mut grid = Grid::new()
        .words("interface")
        .words("address")
        .words("link")
        .spare_words("role")
        .spare_words("kind")
        .spare_numbers("mtu");
    let has_caps = addresses.iter().any(|(_, cap)| cap.is_some());
    if has_caps {
        grid = grid.spare_words("cap");
    }
    let mut grid = grid.remark("why");
    for (own, cap) in addresses {
        let name = Some(own.interface.as_str());
        let why = own
            .excluded
            .as_ref()
            .map_or_else(|| "in use".to_owned(), |exclusion| exclusion_words(exclusion, name));
        let link = own.state.map_or_else(Cell::none, |state| Cell::new(link_word(state), link_tint(state)));
        let cells = [
            Cell::from(own.interface.clone()),
            Cell::or_none(own.address.map(|address| address.to_string())),
            link,
            Cell::or_none(own.role.map(|role| role.to_string())),
            Cell::or_none(own.kind.as_ref().map(kind_word)),
            Cell::or_none(own.mtu.map(|mtu| mtu.to_string())),
        ];
        let cap = has_caps.then(|| Cell::or_none(cap.map(|cap| cap.text())));
        grid.row(cells.into_iter().chain(cap).chain([Cell::from(why)]));
    }
    grid
}

fn link_tint(state: LinkState) -> Tint {
    match state {
        LinkState::Up => Tint::Good,
        LinkState::Down | LinkState::NoCarrier => Tint::Bad,
    }
}

/// The same for programs.
pub(super) fn address_json(own: &AddressReport, cap: Option<CapState>) -> Value {
    json!({
        "interface": own.interface,
        "address": own.address.map(|address| address.to_string()),
        "kind": own.kind.as_ref().map(kind_word),
        "link": own.state.map(link_word),
        "mtu": own.mtu,
        "role": own.role.map(|role| role.to_string()),
        "used": own.excluded.is_none(),
        "why": own.excluded.as_ref().map(ToString::to_string),
        "cap": cap.map(|cap| cap.json()),
    })
}

fn kind_word(kind: &InterfaceKind) -> String {
    match kind {
        InterfaceKind::Loopback => "loopback".to_owned(),
        InterfaceKind::Ordinary => "network".to_owned(),
        InterfaceKind::Tun => "tun".to_owned(),
        InterfaceKind::Tunnel { kind } => format!("{kind} tunnel"),
        _ => "other".to_owned(),
    }
}

fn link_word(state: LinkState) -> &'static str {
    match state {
        LinkState::Up => "up",
        LinkState::Down => "down",
        LinkState::NoCarrier => "no carrier",
    }
}

#[cfg(test)]
#[path = "rows_tests.rs"]
mod tests;
