//! `manyway keys list`: prints everything but secrets.

use std::io::Write as _;

use manyway_terminal::screen::output_width;
use manyway_terminal::{Colour, CommandError, json, print_line};
use serde_json::{Map, Value, json};

use crate::args::{EntryKind, GlobalArgs, ListArgs};
use crate::home::{ClientEntry, Entries, Home, HostText, Rights, ServerEntry, TicketEntry, Timestamp};
use crate::output::grid::{Cell, Grid};

/// Prints the entries of one kind, or of all.
pub(super) fn run(global: &GlobalArgs, home: &Home, arguments: &ListArgs) -> Result<(), CommandError> {
    let wanted = |which| arguments.kind.is_none_or(|kind| kind == which);
    let tickets =
        if wanted(EntryKind::Tickets) { home.entries::<TicketEntry>()? } else { Default::default() };
    let clients =
        if wanted(EntryKind::Clients) { home.entries::<ClientEntry>()? } else { Default::default() };
    let servers =
        if wanted(EntryKind::Servers) { home.entries::<ServerEntry>()? } else { Default::default() };
    if arguments.names {
        let names = tickets.keys().chain(clients.keys()).chain(servers.keys());
        return names.map(String::as_str).try_for_each(print_line);
    }
    if global.json {
        let tickets = tickets.iter().map(|(name, entry)| {
            let own = json!({ "name": name, "created": entry.created, "advertise": entry.advertise });
            with_rights(own, &entry.rights())
        });
        let clients = clients.iter().map(|(name, entry)| {
            let own = json!({ "name": name, "created": entry.created, "key": entry.key });
            with_rights(own, &entry.rights())
        });
        let servers = servers.iter().map(|(name, entry)| {
            let has_ticket = entry.secret.is_some();
            json!({
                "name": name, "created": entry.created, "key": entry.key, "hosts": entry.hosts, "ticket": has_ticket,
            })
        });
        let mut document = Map::new();
        for (which, key, values) in [
            (EntryKind::Tickets, "tickets", tickets.collect::<Vec<_>>()),
            (EntryKind::Clients, "clients", clients.collect()),
            (EntryKind::Servers, "servers", servers.collect()),
        ] {
            if wanted(which) {
                document.insert(key.to_owned(), values.into());
            }
        }
        json::print(&document)?;
        return Ok(());
    }
    let mut out = std::io::stdout().lock();
    let table = table(&tickets, &clients, &servers);
    out.write_all(table.text(output_width(), Colour::of_output()).as_bytes())?;
    out.flush()?;
    Ok(())
}

fn table(
    tickets: &Entries<TicketEntry>,
    clients: &Entries<ClientEntry>,
    servers: &Entries<ServerEntry>,
) -> Grid {
    let mut grid = Grid::new()
        .words("kind")
        .words("name")
        .words("rights")
        .words("expires")
        .spare_words("key")
        .remark("addresses");
    let mut row = |cells: [String; 6]| {
        grid.row(cells.map(|text| if text == "-" { Cell::none() } else { Cell::from(text) }));
    };
    for (name, entry) in tickets {
        let rights = entry.rights();
        let places = addresses(&entry.advertise);
        row(["ticket".into(), name.clone(), words(&rights), end(&rights), "-".into(), places]);
    }
    for (name, entry) in clients {
        let rights = entry.rights();
        let key = entry.key.to_string();
        row(["client".into(), name.clone(), words(&rights), end(&rights), key, "-".into()]);
    }
    for (name, entry) in servers {
        let opens = if entry.secret.is_some() { "by its ticket" } else { "by your key" };
        let (key, places) = (entry.key.to_string(), addresses(&entry.hosts));
        row(["server".into(), name.clone(), opens.into(), "-".into(), key, places]);
    }
    grid
}

fn with_rights(mut document: Value, rights: &Rights) -> Value {
    if let Some(fields) = document.as_object_mut() {
        fields.insert("expires".to_owned(), json!(rights.expires));
        fields.insert("expired".to_owned(), json!(rights.are_over()));
        fields.insert("read_only".to_owned(), json!(rights.read_only));
        let rate = rights.max_rate.map(|rate| rate.0.bits_per_second());
        fields.insert("max_bits_per_second".to_owned(), json!(rate));
        fields.insert("max_connections".to_owned(), json!(rights.max_connections));
        fields.insert("listen".to_owned(), json!(rights.listen));
    }
    document
}

fn words(rights: &Rights) -> String {
    let mut words = vec![if rights.read_only { "fetch" } else { "fetch and send" }.to_owned()];
    words.extend(rights.max_rate.map(|rate| rate.to_string()));
    words.extend(rights.max_connections.map(|count| format!("{count} at once")));
    words.extend(rights.listen.iter().map(|opening| format!("listen on {opening}")));
    words.join(", ")
}

fn end(rights: &Rights) -> String {
    match rights.expires {
        None => "never".to_owned(),
        Some(at) if Timestamp::is_past(at) => format!("{at} (over)"),
        Some(at) => at.to_string(),
    }
}

fn addresses(hosts: &[HostText]) -> String {
    let texts: Vec<_> = hosts.iter().map(HostText::to_string).collect();
    if texts.is_empty() { "-".to_owned() } else { texts.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::{KeyHash, Secret};
    use crate::output::fits::assert_fits;

    #[test]
    fn tickets_clients_and_servers_are_listed_without_their_secrets() {
        let key = KeyHash([0x5a; 16]);
        let hosts = ["203.0.113.5:4455", "[2001:db8:1234:5678:9abc:def0:1234:5678]:4455"];
        let hosts: Vec<manyway::HostPort> = hosts.iter().map(|host| host.parse().unwrap()).collect();
        let rights = Rights { read_only: true, max_connections: Some(3), ..Rights::default() };
        let advertise = hosts.iter().cloned().map(HostText).collect();
        let tickets = Entries::from([
            ("alice".to_owned(), TicketEntry::new(Secret([7; 16]), rights.clone(), advertise)),
            ("default".to_owned(), TicketEntry::new(Secret([8; 16]), Rights::default(), Vec::new())),
        ]);
        let clients = Entries::from([("laptop".to_owned(), ClientEntry::new(key, rights))]);
        let servers = Entries::from([("home".to_owned(), ServerEntry::new(key, hosts, None))]);
        for width in [80, 120] {
            let table = table(&tickets, &clients, &servers);
            assert_fits(&table.text(width, Colour::Without), width);
            insta::assert_snapshot!(format!("keys_{width}"), table.text(width, Colour::Without));
        }
    }
}
