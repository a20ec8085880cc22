//! Traffic of others, of the real binary; on sockets as root.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::BTreeSet;

use crate::common::command::{err, json, lab, out};
use crate::common::hosts::with_hosts;

/// A sender and a generator of traffic behind one link of 6 Mbit/s, with a NAT before the receiver.
const DUMB_BELL: &str = "duration = '3s'\n\
    routes = [{ client = 'home', server = 'video', links = ['shared', 'near'] },\n\
    { client = 'home', server = 'other', links = ['shared', 'far'] }]\n\
    [client.home]\nnat = {}\n[server.video]\n[server.other]\nothers = true\n\
    [links.shared]\nrate = '6M'\nrtt = '10ms'\n[links.near]\nrate = '6M'\nrtt = '10ms'\n\
    [links.far]\nrate = '6M'\nrtt = '10ms'\n\
    [[traffic]]\nbulk = 'down'\n\
    [[traffic]]\nby = 'udp'\nroute = 'home-other'\nrate = '2M'\nat = '500ms'\nfor = '2s'\npacket = 1000\n\
    [[traffic]]\nby = 'tcp-reno'\nroute = 'home-other'\ncount = 3\nat = '500ms'\n\
    [[traffic]]\nby = 'tcp-cubic'\nroute = 'home-video'\ndirection = 'up'\n";

fn written() -> (tempfile::TempDir, String) {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("mine.toml");
    std::fs::write(&file, DUMB_BELL).unwrap();
    let name = file.to_str().unwrap().to_owned();
    (place, name)
}

#[test]
fn every_contender_on_sockets_meets_the_same_traffic_of_others() {
    let (_place, file) = written();
    let arguments = [&file, "-c", "manyway,tcp-cubic,possible", "--quick", "--json"];
    let Some(output) = with_hosts(&arguments) else { return };
    let lines = json(&output);
    let (summary, runs) = lines.split_last().unwrap();
    let contenders: BTreeSet<_> = runs.iter().map(|run| run["contender"].as_str().unwrap()).collect();
    assert_eq!(contenders.len(), 3, "{}", err(&output));
    for run in runs {
        assert!(run["failure"].is_null() && run["routes"].as_array().unwrap().len() == 1, "{run}");
        let cross = run["cross"].as_array().unwrap();
        let megabits = |entry: usize, field: &str| cross[entry][field].as_f64().unwrap() / 1e6;
        // 972 of 1000 bytes are payload, and little is lost.
        let udp = megabits(0, "bits_per_second");
        assert!(udp > 1.0 && udp < 1.96, "{run}");
        let (reno, own) = (megabits(1, "bits_per_second"), megabits(1, "contender_bits_per_second"));
        assert!(reno > 0.3 && own > 0.3 && udp + reno + own < 6.6, "{run}");
        assert!(megabits(1, "slowest") > 0.0 && megabits(1, "slowest") <= megabits(1, "fastest"), "{run}");
        assert!(megabits(2, "bits_per_second") > 2.0, "the other way is free: {run}");
    }
    let row = &summary["summary"][0]["cross"][1];
    assert!(row["megabits"]["median"].as_f64().unwrap() > 0.3, "{row}");
}

#[test]
fn the_table_of_virtual_time_tells_what_others_got() {
    let (_place, file) = written();
    let output = lab(&["sim", &file, "-c", "manyway", "-n", "1"]);
    let text = out(&output);
    assert!(text.contains("traffic of others") && text.contains("contender meanwhile"), "{text}");
    for entry in [
        "udp down over home-other at 2.0 Mbit/s, 1000-byte packets, from 500 ms for 2.00 s",
        "3 × tcp-reno down over home-other, 1500-byte packets, from 500 ms",
        "tcp-cubic up over home-video, 1500-byte packets",
    ] {
        assert!(text.contains(entry), "{text}");
    }
}
