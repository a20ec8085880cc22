//! Which common options apply to which command, so that no option is accepted and ignored.

use clap::parser::ValueSource;
use clap::{ArgMatches, FromArgMatches as _};
use manyway::Wire;
use manyway_fetch::is_web_address;

use super::SendArgs;

/// Options of a connection, at either end.
const TRANSPORT: &[&str] = &[
    "scheduler",
    "congestion",
    "memory",
    "rendezvous",
    "qlog",
    "caps",
    "wire",
    "detection",
    "carrier",
    "carrier_congestion",
];
/// Options that choose interfaces of this host.
const INTERFACES: &[&str] = &["interfaces", "exclude", "ipv4", "ipv6"];
/// Other options of a client.
const CLIENT: &[&str] =
    &["pairs", "costly", "connect_timeout", "trust", "trust_on_first_use", "connections", "via"];
/// Of these, those that a server refuses itself, with a hint at what to use instead.
const EXPLAINED_BY_SERVER: &[&str] = &["interfaces", "exclude", "ipv4", "ipv6", "connections", "via"];
/// Options of the demo, and those that it refuses itself: its links are UDP of this process alone.
const DEMO: &[&str] = &[
    "scheduler",
    "congestion",
    "memory",
    "qlog",
    "connect_timeout",
    "interfaces",
    "exclude",
    "ipv4",
    "ipv6",
];

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

/// The common options that a command accepts beside those for output and settings, which all accept; `None` if it checks
/// them itself. Commands that act in two ways accept those of the way that their arguments choose.
fn meaningful(verb: &str, own: Option<&ArgMatches>) -> Option<Vec<&'static str>> {
    let client: &[&[&str]] = &[TRANSPORT, INTERFACES, CLIENT];
    let server: &[&[&str]] = &[TRANSPORT, EXPLAINED_BY_SERVER];
    let lists: &[&[&str]] = match verb {
        "send" if own.is_some_and(offers) => server,
        "paths" if own.is_some_and(|own| own.contains_id("primary")) => &[],
        "paths" if own.is_some_and(|own| !own.contains_id("ticket")) => &[INTERFACES, &["caps"]],
        "tunnel" if own.is_some_and(|own| own.get_flag("clear")) => &[],
        "send" | "get" | "play" | "bench" | "ping" | "paths" | "pipe" | "forward" | "proxy" | "run"
        | "tunnel" => client,
        "serve" => server,
        "demo" => &[DEMO],
        "caps" => &[&["interfaces", "caps"]],
        // The command says itself that caps do not apply to it.
        "rendezvous" => &[&["caps"]],
        "lab" | "sim" => return None,
        _ => &[],
    };
    Some(lists.concat())
}

/// Whether `manyway send` with these arguments is a server.
fn offers(own: &ArgMatches) -> bool {
    SendArgs::from_arg_matches(own).is_ok_and(|arguments| arguments.offers())
}

/// Whether the help of a command shows the options that choose interfaces.
pub(super) fn shows_interfaces(verb: &str) -> bool {
    let takes_none = matches!(verb, "serve" | "demo");
    !takes_none && meaningful(verb, None).is_some_and(|options| options.contains(&"interfaces"))
}

/// An option that was given although it does not apply to the command, and the command.
pub fn unused(matches: &ArgMatches) -> Option<String> {
    let (verb, own) = matches.subcommand()?;
    let is_given = |id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine);
    let all = [TRANSPORT, INTERFACES, CLIENT].into_iter().flatten().copied();
    if verb == "get" && own.get_one::<String>("ticket").is_some_and(|server| is_web_address(server)) {
        let is_own = |id: &&str| own.value_source(id) == Some(ValueSource::CommandLine);
        let unfit = NOT_OF_URL.iter().copied().find(is_own);
        let id = unfit.or_else(|| all.filter(|id| !OF_URL.contains(id)).find(is_given))?;
        return Some(match id {
            "paths" => "a URL names one file: -o names the directory or the file here".to_owned(),
            id => format!("`manyway get` of a URL does not use {}; leave it out", long(id)),
        });
    }
    let meaningful = meaningful(verb, Some(own))?;
    let id = all.filter(|id| !meaningful.contains(id)).find(is_given)?;
    let so = match verb {
        "send" if offers(own) => " without a server",
        "paths" if own.contains_id("primary") => " --primary",
        "paths" if !own.contains_id("ticket") => " without a server",
        "tunnel" if own.get_flag("clear") => " --clear",
        _ => "",
    };
    Some(format!("`manyway {verb}`{so} does not use {}; leave it out", long(id)))
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
            (&["serve", "--trust", "system"], "`manyway serve` does not use --trust"),
            (
                &["send", "/etc/hostname", "--pairs", "disjoint"],
                "`manyway send` without a server does not use --pairs",
            ),
            (&["paths", "--qlog", "d"], "`manyway paths` without a server does not use --qlog"),
            (&["demo", "--carrier", "tcp"], "`manyway demo` does not use --carrier"),
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

    /// A value of each common option.
    fn sample(id: &str) -> &'static [&'static str] {
        match id {
            "interfaces" => &["-I", "eth0"],
            "exclude" => &["--exclude", "eth0"],
            "ipv4" => &["-4"],
            "ipv6" => &["-6"],
            "caps" => &["--cap", "eth0=1GB"],
            "wire" => &["--wire", "mmsp1"],
            "detection" => &["--detection", "fast"],
            "carrier" => &["--carrier", "tcp"],
            "carrier_congestion" => &["--carrier-congestion", "bbr"],
            "via" => &["--via", "none"],
            "connections" => &["--connections", "2"],
            "scheduler" => &["--scheduler", "blest"],
            "congestion" => &["--congestion", "cubic"],
            "pairs" => &["--pairs", "disjoint"],
            "costly" => &["--costly", "never"],
            "memory" => &["--memory", "small"],
            "connect_timeout" => &["--connect-timeout", "1s"],
            "rendezvous" => &["--rendezvous", "h"],
            "qlog" => &["--qlog", "d"],
            "trust" => &["--trust", "system"],
            "trust_on_first_use" => &["--trust-on-first-use"],
            "help" | "json" | "quiet" | "verbose" | "config" | "no_config" => &[],
            new => panic!("{new} needs a line here, and a list for each command that uses it"),
        }
    }

    /// A command line of every command, and of every way in which one acts.
    const USES: &[&str] = &[
        "send f mw1x",
        "send /etc/hostname",
        "get mw1x",
        "get https://h/f",
        "play mw1x",
        "bench mw1x",
        "ping mw1x",
        "paths mw1x",
        "paths",
        "paths --primary eth0",
        "pipe mw1x h 22",
        "forward mw1x -L 1:h:2",
        "proxy mw1x",
        "run mw1x -- id",
        "tunnel mw1x",
        "tunnel --clear",
        "serve",
        "rendezvous",
        "demo",
        "caps",
        "keys list",
        "decode f",
        "status",
        "completion bash",
        "man",
    ];

    #[test]
    fn every_command_takes_or_refuses_each_common_option() {
        let command = help::command();
        let common =
            command.get_arguments().filter(|argument| argument.get_help_heading() == Some(help::SHARED));
        let options: Vec<_> = common.map(|argument| argument.get_id().as_str().to_owned()).collect();
        let mut table = String::new();
        for words in USES {
            let own: Vec<_> = words.split(' ').collect();
            let taken = options.iter().filter(|id| {
                let sample = sample(id);
                // `run` passes what follows its command on.
                let words = [sample, own.as_slice()].concat();
                !sample.is_empty() && unused_of(&words).is_none()
            });
            let taken: Vec<_> = taken.map(String::as_str).collect();
            table += &format!("{words}: {}\n", taken.join(" "));
        }
        insta::assert_snapshot!("options_by_command", table);
        for verb in command.get_subcommands().map(clap::Command::get_name) {
            let is_used = |words: &str| words.split(' ').next() == Some(verb);
            assert!(
                matches!(verb, "lab" | "sim" | "help") || USES.iter().any(|words| is_used(words)),
                "{verb}"
            );
        }
    }

    #[test]
    fn every_name_is_that_of_an_option() {
        let command = help::command();
        for id in [TRANSPORT, INTERFACES, CLIENT, EXPLAINED_BY_SERVER, DEMO].concat() {
            assert!(command.get_arguments().any(|argument| argument.get_id() == id), "{id}");
        }
    }
}
