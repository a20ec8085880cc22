//! `paths`, `ping` and `bench` over links that fail, fill up, or have addresses of both families.

use serde_json::Value;

use crate::common::lab::{Family, Hole, Lab};

fn pairs(document: &Value) -> &Vec<Value> {
    document["pairs"].as_array().unwrap()
}

/// The path over an interface.
fn path_over<'a>(document: &'a Value, interface: &str) -> &'a Value {
    let is_it = |pair: &&Value| pair["interface"] == interface && pair["path"].is_number();
    pairs(document).iter().find(is_it).unwrap_or_else(|| panic!("no path over {interface}: {document}"))
}

#[test]
fn paths_says_why_each_pair_of_addresses_is_used_or_not() {
    let Some(lab) = Lab::start(2, Family::V4) else { return };
    let server = lab.serve(&[]);
    lab.black_hole(2, Hole::Both);
    let document = lab.run_client(&["paths", "--json", &server.ticket]).expect(0).summary();
    let (good, bad) = (path_over(&document, "va1"), path_over(&document, "va2"));
    assert_eq!(
        (&good["used"], &good["state"], &good["role"]),
        (&true.into(), &"active".into(), &"primary".into())
    );
    assert!(good["rtt"].as_f64().unwrap() > 0.0, "{good}");
    // Only probes use them, so there is no rate.
    assert_eq!((&good["bits_per_second"], &good["share"]), (&Value::Null, &Value::Null), "{good}");
    assert!(bad["rtt"].is_null(), "no answer came: {bad}");
    assert_eq!((&bad["used"], &bad["reason"]), (&false.into(), &"no-answer".into()));
    assert!(bad["why"].as_str().unwrap().starts_with("no answer on UDP for "), "{bad}");
    let of = |word: &str| pairs(&document).iter().filter(|pair| pair["reason"] == word).count();
    assert!(of("other-pair") > 0 && of("excluded") > 0, "{document}");

    lab.release();
    let table =
        lab.run_client(&["paths", "-a", "-I", "va1", "-I", "va2,role=backup", &server.ticket]).expect(0);
    table.says("role backup: only when none of the others works").says("one path for each interface");
    lab.run_client(&["paths", "--exclude", "va2", &server.ticket]).expect(0).says("excluded by the user");
    let own = lab.run_client(&["paths", "--exclude", "va2"]).expect(0);
    own.says("10.7.1.1/24").says("excluded by the user").says("unused addresses more: -a");
}

#[test]
fn paths_goes_on_to_tell_what_changes_until_it_is_interrupted() {
    let Some(lab) = Lab::start(2, Family::V4) else { return };
    let server = lab.serve(&[]);
    let client = lab.start_client(&["paths", "-w", "-i", "200ms", &server.ticket]);
    let two_used = |text: &str| {
        let last = text.rsplit("after ").next().unwrap_or_default();
        last.lines().filter(|line| line.starts_with("va") && line.contains("  in use")).count() == 2
    };
    client.wait_until("two paths", || two_used(&client.printed()));
    lab.client.ip("link set va2 down");
    client.wait_until("the reason", || client.printed().contains("it is switched off"));
    lab.client.ip("link set va2 up");
    client.wait_until("the path again", || two_used(&client.printed()));
    client.signal("INT");
    let printed = client.end().expect(0);
    assert!(printed.out.contains("va2 closed: one of its addresses is gone"), "{}", printed.out);
}

#[test]
fn ping_shows_the_loss_of_one_path_only() {
    let Some(lab) = Lab::start(2, Family::V4) else { return };
    let server = lab.serve(&[]);
    lab.black_hole(2, Hole::Both);
    let ping = ["-c", "4", "-i", "100ms", "-W", "500ms", server.ticket.as_str()];
    let documents = lab.run_client(&[&["--json", "ping"], &ping[..]].concat()).expect(0).json();
    let (summary, lines) = documents.split_last().unwrap();
    let of = |interface: &str| {
        let paths = summary["paths"].as_array().unwrap();
        paths.iter().find(|path| path["interface"] == interface).unwrap_or_else(|| panic!("{summary}"))
    };
    let (good, bad) = (of("va1"), of("va2"));
    assert_eq!((&good["received"], &good["loss"]), (&4.into(), &0.0.into()), "{summary}");
    assert!(good["min"].as_f64() <= good["avg"].as_f64() && good["avg"].as_f64() <= good["max"].as_f64());
    assert_eq!((&bad["received"], &bad["loss"], &bad["avg"]), (&0.into(), &1.0.into(), &Value::Null));
    assert_eq!(lines.iter().filter(|line| line["interface"] == "va1" && line["rtt"].is_number()).count(), 4);

    let table = lab.run_client(&[&["ping"], &ping[..]].concat()).expect(0);
    table.says("no answer").says("100.0 %");
    let client = lab.start_client(&["ping", "-q", &server.ticket]);
    lab.release();
    client.wait_until("a moment", || lab.client.sent("va2") > 5_000);
    client.signal("INT");
    client.end().expect(0).says("jitter");
}

/// Only pings use it: unanswered ones make the transport probe it.
#[test]
fn a_quiet_path_that_is_cut_is_not_called_used_while_it_is_watched() {
    let Some(lab) = Lab::start(2, Family::V4) else { return };
    let server = lab.serve(&[]);
    let watching = lab.start_client(&["paths", "-w", "-i", "200ms", "--json", &server.ticket]);
    let last = || {
        let printed = watching.printed();
        let whole = printed.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let documents = whole.lines().rev().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let pairs = documents.filter_map(|document| document["pairs"].as_array().cloned()).next()?;
        pairs.into_iter().find(|pair| pair["interface"] == "va2" && pair["path"].is_number())
    };
    let is_used = |used: bool| last().is_some_and(|row| row["used"] == used);
    watching.wait_until("a second path", || is_used(true));
    lab.black_hole(2, Hole::Both);
    watching.wait_until("its end", || is_used(false));
    assert_eq!(last().unwrap()["rtt"], Value::Null, "it does not answer");
    lab.release();
    watching.wait_until("its return", || is_used(true));
    watching.signal("INT");
    watching.end().expect(0);
}

/// Both networks lead to the server, and the system's best route to it leads over the first.
#[test]
fn answers_that_the_system_drops_are_explained_by_the_command_that_lets_them_in() {
    let Some(lab) = Lab::start(2, Family::V4) else { return };
    lab.server.ip("addr add 10.8.0.1/32 dev lo");
    lab.client.ip("route add 10.8.0.1 via 10.7.1.2 metric 100");
    lab.client.ip("route add 10.8.0.1 via 10.7.2.2 metric 200");
    lab.client.set("ipv4/conf/all/rp_filter", "0");
    lab.client.set("ipv4/conf/va1/rp_filter", "0");
    lab.client.set("ipv4/conf/va2/rp_filter", "1");
    let server = lab.serve(&["--listen", "10.8.0.1:4455"]);
    let pairs = || {
        let listed = lab.run_client(&["paths", "--json", &server.ticket]).expect(0).summary();
        let rows = listed["pairs"].as_array().unwrap().clone();
        rows.into_iter().find(|row| row["interface"] == "va2").unwrap_or_else(|| panic!("{listed}"))
    };
    let row = pairs();
    assert_eq!((&row["reason"], &row["used"]), (&"no-answer".into(), &false.into()), "{row}");
    let command = row["advice"].as_str().unwrap();
    assert_eq!(command, "sysctl -w net.ipv4.conf.va2.rp_filter=2");
    lab.run_client(&["paths", &server.ticket]).expect(0).says(command);
    // The advice works.
    let (setting, value) = command.rsplit_once(' ').unwrap().1.split_once('=').unwrap();
    lab.client.set(&setting.strip_prefix("net.").unwrap().replace('.', "/"), value);
    let row = pairs();
    assert_eq!((&row["used"], &row["advice"]), (&true.into(), &Value::Null), "{row}");
}

#[test]
fn bench_goes_both_ways_at_a_rate_and_leaves_its_beginning_out() {
    let Some(lab) = Lab::start(2, Family::V4) else { return };
    lab.limit(1, 50);
    lab.limit(2, 50);
    let server = lab.serve(&[]);
    let options =
        ["bench", "--bidir", "-b", "2M", "-P", "2", "-t", "2", "-O", "1", "-i", "500ms", "-l", "2K"];
    let documents = lab.run_client(&[&options[..], &["--json", &server.ticket]].concat()).expect(0).json();
    let (summary, lines) = documents.split_last().unwrap();
    for direction in ["up", "down"] {
        let of = |omitted: bool| {
            let wanted = |line: &&Value| line["direction"] == direction && line["omitted"] == omitted;
            lines.iter().filter(wanted).collect::<Vec<_>>()
        };
        assert_eq!((of(true).len(), of(false).len()), (2, 4), "{documents:?}");
        let received = &summary[direction]["receiver"];
        assert_eq!(received["seconds"], 2.0);
        let rate = received["bits_per_second"].as_u64().unwrap();
        // Two streams of 2 Mbit/s; a busy machine may fall behind and catch up.
        assert!((1_500_000..6_500_000).contains(&rate), "{direction}: {summary}");
        let sum: u64 = of(false).iter().map(|line| line["bytes"].as_u64().unwrap()).sum();
        assert_eq!(received["bytes"].as_u64(), Some(sum));
        // The receiver alone counts what was in flight when the counting began: at most half a second.
        let sent = summary[direction]["sender"]["bytes"].as_u64().unwrap();
        assert!(sent + 250_000 >= sum, "{direction}: {sent}, {sum}");
    }
    assert!(summary["cpu"]["remote"]["seconds"].as_f64().unwrap() > 0.0, "{summary}");
}

#[test]
fn bench_ends_in_time_on_slow_links_and_counts_what_arrived() {
    let Some(lab) = Lab::start(2, Family::V4) else { return };
    lab.limit(1, 1);
    lab.limit(2, 1);
    let server = lab.serve(&[]);
    for direction in [&[][..], &["-R"]] {
        let bench =
            lab.run_client(&[&["bench", "-t", "2", "--json", &server.ticket], direction].concat()).expect(0);
        let summary = bench.summary();
        assert_eq!(summary["seconds"], 2.0);
        // Both links for two seconds, and their queues of 50 ms.
        assert!(summary["bytes"].as_u64().unwrap() <= 550_000, "{summary}");
        assert!(bench.took.as_secs() < 10, "{bench:?}");
    }
}

#[test]
fn bench_measures_the_gain_over_the_best_path_alone() {
    let Some(lab) = Lab::start(2, Family::V4) else { return };
    lab.limit(1, 8);
    lab.limit(2, 8);
    let server = lab.serve(&[]);
    let bench =
        |least: &str| lab.run_client(&["bench", "-t", "2", "-J", "--min-gain", least, &server.ticket]);
    let document = bench("10").expect(0).summary();
    let gain = document["end"]["gain_percent"].as_f64().unwrap();
    assert!(gain > 10.0, "{document}");
    let singles = document["end"]["comparison"]["singles"].as_array().unwrap();
    assert_eq!(singles.len(), 2, "{document}");
    assert_eq!(document["intervals"].as_array().unwrap().len(), 2);
    assert_eq!(document["start"]["connection"]["paths"][0]["state"], "active");
    bench("500").expect(6);
}

#[test]
fn bench_has_rows_also_while_nothing_arrives() {
    let Some(lab) = Lab::start(2, Family::V4) else { return };
    lab.limit(1, 10);
    lab.limit(2, 10);
    let server = lab.serve(&[]);
    let client = lab.start_client(&["bench", "-t", "6", "-i", "500ms", &server.ticket]);
    client.wait_until("a row", || client.printed().contains("0.50-1.00"));
    lab.black_holes(&[1, 2]);
    client.wait_until("an empty row", || client.printed().contains("no figures from the server"));
    lab.release();
    let bench = client.end().expect(0).says("longest stall");
    // The rows are contiguous.
    for row in ["1.00-1.50", "3.00-3.50", "5.50-6.00"] {
        assert!(bench.out.contains(row), "{row} in\n{}", bench.out);
    }
}

#[test]
fn bench_changes_the_congestion_control_of_both_ends_and_goes_to_another_port() {
    let Some(lab) = Lab::start(1, Family::V4) else { return };
    let server = lab.serve(&["--listen", "10.7.1.2:5000", "--listen", "10.7.1.2:6000"]);
    let options = ["-R", "-C", "new-reno", "-p", "6000", "-n", "1M", "-P", "3", "-l", "8K", "--json"];
    let documents =
        lab.run_client(&[&["bench", server.ticket.as_str()], &options[..]].concat()).expect(0).json();
    let summary = documents.last().unwrap();
    assert_eq!(summary["congestion"]["local"], "new-reno");
    assert_eq!(summary["congestion"]["remote"], "new-reno");
    assert_eq!(summary["bytes"], 1 << 20);
    assert!(summary["paths"][0]["remote"].as_str().unwrap().ends_with(":6000"), "{summary}");
    lab.run_client(&["bench", "-C", "magic", &server.ticket]).expect(2).says("magic");
}

#[test]
fn a_family_is_chosen_also_among_the_addresses_of_a_name() {
    let Some(lab) = Lab::start(1, Family::Both) else { return };
    let hosts = "127.0.0.1 localhost\n10.7.1.2 server.test\nfd00:7:1::2 server.test\n";
    lab.client.set_hosts(hosts);
    lab.server.set_hosts(hosts);
    let server = lab.serve(&["--advertise", "server.test"]);
    for (option, sign) in [("-4", "."), ("-6", "]")] {
        let document = lab.run_client(&["paths", "--json", option, &server.ticket]).expect(0).summary();
        let towards: Vec<_> = pairs(&document).iter().filter_map(|pair| pair["remote"].as_str()).collect();
        assert!(
            !towards.is_empty() && towards.iter().all(|remote| remote.contains(sign)),
            "{option} {document}"
        );
        let whys: Vec<_> = pairs(&document).iter().filter_map(|pair| pair["why"].as_str()).collect();
        assert!(whys.contains(&"the other address family was asked for"), "{whys:?}");
    }
}

#[test]
fn bench_says_why_a_path_carried_nothing() {
    let Some(lab) = Lab::start(2, Family::V4) else { return };
    let server = lab.serve(&[]);
    let options = ["bench", "-I", "va1", "-I", "va2,role=backup", "-b", "1M", "-t", "2", "--json"];
    let run = || lab.run_client(&[&options[..], &[&server.ticket]].concat()).expect(0).summary();
    let why = |summary: &Value| {
        let paths = summary["paths"].as_array().unwrap();
        let second = paths.iter().find(|path| path["interface"] == "va2").unwrap();
        second["why"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(why(&run()), "role backup: only when none of the others works");
}
