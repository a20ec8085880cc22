//! Programs of others that need nothing but a port, as `docs/programs.md` has them, while one of two links becomes a black
//! hole.

use std::io::Write as _;
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use manyway_sim::skipped::skip_optional;

use super::hosts::{HOST, LONG, WEB, serve_web, tell, web_hash};
use crate::common::lab::{Family, Hole, Lab, Namespace};
use crate::common::program::{MANYWAY, Running, Server, have, wait_until};

/// Two links, and ports of this machine that are forwarded to the same ones of the server's host.
struct Scene {
    lab: Lab,
    _server: Server,
    _forward: Running,
}

impl Scene {
    /// With these rules in the settings of the client.
    fn start(ports: &[u16], rules: &str) -> Option<Self> {
        let lab = Lab::start(2, Family::V4)?;
        lab.limit(1, 20);
        lab.limit(2, 20);
        serve_web(&lab);
        let server = lab.serve(&["--egress", "--allow", HOST]);
        std::fs::write(lab.here().join("config.toml"), rules).unwrap();
        let mut forward = lab.client.command(MANYWAY);
        forward.env("MANYWAY_HOME", lab.here()).args(["forward", &server.ticket]);
        forward.args(ports.iter().flat_map(|port| ["-L".to_owned(), format!("{port}:{HOST}:{port}/udp")]));
        let forward = Running::start(forward);
        forward.wait_until("its ports", || forward.printed().contains("/udp"));
        Some(Self { lab, _server: server, _forward: forward })
    }
}

/// A camera that sends 8 Mbit/s for 4 s by SRT with a latency of 200 ms. What comes later than that is dropped by the
/// receiver. Returns what was sent and what arrived.
fn film(scene: &Scene) -> (Vec<u8>, Vec<u8>) {
    let file = scene.lab.there().join("film");
    let mut receiver = scene.lab.server.command("sh");
    receiver.args(["-c", "exec srt-live-transmit -q -a:no \"$0\" file://con > \"$1\""]);
    receiver.arg(format!("srt://{HOST}:9000?mode=listener&latency=200")).arg(&file);
    let receiver = Running::start(receiver);
    wait_until("the receiver", || scene.lab.server.run("ss", "-Hlun").contains(":9000 "));
    let mut camera = scene.lab.client.command("srt-live-transmit");
    camera.args(["-q", "-a:no", "-chunk", "1316", "file://con", "srt://127.0.0.1:9000?latency=200"]);
    let mut camera = camera.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = camera.stdin.take().unwrap();
    let mut sent = Vec::new();
    let begin = Instant::now();
    for number in 0..3040_u32 {
        if number == 1520 {
            scene.lab.black_hole(1, Hole::Both);
        }
        let packet: Vec<u8> = number.to_be_bytes().into_iter().cycle().take(1316).collect();
        let due = begin + Duration::from_micros(1316) * number;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        stdin.write_all(&packet).unwrap();
        sent.extend(packet);
    }
    // What is in the buffers of both ends.
    std::thread::sleep(Duration::from_secs(1));
    scene.lab.release();
    Command::new("kill").args(["-INT", &camera.id().to_string()]).status().unwrap();
    drop(stdin);
    let _ = camera.wait();
    // It ends with the connection, and writes what it holds back.
    receiver.end();
    (sent, std::fs::read(&file).unwrap())
}

#[test]
fn srt_goes_on_while_a_link_becomes_a_black_hole() {
    let Some(scene) = Scene::start(&[9000], "") else { return };
    if !have(&[("srt-live-transmit", "-version"), ("ss", "-V")]) {
        return;
    }
    let (sent, arrived) = film(&scene);
    let lost = sent.len().saturating_sub(arrived.len());
    tell(&format!("{lost} of {} bytes came too late", sent.len()));
    // The link fails in the middle: more than half of the second half arrives, however busy the machine is.
    assert!(lost < sent.len() / 4, "{lost}");
}

/// The sequence numbers of the packets of RTP (RFC 3550) that arrive, until none comes for a second.
fn sequence(socket: &UdpSocket) -> Vec<u16> {
    let (mut numbers, mut packet) = (Vec::new(), [0; 2048]);
    socket.set_read_timeout(Some(LONG)).unwrap();
    while let Ok(length) = socket.recv(&mut packet) {
        assert!(length > 12 && packet[0] >> 6 == 2, "no RTP: {:?}", &packet[..length]);
        numbers.push(u16::from_be_bytes([packet[2], packet[3]]));
        socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    }
    numbers
}

#[test]
fn rtp_of_ffmpeg_goes_on_in_order_while_a_link_becomes_a_black_hole() {
    if let Err(error) = Command::new("ffmpeg").arg("-version").output() {
        return skip_optional(format!("ffmpeg: {error}"));
    }
    let rule =
        "[[rule]]\nproto = \"udp\"\nport = \"5004-5005\"\nclass = \"deadline\"\nlifetime = \"150ms\"\n";
    let Some(scene) = Scene::start(&[5004, 5005], rule) else { return };
    let studio = scene.lab.server.inside(|| UdpSocket::bind((HOST, 5004)).unwrap());
    let mut camera = scene.lab.client.command("ffmpeg");
    camera.args(["-v", "error", "-re", "-f", "lavfi", "-i", "testsrc2=s=640x360:r=25", "-t", "4"]);
    camera.args(["-c:v", "mpeg4", "-b:v", "4M", "-minrate", "4M", "-maxrate", "4M", "-bufsize", "1M"]);
    let camera = Running::start({
        camera.args(["-f", "rtp", "rtp://127.0.0.1:5004?localrtpport=6004"]);
        camera
    });
    let numbers = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| sequence(&studio));
        std::thread::sleep(Duration::from_secs(2));
        scene.lab.black_hole(1, Hole::Both);
        receiver.join().unwrap()
    });
    camera.end().expect(0);
    let first = numbers.first().copied().unwrap();
    let places: Vec<u16> = numbers.iter().map(|number| number.wrapping_sub(first)).collect();
    let overtaken = places.windows(2).filter(|pair| pair[0] > pair[1]).count();
    let sent = usize::from(*places.iter().max().unwrap()) + 1;
    let lost = sent.saturating_sub(places.len());
    tell(&format!("{lost} of {sent} packets lost, {overtaken} overtaken"));
    assert!(sent > 500, "{sent}");
    // The link fails in the middle: more than half of the second half arrives, however busy the machine is.
    assert!(lost < sent / 4 && overtaken < sent / 50, "{lost} of {sent} lost, {overtaken} overtaken");
}

/// A private key, and the public one.
fn keys() -> [String; 2] {
    let text = |command: &mut Command| {
        String::from_utf8(command.output().unwrap().stdout).unwrap().trim().to_owned()
    };
    let private = text(Command::new("wg").arg("genkey"));
    let public = text(Command::new("sh").args(["-c", "echo \"$0\" | wg pubkey", &private]));
    [private, public]
}

/// An end of a VPN by wireguard-go, whose device has this name and the address 10.8.0.N.
fn vpn(lab: &Lab, host: &Namespace, (name, number): (&str, u8), settings: &str) -> Running {
    let mut command = host.command("wireguard-go");
    command.args(["-f", name]);
    let running = Running::start(command);
    wait_until("the device", || host.run("ip", "link").contains(name));
    let file = lab.here().join(name);
    std::fs::write(&file, settings).unwrap();
    wait_until("its settings", || {
        let mut set = host.command("wg");
        set.args(["setconf", name]).arg(&file).output().unwrap().status.success()
    });
    host.ip(&format!("addr add 10.8.0.{number}/24 dev {name}"));
    host.ip(&format!("link set {name} mtu 1280 up"));
    running
}

#[test]
fn a_vpn_by_wireguard_goes_over_a_forward_while_a_link_becomes_a_black_hole() {
    let Some(scene) = Scene::start(&[51_820], "") else { return };
    if !have(&[("wireguard-go", "--version"), ("wg", "--version"), ("curl", "-V")]) {
        return;
    }
    let Scene { lab, .. } = &scene;
    let ([mine, my_public], [theirs, their_public]) = (keys(), keys());
    // The socket for settings has the name of the device, and no network namespace of its own.
    let (near, far) = (format!("wa{}", std::process::id()), format!("wb{}", std::process::id()));
    let settings = format!(
        "[Interface]\nPrivateKey = {theirs}\nListenPort = 51820\n[Peer]\nPublicKey = {my_public}\nAllowedIPs = 10.8.0.0/24\n"
    );
    let _far = vpn(lab, &lab.server, (&far, 1), &settings);
    let settings = format!(
        "[Interface]\nPrivateKey = {mine}\n[Peer]\nPublicKey = {their_public}\nAllowedIPs = 10.8.0.0/24, {HOST}/32\n\
         Endpoint = 127.0.0.1:51820\n"
    );
    let _near = vpn(lab, &lab.client, (&near, 2), &settings);
    lab.client.ip(&format!("route add {HOST}/32 dev {near}"));
    let file = lab.here().join("page");
    let mut curl = lab.client.command("curl");
    curl.args(["-sS", "-m", "60", "-o"]).arg(&file).arg(format!("http://{HOST}:{WEB}/10000000"));
    let download = Running::start(curl);
    wait_until("the download", || std::fs::metadata(&file).is_ok_and(|it| it.len() > 2_000_000));
    lab.black_hole(1, Hole::Both);
    download.end().expect(0);
    assert_eq!(blake3::hash(&std::fs::read(&file).unwrap()), web_hash(10_000_000));
}
