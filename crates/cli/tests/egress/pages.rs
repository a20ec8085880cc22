//! A page of 100 objects in a browser without a screen, over the proxy, the tunnel and one link alone. By night.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;

use manyway_sim::nightly::is_nightly;
use manyway_sim::skipped::skip_optional;

use super::hosts::{HOST, tell};
use crate::common::lab::{Family, Lab};

const PORT: u16 = 8081;
/// Objects of the page. A browser paints nothing before it has the style sheets; the others are pictures.
const STYLES: usize = 5;
const PICTURES: usize = 95;
const STYLE_BYTES: usize = 40_000;
/// Width and height of a picture, in pixels of three bytes.
const PICTURE: [u8; 2] = [100, 132];
/// Of each link, so that the links decide and not the machine.
const MEGABITS: u32 = 8;
/// Loads of the page for a median.
const LOADS: usize = 5;
const BROWSERS: [&str; 2] = ["chromium-headless-shell", "chromium"];

/// A page that writes into itself when it was first painted, and when it was complete, in milliseconds.
fn page() -> String {
    let mut page = "<!DOCTYPE html>\n".to_owned();
    for number in 0..STYLES {
        writeln!(page, "<link rel=\"stylesheet\" href=\"/style{number}\">").unwrap();
    }
    page += "<p>A page</p>\n";
    for number in 0..PICTURES {
        writeln!(page, "<img src=\"/picture{number}\">").unwrap();
    }
    page + "<pre id=\"times\"></pre><script>addEventListener('load', () => {\
        const paint = performance.getEntriesByName('first-paint')[0];\
        times.textContent = `painted ${paint ? paint.startTime : NaN} loaded ${performance.now()} ;`;\
        });</script>"
}

/// Answers requests, of which a connection may carry many.
fn serve(lab: &Lab) {
    lab.server.ip(&format!("addr add {HOST}/32 dev lo"));
    let listener = lab.server.inside(|| TcpListener::bind((HOST, PORT)).unwrap());
    // It ends with the test program.
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            std::thread::spawn(move || drop(answer(&socket)));
        }
    });
}

/// A picture without compression, of 39 654 bytes.
fn picture() -> Vec<u8> {
    let [width, height] = PICTURE.map(u32::from);
    let pixels = usize::try_from(3 * width * height).unwrap();
    let size = u32::try_from(54 + pixels).unwrap();
    let fields = [size, 0, 54, 40, width, height, 24 << 16 | 1, 0, 0, 0, 0, 0, 0];
    let header = fields.into_iter().flat_map(u32::to_le_bytes);
    b"BM".iter().copied().chain(header).chain(std::iter::repeat_n(0x5a, pixels)).collect()
}

/// A style sheet, most of which is a comment.
fn style() -> Vec<u8> {
    format!("/*{}*/ p {{ color: green }}", " ".repeat(STYLE_BYTES)).into_bytes()
}

fn answer(socket: &TcpStream) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    let mut lines = BufReader::new(socket).lines();
    while let Some(request) = lines.next().transpose()? {
        while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
        let (kind, body) = match request.split(' ').nth(1) {
            Some("/") => ("text/html", page().into_bytes()),
            Some(path) if path.starts_with("/style") => ("text/css", style()),
            _ => ("image/bmp", picture()),
        };
        let length = body.len();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nCache-Control: no-store\r\n\r\n"
        );
        let mut socket = socket;
        socket.write_all(&[head.as_bytes(), &body].concat())?;
    }
    Ok(())
}

/// Medians of the times until the first paint and until the page was complete.
fn load(lab: &Lab, browser: &str, name: &str, options: &[&str]) -> [f64; 2] {
    let mut times = [Vec::new(), Vec::new()];
    for number in 0..LOADS {
        let data = lab.here().join(format!("{name}{number}"));
        let mut command = lab.client.command("timeout");
        command.args(["60", browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]);
        command.arg(format!("--user-data-dir={}", data.display())).args(options);
        let done = command.arg(format!("http://{HOST}:{PORT}/")).output().unwrap();
        let text = String::from_utf8_lossy(&done.stdout);
        let after = |word: &str| text.split_once(word)?.1.split_whitespace().next()?.parse::<f64>().ok();
        for (times, word) in times.iter_mut().zip(["painted ", " loaded "]) {
            times.push(after(word).unwrap_or_else(|| panic!("no {word}in {done:?}")));
        }
    }
    let medians = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[LOADS / 2]
    });
    let [painted, loaded] = medians;
    tell(&format!("{name}: painted after {painted:.0} ms, complete after {loaded:.0} ms"));
    medians
}

#[test]
fn a_page_of_a_hundred_objects_is_painted_and_complete_sooner_than_over_the_best_link() {
    if !is_nightly() {
        return;
    }
    let Some(lab) = Lab::start(2, Family::V4) else { return };
    let Some(browser) = BROWSERS.into_iter().find(|it| Command::new(it).arg("--version").output().is_ok())
    else {
        return skip_optional("no chromium");
    };
    lab.limit(1, MEGABITS);
    lab.limit(2, MEGABITS);
    serve(&lab);
    lab.client.ip(&format!("route add {HOST}/32 via 10.7.1.2"));
    let alone = load(&lab, browser, "one link", &[]);
    lab.client.ip(&format!("route del {HOST}/32"));

    let server = lab.serve(&["--egress", "--allow", HOST]);
    let proxy = lab.start_client(&["proxy", &server.ticket, "--listen", "127.0.0.1:1080"]);
    proxy.wait_until("the proxy", || proxy.printed().contains("socks5h://"));
    let by_proxy = load(&lab, browser, "proxy", &["--proxy-server=socks5://127.0.0.1:1080"]);
    drop(proxy);

    let tunnel = lab.start_client(&["tunnel", &server.ticket]);
    tunnel.wait_for("goes by manyway-tun until Ctrl-C");
    let by_tunnel = load(&lab, browser, "tunnel", &[]);
    let is_sooner = |times: [f64; 2]| times.iter().zip(alone).all(|(time, alone)| *time < alone);
    assert!(
        is_sooner(by_proxy) && is_sooner(by_tunnel),
        "{by_proxy:?} and {by_tunnel:?} ms instead of {alone:?}"
    );
}
