//! Unknown names on the command line, with suggestions.

use std::fmt::Display;

use manyway::interfaces::InterfaceWatcher;
use manyway_terminal::CommandError;

use crate::args::GlobalArgs;

/// Checks that the interfaces of the command line and of the settings exist. A pattern may match none, for a modem that
/// is not always plugged in; interfaces that the settings exclude need not exist either.
///
/// # Errors
/// One does not exist: the text lists the existing ones.
pub fn check_interfaces(global: &GlobalArgs) -> Result<(), CommandError> {
    if global.interfaces.is_empty() && global.exclude.is_empty() {
        return Ok(());
    }
    // On a system that does not list its interfaces no name is refused.
    let Ok(watcher) = InterfaceWatcher::new() else { return Ok(()) };
    let there: Vec<_> =
        watcher.snapshot().interfaces.iter().map(|interface| interface.name.as_str()).collect();
    let is_of_settings = global.interfaces_of_settings;
    let option = if is_of_settings { "interfaces in the settings:" } else { "-I" };
    let named = global.interfaces.iter().map(|wish| (option, wish.rule.pattern.to_string()));
    let excluded = global.exclude.iter().filter(|_| !is_of_settings).map(|name| ("--exclude", name.clone()));
    named.chain(excluded).try_for_each(|(option, name)| check(option, &name, &there))
}

fn check(option: &str, name: &str, there: &[&str]) -> Result<(), CommandError> {
    let name = name.trim();
    if there.is_empty() || name.contains('*') || there.contains(&name) {
        return Ok(());
    }
    let text = format!(
        "{option} {name}: no such interface; this machine has: {}{}",
        there.join(", "),
        suggestion(name, there.iter().copied())
    );
    Err(CommandError::usage(text))
}

/// The error of an unknown name, with the name that may have been meant.
pub fn unknown(error: impl Display, name: &str, known: impl Iterator<Item = &'static str>) -> CommandError {
    let name = name.split('=').next().unwrap_or(name);
    CommandError::usage(format!("{error}{}", suggestion(name, known)))
}

fn suggestion<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let name = name.to_lowercase();
    let close = known.map(|other| (strsim::jaro_winkler(&name, other), other));
    let best = close.filter(|(nearness, _)| *nearness >= NEAR).max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.map(|(_, other)| format!("; did you mean {other}?")).unwrap_or_default()
}

/// Words with a higher similarity may be misspellings.
const NEAR: f64 = 0.8;

#[cfg(test)]
mod tests {

    use manyway_terminal::ExitCode;

    use super::*;

    #[test]
    fn a_missing_interface_is_an_error_that_lists_the_existing_ones() {
        let there = ["lo", "eth0", "wlan0"];
        for name in ["eth0", "w*", "nope*"] {
            check("-I", name, &there).unwrap();
        }
        let error = check("--exclude", "eth1", &there).unwrap_err();
        assert_eq!(error.code, ExitCode::Usage);
        let text = "--exclude eth1: no such interface; this machine has: lo, eth0, wlan0; did you mean eth0?";
        assert_eq!(error.text, text);
        assert!(!check("-I", "nope0", &there).unwrap_err().text.contains("did you mean"));
    }

    #[test]
    fn a_misspelt_algorithm_is_suggested() {
        let guess = |name| unknown("no", name, ["bbr", "cubic", "new-reno", "earliest"].into_iter()).text;
        assert_eq!(guess("cubik"), "no; did you mean cubic?");
        assert_eq!(guess("Earlyest=3"), "no; did you mean earliest?");
        assert_eq!(guess("fastest-of-all"), "no");
    }
}
