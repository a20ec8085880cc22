//! The examples do what they claim.

#![expect(clippy::unwrap_used, reason = "these are tests")]

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Cargo builds the examples with all the tests, but not with one test alone.
fn example(name: &str) -> Command {
    let mut directory = std::env::current_exe().unwrap();
    directory.pop();
    if directory.ends_with("deps") {
        directory.pop();
    }
    let program: PathBuf =
        directory.join("examples").join(name).with_extension(std::env::consts::EXE_EXTENSION);
    if !program.exists() {
        let built = Command::new(env!("CARGO")).args(["build", "-p", "manyway", "--example", name]).status();
        assert!(built.unwrap().success() && program.exists(), "{} is not built", program.display());
    }
    Command::new(program)
}

/// A program that is killed when the test ends in any way.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn first_line(output: impl Read) -> String {
    let mut line = String::new();
    // Reads no byte beyond the line: another call reads the next one.
    BufReader::with_capacity(1, output).read_line(&mut line).unwrap();
    line.trim().to_owned()
}

#[test]
fn echo_returns_the_text_and_prints_its_path() {
    let mut server =
        Running(example("echo").args(["serve", "127.0.0.1:0"]).stdout(Stdio::piped()).spawn().unwrap());
    let ticket = first_line(server.0.stdout.take().unwrap());
    let output = example("echo").args(["call", &ticket, "is", "there", "an", "echo?"]).output().unwrap();
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{notes}");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "is there an echo?");
    assert!(notes.contains("active") && notes.contains("the end"), "{notes}");
}

#[test]
fn copy_delivers_every_byte() {
    let mut taker = Running(
        example("copy")
            .args(["take", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let ticket = first_line(taker.0.stderr.as_mut().unwrap());
    let mut giver = Running(example("copy").args(["give", &ticket]).stdin(Stdio::piped()).spawn().unwrap());
    let data: Vec<u8> = (0..3_000_000_u32).map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    let mut input = giver.0.stdin.take().unwrap();
    let copy = data.clone();
    let writer = std::thread::spawn(move || input.write_all(&copy).unwrap());
    let mut taken = Vec::new();
    taker.0.stdout.take().unwrap().read_to_end(&mut taken).unwrap();
    writer.join().unwrap();
    assert!(taken == data);
    assert!(giver.0.wait().unwrap().success() && taker.0.wait().unwrap().success());
}

#[test]
fn messages_arrive_and_a_command_arrives_after_them() {
    let mut server =
        Running(example("messages").args(["serve", "127.0.0.1:0"]).stdout(Stdio::piped()).spawn().unwrap());
    let mut output = BufReader::new(server.0.stdout.take().unwrap());
    let ticket = first_line(&mut output);
    let told = example("messages").args(["tell", &ticket, "5"]).output().unwrap();
    let notes = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(told.status.success() && notes.contains("of 6 messages arrived"), "{notes}");
    assert!(first_line(&mut output).starts_with("stop, after "));
}
