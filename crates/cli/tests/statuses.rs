//! The exit status of commands: after Ctrl-C, without a reader, and where a port or a file is not what it should be.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::fs::OpenOptions;
use std::net::{TcpListener, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::place::Place;
use crate::common::program::{MANYWAY, Running, make_file, names, wait_until};

#[test]
fn a_taken_port_is_an_error_that_names_the_option_and_leaves_no_directory_behind() {
    let place = Place::new();
    let (udp, tcp) = (UdpSocket::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let (udp, tcp_port) = (udp.local_addr().unwrap(), tcp.local_addr().unwrap());
    let listen = udp.to_string();
    let holder = if cfg!(target_os = "linux") {
        format!("(process {}) has it", std::process::id())
    } else {
        "another program has it".to_owned()
    };
    let _taken = UdpSocket::bind(udp).unwrap_err();
    for command in [&["serve", "--dir", "new", "--ephemeral"][..], &["rendezvous"]] {
        let ended = place.run(&[command, &["--listen", &listen]].concat()).expect(1);
        assert_eq!(ended.err.lines().count(), 1, "{ended:?}");
        ended.says("is taken").says(&holder).says("--listen ADDR:PORT chooses another");
    }
    assert!(names(&place.here()).is_empty());
    let listen = tcp_port.to_string();
    place
        .run(&["proxy", "--listen", &listen, "host"])
        .expect(1)
        .says(&format!("--listen {listen}: the port is taken"))
        .says(&holder);
    let rule = format!("{}:example.org:80", tcp_port.port());
    place.run(&["forward", "-L", &rule, "host"]).expect(1).says(&format!("-L {listen}: the port is taken"));
}

#[test]
fn a_file_that_is_no_capture_is_an_error_and_nothing_else() {
    let place = Place::new();
    std::fs::write(place.here().join("text"), "root:x:0:0:root:/root:/bin/bash\n").unwrap();
    let ended = place.run(&["decode", "text"]).expect(1);
    let text = "error: text: not a capture file (pcap or pcapng) and not hex text: line 1 has other characters than \
                hexadecimal digits\n";
    assert_eq!((ended.out.as_str(), ended.err.as_str()), ("", text));
}

#[test]
fn ping_and_paths_take_a_port_in_place_of_the_tickets() {
    let place = Place::new();
    let server = place.serve(&[]);
    let listening = server.listening();
    let port = listening.strip_prefix("127.0.0.1:").unwrap();
    let closed = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    for command in [&["ping", "-c", "1"][..], &["paths"]] {
        let at = |port: &str| place.run(&[command, &["-p", port, &server.ticket]].concat());
        at(port).expect(0);
        let ended = at(&closed).expect(7).says("and at this port?");
        assert_eq!(ended.out, "", "no heading of a table without rows");
    }
    place.run(&["paths", "-p", port]).expect(2).says("TICKET");
}

#[test]
fn a_command_that_runs_until_ctrl_c_ends_with_0_and_others_with_130() {
    let place = Place::new();
    make_file(&place.there().join("film"), 2_000_000);
    let server = place.serve(&["--egress"]);
    let ticket = server.ticket.as_str();
    for (command, code) in [
        (&["bench", "-t", "0", "-i", "100ms", ticket][..], 0),
        (&["bench", "-t", "0", "--messages", "100", ticket], 0),
        (&["bench", "-b", "1M", "-t", "60", "-i", "100ms", ticket], 130),
        (&["ping", "-i", "100ms", ticket], 0),
        (&["ping", "-i", "100ms", "-c", "1000", ticket], 130),
        (&["paths", "-w", "-i", "100ms", ticket], 0),
        (&["status", "-w", "-i", "100ms"], 0),
        (&["forward", "-L", "0:127.0.0.1:9", ticket], 0),
        (&["proxy", "--listen", "127.0.0.1:0", ticket], 0),
        (&["rendezvous", "--listen", "127.0.0.1:0"], 0),
        (&["play", ticket, "film"], 0),
        (&["get", "--bwlimit", "1M", ticket, "film"], 130),
    ] {
        let clients = || server.running.messages().matches(" connected ").count();
        let before = clients();
        // Messages are measured without output.
        let is_silent = command.contains(&"--messages");
        let running = place.start(command);
        running.wait_until("its beginning", || {
            let messages = running.messages();
            let has_spoken =
                !running.printed().is_empty() || messages.contains("UDP") || messages.contains("fetching");
            if is_silent { clients() > before } else { has_spoken }
        });
        std::thread::sleep(Duration::from_millis(500));
        running.signal("INT");
        let ended = running.end();
        assert!(ended.took < Duration::from_secs(2), "{command:?}: {ended:?}");
        assert_eq!(ended.code, Some(code), "{command:?}: {ended:?}");
        assert_eq!(ended.err.contains("error: "), code != 0, "{command:?}: {ended:?}");
    }
    place.run(&["bench", "-t", "0", "--compare", ticket]).expect(2).says("leave out -t 0");
    server.running.signal("INT");
    assert!(server.running.end().expect(0).took < Duration::from_secs(2));
}

/// The same command in a shell that ignores SIGHUP, as `nohup` does.
fn ignoring_hang_up(command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' HUP; exec \"$0\" \"$@\""]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    if let Some(place) = command.get_current_dir() {
        shell.current_dir(place);
    }
    shell
}

#[test]
fn a_closed_terminal_ends_a_command_with_status_129_but_not_under_nohup() {
    let place = Place::new();
    let server = place.serve(&[]);
    let measure = ["bench", "-b", "1M", "-t", "60", "-i", "100ms", server.ticket.as_str()];
    let running = place.start(&measure);
    running.wait_until("a row", || running.printed().lines().count() > 3);
    running.signal("HUP");
    running.end().expect(129).says("error: ended by SIGHUP");
    server.running.wait_for("closed by the peer");

    let running = Running::start(ignoring_hang_up(&place.command(&measure)));
    running.wait_until("a row", || running.printed().lines().count() > 3);
    running.signal("HUP");
    let rows = running.printed().lines().count();
    running.wait_until("more rows", || running.printed().lines().count() > rows + 3);
    running.signal("INT");
    running.end().expect(130);
    server.stop().expect(0);
}

/// Runs a command whose standard output is closed after `length` bytes have been read.
fn without_reader(mut command: Command, length: usize) -> (Option<i32>, String) {
    use std::io::Read as _;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let home = tempfile::TempDir::new().unwrap();
    let mut child = command.env("MANYWAY_HOME", home.path()).env_remove("MANYWAY_LOG").spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut vec![0; length]).unwrap();
    drop(out);
    wait_until("the end", || child.try_wait().unwrap().is_some());
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_command_whose_reader_has_closed_ends_with_141_and_no_error() {
    let place = Place::new();
    let server = place.serve(&[]);
    let ticket = server.ticket.as_str();
    make_file(&place.there().join("big"), 30_000_000);
    for command in [
        &["-q", "get", ticket, "big", "-o", "-"][..],
        &["ping", "-i", "50ms", ticket],
        &["bench", "-b", "1M", "-i", "50ms", "-t", "20", ticket],
        &["paths", "-w", "-i", "50ms"],
    ] {
        let (code, err) = without_reader(place.command(command), 1);
        assert_eq!(code, Some(141), "{command:?}: {err}");
        assert!(!err.contains("error: "), "{command:?}: {err}");
    }
}

#[test]
fn documents_that_do_not_fit_on_a_disk_are_an_error() {
    for arguments in [&["--help"][..], &["bench", "-h"], &["--version"], &["help", "options"], &["man"]] {
        let mut command = Command::new(MANYWAY);
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = command.args(arguments).stdout(full).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.starts_with("error: the disk is full"), "{arguments:?}: {text}");
    }
}

#[test]
fn a_directory_is_not_written_to_standard_output_and_nothing_is_printed_before() {
    let place = Place::new();
    let server = place.serve(&[]);
    std::fs::create_dir(place.there().join("photos")).unwrap();
    for number in 0..3 {
        make_file(&place.there().join(format!("photos/{number}")), 1000);
    }
    let ended = place.run(&["get", &server.ticket, "photos", "-o", "-"]).expect(1);
    assert_eq!(ended.out, "");
    assert_eq!(ended.err.lines().count(), 1, "{ended:?}");
    ended.says("photos is a directory");
}

#[test]
fn input_of_unknown_size_has_no_size_in_the_first_message() {
    let place = Place::new();
    let server = place.serve(&[]);
    let mut command = place.command(&["send", "-", &server.ticket]);
    command.stdin(Stdio::null());
    let ended = Running::start(command).end().expect(0);
    assert!(ended.err.lines().any(|line| line == "sending 1 file or directory"), "{ended:?}");
}

#[test]
fn a_comparison_with_a_server_on_this_host_reports_that_there_is_nothing_to_compare() {
    let place = Place::new();
    let server = place.serve(&[]);
    let run = ["bench", "-t", "1", "--compare", &server.ticket];
    place.run(&run).expect(0).says("only one interface leads to the peer; nothing to compare");
    let run = ["bench", "-t", "1", "--min-gain", "20", &server.ticket];
    let ended = place.run(&run).expect(6).says("only one interface leads to the peer; nothing to compare");
    assert!(!ended.err.contains("the gain is"), "{ended:?}");
}
