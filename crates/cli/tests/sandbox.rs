//! A system that refuses netlink, as sandboxes, Android and `RestrictAddressFamilies` do.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::common::place::Place;
use crate::common::program::{Running, Server, assert_same_content, make_file};
use crate::egress::verbs::line;

#[test]
fn without_netlink_every_verb_works_over_one_path_and_says_so_once() {
    let place = Place::new();
    let serving = ["--listen", "127.0.0.1:0", "--egress", "--allow", "127.0.0.0/8"];
    let server = Server::start(sandboxed(place.serving(&serving)));
    make_file(&place.here().join("file"), 3_000_000);
    let run = |arguments: &[&str]| Running::start(sandboxed(place.command(arguments))).end().expect(0);
    let sent = run(&["send", "file", &server.ticket]);
    assert_eq!(sent.err.matches("does not tell its interfaces").count(), 1, "{}", sent.err);
    assert_same_content(&place.here().join("file"), &place.there().join("file"));
    run(&["get", &server.ticket, "file", "-o", "back"]);
    let summary = run(&["bench", "--json", "-t", "1", &server.ticket]).summary();
    assert_eq!(summary["paths"].as_array().unwrap().len(), 1, "{summary}");
    run(&["ping", "-c", "2", &server.ticket]);
    run(&["paths", &server.ticket]);
    run(&["paths"]);
    run(&["play", &server.ticket, "file", "--", "true"]);

    let greeter = greeter();
    assert_eq!(run(&["pipe", &server.ticket, "127.0.0.1", &greeter.port().to_string()]).out, "hello");
    let start = |arguments: &[&str]| Running::start(sandboxed(place.command(arguments)));
    let forward = start(&["forward", "-L", &format!("0:{greeter}"), &server.ticket]);
    let address = line(&forward, "127.0.0.1:").split_whitespace().next().unwrap().to_owned();
    let mut answer = String::new();
    TcpStream::connect(address).unwrap().read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "hello");
    let proxy = start(&["proxy", &server.ticket, "--listen", "127.0.0.1:0"]);
    let mut socket = TcpStream::connect(line(&proxy, "socks5h://").split_off("socks5h://".len())).unwrap();
    write!(socket, "CONNECT {greeter} HTTP/1.1\r\n\r\n").unwrap();
    answer.clear();
    socket.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("hello"), "{answer}");
    server.stop().expect(0);

    let offer = start(&["send", "file"]);
    let code = line(&offer, "mw1");
    run(&["get", &code, "-o", "offered"]);
    offer.end().expect(0);
}

/// A program that sends a greeting to each client.
#[expect(clippy::unwrap_used, reason = "a test may fail")]
fn greeter() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            let _ = socket.write_all(b"hello");
        }
    });
    address
}

#[test]
fn without_netlink_no_interface_can_be_chosen_and_the_error_says_why() {
    let place = Place::new();
    let server = place.serve(&[]);
    for option in ["-I", "--exclude"] {
        let command = sandboxed(place.command(&["ping", "-c", "1", option, "eth0", &server.ticket]));
        Running::start(command).end().expect(7).says("netlink");
    }
}

/// Makes the system refuse netlink to a command.
fn sandboxed(mut command: Command) -> Command {
    // SAFETY: the code between fork and exec makes system calls on memory of its own stack, and nothing else.
    unsafe { command.pre_exec(refuse_netlink) };
    command
}

/// Answers EPERM to `socket(AF_NETLINK, …)` from now on.
#[expect(clippy::cast_possible_truncation, reason = "small constants of the kernel")]
fn refuse_netlink() -> io::Result<()> {
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let unless = |value: u32, over: u8| libc::sock_filter {
        jf: over,
        ..statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value)
    };
    let load = |at: u32| statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, at);
    let answer = |value: u32| statement(libc::BPF_RET | libc::BPF_K, value);
    let low_half = if cfg!(target_endian = "big") { 4 } else { 0 };
    let mut program = [
        load(0),
        unless(libc::SYS_socket as u32, 3),
        load(16 + low_half),
        unless(libc::AF_NETLINK as u32, 1),
        answer(libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        answer(libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the calls read `filter` and the program that it points to, both of which live until they return; the
    // length is that of the array.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) == 0
    };
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
}
