//! `manyway status`: what every running command of this user is doing.

use manyway_terminal::{CommandError, ExitCode};

use crate::args::{GlobalArgs, StatusArgs};

/// Shows it once, or repeatedly.
///
/// # Errors
/// If standard output is full.
#[cfg(unix)]
pub async fn run(global: &GlobalArgs, arguments: &StatusArgs) -> Result<ExitCode, CommandError> {
    use super::signal::interrupted;
    use crate::output::live::{Live, Quit};

    let is_live = arguments.watch && !global.json;
    let mut live = if is_live { Live::start(global)? } else { None };
    let quit = live.as_ref().map_or_else(Quit::default, Live::quit);
    tokio::select! {
        result = on_unix::follow(global, arguments, &mut live) => result?,
        () = quit.asked() => {}
        signal = interrupted() => if !arguments.watch {
            return Err(signal.error());
        },
    }
    Ok(ExitCode::Ok)
}

/// Shows it once, or repeatedly.
///
/// # Errors
/// Always: commands report over Unix sockets.
#[cfg(not(unix))]
pub async fn run(_global: &GlobalArgs, _arguments: &StatusArgs) -> Result<ExitCode, CommandError> {
    Err(CommandError::new(
        ExitCode::Failed,
        "this system has no Unix sockets, over which commands tell of themselves",
    ))
}

#[cfg(unix)]
mod on_unix {
    use manyway_terminal::screen::output_width;
    use manyway_terminal::{Colour, CommandError, json, note, print_line, wrap_strictly};
    use serde_json::json;
    use tokio::time::MissedTickBehavior;

    use crate::args::{GlobalArgs, StatusArgs};
    use crate::output::live::Live;
    use crate::output::tint::{Line, block};
    use crate::status::reader::{Reader, Reading};
    use crate::status::{Document, prometheus, table};

    pub(super) async fn follow(
        global: &GlobalArgs,
        arguments: &StatusArgs,
        live: &mut Option<Live>,
    ) -> Result<(), CommandError> {
        let mut reader = Reader::default();
        let mut tick = tokio::time::interval(arguments.interval);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            let reading = reader.documents().await;
            show(global, arguments, live, &reading)?;
            if !arguments.watch {
                return Ok(());
            }
        }
    }

    fn show(
        global: &GlobalArgs,
        arguments: &StatusArgs,
        live: &mut Option<Live>,
        reading: &Reading<Document>,
    ) -> Result<(), CommandError> {
        if arguments.prometheus {
            reading.warnings().for_each(|warning| note(&warning));
            return print_line(prometheus::text(&reading.answers).trim_end());
        }
        if global.json {
            json::print(&json!({ "commands": reading.answers, "unanswered": reading.unanswered }))?;
            return Ok(());
        }
        match live {
            Some(live) => live.draw("manyway status", |width| lines(reading, width))?,
            None => {
                let text = block(&lines(reading, output_width()), Colour::of_output());
                print_line(text.trim_end())?;
            }
        }
        Ok(())
    }

    fn lines(reading: &Reading<Document>, width: usize) -> Vec<Line> {
        let mut lines = table::lines(&reading.answers, width);
        lines.extend(
            reading
                .warnings()
                .flat_map(|text| wrap_strictly(&text, width))
                .map(|text| Line::from(text.as_str())),
        );
        if lines.is_empty() {
            lines.push(Line::from("no command of this user is running"));
        }
        lines
    }
}
