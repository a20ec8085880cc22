//! `manyway ping`: round-trip time, loss and jitter of every path at once.

mod figures;

use std::io::Write as _;
use std::time::Duration;

use manyway::{Connection, Event};
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::error::of_connection;
use super::network::connect_on;
use super::signal::{close, interrupted};
use crate::args::{GlobalArgs, PingArgs};
use crate::output::book::milliseconds;
use crate::output::known::KnownPaths;
use crate::output::live::{Live, Quit};
use crate::output::path::{PathLabel, news_json, news_words, path_of};
use figures::Figures;
use manyway_chart::{Align, Columns};
use manyway_terminal::screen::{fit, output_width};
use manyway_terminal::{Colour, CommandError, ExitCode, json};

/// Sends pings until the end, then prints a summary; [`ExitCode::Failed`] if no answer ever arrived.
///
/// # Errors
/// If the server is not reached or is not the ticket's, the connection ends, or standard output is full.
pub async fn run(global: &GlobalArgs, arguments: &PingArgs) -> Result<ExitCode, CommandError> {
    let (endpoint, connection) = connect_on(global, &arguments.ticket, arguments.port).await?;
    let mut pinger = Pinger::new(global, arguments, &connection)?;
    let quit = pinger.live.as_ref().map_or_else(Quit::default, Live::quit);
    let result = tokio::select! {
        result = pinger.run() => result,
        () = quit.asked() => ended_by(arguments, || CommandError::new(ExitCode::Interrupted, "ended by the user")),
        signal = interrupted() => ended_by(arguments, || signal.error()),
    };
    let answered = pinger.figures.has_answers();
    let printed = pinger.finish();
    close(&endpoint, "done").await;
    result?;
    let code = if answered { ExitCode::Ok } else { ExitCode::Failed };
    code.after_printing(printed)
}

/// The end by a signal or a key. It is the regular one unless the number of probes is limited.
fn ended_by(arguments: &PingArgs, error: impl FnOnce() -> CommandError) -> Result<(), CommandError> {
    if arguments.count.is_some() { Err(error()) } else { Ok(()) }
}

struct Pinger<'a> {
    global: &'a GlobalArgs,
    arguments: &'a PingArgs,
    connection: &'a Connection,
    started: tokio::time::Instant,
    /// The screen, where there is one; else a line for each answer.
    live: Option<Live>,
    columns: Option<Columns>,
    known: KnownPaths,
    waiting: JoinSet<Answer>,
    figures: Figures,
}

/// The result of one ping.
struct Answer {
    sequence: u64,
    label: PathLabel,
    name: String,
    /// Its row in the summary.
    place: usize,
    fate: Fate,
}

enum Fate {
    Answered(Duration),
    Lost,
    /// The path ended before, or the connection.
    Void,
}

impl<'a> Pinger<'a> {
    fn new(
        global: &'a GlobalArgs,
        arguments: &'a PingArgs,
        connection: &'a Connection,
    ) -> Result<Self, CommandError> {
        Ok(Self {
            global,
            arguments,
            connection,
            started: tokio::time::Instant::now(),
            live: if global.json || global.quiet { None } else { Live::start(global)? },
            columns: None,
            known: KnownPaths::default(),
            waiting: JoinSet::new(),
            figures: Figures::default(),
        })
    }

    async fn run(&mut self) -> Result<(), CommandError> {
        let mut events = self.connection.events();
        let mut tick = tokio::time::interval(self.arguments.interval);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut sequence = 0;
        loop {
            let more = self.arguments.count.is_none_or(|count| sequence < count);
            if !more && self.waiting.is_empty() {
                return Ok(());
            }
            tokio::select! {
                _ = tick.tick(), if more => {
                    self.ask(sequence).await?;
                    sequence += 1;
                    self.draw()?;
                }
                Some(answer) = self.waiting.join_next(), if !self.waiting.is_empty() => {
                    if let Ok(answer) = answer {
                        self.take(&answer)?;
                    }
                }
                event = events.recv() => match event {
                    Ok(event) => self.tell(&event).await?,
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return Err(of_connection(self.connection.closed().await)),
                },
            }
        }
    }

    /// Sends a ping on every path.
    async fn ask(&mut self, sequence: u64) -> Result<(), CommandError> {
        self.look().await?;
        let open = self.known.open();
        for label in open.clone() {
            let place = self.figures.on_sent(&label, &open);
            let name = self.known.name(label.id).unwrap_or_else(|| label.name());
            let path = self.connection.path(label.id);
            let wait = self.arguments.wait;
            self.waiting.spawn(async move {
                let fate = match tokio::time::timeout(wait, path.ping()).await {
                    Ok(Ok(Some(rtt))) => Fate::Answered(rtt),
                    Ok(Ok(None) | Err(_)) => Fate::Void,
                    Err(_) => Fate::Lost,
                };
                Answer { sequence, label, name, place, fate }
            });
        }
        Ok(())
    }

    async fn look(&mut self) -> Result<(), CommandError> {
        let info = self.connection.info().await.map_err(of_connection)?;
        for figures in self.known.beginnings(&info) {
            self.say(&Event::Path(figures.event()))?;
        }
        self.figures.note_states(&info);
        Ok(())
    }

    fn draw(&mut self) -> Result<(), CommandError> {
        let Some(live) = &mut self.live else { return Ok(()) };
        let title = format!("ping  {:.0} s", self.started.elapsed().as_secs_f64());
        let table = self.figures.table();
        live.draw(&title, |width| table.lines(width))?;
        Ok(())
    }

    fn take(&mut self, answer: &Answer) -> Result<(), CommandError> {
        let rtt = match answer.fate {
            Fate::Answered(rtt) => {
                self.figures.on_answer(answer.place, answer.sequence, rtt);
                Some(rtt)
            }
            // The end of the connection leaves the result unknown; that of a path is no answer.
            Fate::Void if self.connection.close_reason().is_some() => return Ok(()),
            Fate::Lost | Fate::Void => {
                self.figures.on_lost(answer.place, answer.sequence);
                None
            }
        };
        if self.global.quiet {
            return Ok(());
        }
        if self.live.is_some() {
            return self.draw();
        }
        if self.global.json {
            let facts = json!({ "seq": answer.sequence, "rtt": rtt.map(|rtt| rtt.as_secs_f64()) });
            json::print(&answer.label.json(facts))?;
            return Ok(());
        }
        let mut out = std::io::stdout().lock();
        if self.columns.is_none() {
            let names: Vec<_> = self.known.open().iter().filter_map(|it| self.known.name(it.id)).collect();
            let columns = columns(&names, &self.known.open());
            writeln!(out, "{}", fit(&columns.head()))?;
            self.columns = Some(columns);
        }
        if let Some(columns) = &self.columns {
            writeln!(out, "{}", fit(&row(columns, answer.sequence, (&answer.name, &answer.label), rtt)))?;
        }
        out.flush()?;
        Ok(())
    }

    /// Reports paths that come, fail and go.
    async fn tell(&mut self, event: &Event) -> Result<(), CommandError> {
        if let Event::Closed(error) = event {
            return Err(of_connection(error.clone()));
        }
        let Some(path) = path_of(event).filter(|_| !self.global.quiet) else { return Ok(()) };
        // The path may be newer than the last ping. The end of the connection is reported elsewhere.
        let _ = self.look().await;
        if !self.known.has(path) || self.known.is_beginning(event) {
            return self.draw();
        }
        self.say(event)?;
        self.draw()
    }

    /// Reports an event of a path.
    fn say(&mut self, event: &Event) -> Result<(), CommandError> {
        let Some(path) = path_of(event).filter(|_| !self.global.quiet) else { return Ok(()) };
        let label = self.known.label(path);
        let seconds = self.started.elapsed().as_secs_f64();
        if self.global.json {
            let interface = label.and_then(|label| label.interface.as_deref());
            news_json(event, interface, seconds).iter().try_for_each(json::print)?;
            return Ok(());
        }
        let name = self.known.name(path);
        let Some(words) = news_words(event, name.as_deref()) else { return Ok(()) };
        let line = format!("{seconds:>7.2} s  {words}");
        match &mut self.live {
            Some(live) => live.message(&line),
            None => writeln!(std::io::stdout().lock(), "{line}")?,
        }
        Ok(())
    }

    /// Prints the summary. Outstanding pings do not count: their result is unknown.
    fn finish(mut self) -> Result<(), CommandError> {
        while let Some(answer) = self.waiting.try_join_next() {
            if let Ok(answer) = answer {
                self.take(&answer)?;
            }
        }
        self.waiting.abort_all();
        self.figures.forget_waiting();
        // The terminal is released before the summary, and its messages are printed again.
        let told = self.live.take().map(Live::leave).unwrap_or_default();
        if self.global.json {
            json::print(&self.figures.json())?;
            return Ok(());
        }
        let mut out = std::io::stdout().lock();
        for line in &told {
            writeln!(out, "{line}")?;
        }
        if self.columns.is_some() {
            writeln!(out)?;
        }
        let table = self.figures.table();
        if !table.is_empty() {
            write!(out, "{}", table.text(output_width(), Colour::of_output()))?;
        }
        out.flush()?;
        Ok(())
    }
}

fn columns(names: &[String], labels: &[PathLabel]) -> Columns {
    let widest = |texts: &[String], least: usize| {
        texts.iter().map(|text| text.chars().count()).fold(least, usize::max)
    };
    let locals: Vec<_> = labels.iter().map(|label| label.local.to_string()).collect();
    // Addresses come last: a narrow terminal cuts nothing else.
    Columns::new([
        ("seq", Align::Right, 5),
        ("path", Align::Left, widest(names, 9)),
        ("rtt ms", Align::Right, 10),
        ("local", Align::Left, widest(&locals, 15)),
        ("remote", Align::Left, 0),
    ])
}

fn row(columns: &Columns, sequence: u64, (name, label): (&str, &PathLabel), rtt: Option<Duration>) -> String {
    columns.row([
        sequence.to_string(),
        name.to_owned(),
        rtt.map_or_else(|| "no answer".to_owned(), milliseconds),
        label.local.to_string(),
        label.remote(),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use manyway::{Carrier, PathId};

    #[test]
    fn answers_are_printed_in_columns() {
        let label = |id, interface: Option<&str>, local: &str, remote: &str| PathLabel {
            id: PathId(id),
            interface: interface.map(str::to_owned),
            local: local.parse().unwrap(),
            remote: remote.parse().unwrap(),
            carrier: Carrier::Udp,
        };
        let labels = [
            label(0, Some("eth0"), "192.0.2.7", "192.0.2.1:4455"),
            label(1, None, "2001:db8::7", "[2001:db8::1]:4455"),
        ];
        let names = labels.each_ref().map(PathLabel::name);
        let columns = columns(&names, &labels);
        let lines = [
            columns.head(),
            row(&columns, 0, (&names[0], &labels[0]), Some(Duration::from_micros(12_345))),
            row(&columns, 0, (&names[1], &labels[1]), None),
        ];
        insta::assert_snapshot!(lines.join("\n"), @r"
        seq  path             rtt ms  local            remote
          0  eth0               12.3  192.0.2.7        192.0.2.1:4455
          0  2001:db8::1   no answer  2001:db8::7      [2001:db8::1]:4455
        ");
    }
}
