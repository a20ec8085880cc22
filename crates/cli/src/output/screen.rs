//! A block of lines on standard output that is shown again and again: in place on a terminal, appended elsewhere.

use std::io::{self, IsTerminal as _, Write};

use super::table::clip;

/// Where blocks are shown.
#[derive(Debug)]
pub struct Screen {
    terminal: bool,
    /// Lines of the block that stands on the terminal.
    lines: usize,
}

impl Screen {
    /// Standard output; `in_place` asks for blocks that replace each other, where it is a terminal.
    pub fn new(in_place: bool) -> Self {
        Self { terminal: in_place && io::stdout().is_terminal(), lines: 0 }
    }

    /// Whether blocks replace each other.
    pub fn is_in_place(&self) -> bool {
        self.terminal
    }

    /// Shows a block in place of the one before.
    ///
    /// # Errors
    /// If standard output is closed.
    pub fn show(&mut self, block: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        self.write(&mut out, "", block)
    }

    /// Shows lines that stay, and below them the block.
    ///
    /// # Errors
    /// If standard output is closed.
    pub fn tell(&mut self, lines: &str, block: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        self.write(&mut out, lines, block)
    }

    fn write(&mut self, out: &mut impl Write, lasting: &str, block: &str) -> io::Result<()> {
        if self.lines > 0 {
            // Back to the first line of the block, and everything from there is erased.
            write!(out, "\x1b[{}A\x1b[J", self.lines)?;
        }
        let width = if self.terminal { width_of_terminal() } else { None };
        let mut count = 0;
        for (is_block, line) in
            lasting.lines().map(|line| (false, line)).chain(block.lines().map(|line| (true, line)))
        {
            match width {
                Some(width) => writeln!(out, "{}", clip(line, width))?,
                None => writeln!(out, "{line}")?,
            }
            count += usize::from(is_block);
        }
        self.lines = if self.terminal { count } else { 0 };
        out.flush()
    }
}

/// Cuts a line so that a terminal behind standard output does not wrap it; leaves it alone elsewhere.
pub fn fit(line: &str) -> String {
    let width = if io::stdout().is_terminal() { width_of_terminal() } else { None };
    width.map_or_else(|| line.to_owned(), |width| clip(line, width))
}

/// Characters in a line of the terminal behind standard output.
#[cfg(unix)]
fn width_of_terminal() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

#[cfg(not(unix))]
fn width_of_terminal() -> Option<usize> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_a_terminal_a_block_replaces_the_one_before_and_what_is_told_stays() {
        let mut out = Vec::new();
        let mut screen = Screen { terminal: true, lines: 0 };
        screen.write(&mut out, "", "a\nb\n").unwrap();
        screen.write(&mut out, "told", "c\n").unwrap();
        screen.write(&mut out, "", "d\n").unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "a\nb\n\x1b[2A\x1b[Jtold\nc\n\x1b[1A\x1b[Jd\n");
    }

    #[test]
    fn elsewhere_nothing_is_erased() {
        let mut out = Vec::new();
        let mut screen = Screen { terminal: false, lines: 0 };
        screen.write(&mut out, "", "a\n").unwrap();
        screen.write(&mut out, "told", "b\n").unwrap();
        assert_eq!(out, b"a\ntold\nb\n");
    }
}
