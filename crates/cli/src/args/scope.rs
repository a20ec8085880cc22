//! Which common options apply to which command, so that no option is accepted and ignored.

use clap::ArgMatches;
use clap::parser::ValueSource;

/// Options of a connection, at either end.
const TRANSPORT: &[&str] = &[
    "scheduler",
    "congestion",
    "pairs",
    "costly",
    "memory",
    "connect_timeout",
    "rendezvous",
    "qlog",
    "caps",
];
/// Options of a client.
const CLIENT: &[&str] = &["interfaces", "exclude", "ipv4", "ipv6", "trust", "trust_on_first_use"];

/// The common options that a command accepts beside those for output and settings, which all accept.
fn meaningful(verb: &str) -> Vec<&'static str> {
    let lists: &[&[&str]] = match verb {
        // A server, the demo and an offer explain themselves why they accept no interfaces.
        "caps" => &[&["interfaces", "caps"]],
        // The command says itself that caps do not apply to it.
        "rendezvous" => &[&["caps"]],
        "keys" | "decode" | "completion" | "man" | "status" => &[],
        _ => &[TRANSPORT, CLIENT],
    };
    lists.concat()
}

/// Whether the help of a command shows the options that choose interfaces.
pub(super) fn shows_interfaces(verb: &str) -> bool {
    let takes_none = matches!(verb, "serve" | "demo");
    !takes_none && meaningful(verb).contains(&"interfaces")
}

/// An option that was given although it does not apply to the command, and the command.
pub fn unused(matches: &ArgMatches) -> Option<String> {
    let (verb, _) = matches.subcommand()?;
    // `manyway-lab` checks its options itself.
    if matches!(verb, "lab" | "sim") {
        return None;
    }
    let meaningful = meaningful(verb);
    let is_given = |id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine);
    let all = TRANSPORT.iter().chain(CLIENT).copied();
    let id = all.filter(|id| !meaningful.contains(id)).find(is_given)?;
    let long = match id {
        "interfaces" => "-I, --interface".to_owned(),
        "caps" => "--cap".to_owned(),
        id => format!("--{}", id.replace('_', "-")),
    };
    Some(format!("`manyway {verb}` does not use {long}; leave it out"))
}

#[cfg(test)]
mod tests {
    use super::super::help;
    use super::*;

    fn unused_of(words: &[&str]) -> Option<String> {
        unused(&help::command().try_get_matches_from([&["manyway"], words].concat()).unwrap())
    }

    #[test]
    fn an_option_that_does_not_apply_is_refused_by_its_name() {
        for (words, part) in [
            (&["decode", "-I", "wifi0", "x"][..], "`manyway decode` does not use -I, --interface"),
            (&["--exclude", "x", "keys", "list"], "--exclude"),
            (&["keys", "list", "--scheduler", "blest"], "--scheduler"),
            (&["decode", "--trust", "system", "x"], "--trust"),
            (&["status", "--connect-timeout", "1s"], "--connect-timeout"),
        ] {
            let text = unused_of(words).unwrap_or_default();
            assert!(text.contains(part), "{part} in {text:?}");
        }
    }

    #[test]
    fn an_option_that_applies_is_accepted() {
        for words in [
            &["get", "mw1x", "-I", "a", "--exclude", "b", "--trust", "keys", "-4"][..],
            &["caps", "--cap", "wwan0=5GB"],
            &["keys", "list", "--json", "--no-config"],
        ] {
            assert_eq!(unused_of(words), None, "{words:?}");
        }
    }

    #[test]
    fn every_name_is_that_of_an_option() {
        let command = help::command();
        for id in TRANSPORT.iter().chain(CLIENT) {
            assert!(command.get_arguments().any(|argument| argument.get_id() == id), "{id}");
        }
    }
}
