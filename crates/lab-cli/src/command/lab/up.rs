//! `manyway-lab up`: hosts and links for programs of the user.

use std::io::BufRead as _;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use manyway_lab::emulator::{Control, Emulator};
use manyway_lab::hosts::Hosts;
use manyway_lab::scenario::{Change, Library, Side};
use manyway_lab::{Scenario, Stop};
use manyway_terminal::{CommandError, ExitCode, json, note};
use serde_json::{Value, json};

use super::order::Order;
use crate::args::{GlobalArgs, UpArgs};
use crate::command::campaign::{end_on_signal, of_lab};

/// Keeps hosts and links until Ctrl-C or `quit`.
pub(super) fn run(global: &GlobalArgs, arguments: &UpArgs) -> Result<ExitCode, CommandError> {
    let mut scenario = scenario(arguments)?;
    let hosts = Hosts::make(&scenario).map_err(of_lab)?;
    let emulator = Emulator::start(&scenario, &hosts, arguments.seed).map_err(of_lab)?;
    if !global.quiet {
        tell(&scenario, &hosts);
    }
    let stop = Stop::default();
    end_on_signal(stop.clone());
    emulator.begin();
    let served = serve((&lines(), folder(arguments)), &mut scenario, &emulator.control(), &stop);
    let report = emulator.finish().map_err(of_lab)?;
    if !global.quiet {
        let bytes = |way: &dyn Fn(&manyway_lab::outcome::RouteTotals) -> u64| {
            report.routes.iter().map(way).sum::<u64>()
        };
        let (up, down) = (bytes(&|route| route.up.total().get()), bytes(&|route| route.down.total().get()));
        note(&format!("{up} bytes went up and {down} down; hosts and links are gone"));
    }
    served?;
    if global.json {
        json::print(&report)?;
    }
    Ok(ExitCode::Ok)
}

fn scenario(arguments: &UpArgs) -> Result<Scenario, CommandError> {
    let name = arguments.scenario.to_string_lossy();
    let mut found = Library::builtin().map_err(of_lab)?.find(&name).map_err(of_lab)?;
    match (found.pop(), found.is_empty()) {
        (Some(scenario), true) => Ok(scenario),
        (Some(_) | None, _) => Err(CommandError::usage(format!("{name:?} is a group; name one scenario"))),
    }
}

/// The folder of files that commands name: that of the scenario, if it is a file.
fn folder(arguments: &UpArgs) -> &Path {
    let is_file = arguments.scenario.extension().is_some_and(|extension| extension == "toml");
    arguments.scenario.parent().filter(|_| is_file).unwrap_or_else(|| Path::new(""))
}

/// Prints how to run programs inside, and their addresses.
fn tell(scenario: &Scenario, hosts: &Hosts) {
    note(&format!("{}: {}", scenario.name, scenario.title));
    for (side, interfaces) in [(Side::Client, &scenario.client), (Side::Server, &scenario.server)] {
        note(&format!("  ip netns exec {} PROGRAM", hosts.name(side)));
        for (place, interface) in interfaces.iter().enumerate() {
            let addresses: Vec<String> =
                hosts.addresses(side, place).iter().map(ToString::to_string).collect();
            note(&format!("    {:<12} {}", interface.name, addresses.join(", ")));
        }
    }
    let links: Vec<&str> = scenario.links.iter().map(|link| link.name.as_str()).collect();
    note(&format!(
        "links: {}; orders on standard input, such as `cut {}`",
        links.join(", "),
        links.first().unwrap_or(&"")
    ));
    note("Ctrl-C ends it");
}

/// Lines of standard input, from a thread, since the read cannot be interrupted.
fn lines() -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    let read = move || {
        for line in std::io::stdin().lock().lines() {
            if line.is_ok_and(|line| sender.send(line).is_ok()) {
                continue;
            }
            break;
        }
    };
    // Without the thread there are no commands, and Ctrl-C still ends the program.
    drop(std::thread::Builder::new().name("orders".to_owned()).spawn(read));
    receiver
}

/// Executes commands until the end; they modify the scenario.
fn serve(
    (lines, folder): (&Receiver<String>, &Path),
    scenario: &mut Scenario,
    control: &Control,
    stop: &Stop,
) -> Result<(), CommandError> {
    while !stop.is_set() {
        let line = match lines.recv_timeout(POLL) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => {
                // Standard input has ended; the links stay.
                std::thread::sleep(POLL);
                continue;
            }
        };
        let answer = match Order::read(&line, scenario, folder) {
            Ok(None) => continue,
            Ok(Some(Order::Quit)) => return Ok(()),
            Ok(Some(Order::Figures)) => figures(control),
            Ok(Some(Order::Changes(changes))) => carry_out(&changes, scenario, control),
            Err(reason) => Err(reason),
        };
        json::print(&answer.unwrap_or_else(|reason| json!({ "ok": false, "error": reason })))?;
    }
    Ok(())
}

fn carry_out(changes: &[Change], scenario: &mut Scenario, control: &Control) -> Result<Value, String> {
    for change in changes {
        control.apply(change).map_err(|error| error.to_string())?;
        scenario.apply(change);
    }
    Ok(json!({ "ok": true }))
}

fn figures(control: &Control) -> Result<Value, String> {
    let snapshot = control.snapshot().map_err(|error| error.to_string())?;
    serde_json::to_value(snapshot).map_err(|error| error.to_string())
}

/// Interval at which the end is noticed.
const POLL: Duration = Duration::from_millis(100);
