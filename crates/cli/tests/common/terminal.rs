//! A program at a terminal of its own, and input to it.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Child, Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// The program; dropping it kills it.
pub(crate) struct AtTerminal {
    child: Child,
    terminal: File,
    shown: String,
}

impl AtTerminal {
    /// Starts a program whose input and messages are the terminal, and whose data is discarded.
    pub(crate) fn start(mut command: Command) -> Self {
        let terminal: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap();
        let side = File::options()
            .read(true)
            .write(true)
            .open(std::ffi::OsStr::from_bytes(name.as_bytes()))
            .unwrap();
        let child =
            command.stdin(side.try_clone().unwrap()).stdout(Stdio::null()).stderr(side).spawn().unwrap();
        Self { child, terminal: terminal.into(), shown: String::new() }
    }

    /// Its process ID.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Reads until the program has shown `text`, or has ended.
    #[track_caller]
    pub(crate) fn read_until(&mut self, text: &str) {
        let mut buffer = [0; 1024];
        // Reading from a terminal whose program has ended is an error.
        while !self.shown.contains(text)
            && let Ok(length @ 1..) = self.terminal.read(&mut buffer)
        {
            self.shown.push_str(&String::from_utf8_lossy(&buffer[..length]));
        }
        assert!(self.shown.contains(text), "{text:?} is not in {:?}", self.shown);
    }

    /// Types something.
    pub(crate) fn write(&mut self, text: &str) {
        self.terminal.write_all(text.as_bytes()).unwrap();
    }

    /// Reads to its end, and returns its status and everything that it showed.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let mut buffer = [0; 1024];
        while let Ok(length @ 1..) = self.terminal.read(&mut buffer) {
            self.shown.push_str(&String::from_utf8_lossy(&buffer[..length]));
        }
        (self.child.wait().unwrap().code(), self.shown.clone())
    }
}

impl Drop for AtTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
