//! The program at a terminal of 80 × 24, as a person sees it.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use super::program::PATIENCE;

/// A title of the window, which is shown nowhere.
const END: &str = "\x1b]2;the end\x07";

/// A program whose input and output are a terminal; dropping it kills it.
pub(crate) struct AtScreen {
    child: Child,
    keyboard: File,
    /// The program's side, to see what it has done to the terminal.
    side: File,
    screen: Arc<Mutex<vt100::Parser>>,
    raw: Arc<Mutex<Vec<u8>>>,
}

impl AtScreen {
    /// Starts a program at a terminal of that many columns and 24 rows, which is its controlling terminal: keys such as
    /// Ctrl-C are signals to it.
    pub(crate) fn start(program: &Command, columns: u16) -> Self {
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(program.get_program()).args(program.get_args());
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(directory) = program.get_current_dir() {
            command.current_dir(directory);
        }
        let terminal: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&terminal, size).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap();
        let path = std::ffi::OsStr::from_bytes(name.as_bytes());
        let side = File::options().read(true).write(true).open(path).unwrap();
        command.env("TERM", "xterm-256color").env_remove("NO_COLOR").env_remove("MANYWAY_LOG");
        command.stdin(side.try_clone().unwrap()).stdout(side.try_clone().unwrap());
        let child = command.stderr(side.try_clone().unwrap()).spawn().unwrap();
        let screen = Arc::new(Mutex::new(vt100::Parser::new(24, columns, 0)));
        let mut output: File = terminal.into();
        let keyboard = output.try_clone().unwrap();
        let shown = Arc::clone(&screen);
        let raw = Arc::new(Mutex::new(Vec::new()));
        let written = Arc::clone(&raw);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // Reading from a terminal whose program has ended is an error.
            while let Ok(length @ 1..) = output.read(&mut buffer) {
                shown.lock().unwrap().process(&buffer[..length]);
                written.lock().unwrap().extend_from_slice(&buffer[..length]);
            }
        });
        Self { child, keyboard, side, screen, raw }
    }

    /// The text on the screen, a line a row.
    pub(crate) fn text(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    /// All that the program wrote.
    pub(crate) fn written(&self) -> String {
        String::from_utf8_lossy(&self.raw.lock().unwrap()).into_owned()
    }

    /// Whether the program uses the whole screen.
    pub(crate) fn is_full_screen(&self) -> bool {
        self.screen.lock().unwrap().screen().alternate_screen()
    }

    /// Whether some cell of the screen has a colour.
    pub(crate) fn has_colour(&self) -> bool {
        let parser = self.screen.lock().unwrap();
        let (rows, columns) = parser.screen().size();
        let mut cells = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
        cells.any(|(row, column)| {
            let cell = parser.screen().cell(row, column);
            cell.is_some_and(|cell| cell.fgcolor() != vt100::Color::Default)
        })
    }

    /// Waits until the screen fulfils a condition.
    #[track_caller]
    pub(crate) fn wait_until(&self, what: &str, holds: impl Fn(&str) -> bool) {
        let start = Instant::now();
        while !holds(&self.text()) {
            assert!(start.elapsed() < PATIENCE, "waited in vain for {what}:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Types something.
    pub(crate) fn write(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).unwrap();
    }

    /// Its process ID.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end; checks that the terminal is restored, and returns the status and the remaining text.
    #[track_caller]
    pub(crate) fn end(&mut self) -> (Option<i32>, String) {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(start.elapsed() < PATIENCE, "it does not end:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(20));
        };
        // After all output of the program.
        self.side.write_all(END.as_bytes()).unwrap();
        self.wait_until("its last words", |_| self.written().ends_with(END));
        let modes = tcgetattr(&self.side).unwrap().local_modes;
        assert!(modes.contains(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG), "{modes:?}");
        self.wait_until("the ordinary screen", |_| !self.is_full_screen());
        assert!(!self.screen.lock().unwrap().screen().hide_cursor(), "the cursor is back");
        let text = self.text();
        (status.code(), text)
    }
}

impl Drop for AtScreen {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
