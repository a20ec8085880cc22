//! `manyway keys`.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use manyway::HostPort;

use super::number::within;
use crate::home::{EntryName, KeyHash, NetPortsText, RateText, Rights, Timestamp};
use crate::output::units::parse_duration;

/// Arguments of `keys`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct KeysArgs {
    /// What to do with them.
    #[command(subcommand)]
    pub action: KeysAction,
}

/// What to do with keys.
#[derive(Debug, Clone, Subcommand)]
pub enum KeysAction {
    /// Show this user's own key, which others authorise, and where the files are
    #[command(after_help = SHOW_EXAMPLES)]
    Show(ShowArgs),
    /// List tickets, authorised clients and known servers
    #[command(after_help = LIST_EXAMPLES)]
    List(ListArgs),
    /// Create a ticket, authorise a client, or name a server
    #[command(after_help = ADD_EXAMPLES)]
    Add(AddArgs),
    /// Revoke tickets and clients at once, and forget servers
    #[command(after_help = REMOVE_EXAMPLES)]
    Remove(RemoveArgs),
}

/// Arguments of `keys show`.
#[derive(Debug, Clone, Args)]
pub struct ShowArgs {
    /// Print this ticket, which is a secret; without a name the one that `manyway serve` prints
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = DEFAULT_TICKET)]
    pub ticket: Option<EntryName>,
}

/// Arguments of `keys list`.
#[derive(Debug, Clone, Args)]
pub struct ListArgs {
    /// Only these
    #[arg(value_enum)]
    pub kind: Option<EntryKind>,
    /// Print their names alone, one a line
    #[arg(long)]
    pub names: bool,
}

/// A kind of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EntryKind {
    /// What opens this server, for whoever has it.
    Tickets,
    /// Clients that may connect with their own key.
    Clients,
    /// Servers that this user knows.
    Servers,
}

/// Arguments of `keys add`.
#[derive(Debug, Clone, Args)]
pub struct AddArgs {
    /// What to add.
    #[command(subcommand)]
    pub what: AddWhat,
}

/// What to add.
#[derive(Debug, Clone, Subcommand)]
pub enum AddWhat {
    /// Create and print a ticket
    #[command(after_help = ADD_TICKET_EXAMPLES)]
    Ticket(AddTicketArgs),
    /// Let a client connect with its own key, without a ticket
    #[command(after_help = ADD_CLIENT_EXAMPLES)]
    Client(AddClientArgs),
    /// Give a server a name, to be used where a ticket is asked for
    #[command(after_help = ADD_SERVER_EXAMPLES)]
    Server(AddServerArgs),
}

/// Arguments of `keys add ticket`.
#[derive(Debug, Clone, Args)]
pub struct AddTicketArgs {
    /// Its name, such as that of its recipient
    pub name: EntryName,
    /// What its bearer may do.
    #[command(flatten)]
    pub rights: RightsArgs,
    /// Advertise this address to clients; repeatable; default the addresses of `manyway serve`
    #[arg(long, value_name = "HOST:PORT")]
    pub advertise: Vec<HostPort>,
}

/// Arguments of `keys add client`.
#[derive(Debug, Clone, Args)]
pub struct AddClientArgs {
    /// Its name
    pub name: EntryName,
    /// Its key, as `manyway keys show` prints it there
    pub key: KeyHash,
    /// What it may do.
    #[command(flatten)]
    pub rights: RightsArgs,
}

/// Arguments of `keys add server`.
#[derive(Debug, Clone, Args)]
pub struct AddServerArgs {
    /// Its name
    pub name: EntryName,
    /// Its ticket, @FILE containing it, or its address
    #[arg(required = true, value_name = "TICKET|HOST[:PORT]")]
    pub server: Vec<String>,
    /// Its key, as `manyway keys show` prints it there; a ticket holds it already
    #[arg(long, value_name = "KEY")]
    pub key: Option<KeyHash>,
}

/// Arguments of `keys remove`.
#[derive(Debug, Clone, Args)]
pub struct RemoveArgs {
    /// Tickets, clients and servers
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
}

/// What a client may do.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Rights")]
pub struct RightsArgs {
    /// When they end: after 30d, 12h, 2w, or at 2026-12-31 (UTC); default never
    #[arg(long, value_name = "TIME", value_parser = parse_expiry)]
    pub expires: Option<Timestamp>,
    /// Fetch only, do not send
    #[arg(long)]
    pub read_only: bool,
    /// The fastest in each direction, over all connections at once
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub max_rate: Option<RateText>,
    /// Connections at the same time
    #[arg(long, value_name = "N", value_parser = parse_connections)]
    pub max_connections: Option<u32>,
    /// Ports of this server on which it may listen (`manyway forward -R`), such as 0.0.0.0:8080 or 127.0.0.1:8000-8100;
    /// repeatable
    #[arg(long, value_name = "NET:PORTS")]
    pub listen: Vec<NetPortsText>,
}

impl From<RightsArgs> for Rights {
    fn from(arguments: RightsArgs) -> Self {
        let RightsArgs { expires, read_only, max_rate, max_connections, listen } = arguments;
        Self { expires, read_only, max_rate, max_connections, listen }
    }
}

/// The ticket that `manyway serve` makes by itself.
pub const DEFAULT_TICKET: &str = "default";

fn parse_rate(text: &str) -> Result<RateText, String> {
    let rate: RateText = text.parse().map_err(|error: crate::output::units::UnitError| error.to_string())?;
    if rate.0.bytes_per_second() == 0 { Err("nothing could pass".to_owned()) } else { Ok(rate) }
}

fn parse_connections(text: &str) -> Result<u32, String> {
    within(text, 1..=u32::MAX.into())
}

fn parse_expiry(text: &str) -> Result<Timestamp, String> {
    let days = |suffix, days: u64| text.strip_suffix(suffix)?.parse::<u64>().ok()?.checked_mul(days);
    let span = if let Some(days) = days('d', 1).or_else(|| days('w', 7)) {
        Some(Duration::from_secs(days.saturating_mul(86_400)))
    } else if text.ends_with(|c: char| c.is_ascii_alphabetic() && c != 'Z') {
        parse_duration(text).ok()
    } else {
        None
    };
    let at = match span {
        Some(span) => Timestamp::now().after(span),
        None => text.parse().map_err(|_| {
            format!("{text:?} is no time; write it like 30d, 12h, 2026-12-31 or 2026-12-31T15:00:00Z")
        })?,
    };
    if at.is_past() { Err(format!("{at} is past")) } else { Ok(at) }
}

const EXAMPLES: &str = "\
Examples:
  manyway keys add ticket alice --expires 30d   prints a ticket for Alice
  manyway keys remove alice                     revokes it at once
  manyway keys show                             your key, for `keys add client`
  manyway keys list";

const SHOW_EXAMPLES: &str = "\
Examples:
  manyway keys show
  manyway keys show --ticket         the ticket that `manyway serve` prints
  manyway keys show --ticket alice";

const LIST_EXAMPLES: &str = "\
Examples:
  manyway keys list
  manyway keys list tickets --json";

const ADD_EXAMPLES: &str = "\
Examples:
  manyway keys add ticket alice --expires 30d
  manyway keys add client laptop 3f2ac0d1e4b5968778695a4b3c2d1e0f
  manyway keys add server home @home.ticket";

const ADD_TICKET_EXAMPLES: &str = "\
Examples:
  manyway keys add ticket alice
  manyway keys add ticket guests --read-only --expires 12h --max-rate 20M
  manyway keys add ticket bob --advertise media.example.org:4455";

const ADD_CLIENT_EXAMPLES: &str = "\
Examples:
  manyway keys add client laptop 3f2ac0d1e4b5968778695a4b3c2d1e0f
  manyway keys add client camera 3f2ac0d1e4b5968778695a4b3c2d1e0f --max-rate 10M";

const ADD_SERVER_EXAMPLES: &str = "\
Examples:
  manyway keys add server home @home.ticket
  manyway keys add server nas nas.lan --key 3f2ac0d1e4b5968778695a4b3c2d1e0f
  manyway get nas notes.txt";

const REMOVE_EXAMPLES: &str = "\
Examples:
  manyway keys remove alice
  manyway keys remove media.example.org:4455    a server of first use";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expiry_is_a_span_or_a_date() {
        let now = Timestamp::now();
        let day = Duration::from_secs(86_400);
        let near = |text: &str, span| {
            let at = parse_expiry(text).unwrap();
            at >= now.after(span) && at <= now.after(span + Duration::from_secs(60))
        };
        assert!(near("30d", 30 * day) && near("2w", 14 * day) && near("12h", day / 2));
        assert_eq!(parse_expiry("2999-01-01").unwrap().to_string(), "2999-01-01T00:00:00Z");
        for text in ["", "30", "d", "-1d", "2001-01-01", "0d", "soon"] {
            assert!(parse_expiry(text).is_err(), "{text}");
        }
        assert!(parse_rate("1bit").is_err() && parse_rate("1M").is_ok());
    }
}
