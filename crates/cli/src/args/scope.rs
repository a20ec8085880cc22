//! Which common options apply to which command, so that no option is accepted and ignored.

use clap::ArgMatches;
use clap::parser::ValueSource;
use manyway::Wire;
use manyway_fetch::is_web_address;

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
    "wire",
    "detection",
    "carrier",
    "carrier_congestion",
];
/// Options of a client.
const CLIENT: &[&str] =
    &["interfaces", "exclude", "ipv4", "ipv6", "trust", "trust_on_first_use", "connections", "via"];

/// Of these, what applies to a file from a URL: there is no connection of Manyway.
const OF_URL: &[&str] = &["interfaces", "exclude", "ipv4", "ipv6", "trust", "caps", "connect_timeout"];
/// Options of `get` that are about directories, or about what a Manyway server has.
const NOT_OF_URL: &[&str] = &["paths", "links", "exclude_files"];

/// The commands that can go over MMSP/1: what they carry needs no secret.
const OVER_MMSP1: &[&str] = &["serve", "send", "get", "play", "bench", "ping", "paths"];
/// Options that have no use over MMSP/1: they are about secrets and keys, about addresses that change, or about TCP.
const SECURE: &[&str] = &[
    "rendezvous",
    "trust",
    "trust_on_first_use",
    "cert",
    "key",
    "egress",
    "allow",
    "deny",
    "ephemeral",
    "carrier",
    "carrier_congestion",
    "connections",
    "via",
];

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
    let (verb, own) = matches.subcommand()?;
    // `manyway-lab` checks its options itself.
    if matches!(verb, "lab" | "sim") {
        return None;
    }
    let is_given = |id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine);
    let all = TRANSPORT.iter().chain(CLIENT).copied();
    if verb == "get" && own.get_one::<String>("ticket").is_some_and(|server| is_web_address(server)) {
        let is_own = |id: &&str| own.value_source(id) == Some(ValueSource::CommandLine);
        let unfit = NOT_OF_URL.iter().copied().find(is_own);
        let id = unfit.or_else(|| all.filter(|id| !OF_URL.contains(id)).find(is_given))?;
        return Some(match id {
            "paths" => "a URL names one file: -o names the directory or the file here".to_owned(),
            id => format!("`manyway get` of a URL does not use {}; leave it out", long(id)),
        });
    }
    let meaningful = meaningful(verb);
    let id = all.filter(|id| !meaningful.contains(id)).find(is_given)?;
    Some(format!("`manyway {verb}` does not use {}; leave it out", long(id)))
}

fn long(id: &str) -> String {
    match id {
        "interfaces" => "-I, --interface".to_owned(),
        "caps" => "--cap".to_owned(),
        id => format!("--{}", id.replace('_', "-")),
    }
}

/// Why a command line does not fit its wire.
pub fn unfit_for_wire(matches: &ArgMatches) -> Option<String> {
    let (verb, own) = matches.subcommand()?;
    let is_given = |id: &&&str| {
        let of = |matches: &ArgMatches| {
            matches.try_contains_id(id).is_ok() && matches.value_source(id) == Some(ValueSource::CommandLine)
        };
        of(matches) || of(own)
    };
    if matches.get_one::<Wire>("wire") != Some(&Wire::Mmsp1) {
        let id = ["detection", "from", "open"].iter().find(is_given)?;
        return Some(format!("{} is for --wire mmsp1; leave it out, or add that", long(id)));
    }
    if !OVER_MMSP1.contains(&verb) {
        return Some(format!(
            "`manyway {verb}` needs secrets or keys, which never go over MMSP/1; leave out --wire mmsp1"
        ));
    }
    let id = SECURE.iter().find(is_given)?;
    Some(format!(
        "MMSP/1 has no keys and no secrets, its addresses do not change, and it goes over UDP; leave out {}",
        long(id)
    ))
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
            (
                &["get", "https://h/f", "--scheduler", "blest"],
                "`manyway get` of a URL does not use --scheduler",
            ),
            (&["get", "https://h/f", "--trust-on-first-use"], "--trust-on-first-use"),
            (&["get", "http://h/f", "--wire", "mmsp1"], "--wire"),
            (&["get", "http://h/f", "--links", "skip"], "--links"),
            (&["get", "http://h/f", "--exclude-files", "*.tmp"], "--exclude-files"),
            (&["get", "http://h/f", "here"], "-o names the directory"),
        ] {
            let text = unused_of(words).unwrap_or_default();
            assert!(text.contains(part), "{part} in {text:?}");
        }
    }

    #[test]
    fn commands_with_secrets_refuse_mmsp1_and_mmsp1_options_require_it() {
        let unfit = |words: &str| {
            let words = std::iter::once("manyway").chain(words.split(' '));
            unfit_for_wire(&help::command().try_get_matches_from(words).unwrap()).unwrap_or_default()
        };
        for (words, part) in [
            ("proxy mw1x --wire mmsp1", "`manyway proxy` needs secrets or keys, which never go over MMSP/1"),
            ("--wire mmsp1 rendezvous", "leave out --wire mmsp1"),
            ("get host --wire mmsp1 --trust keys", "leave out --trust"),
            ("serve --wire mmsp1 --open --egress", "leave out --egress"),
            ("serve --wire mmsp1 --open --rendezvous meet", "leave out --rendezvous"),
            ("serve --open", "--open is for --wire mmsp1"),
            ("serve --from 10.0.0.0/8", "--from is for --wire mmsp1"),
            ("get host --detection fast", "--detection is for --wire mmsp1"),
            ("get host --wire mmsp2 --detection fast", "--detection is for --wire mmsp1"),
        ] {
            assert!(unfit(words).contains(part), "{words}: {}", unfit(words));
        }
        for words in [
            "serve --wire mmsp1 --from 10.0.0.0/8 --read-only --max-clients 3",
            "get host:4455 --wire mmsp1 --detection fast --scheduler earliest -I eth0",
            "proxy mw1x --wire mmsp2",
        ] {
            assert_eq!(unfit(words), "", "{words}");
        }
    }

    #[test]
    fn an_option_that_applies_is_accepted() {
        for words in [
            &["get", "mw1x", "-I", "a", "--exclude", "b", "--trust", "keys", "-4"][..],
            &["get", "https://h/f", "-I", "a", "--exclude", "b", "--trust", "system", "-4", "--cap", "a=1GB"],
            &["get", "https://h/f", "--retry", "1", "--bwlimit", "1M", "--keep", "-o", "x", "--json"],
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
