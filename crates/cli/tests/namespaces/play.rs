//! A film over a full link by one TCP connection of the system, and by `play` over that and another one.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use manyway_sim::skipped::skip_optional;

use crate::common::lab::{Family, Lab};
use crate::common::program::Running;
use crate::common::web::Web;

/// A film of 800 kbit/s and what is in its way, as in MultiTCP, Figure 8.2: traffic of others on links of 6 Mbit/s. The
/// queue of a link holds what its queue and its links of 80 ms hold together in the figure.
struct Course {
    film: Duration,
    /// What begins on both links, and when.
    others: &'static [(Duration, Others)],
    carrier: &'static str,
}

/// Traffic of others on the links.
#[derive(Clone, Copy)]
enum Others {
    /// So many connections on the first link and on the second, until the end.
    Tcp([usize; 2]),
    /// Datagrams of 5.5 Mbit/s on each link, for so long.
    Udp(Duration),
}

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// One link is as full as in the figure.
const SCALED: Course = Course {
    film: seconds(8),
    others: &[
        (seconds(0), Others::Tcp([15, 3])),
        (seconds(3), Others::Udp(seconds(1))),
        (seconds(4), Others::Tcp([5, 0])),
    ],
    carrier: "auto",
};
/// The figure, on both links.
const FULL: Course = Course {
    film: seconds(1000),
    others: &[
        (seconds(200), Others::Udp(seconds(20))),
        (seconds(300), Others::Udp(seconds(40))),
        (seconds(500), Others::Tcp([15, 15])),
        (seconds(750), Others::Tcp([5, 5])),
    ],
    carrier: "tcp",
};

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

/// Traffic of others begins.
fn begin(links: &(Lab, Senders), others: Others) {
    match others {
        Others::Tcp(counts) => connect(links, counts),
        Others::Udp(time) => send_datagrams(&links.0, time),
    }
}

fn connect((lab, senders): &(Lab, Senders), counts: [usize; 2]) {
    for (sender, count) in senders.iter().zip(counts) {
        let connect = || (0..count).map(|_| TcpStream::connect(sender).unwrap()).collect::<Vec<_>>();
        for mut stream in lab.client.inside(connect) {
            std::thread::spawn(move || while stream.read(&mut [0; 16 * 1024]).is_ok_and(|read| read > 0) {});
        }
    }
}

/// From the server to a port of the client that takes and ignores them.
fn send_datagrams(lab: &Lab, time: Duration) {
    const BURST: u32 = 7;
    let (payload, packet) = ([0; 972], 1000 * 8);
    let pause = Duration::from_secs(1) * (BURST * packet) / 5_500_000;
    for link in [1, 2] {
        let sink = lab.client.inside(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap());
        let to = (Ipv4Addr::new(10, 7, link, 1), sink.local_addr().unwrap().port());
        let sender = lab.server.inside(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap());
        std::thread::spawn(move || {
            let (begun, mut bursts) = (Instant::now(), 0);
            while begun.elapsed() < time {
                for _ in 0..BURST {
                    let _ = sender.send_to(&payload, to);
                }
                bursts += 1;
                std::thread::sleep((begun + pause * bursts).saturating_duration_since(Instant::now()));
            }
            drop(sink);
        });
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
    let Course { film: length, others, carrier } = course();
    make_film(&lab.there().join("film.ts"), length);
    let film = std::fs::read(lab.there().join("film.ts")).unwrap();
    let web =
        Web::start(other.0.server.inside(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap()), film);
    let server = lab.serve(&["--read-only", "--carrier", carrier]);
    let mut others = others.iter().peekable();
    while let Some((_, first)) = others.next_if(|(at, _)| at.is_zero()) {
        begin(&ours, *first);
        begin(&other, *first);
        // The queues fill.
        std::thread::sleep(Duration::from_secs(1));
    }

    let begun = Instant::now();
    let mut command = other.0.client.command(PLAYER[0]);
    command.args(&PLAYER[1..]).arg(format!("http://10.7.1.2:{}/film.ts", web.port()));
    let single = Running::start(command);
    let arguments =
        [&["play", "--json", "--carrier", carrier, &server.ticket, "film.ts", "--"], &PLAYER[..]].concat();
    let playing = lab.start_client(&arguments);
    for (at, later) in others {
        std::thread::sleep((begun + *at).saturating_duration_since(Instant::now()));
        begin(&ours, *later);
        begin(&other, *later);
    }
    let rest = (begun + length).saturating_duration_since(Instant::now());
    let played = playing.end_within(rest + SPARE).expect(0);
    let figures = played.summary();
    assert_eq!(figures["event"], "played", "{}", played.out);
    std::thread::sleep((begun + length + SPARE).saturating_duration_since(Instant::now()));
    assert!(single.is_running(), "one TCP connection keeps up: {}", single.messages());
    figures["stalls"].as_u64().unwrap()
}
