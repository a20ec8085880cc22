//! `manyway paths`: which interfaces and pairs of addresses there are, and why each is used or not.

mod pings;
pub(super) mod reverse_path;
mod rows;

use std::sync::Arc;
use std::time::Duration;

use manyway::interfaces::InterfaceWatcher;
use manyway::{Connection, Event};
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, MissedTickBehavior};

use super::error::CommandError;
use super::network::{caps, connect, interface_policy};
use super::signal::{close, interrupted};
use crate::args::{GlobalArgs, PathsArgs};
use crate::caps::{CapLedger, CapState};
use crate::exit_code::ExitCode;
use crate::output::json;
use crate::output::path::{news_json, news_words, path_of};
use crate::output::screen::Screen;
use pings::Pings;
use rows::{PairRow, address_json, address_table, advice_text, pair_table};

/// Lists once, or again and again.
///
/// # Errors
/// If the server is not reached or is not the ticket's, the connection ends, or standard output is full.
pub async fn run(global: &GlobalArgs, arguments: &PathsArgs) -> Result<ExitCode, CommandError> {
    let mut view = View::new(global, arguments)?;
    let Some(ticket) = &arguments.ticket else {
        return until_enough(arguments, view.follow_addresses(global)).await;
    };
    let (endpoint, connection) = connect(global, ticket).await?;
    let result = until_enough(arguments, view.follow_paths(&connection)).await;
    close(&endpoint, "done").await;
    result
}

/// The end of watching by Ctrl-C is no failure.
async fn until_enough(
    arguments: &PathsArgs,
    work: impl Future<Output = Result<(), CommandError>>,
) -> Result<ExitCode, CommandError> {
    tokio::select! {
        result = work => result?,
        name = interrupted() => if !arguments.watch {
            return Err(CommandError::new(ExitCode::Interrupted, format!("ended by {name}")));
        },
    }
    Ok(ExitCode::Ok)
}

struct View {
    json: bool,
    watch: bool,
    interval: Duration,
    started: Instant,
    screen: Screen,
    caps: Option<Arc<CapLedger>>,
    /// What is shown now.
    block: String,
}

impl View {
    fn new(global: &GlobalArgs, arguments: &PathsArgs) -> Result<Self, CommandError> {
        Ok(Self {
            json: global.json,
            watch: arguments.watch,
            interval: arguments.interval,
            started: Instant::now(),
            screen: Screen::new(arguments.watch && !global.json),
            caps: caps(global)?,
            block: String::new(),
        })
    }

    /// Where an interface stands that has a cap.
    fn cap(&self, interface: Option<&str>) -> Option<CapState> {
        self.caps.as_ref()?.state(interface?).ok()?
    }

    async fn follow_addresses(&mut self, global: &GlobalArgs) -> Result<(), CommandError> {
        let mut policy = interface_policy(global)?;
        let mut watcher = InterfaceWatcher::new()?;
        loop {
            let names = watcher.snapshot().interfaces.iter().map(|interface| interface.name.as_str());
            policy.set_spent(self.caps.as_ref().map(|caps| caps.spent(names)).unwrap_or_default());
            let addresses = watcher.snapshot().addresses(&policy, &[]);
            if self.json {
                let row = |own| address_json(own, self.cap(Some(&own.interface)));
                let rows: Vec<_> = addresses.iter().map(row).collect();
                self.print_document("addresses", rows)?;
            } else {
                let caps: Vec<_> = addresses.iter().map(|own| self.cap(Some(&own.interface))).collect();
                self.show(address_table(&addresses, &caps).to_string())?;
            }
            if !self.watch {
                return Ok(());
            }
            tokio::time::sleep(self.interval).await;
            watcher.refresh();
        }
    }

    async fn follow_paths(&mut self, connection: &Connection) -> Result<(), CommandError> {
        let mut events = connection.events();
        let mut pings = Pings::new(connection);
        let mut ask = tokio::time::interval(pings::EVERY);
        ask.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let first = self.started + SETTLE;
        let mut refresh = tokio::time::interval_at(first, self.interval);
        refresh.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ask.tick() => pings.ask().await?,
                () = pings.take(), if pings.is_waiting() => {}
                _ = refresh.tick() => {
                    self.refresh(connection, &pings).await?;
                    if !self.watch {
                        return Ok(());
                    }
                }
                event = events.recv() => match event {
                    Ok(Event::Closed(error)) => return Err(error.into()),
                    Ok(event) => self.tell(&event, &pings)?,
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return Err(connection.closed().await.into()),
                },
            }
        }
    }

    async fn refresh(&mut self, connection: &Connection, pings: &Pings<'_>) -> Result<(), CommandError> {
        let report = connection.report().await?;
        let paths = report.iter().filter_map(|row| row.path.as_ref());
        let bytes = paths.map(|path| path.bytes_sent.get() + path.bytes_received.get()).sum();
        let rows: Vec<_> = report
            .iter()
            .map(|row| {
                let pinged = row.path.as_ref().map(|path| pings.of(path.id));
                PairRow { cap: self.cap(row.interface.as_deref()), ..PairRow::of(row, pinged, bytes) }
            })
            .collect();
        if self.json {
            self.print_document("pairs", rows.iter().map(PairRow::json).collect())
        } else {
            self.show(pair_table(&rows).to_string() + &advice_text(&rows))
        }
    }

    /// Says what happened to a path since the last look.
    fn tell(&mut self, event: &Event, pings: &Pings<'_>) -> Result<(), CommandError> {
        let Some(path) = path_of(event).filter(|_| self.watch) else { return Ok(()) };
        let (name, seconds) = (pings.interface(path), self.started.elapsed().as_secs_f64());
        if self.json {
            news_json(event, name, seconds).iter().try_for_each(json::print)?;
        } else if let Some(words) = news_words(event, name) {
            let line = format!("{seconds:>7.2} s  {words}");
            let block = if self.screen.is_in_place() { self.block.as_str() } else { "" };
            self.screen.tell(&line, block)?;
        }
        Ok(())
    }

    fn print_document(&self, name: &str, rows: Vec<Value>) -> Result<(), CommandError> {
        let mut document = json!({ "time": self.started.elapsed().as_secs_f64() });
        if let Some(document) = document.as_object_mut() {
            document.insert(name.to_owned(), rows.into());
        }
        json::print(&document)?;
        Ok(())
    }

    fn show(&mut self, table: String) -> Result<(), CommandError> {
        self.block = table;
        if self.watch && !self.screen.is_in_place() {
            self.block = format!("after {:.1} s\n{}", self.started.elapsed().as_secs_f64(), self.block);
        }
        self.screen.show(&self.block)?;
        Ok(())
    }
}

/// Until the other paths have had time to come up, and every path was asked a few times.
const SETTLE: Duration = Duration::from_millis(1300);
