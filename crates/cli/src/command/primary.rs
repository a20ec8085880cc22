//! The primary path that the user names: `--primary` of `send` and `bench`, and the place of `paths --primary`.

use std::net::IpAddr;

use manyway::interfaces::{InterfacePattern, InterfaceWatcher};
use manyway::{Connection, Event, Wire};
use manyway_terminal::CommandError;
use tokio::sync::broadcast::error::RecvError;

use super::names;
use crate::args::GlobalArgs;
use crate::status::path_over;

/// Checks that this end's scheduler has a primary path, and that the place named for it can be used, if one is named.
///
/// # Errors
/// The scheduler has none, this machine does not have that interface or address, or other options exclude it.
pub fn check(global: &GlobalArgs) -> Result<(), CommandError> {
    let Some(place) = &global.primary else { return Ok(()) };
    let scheduler = global.scheduler.as_deref().and_then(|choice| choice.split('=').next());
    let default = if global.wire == Wire::Mmsp1 { "primary" } else { "earliest" };
    let scheduler = scheduler.unwrap_or(default);
    if scheduler != "primary" {
        return Err(CommandError::usage(format!(
            "--primary: the scheduler {scheduler} has no primary path; add --scheduler primary"
        )));
    }
    check_place(global, place)
}

fn check_place(global: &GlobalArgs, place: &str) -> Result<(), CommandError> {
    // If the system does not list its interfaces, a name cannot be checked.
    let Ok(watcher) = InterfaceWatcher::new() else { return Ok(()) };
    let there = &watcher.snapshot().interfaces;
    let place = place.trim();
    let name = match place.parse::<IpAddr>() {
        Ok(address) => {
            let holder = there.iter().find(|it| it.addresses.iter().any(|it| it.prefix.address == address));
            let holder = holder.ok_or_else(|| {
                CommandError::usage(format!(
                    "--primary {place}: no interface of this machine has this address"
                ))
            })?;
            &holder.name
        }
        Err(_) if place.contains('*') => {
            let text = format!("--primary {place}: name one interface, without *");
            return Err(CommandError::usage(text));
        }
        Err(_) => {
            let names: Vec<_> = there.iter().map(|interface| interface.name.as_str()).collect();
            names::check("--primary", place, &names)?;
            place
        }
    };
    let matches = |pattern: &InterfacePattern| pattern.matches(name);
    let excluded = global.exclude.iter().any(|it| it.parse().is_ok_and(|pattern| matches(&pattern)));
    let selected =
        global.interfaces.is_empty() || global.interfaces.iter().any(|it| matches(&it.rule.pattern));
    if selected && !excluded {
        return Ok(());
    }
    let options = if global.interfaces_of_settings { "the settings leave" } else { "-I or --exclude leaves" };
    Err(CommandError::usage(format!("--primary {place}: {options} {name} out")))
}

/// Makes the path over the named place the primary one as soon as it is open, beside other work.
pub fn attend(global: &GlobalArgs, connection: &Connection) {
    let Some(place) = global.primary.clone() else { return };
    let (mut events, connection) = (connection.events(), connection.clone());
    tokio::spawn(async move {
        loop {
            let Ok(info) = connection.info().await else { return };
            if let Some(path) = path_over(&info.paths, &place) {
                return connection.path(path.statistics.id).make_primary();
            }
            if matches!(events.recv().await, Ok(Event::Closed(_)) | Err(RecvError::Closed)) {
                return;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::Cli;

    /// The error of a command line that names this place for the primary path.
    fn error_of(words: &[&str], place: &str) -> Option<String> {
        let cli = Cli::try_parse_from([&["manyway"], words].concat()).unwrap();
        let mut global = cli.global;
        global.primary = Some(place.to_owned());
        check(&global).err().map(|error| error.text)
    }

    #[tokio::test]
    async fn a_primary_path_needs_a_scheduler_that_has_one() {
        let bench = ["bench", "mw1x"];
        assert_eq!(error_of(&[&["--wire", "mmsp1"], &bench[..]].concat(), "lo"), None);
        assert_eq!(error_of(&[&["--scheduler", "primary=rank"], &bench[..]].concat(), "lo"), None);
        for more in [&[][..], &["--wire", "mmsp1", "--scheduler", "earliest"]] {
            let error = error_of(&[more, &bench].concat(), "lo").unwrap();
            assert!(error.contains("the scheduler earliest has no primary path"), "{error}");
        }
    }

    #[tokio::test]
    async fn the_place_of_a_primary_path_is_there_and_not_excluded() {
        let error_of =
            |more: &[&str], place| error_of(&[more, &["bench", "--wire", "mmsp1", "mw1x"]].concat(), place);
        for place in ["lo", "127.0.0.1"] {
            assert_eq!(error_of(&["-I", "lo"], place), None);
            for options in [["--exclude", "l*"], ["-I", "n*"]] {
                let error = error_of(&options, place).unwrap();
                assert_eq!(error, format!("--primary {place}: -I or --exclude leaves lo out"));
            }
        }
        let error = error_of(&[], "nope0").unwrap();
        assert!(error.starts_with("--primary nope0: no such interface; this machine has: "), "{error}");
        assert_eq!(error_of(&[], "l*").unwrap(), "--primary l*: name one interface, without *");
        let error = error_of(&[], "192.0.2.7").unwrap();
        assert_eq!(error, "--primary 192.0.2.7: no interface of this machine has this address");
    }
}
