//! A film over full links: by one TCP connection of the system, and by `play` over both links.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::lab::{Family, Lab};
use crate::common::program::{Running, have};
use crate::common::web::Web;

/// How long the film lasts; it has 800 kbit/s, as that of MultiTCP, Figure 8.2.
const FILM: Duration = Duration::from_secs(8);
/// TCP connections of others on each link of 6 Mbit/s, as in that figure. The queue holds what its queue and its links of
/// 80 ms hold together.
const OTHERS: usize = 15;
/// Time to begin, and for the end of the film to be noticed.
const SPARE: Duration = Duration::from_secs(4);

/// Makes the film from the test picture of ffmpeg.
fn make_film(place: &Path) {
    let made = Command::new("ffmpeg")
        .args(["-v", "error", "-f", "lavfi", "-i", "testsrc=size=320x180:rate=25:duration=8"])
        .args([
            "-c:v",
            "mpeg2video",
            "-b:v",
            "600k",
            "-maxrate",
            "600k",
            "-bufsize",
            "300k",
            "-muxrate",
            "800k",
        ])
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

/// Two links of 6 Mbit/s, full of connections of others.
fn full_links() -> Option<Lab> {
    let lab = Lab::start(2, Family::V4)?;
    for namespace in [&lab.client, &lab.server] {
        namespace.set("ipv4/tcp_congestion_control", "reno");
    }
    for link in 1..=2 {
        let queue = format!("qdisc replace dev vb{link} root tbf rate 6mbit burst 16k limit 110000");
        lab.server.run("tc", &queue);
        let listener = lab.server.inside(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap());
        let address = (IpAddr::from([10, 7, link, 2]), listener.local_addr().unwrap().port());
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                std::thread::spawn(move || while stream.write_all(&[0; 16 * 1024]).is_ok() {});
            }
        });
        let streams = lab
            .client
            .inside(|| (0..OTHERS).map(|_| TcpStream::connect(address).unwrap()).collect::<Vec<_>>());
        for mut stream in streams {
            std::thread::spawn(move || while stream.read(&mut [0; 16 * 1024]).is_ok_and(|read| read > 0) {});
        }
    }
    Some(lab)
}

#[test]
fn a_film_plays_without_a_stop_over_full_links_where_one_tcp_connection_stops() {
    if !have(&[("ffmpeg", "-version")]) {
        return;
    }
    let (Some(lab), Some(other)) = (full_links(), full_links()) else { return };
    make_film(&lab.there().join("film.ts"));
    let film = std::fs::read(lab.there().join("film.ts")).unwrap();
    let web =
        Web::start(other.server.inside(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap()), film);
    let server = lab.serve(&["--read-only", "--carrier", "tcp"]);
    // The queues fill.
    std::thread::sleep(Duration::from_secs(1));

    let begun = Instant::now();
    let mut command = other.client.command(PLAYER[0]);
    command.args(&PLAYER[1..]).arg(format!("http://10.7.1.2:{}/film.ts", web.port()));
    let single = Running::start(command);
    let arguments =
        [&["play", "--json", "--carrier", "tcp", &server.ticket, "film.ts", "--"], &PLAYER[..]].concat();
    let played = lab.run_client(&arguments).expect(0);
    let took = begun.elapsed();
    assert!(took < FILM + SPARE, "{took:?}: {}", played.out);
    let figures = played.summary();
    assert_eq!((&figures["event"], &figures["stops"]), (&"played".into(), &0.into()), "{}", played.out);
    std::thread::sleep((begun + FILM + SPARE).saturating_duration_since(Instant::now()));
    assert!(single.is_running(), "one TCP connection keeps up: {}", single.messages());
}
