//! `manyway caps`: traffic of interfaces with a cap.

use std::collections::BTreeSet;

use manyway::interfaces::InterfaceWatcher;
use manyway_terminal::screen::output_width;
use manyway_terminal::{Colour, CommandError, ExitCode, json, note, print_line};
use serde_json::json;

use super::network;
use crate::args::{CapsAction, CapsArgs, ClearArgs, GlobalArgs, SetArgs};
use crate::caps::{CapLedger, CapState, Period, today};
use crate::home::{Count, Home, Patience};
use crate::output::cause;
use crate::output::grid::{Cell, Grid};
use crate::output::tint::Tint;
use crate::output::units::{percent, volume};

/// Runs the action. Call it within a runtime.
///
/// # Errors
/// If an interface has no cap, or the counts cannot be read or written.
pub fn run(global: &GlobalArgs, arguments: &CapsArgs) -> Result<ExitCode, CommandError> {
    match arguments.action.as_ref().unwrap_or(&CapsAction::List) {
        CapsAction::List => list(global),
        CapsAction::Set(arguments) => set(global, arguments),
        CapsAction::Clear(arguments) => clear(global, arguments),
    }?;
    Ok(ExitCode::Ok)
}

fn list(global: &GlobalArgs) -> Result<(), CommandError> {
    let ledger = network::caps(global)?;
    let states = ledger.as_deref().map(states).transpose()?.unwrap_or_default();
    if global.json {
        let rows: Vec<_> = states.iter().map(|(name, state)| state.json_of(name)).collect();
        json::print(&json!({ "caps": rows }))?;
    } else if states.is_empty() {
        note(
            "no interface has a cap; --cap IF=SIZE[@DAY] sets one, as do the settings (`manyway caps --help`)",
        );
    } else {
        print_line(table(&states).text(output_width(), Colour::of_output()).trim_end())?;
    }
    Ok(())
}

/// Named interfaces, existing ones, and those with a count.
fn states(ledger: &CapLedger) -> Result<Vec<(String, CapState)>, CommandError> {
    let mut names: BTreeSet<String> = ledger.named().into_iter().collect();
    names.extend(InterfaceWatcher::new()?.snapshot().interfaces.iter().map(|own| own.name.clone()));
    names.remove("lo");
    let mut states = Vec::new();
    for name in names {
        if let Some(state) = ledger.state(&name)? {
            states.push((name, state));
        }
    }
    Ok(states)
}

fn table(states: &[(String, CapState)]) -> Grid {
    let mut grid = Grid::new()
        .words("interface")
        .numbers("used")
        .numbers("left")
        .numbers("cap")
        .numbers("used %")
        .words("since")
        .words("renews")
        .remark("");
    for (name, state) in states {
        let is_reached = state.is_reached();
        let tint = if is_reached { Tint::Bad } else { Tint::Plain };
        grid.row([
            Cell::from(name.clone()),
            Cell::from(volume(state.used)),
            Cell::from(volume(state.left().get())),
            Cell::from(volume(state.cap.get())),
            Cell::new(percent(state.used, state.cap.get()), tint),
            Cell::from(state.since.to_string()),
            Cell::from(state.renewal.to_string()),
            Cell::new(if is_reached { "cap reached" } else { "" }, tint),
        ]);
    }
    grid
}

fn set(global: &GlobalArgs, arguments: &SetArgs) -> Result<(), CommandError> {
    let SetArgs { name: interface, bytes } = arguments;
    let no_cap =
        || CommandError::usage(format!("{interface} has no cap; --cap {interface}=SIZE[@DAY] sets one"));
    let cap = global.cap_rules().of(interface).ok_or_else(no_cap)?;
    let Period { start: since, end: until } = Period::of(today(), cap.reset_day);
    Home::find()?
        .change_count(interface, Patience::Wait, |_| Count { since, until, bytes: *bytes })
        .map_err(|error| failed(interface, &error))?;
    if !global.quiet {
        note(&format!("{interface}: {} since {since}", volume(*bytes)));
    }
    Ok(())
}

fn clear(global: &GlobalArgs, arguments: &ClearArgs) -> Result<(), CommandError> {
    let home = Home::find()?;
    let names = if arguments.all { home.counted_interfaces() } else { arguments.names.clone() };
    for name in names {
        let was_there = home.forget_count(&name).map_err(|error| failed(&name, &error))?;
        if !global.quiet {
            note(&format!("{name}: {}", if was_there { "counter reset" } else { "nothing was counted" }));
        }
    }
    Ok(())
}

fn failed(interface: &str, error: &std::io::Error) -> CommandError {
    CommandError::new(ExitCode::Failed, format!("{interface}: {}", cause(error)))
}
