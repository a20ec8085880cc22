//! The lines of `manyway paths`, for people and for programs.

use std::collections::BTreeSet;
use std::time::Duration;

use manyway::Rate;
use manyway::interfaces::{AddressReport, InterfaceKind, LinkState};
use manyway::{PathReport, PathState, Unused, Why};
use serde_json::{Value, json};

use super::reverse_path;
use crate::caps::CapState;
use crate::output::path::why_words;
use crate::output::table::{Align, Table};
use crate::output::units::{fine_percent, megabits, milliseconds};

/// One pair of addresses, or an own address that leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct PairRow {
    pub(super) interface: Option<String>,
    pub(super) local: Option<String>,
    pub(super) remote: Option<String>,
    pub(super) path: Option<u32>,
    pub(super) role: Option<String>,
    pub(super) state: Option<String>,
    pub(super) rtt: Option<Duration>,
    /// Pings: lost and asked.
    pub(super) loss: Option<(u64, u64)>,
    pub(super) rate: Option<Rate>,
    /// Bytes of the path, and of all.
    pub(super) share: Option<(u64, u64)>,
    /// Whether it is used, and why.
    pub(super) why: Option<Why>,
    /// The command that may help where nobody answers.
    pub(super) advice: Option<String>,
    /// What may go over the interface, and what went.
    pub(super) cap: Option<CapState>,
}

/// What pings found out about a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Pinged {
    pub(super) rtt: Option<Duration>,
    pub(super) lost: u64,
    pub(super) asked: u64,
    /// Since the last answer.
    pub(super) silent: Duration,
}

impl PairRow {
    /// A line of a report; `bytes` are those of all paths together.
    pub(super) fn of(report: &PathReport, pinged: Option<Pinged>, bytes: u64) -> Self {
        let path = report.path.as_ref();
        let moved =
            |path: &manyway::PathStatistics| path.bytes_sent.get().saturating_add(path.bytes_received.get());
        let measured = path.filter(|path| path.state != PathState::Validating);
        let pinged = pinged.unwrap_or_default();
        let rtt = pinged.rtt.or_else(|| measured.map(|path| path.smoothed_rtt));
        let is_overdue = pinged.silent > SILENCE + 2 * rtt.unwrap_or_default();
        // The transport finds out once there are data; the questions know already.
        let is_well = matches!(
            report.why,
            Why::Used(_) | Why::Unused(Unused::NotNeeded { .. } | Unused::PeerSendsElsewhere { .. })
        );
        let why = if is_well && is_overdue {
            Why::Unused(Unused::NoAnswer { waited: pinged.silent })
        } else {
            report.why.clone()
        };
        let is_silent = matches!(why, Why::Unused(Unused::NoAnswer { .. }));
        let place = report.interface.as_deref().zip(report.local).filter(|_| is_silent);
        Self {
            interface: report.interface.clone(),
            local: report.local.map(|local| local.to_string()),
            remote: report.remote.map(|remote| remote.to_string()),
            path: path.map(|path| path.id.0),
            role: report.role.map(|role| role.to_string()),
            state: path.map(|path| path.state.to_string()),
            rtt,
            loss: (pinged.asked > 0).then_some((pinged.lost, pinged.asked)),
            rate: path.map(|path| path.delivery_rate).filter(|rate| *rate > Rate::ZERO),
            share: path.map(|path| (moved(path), bytes)),
            why: Some(why),
            advice: place.and_then(|(interface, local)| reverse_path::advice(interface, local)),
            cap: None,
        }
    }

    pub(super) fn json(&self) -> Value {
        let part = |pair: Option<(u64, u64)>| {
            let (part, whole) = pair.filter(|(_, whole)| *whole > 0)?;
            #[expect(clippy::cast_precision_loss, reason = "a share")]
            Some(part as f64 / whole as f64)
        };
        json!({
            "interface": self.interface, "local": self.local, "remote": self.remote,
            "path": self.path, "role": self.role, "state": self.state,
            "rtt": self.rtt.map(|rtt| rtt.as_secs_f64()), "loss": part(self.loss),
            "bits_per_second": self.rate.map(Rate::bits_per_second), "share": part(self.share),
            "used": self.why.as_ref().is_some_and(Why::is_used),
            "reason": self.why.as_ref().map(Why::word),
            "why": self.why.as_ref().map(Why::to_string),
            "advice": self.advice,
            "cap": self.cap.map(|cap| cap.json()),
        })
    }
}

/// What may help, below the table: each command once.
pub(super) fn advice_text(rows: &[PairRow]) -> String {
    let commands: BTreeSet<_> = rows.iter().filter_map(|row| row.advice.as_deref()).collect();
    if commands.is_empty() {
        return String::new();
    }
    let head =
        "perhaps this system drops the answers, since its routes to the peer lead out elsewhere; as root:\n";
    commands.into_iter().fold(head.to_owned(), |text, command| text + "  " + command + "\n")
}

/// A path on which no question was answered for so long and two round trips, of five a second, is not called used.
const SILENCE: Duration = Duration::from_secs(1);

/// The table of pairs.
pub(super) fn pair_table(rows: &[PairRow]) -> Table {
    let caps: Vec<_> = rows.iter().map(|row| row.cap).collect();
    let mut table = table_with(
        &caps,
        &[
            ("interface", Align::Left),
            ("local", Align::Left),
            ("remote", Align::Left),
            ("role", Align::Left),
            ("state", Align::Left),
            ("rtt ms", Align::Right),
            ("loss", Align::Right),
            ("Mbit/s", Align::Right),
            ("share", Align::Right),
        ],
    );
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
    let part = |pair: Option<(u64, u64)>| {
        pair.map_or_else(|| "-".to_owned(), |(part, whole)| fine_percent(part, whole))
    };
    for row in rows {
        let why = row.why.as_ref().map(why_words).unwrap_or_default();
        let cells = [
            text(&row.interface),
            text(&row.local),
            text(&row.remote),
            text(&row.role),
            text(&row.state),
            row.rtt.map_or_else(|| "-".to_owned(), milliseconds),
            part(row.loss),
            row.rate.map_or_else(|| "-".to_owned(), megabits),
            part(row.share),
        ];
        table.row(cells.into_iter().chain(cap_cell(&caps, row.cap)).chain([why]));
    }
    table
}

/// A table with a column for caps where there are any, and one for the reason.
fn table_with(caps: &[Option<CapState>], columns: &[(&str, Align)]) -> Table {
    let cap = caps.iter().any(Option::is_some).then_some(("cap", Align::Right));
    Table::new(columns.iter().copied().chain(cap).chain([("why", Align::Left)]))
}

/// A cell of the column for caps, if there is one.
fn cap_cell(caps: &[Option<CapState>], cap: Option<CapState>) -> Option<String> {
    caps.iter().any(Option::is_some).then(|| cap.map_or_else(|| "-".to_owned(), |cap| cap.text()))
}

/// The table of the addresses of this host, where there is no peer; each with the cap of its interface.
pub(super) fn address_table(addresses: &[AddressReport], caps: &[Option<CapState>]) -> Table {
    let mut table = table_with(
        caps,
        &[
            ("interface", Align::Left),
            ("address", Align::Left),
            ("kind", Align::Left),
            ("link", Align::Left),
            ("mtu", Align::Right),
            ("role", Align::Left),
        ],
    );
    let dash = || "-".to_owned();
    for (own, cap) in addresses.iter().zip(caps) {
        let why = own.excluded.as_ref().map_or_else(|| "used".to_owned(), ToString::to_string);
        let cells = [
            own.interface.clone(),
            own.address.map_or_else(dash, |address| address.to_string()),
            own.kind.as_ref().map_or_else(dash, kind_word),
            own.state.map_or_else(dash, |state| link_word(state).to_owned()),
            own.mtu.map_or_else(dash, |mtu| mtu.to_string()),
            own.role.map_or_else(dash, |role| role.to_string()),
        ];
        table.row(cells.into_iter().chain(cap_cell(caps, *cap)).chain([why]));
    }
    table
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
mod tests {
    use super::*;
    use manyway::Used;
    use manyway::interfaces::{Exclusion, Interface, InterfaceAddress, InterfacePolicy, Route, Snapshot};
    use manyway::scheduler::Purpose;

    fn rows() -> Vec<PairRow> {
        let row = |interface: &str, local: &str, why: Why| PairRow {
            interface: Some(interface.to_owned()),
            local: Some(local.to_owned()),
            why: Some(why),
            ..PairRow::default()
        };
        let pair = |row: PairRow, path: Option<(u32, &str)>, role: &str| PairRow {
            remote: Some("203.0.113.5:4455".to_owned()),
            path: path.map(|(id, _)| id),
            state: path.map(|(_, state)| state.to_owned()),
            role: Some(role.to_owned()),
            ..row
        };
        let used = PairRow {
            rtt: Some(Duration::from_micros(31_250)),
            loss: Some((1, 50)),
            rate: Some(Rate::from_bits_per_second(38_200_000)),
            share: Some((580_000, 1_000_000)),
            ..pair(
                row("eth0", "192.0.2.7", Why::Used(Used::For(Purpose::Speed))),
                Some((0, "active")),
                "primary",
            )
        };
        let waited = Duration::from_secs(12);
        let slower = Unused::NotNeeded { purpose: Purpose::Speed, idle: Some(waited) };
        vec![
            used,
            pair(
                row("wlan0", "10.1.2.3", Why::Unused(Unused::NoAnswer { waited })),
                Some((1, "dead")),
                "primary",
            ),
            pair(row("wwan0", "10.9.8.7", Why::Unused(Unused::Backup)), Some((2, "backup")), "backup"),
            pair(row("eth1", "10.3.3.3", Why::Unused(slower)), Some((3, "active")), "primary"),
            row("docker0", "172.17.0.1", Why::Unused(Unused::Excluded(Exclusion::NoRoute))),
        ]
    }

    #[test]
    fn every_pair_has_a_line_that_says_why() {
        insta::assert_snapshot!(pair_table(&rows()), @r"
        interface  local       remote            role     state   rtt ms   loss  Mbit/s   share  why
        eth0       192.0.2.7   203.0.113.5:4455  primary  active  31.250  2.0 %   38.20  58.0 %  used: carries what arrives first on it
        wlan0      10.1.2.3    203.0.113.5:4455  primary  dead         -      -       -       -  no answer on UDP for 12 s
        wwan0      10.9.8.7    203.0.113.5:4455  backup   backup       -      -       -       -  role backup: only when none of the others works
        eth1       10.3.3.3    203.0.113.5:4455  primary  active       -      -       -       -  slower than needed; no data for 12 s
        docker0    172.17.0.1  -                 -        -            -      -       -       -  no route leads through it to the peer
        ");
    }

    #[test]
    fn interfaces_with_a_cap_show_how_much_was_used() {
        let day = |text: &str| text.parse().unwrap();
        let cap = CapState {
            cap: manyway::ByteCount(5_000_000_000),
            used: 4_876_543_210,
            since: day("2026-11-01"),
            renewal: day("2026-12-01"),
        };
        let mut rows = rows();
        rows.truncate(3);
        rows[2].cap = Some(cap);
        insta::assert_snapshot!(pair_table(&rows), @r"
        interface  local      remote            role     state   rtt ms   loss  Mbit/s   share              cap  why
        eth0       192.0.2.7  203.0.113.5:4455  primary  active  31.250  2.0 %   38.20  58.0 %                -  used: carries what arrives first on it
        wlan0      10.1.2.3   203.0.113.5:4455  primary  dead         -      -       -       -                -  no answer on UDP for 12 s
        wwan0      10.9.8.7   203.0.113.5:4455  backup   backup       -      -       -       -  4.87 GB of 5 GB  role backup: only when none of the others works
        ");
        insta::assert_snapshot!(rows[2].json()["cap"], @r#"
        {"cap":5000000000,"left":123456790,"reached":false,"renewal":"2026-12-01","since":"2026-11-01","used":4876543210}
        "#);
    }

    #[test]
    fn each_command_that_may_help_stands_below_the_table_once() {
        let mut rows = rows();
        assert_eq!(advice_text(&rows), "");
        for row in &mut rows {
            row.advice = Some("sysctl -w net.ipv4.conf.wlan0.rp_filter=2".to_owned());
        }
        insta::assert_snapshot!(advice_text(&rows), @r"
        perhaps this system drops the answers, since its routes to the peer lead out elsewhere; as root:
          sysctl -w net.ipv4.conf.wlan0.rp_filter=2
        ");
    }

    #[test]
    fn a_pair_for_programs_has_every_field() {
        let json: Vec<_> = rows().iter().take(2).map(PairRow::json).collect();
        insta::assert_snapshot!(serde_json::to_string_pretty(&json).unwrap(), @r#"
        [
          {
            "advice": null,
            "bits_per_second": 38200000,
            "cap": null,
            "interface": "eth0",
            "local": "192.0.2.7",
            "loss": 0.02,
            "path": 0,
            "reason": "speed",
            "remote": "203.0.113.5:4455",
            "role": "primary",
            "rtt": 0.03125,
            "share": 0.58,
            "state": "active",
            "used": true,
            "why": "carries what arrives first on it"
          },
          {
            "advice": null,
            "bits_per_second": null,
            "cap": null,
            "interface": "wlan0",
            "local": "10.1.2.3",
            "loss": null,
            "path": 1,
            "reason": "no-answer",
            "remote": "203.0.113.5:4455",
            "role": "primary",
            "rtt": null,
            "share": null,
            "state": "dead",
            "used": false,
            "why": "no answer on UDP for 12 s"
          }
        ]
        "#);
    }

    #[test]
    fn the_addresses_of_this_host_are_listed_with_their_reasons() {
        let mut eth = Interface::new(2, "eth0");
        eth.mtu = Some(1500);
        eth.addresses = vec![
            InterfaceAddress::new("192.0.2.7".parse().unwrap(), 24),
            InterfaceAddress::new("fe80::7".parse().unwrap(), 64),
        ];
        let mut lo = Interface::new(1, "lo");
        lo.kind = InterfaceKind::Loopback;
        lo.addresses = vec![InterfaceAddress::new("127.0.0.1".parse().unwrap(), 8)];
        let mut tunnel = Interface::new(3, "wg0");
        tunnel.kind = InterfaceKind::Tunnel { kind: "wireguard".to_owned() };
        tunnel.state = LinkState::Up;
        tunnel.addresses = vec![InterfaceAddress::new("10.0.0.2".parse().unwrap(), 24)];
        let mut down = Interface::new(4, "wlan0");
        down.state = LinkState::NoCarrier;
        let snapshot = Snapshot::new(vec![eth, lo, tunnel, down], Some(Vec::<Route>::new()));
        let addresses = snapshot.addresses(&InterfacePolicy::new(), &[]);
        insta::assert_snapshot!(address_table(&addresses, &[None; 5]), @r"
        interface  address       kind              link         mtu  role     why
        lo         127.0.0.1/8   loopback          up             -  -        loopback does not lead to another host
        eth0       192.0.2.7/24  network           up          1500  primary  used
        eth0       fe80::7/64    network           up          1500  -        link-local: it leads no farther than the link
        wg0        10.0.0.2/24   wireguard tunnel  up             -  -        it is a wireguard tunnel over other interfaces; name it with --interface to use it
        wlan0      -             network           no carrier     -  -        no carrier: no cable or no radio network
        ");
        insta::assert_snapshot!(address_json(&addresses[1], None), @r#"
        {"address":"192.0.2.7/24","cap":null,"interface":"eth0","kind":"network","link":"up","mtu":1500,"role":"primary","used":true,"why":null}
        "#);
    }
}
