//! The terminal of standard error, on which the lines of progress are drawn.
//!
//! `indicatif` fills each line with spaces to the right edge, so that other output begins on a line of its own. So does
//! the `^C` that a terminal shows for Ctrl-C: the cursor is then a line lower than the program knows, so that a bar
//! stays. Here the cursor stays after the text of the last line.

use std::io::{self, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use indicatif::TermLike;
use manyway_terminal::screen::{height_of_messages, width_of_messages};

/// The terminal to draw on; clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Canvas(Arc<Mutex<Frame>>);

#[derive(Debug, Default)]
struct Frame {
    /// Text that is not written yet.
    text: String,
    /// The cursor stands after a text whose line is not ended.
    is_behind_text: bool,
    /// A line was written, and the spaces that fill it follow.
    awaits_filling: bool,
}

impl Canvas {
    /// Ends the line if the cursor stands after a text, so that other output begins on a new line.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(super) fn end(&self) -> io::Result<()> {
        let mut frame = self.frame();
        if frame.is_behind_text {
            frame.end_line();
        }
        frame.write()
    }

    fn frame(&self) -> MutexGuard<'_, Frame> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn step(&self, count: usize, direction: char) {
        if count > 0 {
            self.frame().go(&format!("\x1b[{count}{direction}"));
        }
    }
}

impl Frame {
    fn put(&mut self, text: &str) {
        if text == "\r" {
            self.go(text);
            return;
        }
        if std::mem::take(&mut self.awaits_filling) {
            return;
        }
        if self.is_behind_text {
            self.end_line();
        }
        self.text += text;
        (self.is_behind_text, self.awaits_filling) = (true, true);
    }

    /// Moves the cursor away from the end of a text.
    fn go(&mut self, code: &str) {
        self.text += code;
        (self.is_behind_text, self.awaits_filling) = (false, false);
    }

    fn end_line(&mut self) {
        self.go("\n");
    }

    fn write(&mut self) -> io::Result<()> {
        let mut err = io::stderr().lock();
        err.write_all(std::mem::take(&mut self.text).as_bytes())?;
        err.flush()
    }
}

impl TermLike for Canvas {
    fn width(&self) -> u16 {
        width_of_messages().and_then(|width| u16::try_from(width).ok()).unwrap_or(80)
    }

    fn height(&self) -> u16 {
        height_of_messages().and_then(|height| u16::try_from(height).ok()).unwrap_or(24)
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        self.step(n, 'A');
        Ok(())
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        self.step(n, 'B');
        Ok(())
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        self.step(n, 'C');
        Ok(())
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        self.step(n, 'D');
        Ok(())
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        let mut frame = self.frame();
        frame.put(text);
        frame.end_line();
        Ok(())
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.frame().put(text);
        Ok(())
    }

    fn clear_line(&self) -> io::Result<()> {
        self.frame().go("\r\x1b[2K");
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        self.frame().write()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The calls by which `indicatif` replaces that many lines by these.
    fn draw(canvas: &Canvas, lines: &[&str], before: usize) -> String {
        canvas.move_cursor_up(before.saturating_sub(1)).unwrap();
        for line in 0..before {
            canvas.clear_line().unwrap();
            if line + 1 != before {
                canvas.move_cursor_down(1).unwrap();
            }
        }
        canvas.move_cursor_up(before.saturating_sub(1)).unwrap();
        for line in lines {
            canvas.write_str(line).unwrap();
            canvas.write_str(&" ".repeat(80 - line.len())).unwrap();
        }
        std::mem::take(&mut canvas.frame().text)
    }

    #[test]
    fn the_cursor_stays_after_the_last_text_and_messages_have_their_own_lines() {
        let canvas = Canvas::default();
        assert_eq!(draw(&canvas, &["bar", "path"], 0), "bar\npath");
        let up = "\x1b[1A\r\x1b[2K\x1b[1B\r\x1b[2K\x1b[1A";
        assert_eq!(draw(&canvas, &["message", "bar", "path"], 2), format!("{up}message\nbar\npath"));
        let full = "=".repeat(80);
        assert_eq!(draw(&canvas, &["", &full, "path"], 2), format!("{up}\n{full}\npath"));
        assert_eq!(draw(&canvas, &[], 2), up, "nothing is left behind");
        // Before the first bar is drawn.
        assert_eq!(draw(&canvas, &["message"], 0), "message");
        assert_eq!(draw(&canvas, &["bar"], 0), "\nbar");
    }
}
