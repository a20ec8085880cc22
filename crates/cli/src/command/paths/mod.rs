//! `manyway paths`: lists interfaces and address pairs, and why each is used or not.

mod pings;
mod primary;
mod rates;
pub(super) mod reverse_path;
mod rows;

use std::sync::Arc;
use std::time::Duration;

use manyway::interfaces::InterfaceWatcher;
use manyway::{Connection, Event};
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, MissedTickBehavior};

use super::error::of_connection;
use super::network::{caps, connect_on, interface_policy};
use super::signal::{close, interrupted};
use crate::args::{GlobalArgs, PathsArgs};
use crate::caps::{CapLedger, CapState};
use crate::output::live::{Live, Quit};
use crate::output::path::{news_json, news_words, path_of};
use crate::output::tint::{Line, Tint, block};
use manyway_terminal::screen::output_width;
use manyway_terminal::{Colour, CommandError, ExitCode, json, print_line};
use pings::Pings;
use rates::Rates;
use rows::{
    PairRow, address_json, address_table, advice_text, leads_somewhere, pair_table, sum, worth_showing,
};

/// Lists once, or repeatedly.
///
/// # Errors
/// If the server is not reached or is not the ticket's, the connection ends, or standard output is full.
pub async fn run(global: &GlobalArgs, arguments: &PathsArgs) -> Result<ExitCode, CommandError> {
    if let Some(place) = &arguments.primary {
        primary::run(global, place, arguments.pid).await?;
        return Ok(ExitCode::Ok);
    }
    let mut view = View::new(global, arguments)?;
    let result = match &arguments.ticket {
        None => {
            let quit = view.go_live(global)?;
            until_enough(arguments, &quit, view.follow_addresses(global)).await
        }
        Some(ticket) => {
            let (endpoint, connection) = connect_on(global, ticket, arguments.port).await?;
            let quit = view.go_live(global)?;
            let result = until_enough(arguments, &quit, view.follow_paths(&connection)).await;
            // Before waiting for the connection: the terminal is free at once.
            view.leave();
            close(&endpoint, "done").await;
            result
        }
    };
    view.leave();
    result
}

/// Ends watching by Ctrl-C without a failure.
async fn until_enough(
    arguments: &PathsArgs,
    quit: &Quit,
    work: impl Future<Output = Result<(), CommandError>>,
) -> Result<ExitCode, CommandError> {
    tokio::select! {
        result = work => result?,
        () = quit.asked() => {}
        signal = interrupted() => if !arguments.watch {
            return Err(signal.error());
        },
    }
    Ok(ExitCode::Ok)
}

struct View<'a> {
    json: bool,
    arguments: &'a PathsArgs,
    started: Instant,
    /// The screen, on which the tables replace each other.
    live: Option<Live>,
    caps: Option<Arc<CapLedger>>,
    rates: Rates,
    /// What is shown now.
    title: String,
    block: Vec<Line>,
}

impl<'a> View<'a> {
    fn new(global: &GlobalArgs, arguments: &'a PathsArgs) -> Result<Self, CommandError> {
        let caps = caps(global)?;
        Ok(Self {
            json: global.json,
            arguments,
            started: Instant::now(),
            live: None,
            caps,
            rates: Rates::default(),
            title: arguments.ticket.as_ref().map_or("this host", |_| "paths to the server").to_owned(),
            block: Vec::new(),
        })
    }

    /// Takes over the terminal, if it is to be watched at one.
    fn go_live(&mut self, global: &GlobalArgs) -> Result<Quit, CommandError> {
        if self.arguments.watch && !self.json {
            self.live = Live::start(global)?;
        }
        Ok(self.live.as_ref().map(Live::quit).unwrap_or_default())
    }

    /// Releases the terminal and leaves the messages and the last figures there.
    fn leave(&mut self) {
        if let Some(live) = self.live.take() {
            // The terminal may be gone.
            let _ = live.leave().iter().try_for_each(|line| print_line(line));
            let _ = print_line(block(&self.block, Colour::of_output()).trim_end());
        }
    }

    /// The state of an interface with a cap.
    fn cap(&self, interface: Option<&str>) -> Option<CapState> {
        self.caps.as_ref()?.state(interface?).ok()?
    }

    async fn follow_addresses(&mut self, global: &GlobalArgs) -> Result<(), CommandError> {
        let mut policy = interface_policy(global)?;
        let mut watcher = InterfaceWatcher::new()?;
        loop {
            let names = watcher.snapshot().interfaces.iter().map(|interface| interface.name.as_str());
            policy.set_exhausted(self.caps.as_ref().map(|caps| caps.exhausted(names)).unwrap_or_default());
            let addresses = watcher.snapshot().addresses(&policy, &[]);
            if self.json {
                let row = |own| address_json(own, self.cap(Some(&own.interface)));
                let rows: Vec<_> = addresses.iter().map(row).collect();
                self.print_document("addresses", rows)?;
            } else {
                let shown = addresses.iter().filter(|own| self.arguments.all || leads_somewhere(own));
                let rows: Vec<_> = shown.map(|own| (own, self.cap(Some(&own.interface)))).collect();
                let grid = address_table(&rows);
                let hidden = hidden_text(addresses.len() - rows.len(), "address");
                self.show(|width| {
                    let mut lines = grid.lines(width);
                    lines.extend(hidden.as_deref().map(|text| Line::new(text, Tint::Faint)));
                    lines
                })?;
            }
            if !self.arguments.watch {
                return Ok(());
            }
            tokio::time::sleep(self.arguments.interval).await;
            watcher.refresh();
        }
    }

    async fn follow_paths(&mut self, connection: &Connection) -> Result<(), CommandError> {
        let mut events = connection.events();
        let mut pings = Pings::new(connection);
        let mut ask = tokio::time::interval(pings::EVERY);
        ask.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let first = self.started + SETTLE;
        let mut refresh = tokio::time::interval_at(first, self.arguments.interval);
        refresh.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ask.tick() => pings.ask().await?,
                () = pings.take(), if pings.is_waiting() => {}
                _ = refresh.tick() => {
                    self.refresh(connection, &pings).await?;
                    if !self.arguments.watch {
                        return Ok(());
                    }
                }
                event = events.recv() => match event {
                    Ok(Event::Closed(error)) => return Err(of_connection(error)),
                    Ok(event) => {
                        if path_of(&event).is_some_and(|path| pings.label(path).is_none()) {
                            // A path that came since the last ping.
                            pings.look().await?;
                        }
                        self.tell(&event, &pings)?;
                    }
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return Err(of_connection(connection.closed().await)),
                },
            }
        }
    }

    async fn refresh(&mut self, connection: &Connection, pings: &Pings<'_>) -> Result<(), CommandError> {
        let report = connection.report().await.map_err(of_connection)?;
        self.rates.take(Instant::now(), report.iter().filter_map(|row| row.path.as_ref()));
        let rows: Vec<_> = report
            .iter()
            .map(|row| {
                let path = row.path.as_ref().map(|path| path.id);
                // A path that carries no data has probes only.
                let carries = row.path.as_ref().is_some_and(|path| path.state.carries_data());
                let rate = path.filter(|_| carries).and_then(|id| self.rates.of(id));
                let pinged = path.map(|id| pings.of(id));
                PairRow { cap: self.cap(row.interface.as_deref()), ..PairRow::of(row, pinged, rate) }
            })
            .collect();
        if self.json {
            let all = sum(&rows);
            return self.print_document("pairs", rows.iter().map(|row| row.json(all)).collect());
        }
        let shown = if self.arguments.all { rows.iter().collect() } else { worth_showing(&rows) };
        let grid = pair_table(&shown);
        let hidden = hidden_text(rows.len() - shown.len(), "pair");
        let advice = advice_text(&rows);
        self.show(|width| {
            let mut lines = grid.lines(width);
            lines.extend(hidden.as_deref().map(|text| Line::new(text, Tint::Faint)));
            lines.extend(advice.lines().map(Line::from));
            lines
        })
    }

    /// Reports an event of a path since the last look.
    fn tell(&mut self, event: &Event, pings: &Pings<'_>) -> Result<(), CommandError> {
        let Some(path) = path_of(event).filter(|_| self.arguments.watch) else { return Ok(()) };
        let (label, seconds) = (pings.label(path), self.started.elapsed().as_secs_f64());
        let interface = label.and_then(|label| label.interface.as_deref());
        if self.json {
            news_json(event, interface, seconds).iter().try_for_each(json::print)?;
        } else if let Some(words) = news_words(event, pings.name(path).as_deref()) {
            let line = format!("{seconds:>7.2} s  {words}");
            match &mut self.live {
                Some(live) => {
                    live.message(&line);
                    let block = &self.block;
                    live.draw(&self.title, |_| block.clone())?;
                }
                None => print_line(&line)?,
            }
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

    fn show(&mut self, lines: impl Fn(usize) -> Vec<Line>) -> Result<(), CommandError> {
        match &mut self.live {
            Some(live) => {
                let mut block = Vec::new();
                live.draw(&self.title, |width| {
                    block = lines(width);
                    block.clone()
                })?;
                self.block = block;
            }
            None => {
                if self.arguments.watch {
                    print_line(&format!("after {:.1} s", self.started.elapsed().as_secs_f64()))?;
                }
                let text = block(&lines(output_width()), Colour::of_output());
                print_line(text.trim_end())?;
            }
        }
        Ok(())
    }
}

/// How to show the hidden rows.
fn hidden_text(hidden: usize, noun: &str) -> Option<String> {
    let plural = match (hidden, noun) {
        (1, _) => "",
        (_, "address") => "es",
        (_, _) => "s",
    };
    (hidden > 0).then(|| format!("{hidden} unused {noun}{plural} more: -a"))
}

/// Time for the other paths to come up, and for several pings of every path.
const SETTLE: Duration = Duration::from_millis(1300);
