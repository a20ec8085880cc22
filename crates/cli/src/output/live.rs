//! A screen that is redrawn in place while a command watches something.

use std::collections::VecDeque;
use std::io::{self, IsTerminal as _, Stdout, stdin, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crossterm::cursor::Show;
use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use crossterm::execute;
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use manyway_terminal::screen::is_live;
use manyway_terminal::{Colour, text_width};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line as ScreenLine, Span, Text};
use ratatui::widgets::Paragraph;
use tokio::sync::Notify;

use super::desk::Desk;
use super::tint::{Line, Tint};
use crate::args::GlobalArgs;

/// The whole terminal: a title, a body that changes, and the last messages below it. Dropping it restores the terminal.
pub struct Live {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    messages: VecDeque<Line>,
    colour: Colour,
    keys: Option<Keys>,
    quit: Quit,
    desk: Desk,
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("messages", &self.messages.len()).finish_non_exhaustive()
    }
}

/// Signals that the user wants to quit; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Quit(Arc<Notify>);

impl Quit {
    /// Waits until the user quits by `q`, Escape or Ctrl-C.
    pub async fn asked(&self) {
        self.0.notified().await;
    }
}

impl Live {
    /// Takes over the terminal; `None` if standard output is none, or one that cannot move its cursor, or if a log is
    /// written to it. Messages at `desk` are shown meanwhile.
    ///
    /// # Errors
    /// The terminal fails.
    pub fn start(global: &GlobalArgs) -> io::Result<Option<Self>> {
        let has_log = global.verbose > 0 && io::stderr().is_terminal();
        if !is_live() || has_log {
            return Ok(None);
        }
        let quit = Quit::default();
        // In raw mode Ctrl-C is a key. Without a keyboard it stays a signal.
        let keys = if stdin().is_terminal() { Some(Keys::start(quit.clone())?) } else { None };
        let entered = execute!(stdout(), EnterAlternateScreen);
        let terminal = entered.and_then(|()| Terminal::new(CrosstermBackend::new(stdout())));
        match terminal {
            Ok(mut terminal) => {
                terminal.hide_cursor()?;
                let (messages, colour) = (VecDeque::new(), Colour::of_output());
                let desk = global.desk.clone();
                desk.hold();
                Ok(Some(Self { terminal, messages, colour, keys, quit, desk }))
            }
            Err(error) => {
                drop(keys);
                restore();
                Err(error)
            }
        }
    }

    /// The quit signal of the user.
    pub fn quit(&self) -> Quit {
        self.quit.clone()
    }

    /// Adds a message; the last ones are shown below the body.
    pub fn message(&mut self, text: &str) {
        if self.messages.len() >= MESSAGES {
            self.messages.pop_front();
        }
        self.messages.push_back(Line::from(text));
    }

    /// Releases the terminal, and returns the messages that were on it.
    pub fn leave(self) -> Vec<String> {
        self.messages.iter().map(Line::plain).collect()
    }

    /// Draws everything; `body` gives the lines for a width.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn draw(&mut self, title: &str, body: impl FnOnce(usize) -> Vec<Line>) -> io::Result<()> {
        for text in self.desk.take_held() {
            self.message(&text);
        }
        let size = self.terminal.size()?;
        let (width, height) = (usize::from(size.width), usize::from(size.height));
        let help = if self.keys.is_some() { "q: quit" } else { "Ctrl-C: quit" };
        let lines = compose(title, body(width), &self.messages, help, (width, height));
        let colour = self.colour;
        let text: Vec<_> = lines.iter().map(|line| screen_line(line, colour)).collect();
        self.terminal.draw(|frame| frame.render_widget(Paragraph::new(Text::from(text)), frame.area()))?;
        Ok(())
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.keys = None;
        restore();
        self.desk.release();
    }
}

/// Restores the terminal. Its loss has no effect any more.
fn restore() {
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
}

/// The title, the body, and at the bottom as many messages as fit above the help.
fn compose(
    title: &str,
    body: Vec<Line>,
    messages: &VecDeque<Line>,
    help: &str,
    (width, height): (usize, usize),
) -> Vec<Line> {
    let gap = width.saturating_sub(text_width(title) + text_width(help));
    let mut head = Line::new(title, Tint::Strong);
    if gap >= 2 {
        head.push(" ".repeat(gap), Tint::Plain);
        head.push(help, Tint::Faint);
    }
    let mut lines = vec![head, Line::default()];
    lines.extend(body);
    lines.truncate(height);
    let room = height.saturating_sub(lines.len() + 1);
    let shown = messages.iter().skip(messages.len().saturating_sub(room)).cloned();
    if room > 0 && !messages.is_empty() {
        lines.push(Line::default());
        lines.extend(shown);
    }
    lines
}

/// The whole screen of that size as text, as [`Live::draw`] shows it.
#[cfg(test)]
pub(crate) fn frame(
    title: &str,
    body: impl FnOnce(usize) -> Vec<Line>,
    messages: &[&str],
    (width, height): (usize, usize),
) -> String {
    let messages = messages.iter().map(|text| Line::from(*text)).collect();
    let lines = compose(title, body(width), &messages, "q: quit", (width, height));
    assert!(lines.len() <= height);
    let screen: String = lines.iter().map(|line| line.plain() + "\n").collect();
    super::fits::assert_fits(&screen, width);
    screen
}

fn screen_line(line: &Line, colour: Colour) -> ScreenLine<'static> {
    let span = |(text, tint): &(String, Tint)| {
        let style = if colour == Colour::With { style(*tint) } else { Style::new() };
        Span::styled(text.clone(), style)
    };
    ScreenLine::from(line.pieces.iter().map(span).collect::<Vec<_>>())
}

fn style(tint: Tint) -> Style {
    match tint {
        Tint::Plain => Style::new(),
        Tint::Good => Style::new().fg(Color::Green),
        Tint::Warning => Style::new().fg(Color::Yellow),
        Tint::Bad => Style::new().fg(Color::Red),
        Tint::Faint => Style::new().add_modifier(Modifier::DIM),
        Tint::Strong => Style::new().add_modifier(Modifier::BOLD),
    }
}

/// Reads the keyboard in raw mode until it is dropped.
struct Keys {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Keys {
    fn start(quit: Quit) -> io::Result<Self> {
        enable_raw_mode()?;
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("keys".into()).spawn(move || read(&told, &quit));
        match thread {
            Ok(thread) => Ok(Self { stop, thread: Some(thread) }),
            Err(error) => {
                let _ = disable_raw_mode();
                Err(error)
            }
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = disable_raw_mode();
    }
}

fn read(stop: &AtomicBool, quit: &Quit) {
    while !stop.load(Ordering::Relaxed) {
        match event::poll(POLL) {
            Ok(true) => {
                if event::read().is_ok_and(|event| is_quit(&event)) {
                    quit.0.notify_one();
                }
            }
            Ok(false) => {}
            // The keyboard is gone; the signals that go with it end the command.
            Err(_) => return,
        }
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "no other key means anything")]
fn is_quit(event: &Event) -> bool {
    let Event::Key(key) = event else { return false };
    if key.kind == KeyEventKind::Release {
        return false;
    }
    match key.code {
        KeyCode::Char('q' | 'Q') | KeyCode::Esc => true,
        KeyCode::Char('c') => key.modifiers.contains(KeyModifiers::CONTROL),
        _ => false,
    }
}

/// Most messages that are kept.
const MESSAGES: usize = 200;
/// How long the end of a screen may wait for the thread that reads keys.
const POLL: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(lines: &[Line]) -> Vec<String> {
        lines.iter().map(Line::plain).collect()
    }

    #[test]
    fn the_last_messages_are_shown_below_the_body_as_far_as_they_fit() {
        let messages: VecDeque<Line> = (0..9).map(|n| Line::from(format!("message {n}").as_str())).collect();
        let body = || vec![Line::from("row 1"), Line::from("row 2")];
        let lines = plain(&compose("paths", body(), &messages, "q: quit", (20, 8)));
        let expected =
            ["paths        q: quit", "", "row 1", "row 2", "", "message 6", "message 7", "message 8"];
        assert_eq!(lines, expected);
        assert_eq!(plain(&compose("paths", body(), &messages, "q: quit", (20, 3))).len(), 3);
        assert_eq!(plain(&compose("paths", body(), &VecDeque::new(), "q: quit", (20, 8))).len(), 4);
    }
}
