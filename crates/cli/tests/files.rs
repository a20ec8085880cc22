//! Files of all kinds through the real binary: pipes, standard input and output, links, names, permissions.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::place::Place;
use crate::common::program::{MANYWAY, Running, assert_same_content, make_file, names};

/// The result of a shell command in `place`.
fn shell(place: &Place, script: &str) -> std::process::Output {
    let home = tempfile::TempDir::new().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(place.here());
    command.env("MANYWAY_HOME", home.path()).env("MANYWAY", MANYWAY).env_remove("MANYWAY_LOG");
    command.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn standard_input_is_sent_and_standard_output_is_written_byte_for_byte() {
    let place = Place::new();
    let server = place.serve(&[]);
    make_file(&place.here().join("big"), 5_000_001);
    let ticket = &server.ticket;
    let sent = shell(&place, &format!("cat big | $MANYWAY send - --name copy {ticket}"));
    assert!(sent.status.success(), "{sent:?}");
    assert_same_content(&place.here().join("big"), &place.there().join("copy"));
    let fetched = shell(&place, &format!("$MANYWAY get {ticket} copy -o - | cat > back"));
    assert!(fetched.status.success(), "{fetched:?}");
    assert_same_content(&place.here().join("big"), &place.here().join("back"));
    let told = String::from_utf8_lossy(&fetched.stderr).into_owned();
    assert!(told.contains("fetched 1 file") && told.contains("verified"), "{told}");
    assert!(!place.here().join("-").exists());
    // Without a name, and with none in it.
    let sent = shell(&place, &format!("$MANYWAY send - {ticket} < /dev/null"));
    assert!(sent.status.success(), "{sent:?}");
    assert_eq!(names(&place.there()), ["copy", "stdin"]);
    // A reader that has seen enough gets no more.
    let fetched = shell(&place, &format!("$MANYWAY -q get {ticket} copy -o - | head -c 10 | wc -c"));
    assert_eq!(String::from_utf8_lossy(&fetched.stdout).trim(), "10", "{fetched:?}");
    place.run(&["--json", "get", ticket, "copy", "-o", "-"]).expect(2).says("--json");
    place.run(&["get", ticket, "copy", "stdin", "-o", "-"]).expect(2).says("only one file");
    place.run(&["get", ticket, "nothere", "-o", "-"]).expect(1).says("no such file or directory: nothere");
}

#[test]
fn a_device_or_pipe_receives_a_file_as_a_stream_and_stays() {
    use std::os::unix::fs::FileTypeExt as _;
    let place = Place::new();
    let server = place.serve(&[]);
    let (here, ticket) = (place.here(), &server.ticket);
    make_file(&place.there().join("big"), 1_000_000);
    std::fs::write(place.there().join("empty"), "").unwrap();
    let script = format!(
        "mkfifo pipe && ln -s pipe link && {{ cat pipe > back & $MANYWAY get {ticket} big -o link && wait; }}"
    );
    let fetched = shell(&place, &script);
    assert!(fetched.status.success(), "{fetched:?}");
    assert_same_content(&place.there().join("big"), &here.join("back"));
    let fetched =
        shell(&place, &format!("{{ cat pipe > none & $MANYWAY get {ticket} empty -o pipe && wait; }}"));
    assert!(fetched.status.success(), "{fetched:?}");
    assert_eq!(std::fs::read(here.join("none")).unwrap(), b"");
    assert!(here.join("pipe").symlink_metadata().unwrap().file_type().is_fifo());
    place.run(&["get", ticket, "big", "empty", "-o", "pipe"]).expect(2).says("only one file");
    // Its reader has gone away.
    let fetched = shell(&place, &format!("{{ head -c 10 pipe > few & $MANYWAY get {ticket} big -o pipe; }}"));
    assert_eq!(fetched.status.code(), Some(1), "{fetched:?}");
    assert!(String::from_utf8_lossy(&fetched.stderr).contains("pipe: broken pipe"), "{fetched:?}");

    let _socket = std::os::unix::net::UnixListener::bind(here.join("socket")).unwrap();
    place.run(&["get", ticket, "big", "-o", "socket"]).expect(2).says("-o: socket is a socket");

    // A device of the test's own, where it may create one and the file system allows opening it.
    let device = here.join("null");
    let made = Command::new("mknod").arg(&device).args(["c", "1", "3"]).output().unwrap().status.success();
    if made && std::fs::File::options().write(true).open(&device).is_ok() {
        place.run(&["get", ticket, "big", "-o", "null"]).expect(0).says("verified");
        assert!(device.symlink_metadata().unwrap().file_type().is_char_device());
    }
}

#[test]
fn received_files_never_replace_a_device_pipe_or_socket() {
    use std::os::unix::fs::FileTypeExt as _;
    let place = Place::new();
    let server = place.serve(&[]);
    for side in [place.here(), place.there()] {
        std::fs::create_dir_all(side.join("dir")).unwrap();
    }
    make_file(&place.here().join("dir/pipe"), 1000);
    make_file(&place.here().join("dir/other"), 1000);
    make_file(&place.there().join("taken"), 1000);
    let made = shell(&place, "mkfifo ../server/dir/pipe taken");
    assert!(made.status.success(), "{made:?}");
    let told = "dir/pipe exists and is not a regular file";
    place.run(&["send", "dir", &server.ticket]).expect(1).says(told);
    assert!(place.there().join("dir/other").is_file(), "the others arrive");
    assert!(place.there().join("dir/pipe").symlink_metadata().unwrap().file_type().is_fifo());
    let told = "taken exists and is not a regular file";
    place.run(&["get", &server.ticket, "taken", "-o", "."]).expect(1).says(told);
    place.run(&["get", &server.ticket, "taken", "--backup"]).expect(1).says(told);
    assert!(place.here().join("taken").symlink_metadata().unwrap().file_type().is_fifo());
}

#[cfg(target_os = "linux")]
#[test]
fn a_failure_of_a_renamed_file_names_the_output_as_it_was_given() {
    let place = Place::new();
    let server = place.serve(&[]);
    make_file(&place.there().join("six.txt"), 6);
    let failed = place.run(&["--json", "get", &server.ticket, "six.txt", "-o", "/proc/nope"]).expect(1);
    assert_eq!(failed.summary()["failed"][0]["name"], "/proc/nope");
    failed.says("no such file or directory: /proc/nope");
}

#[test]
fn a_named_pipe_is_read_to_its_end() {
    let place = Place::new();
    let server = place.serve(&[]);
    make_file(&place.here().join("big"), 1_000_000);
    let ticket = &server.ticket;
    let sent = shell(&place, &format!("mkfifo pipe && {{ cat big > pipe & $MANYWAY send pipe {ticket}; }}"));
    assert!(sent.status.success(), "{sent:?}");
    assert_same_content(&place.here().join("big"), &place.there().join("pipe"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_of_proc_arrives_with_its_content() {
    let place = Place::new();
    let server = place.serve(&[]);
    let sent = place.run(&["--json", "send", "/proc/version", &server.ticket]).expect(0).summary();
    let version = std::fs::read("/proc/version").unwrap();
    assert_eq!(std::fs::read(place.there().join("version")).unwrap(), version);
    assert_eq!(sent["bytes"].as_u64(), Some(version.len() as u64), "{sent}");
}

#[test]
fn one_file_is_renamed_by_its_output_and_a_directory_is_put_into_it() {
    let place = Place::new();
    let server = place.serve(&[]);
    std::fs::create_dir(place.there().join("dir")).unwrap();
    make_file(&place.there().join("dir/film"), 1_000);
    let get = |arguments: &[&str]| place.run(&[&["get", &server.ticket], arguments].concat());
    get(&["dir/film", "-o", "holiday"]).expect(0);
    get(&["dir/film", "-o", "new/place/holiday"]).expect(0);
    get(&["dir/film", "-o", "there/"]).expect(0);
    get(&["dir", "-o", "some"]).expect(0);
    get(&["dir/film", "-o", "some"]).expect(0);
    for copy in ["holiday", "new/place/holiday", "there/film", "some/dir/film", "some/film"] {
        assert_same_content(&place.there().join("dir/film"), &place.here().join(copy));
    }
    std::fs::write(place.here().join("holiday"), "old").unwrap();
    get(&["dir/film", "-o", "holiday", "--backup"]).expect(0);
    assert_eq!(std::fs::read(place.here().join("holiday~")).unwrap(), b"old");
    std::fs::write(place.here().join("holiday"), "mine").unwrap();
    get(&["dir/film", "-o", "holiday", "--keep"]).expect(0).says("skipping").says("is kept");
    assert_eq!(std::fs::read(place.here().join("holiday")).unwrap(), b"mine");
    get(&["dir", "dir/film", "-o", "holiday"]).expect(2).says("not a directory: holiday");
}

#[test]
fn links_and_excluded_names_are_skipped_with_one_line_and_status_0() {
    let place = Place::new();
    let server = place.serve(&[]);
    let tree = place.here().join("tree");
    std::fs::create_dir(&tree).unwrap();
    std::fs::write(tree.join("file"), "content").unwrap();
    std::fs::write(tree.join("junk.tmp"), "junk").unwrap();
    symlink("file", tree.join("inside")).unwrap();
    symlink("/etc/passwd", tree.join("outside")).unwrap();
    let sent = place.run(&["send", "tree", "--exclude-files", "*.tmp", &server.ticket]).expect(0);
    assert_eq!(sent.err.matches("tree/outside").count(), 1, "{sent:?}");
    assert!(sent.err.contains("skipping tree/outside") && sent.out.contains("1 skipped"), "{sent:?}");
    assert_eq!(names(&place.there().join("tree")), ["file", "inside"]);
    assert_eq!(std::fs::read_link(place.there().join("tree/inside")).unwrap(), Path::new("file"));
    let follow = ["send", "tree", "--links", "follow", &server.ticket];
    place.run(&follow).expect(0);
    assert_same_content(Path::new("/etc/passwd"), &place.there().join("tree/outside"));
    place.run(&["send", "tree", "--exclude-files", "a[", &server.ticket]).expect(2).says("a[");
}

#[test]
fn permissions_of_what_is_fetched_follow_the_umask() {
    let place = Place::new();
    let server = place.serve(&[]);
    std::fs::create_dir(place.there().join("dir")).unwrap();
    make_file(&place.there().join("dir/file"), 10);
    for (name, mode) in [("dir/file", 0o666), ("dir", 0o777)] {
        std::fs::set_permissions(place.there().join(name), std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let fetched = shell(&place, &format!("umask 027; $MANYWAY get {} dir", server.ticket));
    assert!(fetched.status.success(), "{fetched:?}");
    let mode = |name: &str| place.here().join(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("dir"), mode("dir/file")), (0o750, 0o640));
}

#[test]
fn a_transfer_keeps_its_limit() {
    let place = Place::new();
    let server = place.serve(&[]);
    make_file(&place.here().join("file"), 1_000_000);
    let sent = place.run(&["--json", "send", "--bwlimit", "4M", "file", &server.ticket]).expect(0).summary();
    let rate = sent["bits_per_second"].as_u64().unwrap();
    assert!(rate <= 4_500_000, "{sent}");
}

#[test]
fn a_file_that_grows_by_a_byte_after_it_was_read_is_warned_about_once() {
    let place = Place::new();
    let server = place.serve(&[]);
    let log = place.here().join("log");
    make_file(&log, 1_000_000);
    let sending = place.start(&["send", "--bwlimit", "4M", "log", &server.ticket]);
    sending.wait_until("a part of it", || names(&place.there()).contains(&".log.manyway-part".to_owned()));
    std::fs::File::options().append(true).open(&log).unwrap().write_all(b"x").unwrap();
    let sent = sending.end().expect(0);
    let warning = "log grew while it was sent; the first 1000000 bytes were sent";
    assert_eq!(sent.err.matches(warning).count(), 1, "{sent:?}");
    assert_eq!(std::fs::metadata(place.there().join("log")).unwrap().len(), 1_000_000);
}

#[test]
fn a_file_that_ends_before_its_announced_size_fails_and_is_not_offered_to_be_resumed() {
    let place = Place::new();
    let server = place.serve(&[]);
    let log = place.here().join("log");
    make_file(&log, 30_000_000);
    let sending = place.start(&["send", "--bwlimit", "100M", "log", &server.ticket]);
    sending.wait_until("a part of it", || names(&place.there()).contains(&".log.manyway-part".to_owned()));
    std::fs::File::options().write(true).open(&log).unwrap().set_len(500_000).unwrap();
    let failed = sending.end().expect(1).says("of 30000000 bytes");
    assert!(!failed.err.contains("run the same command again"), "{failed:?}");
}

#[test]
fn an_output_directory_behind_a_file_is_refused_with_a_remedy_before_there_is_a_connection() {
    let place = Place::new();
    make_file(&place.here().join("film"), 10);
    let refused = place.run(&["get", "127.0.0.1:9", "a", "-o", "film/"]).expect(2);
    refused.says("-o: not a directory: film; name another one, or move the file away");
}

#[test]
fn a_refused_transfer_prints_its_error_alone() {
    let place = Place::new();
    make_file(&place.here().join("file"), 1_000_000);
    let server = place.serve(&["--read-only"]);
    let refused = place.run(&["send", "file", &server.ticket]).expect(1).says("read-only");
    assert!(!refused.err.contains("not complete") && !refused.err.contains("rtt ms"), "{refused:?}");
}

#[test]
fn a_server_creates_the_directory_that_it_is_to_fill() {
    let place = Place::new();
    let mut command =
        place.command(&["serve", "--ephemeral", "--listen", "127.0.0.1:0", "--dir", "incoming/deep"]);
    command.env_remove("MANYWAY_LOG");
    let server = Running::start(command);
    server.wait_for("created directory incoming/deep");
    assert!(place.here().join("incoming/deep").is_dir());
    place
        .run(&["serve", "--read-only", "--listen", "127.0.0.1:0", "--dir", "nothere"])
        .expect(1)
        .says("no such file or directory: nothere");
}

#[test]
fn a_used_code_is_reported_as_such_and_a_mistyped_ticket_is_suspected_at_once() {
    let place = Place::new();
    make_file(&place.here().join("file"), 10);
    let offer = place.start(&["send", "file"]);
    offer.wait_for("On the other computer run:");
    offer.wait_for("open UDP");
    let mut code = None;
    offer.wait_until("the code", || {
        code = offer.printed().lines().find(|line| line.starts_with("mw1")).map(str::to_owned);
        code.is_some()
    });
    let code = code.unwrap();
    assert!(!offer.messages().contains("0 B"), "{}", offer.messages());
    place.run(&["get", &code, "-o", "back/"]).expect(0);
    offer.end().expect(0);
    let used = place.run(&["--connect-timeout", "2s", "get", &code]);
    assert!(used.err.contains("this code was used or its sender has ended"), "{used:?}");
    assert!(!used.err.contains("manyway serve"), "{used:?}");
    place.run(&["send", "file", "tm1abc"]).expect(2).says("looks like a mistyped ticket");
    place.run(&["send", "file", &code.replacen("mw1", "mw1a", 1)]).expect(2).says("invalid ticket: ");
    place.run(&["send", "C:drive.txt"]).expect(1).says("no such file or directory: C:drive.txt");
    make_file(&place.here().join("C:drive.txt"), 10);
    let drive = place.run(&["send", "C:drive.txt"]).expect(1).says("Windows");
    assert!(!drive.err.contains("absolute"), "{drive:?}");
}

#[test]
fn input_that_can_be_read_only_once_is_not_offered_to_be_resumed() {
    let place = Place::new();
    let server = place.serve(&[]);
    let home = tempfile::TempDir::new().unwrap();
    let mut command = place.command(&["send", "-", &server.ticket]);
    command.env("MANYWAY_HOME", home.path()).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(&vec![7; 2_000_000]).unwrap();
    crate::common::program::wait_until("a part of it", || {
        names(&place.there()).contains(&".stdin.manyway-part".to_owned())
    });
    server.stop().expect(0);
    drop(input);
    let ended = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(1), "{told}");
    assert!(told.contains("only once") && !told.contains("the same command again"), "{told}");
    assert!(names(&place.there()).is_empty(), "it cannot be resumed");
}
