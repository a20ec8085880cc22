//! A server that takes MMSP/1: addresses alone decide who may connect.

use manyway::{AddressFilter, Endpoint};
use manyway_terminal::{CommandError, json};
use serde_json::json;

use super::opening::Serving;
use crate::args::{GlobalArgs, LogFormat, ServeArgs};
use crate::command::advice;
use crate::command::keys::hosts_of;
use crate::output::address;
use crate::serving::journal::Journal;

/// From where clients may come (spec 3.95).
///
/// # Errors
/// The options do not say it.
pub(super) fn who_may_come(arguments: &ServeArgs) -> Result<AddressFilter, CommandError> {
    if arguments.open {
        return Ok(AddressFilter::all());
    }
    let mut from = AddressFilter::default();
    arguments.from.iter().for_each(|named| from.extend(named));
    if from.is_empty() {
        return Err(CommandError::usage(
            "MMSP/1 has no tickets and no keys, so addresses alone decide who may connect: name them, such as \
             --from 192.168.1.0/24; or let clients from all addresses fetch, and none send, by --open",
        ));
    }
    Ok(from)
}

/// Prints where the server is to standard output, and what MMSP/1 means to standard error.
///
/// # Errors
/// If standard output is full.
pub(super) fn announce(
    (global, arguments): (&GlobalArgs, &ServeArgs),
    endpoint: &Endpoint,
    from: &AddressFilter,
    journal: &Journal,
) -> Result<(), CommandError> {
    let locals = endpoint.local_addresses();
    let listening: Vec<_> = locals.iter().map(|local| address(local.address)).collect();
    let directory = arguments.dir().display().to_string();
    let read_only = arguments.is_read_only();
    if arguments.log_format == LogFormat::Json {
        let facts = json!({
            "directory": directory, "read_only": read_only, "addresses": listening, "wire": global.wire.name(),
            "from": from.to_string(),
        });
        journal.server("listening", &[], facts);
    }
    if global.json {
        json::print(&json!({
            "ticket": null, "listening": listening, "key": null, "wire": global.wire.name(),
            "from": from.to_string(), "read_only": read_only,
        }))?;
        return Ok(());
    }
    let serving = Serving {
        directory: &directory,
        is_read_only: read_only,
        listening: &listening,
        has_tcp: false,
        tls_port: None,
        firewall: advice::firewall(endpoint, None),
    };
    let hosts: Vec<_> = hosts_of(locals)?.iter().map(ToString::to_string).collect();
    let warning = warning(arguments, from);
    serving.opening_in_clear(warning, &hosts).print(global.quiet || arguments.log_format == LogFormat::Json)
}

/// What MMSP/1 means, in one line.
pub(super) fn warning(arguments: &ServeArgs, from: &AddressFilter) -> String {
    let rights = if arguments.is_read_only() { "fetch" } else { "fetch and send" };
    let hosts = if arguments.open { "every host".to_owned() } else { format!("every host at {from}") };
    format!(
        "warning: MMSP/1 neither encrypts nor authenticates: {hosts} may connect and {rights}, and every host on the \
         way can read and change what is sent"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_warning_names_the_hosts_and_their_rights() {
        let from: AddressFilter = "192.168.1.0/24,fd00::7".parse().unwrap();
        let text = warning(&ServeArgs::default(), &from);
        assert!(
            text.contains("every host at 192.168.1.0/24,fd00::7 may connect and fetch and send"),
            "{text}"
        );
        let text = warning(&ServeArgs { open: true, ..ServeArgs::default() }, &AddressFilter::all());
        assert!(text.contains("every host may connect and fetch, and every host on the way"), "{text}");
    }

    #[test]
    fn without_addresses_the_error_names_the_two_ways_out() {
        let error = who_may_come(&ServeArgs::default()).unwrap_err().text;
        assert!(error.contains("--from 192.168.1.0/24") && error.contains("--open"), "{error}");
        let named = ["10.0.0.0/8", "fd00::7"].map(|net| net.parse().unwrap()).to_vec();
        let both = who_may_come(&ServeArgs { from: named, ..ServeArgs::default() }).unwrap();
        assert!(both.allows("10.1.2.3".parse().unwrap()) && both.allows("fd00::7".parse().unwrap()));
    }
}
