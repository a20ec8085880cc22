//! The verbs of the real binary over 127.0.0.1, without root.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::common::place::Place;
use crate::common::program::{MANYWAY, Running, Server, assert_same_content, make_file, names, wait_until};

#[test]
fn a_tree_comes_back_as_it_went() {
    let place = Place::new();
    let server = place.serve(&[]);
    let tree = place.here().join("tree");
    std::fs::create_dir_all(tree.join("deep/hollow")).unwrap();
    for (name, size) in
        [("nothing", 0), ("one", 1), ("deep/big", 3_000_001), ("Grüße 世界 🚀.txt", 77), (" spaces ", 5)]
    {
        make_file(&tree.join(name), size);
    }
    set_facts(&tree.join("one"), 0o640, Duration::new(1_234_567_890, 123_456_789));
    set_facts(&tree.join("deep/big"), 0o755, Duration::from_secs(86_400));

    place.run(&["send", "tree", &server.ticket]).expect(0).says("verified");
    assert_same_tree(&tree, &place.there().join("tree"));
    place.run(&["get", &server.ticket, "tree", "-o", "back"]).expect(0);
    assert_same_tree(&tree, &place.here().join("back/tree"));
    place.run(&["-q", "get", &server.ticket, "-o", "all"]).expect(0);
    assert_same_tree(&tree, &place.here().join("all/tree"));
    server.stop().expect(0);
    assert_eq!(names(&place.there()), ["tree"]);
}

#[test]
fn a_ticket_can_be_in_a_file_so_that_no_process_list_shows_it() {
    let place = Place::new();
    let server = place.serve(&[]);
    make_file(&place.here().join("file"), 1000);
    std::fs::write(place.here().join("ticket"), format!("{}\n", server.ticket)).unwrap();
    place.run(&["send", "file", "@ticket"]).expect(0).says("verified");
    place.run(&["ping", "-c", "1", "@ticket"]).expect(0);
    place.run(&["get", "@ticket", "file", "-o", "back"]).expect(0);
    place.run(&["ping", "-c", "1", "--trust", "system", "@ticket"]).expect(2).says("leave out --trust,");
    let arguments = ["ping", "-c", "1", "--trust-on-first-use", "@ticket"];
    place.run(&arguments).expect(2).says("leave out --trust-on-first-use,");
}

#[test]
fn a_summary_for_programs_counts_sent_bytes() {
    let place = Place::new();
    let server = place.serve(&["--json"]);
    make_file(&place.here().join("file"), 1_000_000);
    let sent = place.run(&["--json", "send", "file", &server.ticket]).expect(0).summary();
    assert_eq!((sent["verified"].as_u64(), sent["bytes"].as_u64()), (Some(1), Some(1_000_000)), "{sent}");
    assert!(sent["paths"][0]["bytes_sent"].as_u64().unwrap() >= 1_000_000, "{sent}");
    assert_eq!(sent["failures"], 0);
    let announced = server.stop().expect(0).json();
    assert!(announced[0]["ticket"].as_str().unwrap().starts_with("mw1"));
    assert!(announced[0]["listening"][0].as_str().unwrap().starts_with("127.0.0.1:"));
}

#[test]
fn a_connection_of_little_memory_carries_data_all_the_same() {
    let place = Place::new();
    make_file(&place.here().join("up"), 3_000_000);
    make_file(&place.there().join("down"), 3_000_000);
    let small = ["--memory", "small"];
    for (there, here) in [(&small[..], &[][..]), (&[], &small), (&small, &small)] {
        let server = place.serve(there);
        place.run(&[here, &["send", "up", &server.ticket]].concat()).expect(0);
        place.run(&[here, &["get", &server.ticket, "down"]].concat()).expect(0);
        for name in ["up", "down"] {
            assert_same_content(&place.here().join(name), &place.there().join(name));
        }
        std::fs::remove_file(place.there().join("up")).unwrap();
        std::fs::remove_file(place.here().join("down")).unwrap();
        server.stop().expect(0);
    }
    place.run(&["--memory", "none", "get", "mw1x"]).expect(2).says("small");
}

#[test]
fn an_end_that_only_receives_says_that_the_scheduler_of_the_server_decides() {
    let place = Place::new();
    let server = place.serve(&[]);
    make_file(&place.there().join("film"), 1000);
    let told = "--scheduler primary has no effect here: the server sends";
    for command in [&["get", &server.ticket, "film"][..], &["bench", "-R", "-n", "1M", &server.ticket]] {
        let scheduled = [&["--scheduler", "primary"][..], command].concat();
        let ended = place.run(&scheduled).expect(0).says(told);
        assert!(!ended.err.contains("primary: new data"), "{ended:?}");
        assert!(!ended.out.contains("primary: new data"), "{ended:?}");
        let ended = place.run(&[&["-q"], &scheduled[..]].concat()).expect(0);
        assert!(!ended.err.contains("no effect"), "{ended:?}");
    }
    let ended = place.run(&["--scheduler", "primary", "send", "--name", "again", "film", &server.ticket]);
    assert!(!ended.expect(0).err.contains("no effect"));
}

#[test]
fn caps_are_shown_set_and_forgotten() {
    let place = Place::new();
    let home = tempfile::TempDir::new().unwrap();
    let run = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.env("MANYWAY_HOME", home.path());
        Running::start(command).end()
    };
    run(&["caps"]).expect(0).says("no interface has a cap");
    run(&["caps", "set", "wwan0", "1GB"]).expect(2).says("--cap wwan0=SIZE");
    std::fs::write(home.path().join("config.toml"), "[caps.wwan0]\ncap = \"5 GB\"\nreset-day = 15\n")
        .unwrap();
    run(&["caps", "set", "wwan0", "3.2GB"]).expect(0).says("wwan0: 3.2 GB since 2");
    run(&["caps"]).expect(0).says("wwan0      3.2 GB  1.8 GB  5 GB    64 %");
    let row = |arguments: &[&str]| run(arguments).expect(0).summary()["caps"][0].clone();
    let listed = row(&["caps", "--json"]);
    assert_eq!(
        (&listed["interface"], &listed["used"], &listed["left"], &listed["reached"]),
        (&"wwan0".into(), &3_200_000_000_u64.into(), &1_800_000_000.into(), &false.into())
    );
    assert!(listed["renewal"].as_str().unwrap().ends_with("-15"), "{listed}");
    assert_eq!(row(&["caps", "--json", "--cap", "wwan0=3GB"])["reached"], true);
    run(&["caps", "--cap", "wwan0=none"]).expect(0).says("no cap now");
    run(&["caps", "clear", "--all"]).expect(0).says("wwan0: counter reset");
    run(&["caps", "clear", "wwan0"]).expect(0).says("nothing was counted");
    assert_eq!(row(&["caps", "--json"])["used"], 0);
    run(&["--cap", "nope0=1GB", "paths"]).expect(2).says("--cap nope0: no such interface");
    run(&["paths"]).expect(0).says("warning: caps in the settings: wwan0: no such interface");
    std::fs::write(home.path().join("usage/wwan0"), "nonsense").unwrap();
    run(&["paths"]).expect(1).says("manyway caps clear");
    run(&["caps", "clear", "wwan0"]).expect(0);
    run(&["paths"]).expect(0);
}

#[test]
fn bench_measures_messages_both_ways_and_beside_bulk() {
    let place = Place::new();
    let server = place.serve(&[]);
    let bench = |arguments: &[&str]| {
        place.run(&[&["bench", &server.ticket, "--messages", "200", "-t", "1"], arguments].concat())
    };
    let beside_bulk = ["--json", "-R", "--bulk", "-P", "2", "--deadline", "500"];
    for way in [&["--json"][..], &["--json", "-R", "-C", "new-reno"], &beside_bulk] {
        let documents = bench(way).expect(0).json();
        let messages = &documents[0]["messages"];
        assert_eq!((&messages["sent"], &messages["size"]), (&100.into(), &200.into()), "{messages}");
        assert!(messages["received"].as_u64().unwrap() >= 90, "{messages}");
        let latency = messages["latency"]["p99.9"].as_f64().unwrap();
        assert!(latency >= messages["latency"]["p50"].as_f64().unwrap(), "{messages}");
        let has_bulk = messages["bulk_bits_per_second"].as_u64().is_some_and(|rate| rate > 1_000_000);
        assert_eq!(has_bulk, way.contains(&"--bulk"), "{messages}");
    }
    bench(&["--rate", "50"])
        .expect(0)
        .says("messages  50 of 200 bytes to the server")
        .says("p99.9")
        .says("lost");
}

#[test]
fn bench_measures_streams_both_ways_by_time_and_by_size() {
    let place = Place::new();
    let server = place.serve(&[]);
    let bench = |arguments: &[&str]| place.run(&[&["bench", &server.ticket], arguments].concat());
    for direction in [&[][..], &["-R"]] {
        let by_size = [&["-P", "4", "-n", "1M", "-i", "100ms", "--json"], direction].concat();
        let documents = bench(&by_size).expect(0).json();
        let (summary, intervals) = documents.split_last().unwrap();
        assert_eq!(summary["summary"], true);
        let total = summary["bytes"].as_u64().unwrap();
        // As in iperf3 it is the size of all streams together.
        assert_eq!(total, 1 << 20, "{summary}");
        let sum: u64 = intervals.iter().map(|interval| interval["bytes"].as_u64().unwrap()).sum();
        assert_eq!(sum, total, "{documents:?}");
        let by_time = [&["-t", "1", "-P", "4", "-b", "50M", "--json"][..], direction].concat();
        assert!(bench(&by_time).expect(0).summary()["bytes"].as_u64().unwrap() > 1_000_000);
    }
    bench(&["-t", "1", "-b", "50M"]).expect(0).says("received").says("longest stall");
    assert!(bench(&["-q", "-n", "1"]).expect(0).err.is_empty());
}

#[test]
fn a_server_reports_its_transport_and_changes_its_congestion_control() {
    let place = Place::new();
    let server = place.serve(&[]);
    let run = ["bench", "--json", "-R", "-n", "1M", "-C", "new-reno", &server.ticket];
    let summary = place.run(&run).expect(0).summary();
    assert_eq!(summary["congestion"]["remote"], "new-reno", "{summary}");
    assert!(summary["down"]["packets_sent"].as_u64().unwrap() > 0, "{summary}");
}

#[test]
fn ping_and_paths_work_without_a_named_interface() {
    let place = Place::new();
    let server = place.serve(&[]);
    let ping = place.run(&["ping", "-c", "3", "-i", "20ms", "--json", &server.ticket]).expect(0);
    let summary = ping.summary();
    assert_eq!((&summary["paths"][0]["sent"], &summary["paths"][0]["received"]), (&3.into(), &3.into()));
    let lines = ping.json();
    assert_eq!((&lines[0]["event"], &lines[0]["state"]), (&"path".into(), &"active".into()));
    assert!(lines.iter().any(|line| line["rtt"].as_f64().is_some_and(|rtt| rtt > 0.0)), "{ping:?}");
    let paths = place.run(&["paths", "--json", &server.ticket]).expect(0).summary();
    assert_eq!(
        (&paths["pairs"][0]["used"], &paths["pairs"][0]["local"]),
        (&true.into(), &"127.0.0.1".into())
    );
    let own = place.run(&["paths", "--json"]).expect(0).summary();
    let lo = own["addresses"].as_array().unwrap().iter().find(|row| row["address"] == "127.0.0.1/8").unwrap();
    assert_eq!((&lo["used"], &lo["kind"]), (&false.into(), &"loopback".into()));
    place.run(&["paths", "-a"]).expect(0).says("127.0.0.1/8");
}

#[test]
fn two_clients_are_served_at_once() {
    let place = Place::new();
    let server = place.serve(&[]);
    make_file(&place.there().join("down"), 5_000_000);
    make_file(&place.here().join("up"), 5_000_000);
    let sending = place.start(&["-q", "send", "up", &server.ticket]);
    let fetching = place.start(&["-q", "get", &server.ticket, "down"]);
    sending.end().expect(0);
    fetching.end().expect(0);
    assert_same_content(&place.here().join("up"), &place.there().join("up"));
    assert_same_content(&place.here().join("down"), &place.there().join("down"));
}

#[test]
fn missing_files_are_named() {
    let place = Place::new();
    let server = place.serve(&[]);
    make_file(&place.there().join("there"), 10);
    make_file(&place.here().join("here"), 10);
    // Not even a connection is needed for this.
    place
        .run(&["send", "here", "none", &server.ticket])
        .expect(1)
        .says("error: no such file or directory: none\n");
    let none = place.run(&["get", &server.ticket, "none"]).expect(1);
    assert_eq!((none.out.as_str(), none.err.as_str()), ("", "error: no such file or directory: none\n"));
    place.run(&["get", &server.ticket, "none", "there"]).expect(1).says("no such file or directory: none");
    assert_same_content(&place.there().join("there"), &place.here().join("there"));
    assert_eq!(names(&place.there()), ["there"]);
}

#[test]
fn a_read_only_server_refuses_files() {
    let place = Place::new();
    let server = place.serve(&["--read-only"]);
    make_file(&place.here().join("file"), 3_000_000);
    make_file(&place.there().join("film"), 1_000);
    place
        .run(&["send", "file", &server.ticket])
        .expect(1)
        .says("refused: this server or ticket is read-only");
    place.run(&["-q", "get", &server.ticket, "film"]).expect(0);
    assert_eq!(names(&place.there()), ["film"]);
}

#[test]
fn an_invalid_ticket_is_wrong_usage() {
    let place = Place::new();
    let server = place.serve(&[]);
    make_file(&place.here().join("file"), 10);
    let mut cut = server.ticket.clone();
    cut.pop();
    for ticket in ["mw1", "mw1nonsense", &cut, &server.ticket.replace("mw1", "mw9")] {
        let finished = place.run(&["send", "file", ticket]).expect(2);
        assert!(finished.err.contains("ticket"), "{finished:?}");
    }
    place.run(&["--scheduler", "magic", "bench", &server.ticket]).expect(2).says("min-rtt");
}

#[test]
fn a_ticket_of_another_server_is_an_authentication_failure() {
    let place = Place::new();
    let server = place.serve(&[]);
    let other = Place::new();
    // The same address, as if the server had been restarted.
    let address = server.listening();
    server.stop().expect(0);
    let old = Server::start(other.serving(&["--listen", &address]));
    let ticket = old.ticket.clone();
    old.stop().expect(0);
    let _new = Server::start(other.serving(&["--listen", &address]));
    place.run(&["get", &ticket]).expect(3).says("check that the ticket is this server's");
}

#[test]
fn a_missing_directory_is_not_served_read_only() {
    let place = Place::new();
    let mut command = Command::new(MANYWAY);
    command
        .args(["serve", "--read-only", "--listen", "127.0.0.1:0", "--dir"])
        .arg(place.there().join("none"));
    let missing = format!("no such file or directory: {}\n", place.there().join("none").display());
    Running::start(command).end().expect(1).says(&missing);
}

#[test]
fn an_interrupted_client_tells_the_server_at_once() {
    let place = Place::new();
    let server = place.serve(&["-v"]);
    let client = place.start(&["bench", "-b", "1M", "-t", "60", &server.ticket]);
    server.running.wait_for("client");
    wait_until("the connection", || server.running.messages().contains(" connected "));
    client.signal("INT");
    let finished = client.end().expect(130).says("ended by Ctrl-C");
    assert!(finished.took < Duration::from_secs(10), "{finished:?}");
    server.running.wait_for("client 1 left ");
}

#[test]
fn interrupted_messages_are_measured_until_then() {
    let place = Place::new();
    let server = place.serve(&["-v"]);
    let client = place.start(&["bench", "--messages", "100", "-t", "60", &server.ticket]);
    wait_until("the connection", || server.running.messages().contains(" connected "));
    std::thread::sleep(Duration::from_millis(500));
    client.signal("INT");
    client.end().expect(130).says("messages  ").says("latency   p50").says("ended by Ctrl-C");
}

#[test]
fn an_interrupted_measurement_prints_its_results() {
    let place = Place::new();
    let server = place.serve(&[]);
    for (direction, name) in [(&[][..], "up"), (&["-R"], "down"), (&["--bidir", "-P", "3"], "down")] {
        let arguments = ["bench", "-b", "20M", "-t", "60", "-i", "100ms", "--json", server.ticket.as_str()];
        let client = place.start(&[&arguments[..], direction].concat());
        wait_until("some intervals", || client.printed().lines().count() > 3);
        client.signal("INT");
        let ended = client.end().expect(130).says("ended by Ctrl-C");
        let documents = ended.json();
        let (summary, intervals) = documents.split_last().unwrap();
        assert_eq!(
            (&summary["summary"], &summary["error"]["code"]),
            (&true.into(), &130.into()),
            "{summary}"
        );
        let told: u64 = intervals.iter().map(|interval| interval["bytes"].as_u64().unwrap()).sum();
        let receiver = &summary[name]["receiver"];
        assert!(receiver["bytes"].as_u64().unwrap() > 0, "{summary}");
        assert!((0.2..30.0).contains(&receiver["seconds"].as_f64().unwrap()), "{summary}");
        assert_eq!(
            summary["bytes"].as_u64(),
            Some(told),
            "the last piece of an interval counts, too: {summary}"
        );
    }
    let client = place.start(&["bench", "-b", "1M", "-t", "60", "-i", "100ms", &server.ticket]);
    wait_until("some intervals", || client.printed().lines().count() > 3);
    client.signal("TERM");
    client.end().expect(130).says("longest stall").says("ended by SIGTERM");
}

#[test]
fn a_broken_measurement_is_a_failure_and_offers_no_resumption() {
    let place = Place::new();
    let server = place.serve(&[]);
    let client = place.start(&["bench", "-b", "1M", "-t", "60", "-i", "100ms", &server.ticket]);
    wait_until("an interval", || client.printed().lines().count() > 2);
    server.stop().expect(0);
    let ended = client.end().expect(1).says("the server is stopping");
    assert!(!ended.err.contains("run the same command again"), "{ended:?}");
}

#[test]
fn a_file_in_place_of_the_ticket_has_a_plain_message() {
    let place = Place::new();
    let ticket = place.serve(&[]).ticket;
    make_file(&place.here().join("film.mp4"), 10);
    place.run(&["get", "film.mp4", &ticket]).expect(2).says("manyway get TICKET PATH");
    place.run(&["send", &ticket, "film.mp4"]).expect(2).says("manyway send FILE… TICKET");
    for arguments in
        [&["bench", "film.mp4"][..], &["ping", "film.mp4"], &["send", "film.mp4", "--to", "film.mp4"]]
    {
        let failed = place.run(arguments);
        assert!([Some(2), Some(7)].contains(&failed.code), "{failed:?}");
        failed.says("a file here has this name");
    }
    place.run(&["bench", "./film.mp4"]).expect(2).says("a file here has this name");
}

#[test]
fn a_file_in_place_of_the_output_directory_is_named_before_anything_is_fetched() {
    let place = Place::new();
    make_file(&place.here().join("film"), 10);
    for output in ["film", "film/deep/er"] {
        let failed = place.run(&["get", "mw1nonsense", "-o", output]).expect(2);
        failed.says("not a directory: film; name another one");
    }
}

#[test]
fn a_stopping_server_waits_for_a_silent_client_three_seconds_or_until_a_second_signal() {
    for (again, limit, code) in [(false, 10, 0), (true, 2, 130)] {
        let place = Place::new();
        let server = place.serve(&["-v"]);
        let client = place.start(&["bench", "-b", "1M", "-t", "60", &server.ticket]);
        wait_until("the connection", || server.running.messages().contains(" connected "));
        client.suspend();
        server.running.signal("TERM");
        server.running.wait_for("SIGTERM: closing");
        if again {
            std::thread::sleep(Duration::from_millis(200));
            server.running.signal("INT");
        }
        server.running.end_within(Duration::from_secs(limit)).expect(code);
    }
}

#[test]
fn a_closed_reader_fails_no_completed_work() {
    let place = Place::new();
    let server = place.serve(&[]);
    make_file(&place.here().join("file"), 1000);
    let ticket = server.ticket.as_str();
    for (arguments, code) in [
        (&["bench", "-b", "1M", "-t", "60", "-i", "100ms", ticket][..], 141),
        (&["send", "file", ticket], 0),
        (&["get", ticket, "file", "-o", "back/"], 0),
        (&["man"], 141),
    ] {
        let mut child = Command::new(MANYWAY)
            .current_dir(place.here())
            .args(arguments)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        assert_eq!(child.wait().unwrap().code(), Some(code), "{arguments:?}");
    }
    assert_same_content(&place.here().join("file"), &place.here().join("back/file"));
}

fn set_facts(path: &Path, mode: u32, modified: Duration) {
    use std::os::unix::fs::PermissionsExt as _;
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + modified).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[track_caller]
fn assert_same_tree(left: &Path, right: &Path) {
    let (a, b) = (left.metadata().unwrap(), right.metadata().unwrap());
    assert_eq!(a.is_dir(), b.is_dir(), "{left:?}");
    if a.is_dir() {
        assert_eq!(names(left), names(right));
        return names(left).iter().for_each(|name| assert_same_tree(&left.join(name), &right.join(name)));
    }
    assert_same_content(left, right);
    assert_eq!(a.modified().unwrap(), b.modified().unwrap(), "{left:?}");
    assert_eq!(a.permissions(), b.permissions(), "{left:?}");
}
