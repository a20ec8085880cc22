//! `manyway keys`: the tickets and clients of this user's server, and known servers.

mod list;

use manyway::interfaces::InterfaceWatcher;
use manyway::{HostPort, Identity, LocalAddress, Ticket, reachable_addresses};
use manyway_terminal::{CommandError, ExitCode, json, note, print_line};
use serde_json::json;

use super::target::{names_ticket, ticket};
use crate::args::{
    AddClientArgs, AddServerArgs, AddTicketArgs, AddWhat, DEFAULT_TICKET, GlobalArgs, KeysAction, KeysArgs,
    ShowArgs,
};
use crate::home::{
    ClientEntry, Entries, Entry, Home, HostText, KeyHash, Secret, ServerEntry, TicketEntry, random,
};

/// Runs the action.
///
/// # Errors
/// If a name is taken or missing, or the files cannot be read or written.
pub fn run(global: &GlobalArgs, arguments: &KeysArgs) -> Result<(), CommandError> {
    let home = Home::find()?;
    match &arguments.action {
        KeysAction::Show(arguments) => show(global, &home, arguments),
        KeysAction::List(arguments) => list::run(global, &home, arguments),
        KeysAction::Add(arguments) => match &arguments.what {
            AddWhat::Ticket(arguments) => add_ticket(global, &home, arguments),
            AddWhat::Client(arguments) => add_client(global, &home, arguments),
            AddWhat::Server(arguments) => add_server(global, &home, arguments),
        },
        KeysAction::Remove(arguments) => remove(global, &home, &arguments.names),
    }
}

fn show(global: &GlobalArgs, home: &Home, arguments: &ShowArgs) -> Result<(), CommandError> {
    let identity = home.identity()?.identity();
    if let Some(name) = &arguments.ticket {
        let tickets = home.entries::<TicketEntry>()?;
        let entry = tickets.get(&**name).ok_or_else(|| no_such_ticket(name))?;
        let ticket = ticket_of(home, &identity, entry)?;
        return print_ticket(global, name, &ticket);
    }
    let key = identity.public_key().to_string();
    let (directory, file) = (home.directory().display(), home.identity_file());
    if global.json {
        let directory = directory.to_string();
        json::print(
            &json!({ "key": key, "directory": directory, "identity_file": file.display().to_string() }),
        )?;
        return Ok(());
    }
    print_line(&format!("key        {key}"))?;
    print_line(&format!("directory  {directory}"))?;
    print_line(&format!("private    {}", file.display()))?;
    if !global.quiet {
        note(&format!("`manyway keys add client NAME {key}` at a server lets this user in"));
    }
    Ok(())
}

fn no_such_ticket(name: &str) -> CommandError {
    let next = if name == DEFAULT_TICKET {
        "the first `manyway serve` makes it, as does `manyway keys add ticket default`"
    } else {
        "`manyway keys list tickets` shows all"
    };
    CommandError::new(ExitCode::Failed, format!("there is no ticket {name}; {next}"))
}

fn add_ticket(global: &GlobalArgs, home: &Home, arguments: &AddTicketArgs) -> Result<(), CommandError> {
    let identity = home.identity()?.identity();
    let advertise = arguments.advertise.iter().cloned().map(HostText).collect();
    let entry = TicketEntry::new(Secret(random()?), arguments.rights.clone().into(), advertise);
    let ticket = ticket_of(home, &identity, &entry)?;
    add(home, &arguments.name, entry)?;
    print_ticket(global, &arguments.name, &ticket)?;
    if !global.quiet && !global.json {
        note(&format!("anyone with it can connect; `manyway keys remove {}` revokes it", arguments.name));
    }
    Ok(())
}

fn add_client(global: &GlobalArgs, home: &Home, arguments: &AddClientArgs) -> Result<(), CommandError> {
    let clients = home.entries::<ClientEntry>()?;
    if let Some((name, _)) = clients.iter().find(|(_, client)| client.key == arguments.key) {
        let text =
            format!("this key is authorised already, as {name}; to change its rights, remove it first");
        return Err(CommandError::new(ExitCode::Failed, text));
    }
    add(home, &arguments.name, ClientEntry::new(arguments.key, arguments.rights.clone().into()))?;
    let identity = home.identity()?.identity();
    report_added::<ClientEntry>(global, &arguments.name, &arguments.key)?;
    if !global.quiet && !global.json {
        note(&format!("it may connect from now on; the key of this server is {}", identity.public_key()));
    }
    Ok(())
}

fn add_server(global: &GlobalArgs, home: &Home, arguments: &AddServerArgs) -> Result<(), CommandError> {
    let entry = match arguments.server.as_slice() {
        [text] if names_ticket(text) => {
            let none = || CommandError::usage(format!("{text} is no ticket"));
            let ticket = ticket(text)?.ok_or_else(none)?;
            let key = KeyHash(*ticket.server_key_hash());
            if arguments.key.is_some_and(|other| other != key) {
                return Err(CommandError::usage(format!("the ticket is for the key {key}; leave out --key")));
            }
            ServerEntry::new(key, ticket.hosts().to_vec(), Some(Secret(*ticket.secret())))
        }
        hosts => {
            let key = arguments.key.ok_or_else(|| {
                CommandError::usage(
                    "say which key the server has: --key KEY; it prints it by `manyway keys show`",
                )
            })?;
            let hosts: Result<Vec<_>, _> = hosts.iter().map(|text| text.parse::<HostPort>()).collect();
            ServerEntry::new(key, hosts.map_err(CommandError::usage)?, None)
        }
    };
    let key = entry.key;
    add(home, &arguments.name, entry)?;
    report_added::<ServerEntry>(global, &arguments.name, &key)
}

fn report_added<T: Entry>(global: &GlobalArgs, name: &str, key: &KeyHash) -> Result<(), CommandError> {
    if global.json {
        json::print(&json!({ "added": T::NOUN, "name": name, "key": key.to_string() }))?;
    } else if !global.quiet {
        note(&format!("added the {} {name} with the key {key}", T::NOUN));
    }
    Ok(())
}

/// Adds an entry under a name that no entry of any kind has.
fn add<T: Entry>(home: &Home, name: &str, entry: T) -> Result<(), CommandError> {
    if let Some(noun) = noun_of(home, name)? {
        return Err(taken(noun, name));
    }
    home.change(|entries: &mut Entries<T>| {
        if entries.contains_key(name) {
            return Err(taken(T::NOUN, name));
        }
        entries.insert(name.to_owned(), entry);
        Ok(())
    })
}

fn taken(noun: &str, name: &str) -> CommandError {
    CommandError::new(
        ExitCode::Failed,
        format!("there is a {noun} named {name} already; `manyway keys remove {name}` removes it"),
    )
}

/// The kind of the entry with this name.
fn noun_of(home: &Home, name: &str) -> Result<Option<&'static str>, CommandError> {
    Ok(if home.entries::<TicketEntry>()?.contains_key(name) {
        Some(TicketEntry::NOUN)
    } else if home.entries::<ClientEntry>()?.contains_key(name) {
        Some(ClientEntry::NOUN)
    } else if home.entries::<ServerEntry>()?.contains_key(name) {
        Some(ServerEntry::NOUN)
    } else {
        None
    })
}

fn remove(global: &GlobalArgs, home: &Home, names: &[String]) -> Result<(), CommandError> {
    for name in names {
        if noun_of(home, name)?.is_none() {
            let text = format!("nothing is named {name}; `manyway keys list` shows all names");
            return Err(CommandError::new(ExitCode::Failed, text));
        }
    }
    let tickets = take_out::<TicketEntry>(home, names)?;
    let clients = take_out::<ClientEntry>(home, names)?;
    let servers = take_out::<ServerEntry>(home, names)?;
    if global.json {
        json::print(&json!({ "removed": { "tickets": tickets, "clients": clients, "servers": servers } }))?;
    } else if !global.quiet {
        for name in tickets.iter().chain(&clients) {
            note(&format!(
                "{name} may not connect any more; a running server has ended its connections within a second"
            ));
        }
        for name in servers {
            note(&format!("{name} is forgotten"));
        }
    }
    Ok(())
}

fn take_out<T: Entry>(home: &Home, names: &[String]) -> Result<Vec<String>, CommandError> {
    if !home.entries::<T>()?.keys().any(|name| names.contains(name)) {
        return Ok(Vec::new());
    }
    home.change(|entries: &mut Entries<T>| {
        Ok(names.iter().filter(|name| entries.remove(*name).is_some()).cloned().collect())
    })
}

fn print_ticket(global: &GlobalArgs, name: &str, ticket: &Ticket) -> Result<(), CommandError> {
    if global.json {
        json::print(&json!({ "name": name, "ticket": ticket.to_string() }))?;
        return Ok(());
    }
    print_line(&ticket.to_string())
}

/// The text of a ticket: with its own addresses, or the last addresses of the server, or the addresses that it would
/// have now.
fn ticket_of(home: &Home, identity: &Identity, entry: &TicketEntry) -> Result<Ticket, CommandError> {
    let mut hosts: Vec<HostPort> = entry.advertise.iter().map(|host| host.0.clone()).collect();
    if hosts.is_empty() {
        hosts = home.last_hosts()?;
    }
    if hosts.is_empty() {
        hosts = hosts_of(&default_listening())?;
    }
    Ticket::new(identity.public_key().hash(), entry.secret.0, hosts).map_err(CommandError::usage)
}

/// The default listening addresses of a server.
fn default_listening() -> [LocalAddress; 2] {
    let any = [std::net::Ipv6Addr::UNSPECIFIED.into(), std::net::Ipv4Addr::UNSPECIFIED.into()];
    any.map(|ip: std::net::IpAddr| LocalAddress { interface: 0, address: (ip, manyway::DEFAULT_PORT).into() })
}

/// Every address at which another host may reach a server that listens there, up to the limit of a ticket.
pub(super) fn hosts_of(listening: &[LocalAddress]) -> Result<Vec<HostPort>, CommandError> {
    let watcher = InterfaceWatcher::new()?;
    let mut addresses = reachable_addresses(listening, watcher.snapshot());
    // The way to a network of sites is this server itself.
    #[cfg(target_os = "linux")]
    {
        let mut interfaces = watcher.snapshot().interfaces.iter();
        let own = interfaces.find(|it| it.name == manyway_capture::SITE_DEVICE);
        let is_own = |ip| own.is_some_and(|it| it.addresses.iter().any(|own| own.prefix.address == ip));
        addresses.retain(|address| !is_own(address.ip()));
    }
    addresses.truncate(Ticket::MAX_HOSTS);
    Ok(addresses.into_iter().map(HostPort::from).collect())
}
