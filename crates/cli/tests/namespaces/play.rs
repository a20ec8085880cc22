//! A film over a full link by one TCP connection of the system, and by `play` over that and another one.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use manyway_sim::skipped::skip_optional;

use crate::common::lab::{Family, Lab};
use crate::common::program::Running;
use crate::common::web::Web;

/// A film of 800 kbit/s and what is in its way, as in MultiTCP, Figure 8.2: TCP connections of others on links of 6 Mbit/s,
/// and more of them from the middle of the film on. The queue of a link holds what its queue and its links of 80 ms hold
/// together in the figure.
struct Course {
    film: Duration,
    /// Connections on the first link and on the second, at the beginning and more of them later.
    others: [[usize; 2]; 2],
    carrier: &'static str,
}

/// One link is as full as in the figure.
const SCALED: Course = Course { film: Duration::from_secs(8), others: [[15, 3], [5, 0]], carrier: "auto" };
/// The second half of the figure, on both links.
const FULL: Course = Course { film: Duration::from_secs(500), others: [[15, 15], [5, 5]], carrier: "tcp" };

fn course() -> Course {
    if std::env::var_os("MANYWAY_NIGHTLY").is_some() { FULL } else { SCALED }
}

const ATTEMPTS: usize = 3;

/// Time to begin, and for the end of the film to be noticed.
const SPARE: Duration = Duration::from_secs(4);

/// Makes the film from the test picture of ffmpeg.
fn make_film(place: &Path, length: Duration) {
    let picture = format!("testsrc=size=320x180:rate=25:duration={}", length.as_secs());
    let form = "-c:v mpeg2video -b:v 600k -maxrate 600k -bufsize 300k -muxrate 800k";
    let made = Command::new("ffmpeg")
        .args(["-v", "error", "-f", "lavfi", "-i", &picture])
        .args(form.split(' '))
        .arg(place)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// A player without a picture, at the rate of the film; the URL follows.
const PLAYER: [&str; 3] = [
    "sh",
    "-c",
    "exec ffmpeg -v error -nostdin -analyzeduration 500000 -probesize 50000 -seekable 0 -re -i \"$0\" -f null -",
];

/// Where others send from, on each link.
type Senders = [(IpAddr, u16); 2];

/// Two links of 6 Mbit/s, and where others send as much as each of them takes.
fn links() -> Option<(Lab, Senders)> {
    let lab = Lab::start(2, Family::V4)?;
    for namespace in [&lab.client, &lab.server] {
        namespace.set("ipv4/tcp_congestion_control", "reno");
    }
    let senders = [1, 2].map(|link| {
        let queue = format!("qdisc replace dev vb{link} root tbf rate 6mbit burst 16k limit 110000");
        lab.server.run("tc", &queue);
        let listener = lab.server.inside(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap());
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                std::thread::spawn(move || while stream.write_all(&[0; 16 * 1024]).is_ok() {});
            }
        });
        (IpAddr::from([10, 7, link, 2]), port)
    });
    Some((lab, senders))
}

/// So many connections of others begin on the first link and on the second.
fn fill((lab, senders): &(Lab, Senders), counts: [usize; 2]) {
    for (sender, count) in senders.iter().zip(counts) {
        let connect = || (0..count).map(|_| TcpStream::connect(sender).unwrap()).collect::<Vec<_>>();
        for mut stream in lab.client.inside(connect) {
            std::thread::spawn(move || while stream.read(&mut [0; 16 * 1024]).is_ok_and(|read| read > 0) {});
        }
    }
}

#[test]
fn a_film_plays_without_a_stop_over_two_links_where_one_tcp_connection_stops_on_the_full_one() {
    // Not required: it draws in a hundred packages.
    if let Err(error) = Command::new("ffmpeg").arg("-version").output() {
        skip_optional(format!("ffmpeg: {error}"));
        return;
    }
    // A busy machine may hold up any of the programs.
    let mut stops = Vec::new();
    while stops.len() < ATTEMPTS && !stops.ends_with(&[0]) {
        let (Some(ours), Some(other)) = (links(), links()) else { return };
        stops.push(stops_by_play(ours, other));
    }
    assert!(stops.ends_with(&[0]), "stops of each attempt: {stops:?}");
}

/// Plays a film by one TCP connection of the system, which must not keep up, and at the same time by `play` over other links
/// of the same kind; returns how often the latter stopped.
fn stops_by_play(ours: (Lab, Senders), other: (Lab, Senders)) -> u64 {
    let lab = &ours.0;
    let Course { film: length, others: [first, later], carrier } = course();
    make_film(&lab.there().join("film.ts"), length);
    let film = std::fs::read(lab.there().join("film.ts")).unwrap();
    let web =
        Web::start(other.0.server.inside(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap()), film);
    let server = lab.serve(&["--read-only", "--carrier", carrier]);
    for links in [&ours, &other] {
        fill(links, first);
    }
    // The queues fill.
    std::thread::sleep(Duration::from_secs(1));

    let begun = Instant::now();
    let mut command = other.0.client.command(PLAYER[0]);
    command.args(&PLAYER[1..]).arg(format!("http://10.7.1.2:{}/film.ts", web.port()));
    let single = Running::start(command);
    let arguments =
        [&["play", "--json", "--carrier", carrier, &server.ticket, "film.ts", "--"], &PLAYER[..]].concat();
    let playing = lab.start_client(&arguments);
    std::thread::sleep(length / 2);
    for links in [&ours, &other] {
        fill(links, later);
    }
    let played = playing.end_within(length / 2 + SPARE).expect(0);
    let figures = played.summary();
    assert_eq!(figures["event"], "played", "{}", played.out);
    std::thread::sleep((begun + length + SPARE).saturating_duration_since(Instant::now()));
    assert!(single.is_running(), "one TCP connection keeps up: {}", single.messages());
    figures["stalls"].as_u64().unwrap()
}
