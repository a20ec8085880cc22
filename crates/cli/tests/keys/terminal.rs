//! What a user is asked who sits at a terminal.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Child, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::place::{Place, Side, address_of};

/// A program at a terminal of its own.
struct AtTerminal {
    child: Child,
    terminal: File,
    shown: String,
}

impl AtTerminal {
    fn start(place: &Place, arguments: &[&str]) -> Self {
        let terminal: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap();
        let side = File::options()
            .read(true)
            .write(true)
            .open(std::ffi::OsStr::from_bytes(name.as_bytes()))
            .unwrap();
        let child = place
            .command(Side::Client, arguments)
            .stdin(side.try_clone().unwrap())
            .stdout(Stdio::null())
            .stderr(side)
            .spawn()
            .unwrap();
        Self { child, terminal: terminal.into(), shown: String::new() }
    }

    /// Reads until the program has shown `text`, or has ended.
    fn read_until(&mut self, text: &str) {
        let mut buffer = [0; 1024];
        // Reading from a terminal whose program has ended is an error.
        while !self.shown.contains(text)
            && let Ok(length @ 1..) = self.terminal.read(&mut buffer)
        {
            self.shown.push_str(&String::from_utf8_lossy(&buffer[..length]));
        }
        assert!(self.shown.contains(text), "{text:?} is not in {:?}", self.shown);
    }

    fn answer(mut self, answer: &str) -> (Option<i32>, String) {
        self.read_until("(yes/no) ");
        self.terminal.write_all(answer.as_bytes()).unwrap();
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

#[test]
fn the_key_of_an_unknown_server_is_shown_and_asked_about_once() {
    let place = Place::new();
    place.add_ticket("default", &[]);
    place.server_keys(&["add", "client", "laptop", &place.key(Side::Client)]).expect(0);
    let server = place.serve(&[]);
    let address = address_of(&server);
    let key = place.key(Side::Server);
    let bench = ["bench", "-n", "1", &address];
    for refusal in ["no\n", "\n", "y\n"] {
        let (code, shown) = AtTerminal::start(&place, &bench).answer(refusal);
        assert_eq!(code, Some(3), "{shown}");
        assert!(shown.contains(&key) && shown.contains("is not trusted"), "{shown}");
    }
    let (code, shown) = AtTerminal::start(&place, &bench).answer("yes\n");
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("is known from now on"), "{shown}");
    place.client(&["-q", "bench", "-n", "1", &address]).expect(0);
}

#[test]
fn ctrl_c_ends_the_question() {
    let place = Place::new();
    let server = place.serve(&[]);
    let address = address_of(&server);
    let mut asked = AtTerminal::start(&place, &["bench", "-n", "1", &address]);
    asked.read_until("(yes/no) ");
    let id = asked.child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-s", "INT", &id]).status().unwrap().success());
    let code = asked.child.wait().unwrap().code();
    assert_eq!(code, Some(130));
}
