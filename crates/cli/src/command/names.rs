//! Unknown names on the command line, with suggestions.

use std::fmt::Display;

use manyway::interfaces::InterfaceWatcher;
use manyway_terminal::CommandError;

use crate::args::GlobalArgs;
use crate::caps::CapRule;
use crate::home::Home;

/// Checks that the interfaces of the command line and of the settings exist. A pattern may match none, for a modem that
/// is not always plugged in. A missing interface that the settings exclude or give a cap is only a warning, which is
/// returned: settings apply to all commands.
///
/// # Errors
/// An interface does not exist: the text lists those that do.
pub fn check_interfaces(global: &GlobalArgs) -> Result<Vec<String>, CommandError> {
    let caps = literal_names(&global.caps);
    let settings_caps = literal_names(&global.settings_caps);
    if global.interfaces.is_empty()
        && global.exclude.is_empty()
        && caps.is_empty()
        && settings_caps.is_empty()
    {
        return Ok(Vec::new());
    }
    // If the system does not list its interfaces, a name cannot be checked.
    let Ok(watcher) = InterfaceWatcher::new() else { return Ok(Vec::new()) };
    let there: Vec<_> =
        watcher.snapshot().interfaces.iter().map(|interface| interface.name.as_str()).collect();
    let is_of_settings = global.interfaces_of_settings;
    let option = if is_of_settings { "interfaces in the settings:" } else { "-I" };
    let named = global.interfaces.iter().map(|wish| (option, wish.rule.pattern.to_string()));
    let excluded = global.exclude.iter().filter(|_| !is_of_settings).map(|name| ("--exclude", name.clone()));
    let capped = caps.into_iter().filter(|name| !was_used(name)).map(|name| ("--cap", name));
    named.chain(excluded).chain(capped).try_for_each(|(option, name)| check(option, &name, &there))?;
    let excluded = global.exclude.iter().filter(|_| is_of_settings).cloned();
    let capped = settings_caps.into_iter().filter(|name| !was_used(name));
    let of_settings = excluded
        .map(|name| ("exclude in the settings:", name))
        .chain(capped.map(|name| ("caps in the settings:", name)));
    Ok(of_settings
        .filter_map(|(option, name)| check(option, &name, &there).err())
        .map(|it| it.text)
        .collect())
}

/// The names in rules that set a cap and are not patterns.
fn literal_names(rules: &[CapRule]) -> Vec<String> {
    let literal = rules.iter().filter(|rule| rule.pattern.is_literal() && rule.cap.is_some());
    literal.map(|rule| rule.pattern.to_string()).collect()
}

/// Whether traffic was counted for the interface earlier: then the name is no typing error but, say, a modem that is
/// not plugged in.
fn was_used(interface: &str) -> bool {
    let count = Home::find().ok().and_then(|home| home.count(interface).ok().flatten());
    count.is_some_and(|count| count.bytes > 0)
}

/// Checks that an interface which an option names is one of those that are there. A pattern may match none.
///
/// # Errors
/// It is not: the text lists those that are.
pub(super) fn check(option: &str, name: &str, there: &[&str]) -> Result<(), CommandError> {
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

    #[tokio::test]
    async fn a_cap_of_an_interface_that_is_not_there_is_an_error_and_in_the_settings_a_warning() {
        let mut global = GlobalArgs { caps: vec!["nope0=1GB".parse().unwrap()], ..GlobalArgs::default() };
        let error = check_interfaces(&global).unwrap_err();
        assert!(error.text.starts_with("--cap nope0: no such interface; this machine has: "), "{error}");
        for rule in ["nope*=1GB", "nope0=none"] {
            global.caps = vec![rule.parse().unwrap()];
            assert!(check_interfaces(&global).unwrap().is_empty(), "{rule}");
        }
        let settings = GlobalArgs {
            exclude: vec!["nope1".to_owned()],
            settings_caps: vec!["nope0=1GB".parse().unwrap()],
            interfaces_of_settings: true,
            ..GlobalArgs::default()
        };
        let warnings = check_interfaces(&settings).unwrap();
        let begins = |number: usize, text: &str| warnings[number].starts_with(text);
        assert!(begins(0, "exclude in the settings: nope1: no such interface;"), "{warnings:?}");
        assert!(begins(1, "caps in the settings: nope0: no such interface;"), "{warnings:?}");
    }

    #[test]
    fn a_slip_in_the_name_of_an_algorithm_is_guessed() {
        let guess = |name| unknown("no", name, ["bbr", "cubic", "new-reno", "earliest"].into_iter()).text;
        assert_eq!(guess("cubik"), "no; did you mean cubic?");
        assert_eq!(guess("Earlyest=3"), "no; did you mean earliest?");
        assert_eq!(guess("fastest-of-all"), "no");
    }
}
