//! How a command starts and ends.

use manyway_capture::{CaptureError, CommandSignal};
use manyway_sim::skipped::skip;

use crate::common::User;

#[tokio::test]
async fn the_exit_status_is_that_of_the_command_as_shells_have_it() {
    for (script, status) in [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137)] {
        let Some(inside) = User::Ordinary.run(script).await else { return };
        assert_eq!(inside.end().await.0, status, "{script}");
    }
}

#[tokio::test]
async fn a_command_that_cannot_be_executed_is_reported_by_its_name() {
    for (command, expected) in [
        (&["no-such-program", "x"][..], (127, "no-such-program: command not found")),
        (&["/etc/passwd"], (126, "/etc/passwd: Permission denied")),
    ] {
        let prepared = match User::Ordinary.prepare(command).await {
            Ok(prepared) => prepared,
            Err(error) => return skip(error),
        };
        match prepared.start().await {
            Err(CaptureError::Command { status, text }) => {
                assert!((status, text.starts_with(expected.1)) == (expected.0, true), "{status} {text}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn signals_reach_the_command() {
    // A shell cannot trap what was ignored when it began, as SIGINT is in the background of another shell.
    let script = "exec env --default-signal sh -c \"\
                  trap 'exit 41' HUP; trap 'exit 42' INT; trap 'exit 43' QUIT; trap 'exit 44' TERM; \
                  touch $HERE/ready; while :; do sleep 0.02; done\"";
    for (signal, status) in [
        (CommandSignal::HangUp, 41),
        (CommandSignal::Interrupt, 42),
        (CommandSignal::Quit, 43),
        (CommandSignal::Terminate, 44),
    ] {
        let Some(inside) = User::Ordinary.run(script).await else { return };
        inside.until("ready").await;
        inside.captured.command.signal(signal).unwrap();
        assert_eq!(inside.end().await.0, status);
    }
}

#[tokio::test]
async fn a_command_without_a_reader_of_its_packets_has_no_network() {
    let script = "touch $HERE/ready; until [ -e $HERE/go ]; do sleep 0.01; done; \
                  while grep -q manyway0 /proc/net/dev; do sleep 0.01; done; \
                  $PROGRAM connect 192.0.2.7:80; $PROGRAM connect [2001:db8::7]:80; $PROGRAM ask 192.0.2.7:5 x";
    let Some(inside) = User::Ordinary.run(script).await else { return };
    inside.until("ready").await;
    let (here, mut command) = (inside.here, inside.captured.command);
    // As the kernel does when this process is killed.
    drop((inside.captured.connections, inside.captured.tun));
    std::fs::write(here.path().join("go"), "").unwrap();
    assert_eq!(command.wait().await.unwrap(), 1);
    let text = std::fs::read_to_string(here.path().join("out")).unwrap();
    assert_eq!(text.matches("Network is unreachable").count(), 3, "{text}");
}

#[tokio::test]
async fn a_namespace_that_is_dropped_before_its_command_starts_ends_without_starting_it() {
    let file = std::env::temp_dir().join(format!("manyway-capture-{}", std::process::id()));
    let path = file.to_str().unwrap();
    match User::Ordinary.prepare(&["touch", path]).await {
        Ok(prepared) => drop(prepared),
        Err(error) => return skip(error),
    }
    // A command that was started would be there by now.
    let Some(inside) = User::Ordinary.run("true").await else { return };
    assert_eq!(inside.end().await.0, 0);
    assert!(!file.exists());
}
