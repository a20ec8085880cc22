//! `manyway caps`: traffic of interfaces with a cap.

use std::collections::BTreeSet;

use manyway::interfaces::InterfaceWatcher;
use manyway_terminal::screen::output_width;
use manyway_terminal::{Colour, CommandError, ExitCode, json, note, print_line};
use serde_json::{Value, json};

use super::network;
use crate::args::{CapsAction, CapsArgs, ClearArgs, GlobalArgs, SetArgs};
use crate::caps::{CapLedger, CapState, InterfaceWish, Period, today};
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
    let is_without_cap = |wish: &&InterfaceWish| wish.cap_rule().is_none();
    if !global.interfaces_of_settings
        && let Some(wish) = global.interfaces.iter().find(is_without_cap)
    {
        let text = format!(
            "`manyway caps` shows every cap; -I {} names none, -I IF,cap=SIZE does",
            wish.rule.pattern
        );
        return Err(CommandError::usage(text));
    }
    match arguments.action.as_ref().unwrap_or(&CapsAction::List) {
        CapsAction::List => list(global),
        CapsAction::Set(arguments) => set(global, arguments),
        CapsAction::Clear(arguments) => clear(global, arguments),
    }?;
    Ok(ExitCode::Ok)
}

fn list(global: &GlobalArgs) -> Result<(), CommandError> {
    let rows = rows(network::caps(global)?.as_deref())?;
    if global.json {
        let rows: Vec<_> = rows.iter().map(Row::json).collect();
        json::print(&json!({ "caps": rows }))?;
    } else if rows.is_empty() {
        note(
            "no interface has a cap; --cap IF=SIZE[@DAY] sets one, as do the settings (`manyway caps --help`)",
        );
    } else {
        print_line(table(&rows).text(output_width(), Colour::of_output()).trim_end())?;
    }
    Ok(())
}

/// What an interface has used.
#[derive(Debug)]
struct Row {
    interface: String,
    used: Used,
    /// Whether the interface exists now.
    is_there: bool,
}

#[derive(Debug)]
enum Used {
    /// Of a cap.
    Of(CapState),
    /// Of a cap of another command line: neither this one nor the settings name a cap.
    Counted(Count),
}

impl Row {
    fn json(&self) -> Value {
        let mut value = match &self.used {
            Used::Of(state) => state.json_of(&self.interface),
            Used::Counted(Count { since, until, bytes }) => json!({
                "interface": self.interface, "used": bytes, "cap": null, "left": null, "reached": false,
                "since": since.to_string(), "renewal": until.to_string(),
            }),
        };
        if let Some(value) = value.as_object_mut() {
            value.insert("present".to_owned(), self.is_there.into());
        }
        value
    }

    fn remark(&self) -> (&'static str, Tint) {
        match &self.used {
            Used::Of(state) if state.is_reached() => ("cap reached", Tint::Bad),
            Used::Of(_) if !self.is_there => ("no such interface now", Tint::Plain),
            Used::Of(_) => ("", Tint::Plain),
            Used::Counted(_) => ("no cap now", Tint::Plain),
        }
    }
}

/// Interfaces that caps name, existing ones that have a cap, and those with counted traffic.
fn rows(ledger: Option<&CapLedger>) -> Result<Vec<Row>, CommandError> {
    let watcher = InterfaceWatcher::new()?;
    let there: BTreeSet<_> = watcher.snapshot().interfaces.iter().map(|own| own.name.clone()).collect();
    // Without a home directory there are no counts either.
    let home = Home::find().ok();
    let mut names = there.clone();
    names.extend(ledger.iter().flat_map(|ledger| ledger.named()));
    names.extend(home.iter().flat_map(Home::counted_interfaces));
    names.remove("lo");
    let mut rows = Vec::new();
    for interface in names {
        let state = ledger.map(|ledger| ledger.state(&interface)).transpose()?.flatten();
        let counted = || -> std::io::Result<_> {
            let count = home.as_ref().map(|home| home.count(&interface)).transpose()?.flatten();
            Ok(count.filter(|count| today() < count.until).map(Used::Counted))
        };
        let used = state.map_or_else(counted, |state| Ok(Some(Used::Of(state))))?;
        let is_there = there.contains(&interface);
        rows.extend(used.map(|used| Row { interface, used, is_there }));
    }
    Ok(rows)
}

fn table(rows: &[Row]) -> Grid {
    let mut grid = Grid::new()
        .words("interface")
        .numbers("used")
        .numbers("left")
        .numbers("cap")
        .numbers("used %")
        .words("since")
        .words("renews")
        .remark("");
    for row in rows {
        let (remark, tint) = row.remark();
        let none = || "-".to_owned();
        let (used, left, cap, share, since, renewal) = match &row.used {
            Used::Of(state) => {
                let (cap, share) = (state.cap.get(), percent(state.used, state.cap.get()));
                (state.used, volume(state.left().get()), volume(cap), share, state.since, state.renewal)
            }
            Used::Counted(count) => (count.bytes, none(), none(), none(), count.since, count.until),
        };
        grid.row([
            Cell::from(row.interface.clone()),
            Cell::from(volume(used)),
            Cell::from(left),
            Cell::from(cap),
            Cell::new(share, tint),
            Cell::from(since.to_string()),
            Cell::from(renewal.to_string()),
            Cell::new(remark, tint),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_for_a_cap_of_another_command_line_is_shown_without_a_cap() {
        let count = Count {
            since: "2026-11-15".parse().unwrap(),
            until: "2026-12-15".parse().unwrap(),
            bytes: 3_200_000,
        };
        let row = |interface: &str| Row {
            interface: interface.to_owned(),
            used: Used::Counted(count),
            is_there: true,
        };
        insta::assert_snapshot!(table(&[row("wwan0")]).text(80, Colour::Without).trim_end(), @"
        interface    used  left  cap  used %  since       renews
        wwan0      3.2 MB     -    -       -  2026-11-15  2026-12-15  no cap now
        ");
        insta::assert_snapshot!(row("wwan0").json(), @r#"{"cap":null,"interface":"wwan0","left":null,"present":true,"reached":false,"renewal":"2026-12-15","since":"2026-11-15","used":3200000}"#);
    }
}
