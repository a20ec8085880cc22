//! Messages that cannot be written stop nothing: standard error on a full disk, or with a closed reader.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::fs::{File, OpenOptions};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::common::place::Place;
use crate::common::program::{PATIENCE, assert_same_content, make_file, names};

/// A standard error without a reader.
#[derive(Debug, Clone, Copy)]
enum Gone {
    FullDisk,
    EndedReader,
}

impl Gone {
    fn stderr(self) -> Stdio {
        match self {
            Self::FullDisk => OpenOptions::new().write(true).open("/dev/full").unwrap().into(),
            Self::EndedReader => std::io::pipe().unwrap().1.into(),
        }
    }
}

/// A child that is killed with its test.
struct Quiet(Child);

impl Quiet {
    fn start(mut command: Command, gone: Gone, stdout: Stdio) -> Self {
        Self(command.stdin(Stdio::null()).stdout(stdout).stderr(gone.stderr()).spawn().unwrap())
    }

    fn end(&mut self) -> ExitStatus {
        let started = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            assert!(started.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_client_that_cannot_write_messages_does_its_work_and_has_a_documented_status() {
    let place = Place::new();
    let server = place.serve(&[]);
    make_file(&place.here().join("file"), 300_000);
    let code =
        |arguments: &[&str], gone| Quiet::start(place.command(arguments), gone, Stdio::null()).end().code();
    for gone in [Gone::FullDisk, Gone::EndedReader] {
        for detail in [&[][..], &["-v"], &["-vvv"]] {
            let run = |arguments: &[&str]| code(&[detail, arguments].concat(), gone);
            assert_eq!(run(&["send", "file", &server.ticket]), Some(0), "{gone:?} {detail:?}");
            assert_eq!(run(&["get", &server.ticket, "nothere"]), Some(1), "{gone:?} {detail:?}");
            assert_eq!(run(&["ping", "-c", "1", &server.ticket]), Some(0), "{gone:?} {detail:?}");
            assert_eq!(run(&["send", "file", "mw1nonsense"]), Some(2), "{gone:?} {detail:?}");
        }
        assert_eq!(code(&["--nonsense"], gone), Some(2));
        assert_same_content(&place.here().join("file"), &place.there().join("file"));
        std::fs::remove_file(place.there().join("file")).unwrap();
    }
}

#[test]
fn a_server_that_cannot_write_messages_goes_on() {
    for gone in [Gone::FullDisk, Gone::EndedReader] {
        for detail in [&[][..], &["-v"], &["-vvv"]] {
            let place = Place::new();
            make_file(&place.here().join("file"), 300_000);
            let printed = place.here().join("printed");
            let command = place.serving(&[&["--ephemeral", "--listen", "127.0.0.1:0"], detail].concat());
            let mut server = Quiet::start(command, gone, File::create(&printed).unwrap().into());
            let started = Instant::now();
            let ticket = loop {
                let text = std::fs::read_to_string(&printed).unwrap();
                if let Some(ticket) = text.lines().find(|line| line.starts_with("mw1")) {
                    break ticket.to_owned();
                }
                assert!(started.elapsed() < PATIENCE && server.0.try_wait().unwrap().is_none(), "{gone:?}");
                std::thread::sleep(Duration::from_millis(20));
            };
            for _ in 0..2 {
                place.run(&["send", "file", &ticket]).expect(0);
            }
            assert_eq!(names(&place.there()), ["file"], "{gone:?} {detail:?}");
            let id = server.0.id().to_string();
            assert!(Command::new("kill").args(["-s", "TERM", &id]).status().unwrap().success());
            assert_eq!(server.end().code(), Some(0), "{gone:?} {detail:?}");
        }
    }
}
