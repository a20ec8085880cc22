//! A film over a full link by one TCP connection of the system, and by `play` over that and another one.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::lab::{Family, Lab};
use crate::common::program::{Running, have};
use crate::common::web::Web;

/// How long the film lasts; it has 800 kbit/s, as that of MultiTCP, Figure 8.2. With `MANYWAY_NIGHTLY` it is as long as
/// the second half of that figure, where TCP connections are in its way.
fn length_of_film() -> Duration {
    Duration::from_secs(if std::env::var_os("MANYWAY_NIGHTLY").is_some() { 500 } else { 8 })
}

/// TCP connections of others on the first link of 6 Mbit/s, and so many more from the middle of the film on, as in that
/// figure. Its queue holds what the queue and the links of 80 ms of the figure hold together.
const OTHERS: usize = 15;
const MORE: usize = 5;
/// Those on the second link, which is as fast.
const OTHERS_BESIDE: usize = 3;
/// Time to begin, and for the end of the film to be noticed.
const SPARE: Duration = Duration::from_secs(4);

/// Makes the film from the test picture of ffmpeg.
fn make_film(place: &Path) {
    let picture = format!("testsrc=size=320x180:rate=25:duration={}", length_of_film().as_secs());
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

/// Two links of 6 Mbit/s, and where others send as much as each of them takes.
fn links() -> Option<(Lab, [(IpAddr, u16); 2])> {
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
fn fill((lab, senders): &(Lab, [(IpAddr, u16); 2]), counts: [usize; 2]) {
    for (sender, count) in senders.iter().zip(counts) {
        let connect = || (0..count).map(|_| TcpStream::connect(sender).unwrap()).collect::<Vec<_>>();
        for mut stream in lab.client.inside(connect) {
            std::thread::spawn(move || while stream.read(&mut [0; 16 * 1024]).is_ok_and(|read| read > 0) {});
        }
    }
}

#[test]
fn a_film_plays_without_a_stop_over_two_links_where_one_tcp_connection_stops_on_the_full_one() {
    if !have(&[("ffmpeg", "-version")]) {
        return;
    }
    let (Some(ours), Some(other)) = (links(), links()) else { return };
    let lab = &ours.0;
    make_film(&lab.there().join("film.ts"));
    let film = std::fs::read(lab.there().join("film.ts")).unwrap();
    let web =
        Web::start(other.0.server.inside(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap()), film);
    let server = lab.serve(&["--read-only"]);
    [&ours, &other].map(|links| fill(links, [OTHERS, OTHERS_BESIDE]));
    // The queues fill.
    std::thread::sleep(Duration::from_secs(1));

    let (begun, length) = (Instant::now(), length_of_film());
    let mut command = other.0.client.command(PLAYER[0]);
    command.args(&PLAYER[1..]).arg(format!("http://10.7.1.2:{}/film.ts", web.port()));
    let single = Running::start(command);
    let arguments = [&["play", "--json", &server.ticket, "film.ts", "--"], &PLAYER[..]].concat();
    let playing = lab.start_client(&arguments);
    std::thread::sleep(length / 2);
    [&ours, &other].map(|links| fill(links, [MORE, 0]));
    let played = playing.end_within(length / 2 + SPARE).expect(0);
    let figures = played.summary();
    assert_eq!((&figures["event"], &figures["stops"]), (&"played".into(), &0.into()), "{}", played.out);
    std::thread::sleep((begun + length + SPARE).saturating_duration_since(Instant::now()));
    assert!(single.is_running(), "one TCP connection keeps up: {}", single.messages());
}
