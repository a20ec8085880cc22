//! curl, ssh, git and rsync from a client's host to the server's, over two links of which one becomes a black hole in the
//! middle.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::hosts::{
    HOST, LONG, PORT_HERE, SSH, Sshd, WEB, make_repository, serve_web, ssh_options, tell, web_hash,
};
use crate::common::lab::{Family, Hole, Lab};
use crate::common::program::{MANYWAY, Running, Server, assert_same_content, have, make_file, wait_until};

/// Bytes of a download: 2 s over two links of 20 Mbit/s.
const SIZE: usize = 10_000_000;
/// The longest stall that a program may see.
const SILENCE: Duration = Duration::from_millis(150);
const PROGRAMS: [(&str, &str); 5] =
    [("curl", "-V"), ("git", "--version"), ("ssh", "-V"), ("/usr/sbin/sshd", "-?"), ("nc", "-h")];

/// Two hosts, the server with a web server and sshd, the client with its credentials.
struct Scene {
    lab: Lab,
    server: Server,
    sshd: Sshd,
    place: TempDir,
}

impl Scene {
    fn start() -> Option<Self> {
        let lab = Lab::start(2, Family::V4)?;
        if !have(&PROGRAMS) {
            return None;
        }
        lab.limit(1, 20);
        lab.limit(2, 20);
        serve_web(&lab);
        let place = TempDir::new().unwrap();
        let sshd = Sshd::start(&lab, place.path());
        make_file(&place.path().join("file"), SIZE);
        make_repository(place.path(), SIZE);
        let server = lab.serve(&["--egress", "--allow", HOST]);
        Some(Self { lab, server, sshd, place })
    }

    fn place(&self) -> &Path {
        self.place.path()
    }

    /// A program at the client's host.
    fn client(&self, program: &str) -> Command {
        let mut command = self.lab.client.command(program);
        command.env("MANYWAY_HOME", self.lab.here()).current_dir(self.lab.here());
        command
    }

    /// Runs a program that downloads, and makes a link a black hole once both carry data. Returns its output, and its
    /// longest stall from the first byte on.
    fn download(&self, mut command: Command) -> (Vec<u8>, Duration) {
        let before = ["vb1", "vb2"].map(|link| self.lab.server.sent(link));
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let reader = std::thread::spawn(move || {
            let (mut all, mut buffer) = (Vec::new(), [0; 65536]);
            let (mut last, mut longest) = (None, Duration::ZERO);
            while let Ok(length @ 1..) = out.read(&mut buffer) {
                let now = Instant::now();
                longest = longest.max(last.map_or(Duration::ZERO, |last| now.duration_since(last)));
                last = Some(now);
                all.extend_from_slice(&buffer[..length]);
            }
            (all, longest)
        });
        let messages = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = err.read_to_string(&mut text);
            text
        });
        let carried =
            || [("vb1", before[0]), ("vb2", before[1])].map(|(link, old)| self.lab.server.sent(link) - old);
        wait_until("both links to carry", || {
            carried().iter().all(|bytes| *bytes > 700_000) || child.try_wait().unwrap().is_some()
        });
        self.lab.black_hole(1, Hole::Both);
        let start = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            assert!(start.elapsed() < LONG, "{command:?} does not end");
            std::thread::sleep(Duration::from_millis(20));
        };
        let ((all, silence), messages) = (reader.join().unwrap(), messages.join().unwrap());
        let after_cut = start.elapsed();
        self.lab.release();
        assert!(status.success(), "{command:?}: {status}\n{messages}\n{}", self.sshd.log());
        // On a busy machine one link may carry all of it, which says nothing about a cut.
        let was_cut = after_cut > Duration::from_millis(300);
        (all, if was_cut { silence } else { Duration::MAX })
    }

    /// Downloads until the silence is short: a busy machine only ever adds to it.
    fn download_without_silence(&self, mut command: impl FnMut() -> Command, check: impl Fn(&[u8])) {
        let mut silences = Vec::new();
        for _ in 0..4 {
            let (all, silence) = self.download(command());
            check(&all);
            tell(&format!("{silence:?} of silence: {:?}", command()));
            if silence <= SILENCE {
                return;
            }
            silences.push(silence);
        }
        panic!("{silences:?} of silence: {:?}", command());
    }

    /// curl, or its replacement, downloads from the web server.
    fn web(&self, command: impl FnMut() -> Command) {
        self.download_without_silence(command, |all| {
            let body = all.len() - SIZE;
            assert_eq!(blake3::hash(&all[body..]), web_hash(SIZE as u64));
        });
    }

    fn curl(&self, arguments: &[&str]) -> Command {
        let mut command = self.client("curl");
        command.args(["-sS", "--noproxy", ""]).args(arguments);
        command
    }

    /// ssh fetches a file from `host`.
    fn ssh(&self, options: &[String], host: &str, port: u16) {
        let expected = blake3::hash(&std::fs::read(self.place().join("file")).unwrap());
        let command = || {
            let mut command = self.client("ssh");
            command.args(options).args(["-p", &port.to_string()]).arg(format!("root@{host}"));
            command.arg(format!("cat {}", self.place().join("file").display()));
            command
        };
        self.download_without_silence(command, |all| assert_eq!(blake3::hash(all), expected));
    }

    /// git clones from `host`; the received data is not printed.
    fn git(&self, options: &[String], host: &str, port: u16) {
        let mut command = self.client("git");
        command.env(
            "GIT_SSH_COMMAND",
            format!("ssh {}", options.iter().map(|it| quoted(it)).collect::<String>()),
        );
        let repository = self.place().join("repository");
        command.args(["-c", "safe.directory=*", "clone", "-q"]);
        command.arg(format!("ssh://root@{host}:{port}{}", repository.display())).arg("clone");
        self.download(command);
        assert_same_content(&self.lab.here().join("clone/blob"), &repository.join("blob"));
    }

    /// rsync copies a directory from `host`, and a change of it back.
    fn rsync(&self, options: &[String], host: &str, port: u16) {
        let there = self.place().join("directory");
        std::fs::create_dir(&there).unwrap();
        make_file(&there.join("large"), SIZE);
        make_file(&there.join("small"), 1000);
        let remote = format!("root@{host}:{}/", there.display());
        let ssh = format!("ssh -p {port}{}", options.iter().map(|it| quoted(it)).collect::<String>());
        let rsync = |paths: [&str; 2]| {
            let mut command = self.client("rsync");
            command.args(["-a", "--checksum", "-e", &ssh]).args(paths);
            command
        };
        let here = self.lab.here().join("directory");
        self.download(rsync([&remote, "directory/"]));
        assert_same_content(&here.join("large"), &there.join("large"));
        make_file(&here.join("small"), 2000);
        let sent = rsync(["directory/", &remote]).output().unwrap();
        assert!(sent.status.success(), "{sent:?}");
        assert_same_content(&here.join("small"), &there.join("small"));
    }

    fn start_verb(&self, arguments: &[&str], sign: &str) -> Running {
        let running = self.lab.start_client(arguments);
        running.wait_until(sign, || running.printed().contains(sign));
        running
    }
}

fn quoted(text: &str) -> String {
    format!(" '{text}'")
}

#[test]
fn ssh_and_git_and_a_request_go_through_pipe_while_a_link_is_cut() {
    let Some(scene) = Scene::start() else { return };
    let ticket = &scene.server.ticket;
    let request = scene.place().join("request");
    std::fs::write(&request, format!("GET /{SIZE} HTTP/1.0\r\n\r\n")).unwrap();
    scene.web(|| {
        let mut command = scene.client("sh");
        command.args(["-c", "exec \"$0\" pipe \"$1\" \"$2\" \"$3\" < \"$4\"", MANYWAY, ticket, HOST]);
        command.arg(WEB.to_string()).arg(&request);
        command
    });
    let options = ssh_options(scene.place(), Some(&format!("{MANYWAY} pipe {ticket}")));
    scene.ssh(&options, HOST, SSH);
    scene.git(&options, HOST, SSH);
}

#[test]
fn rsync_goes_through_pipe_while_a_link_is_cut() {
    if !have(&[("rsync", "--version")]) {
        return;
    }
    let Some(scene) = Scene::start() else { return };
    let pipe = format!("{MANYWAY} pipe {}", scene.server.ticket);
    scene.rsync(&ssh_options(scene.place(), Some(&pipe)), HOST, SSH);
}

#[test]
fn curl_ssh_and_git_go_through_forward_while_a_link_is_cut() {
    let Some(scene) = Scene::start() else { return };
    let rules = [format!("8000:{HOST}:{WEB}"), format!("{PORT_HERE}:{HOST}:{SSH}")];
    let arguments = ["forward", &scene.server.ticket, "-L", &rules[0], "-L", &rules[1]];
    let _forward = scene.start_verb(&arguments, "127.0.0.1:2200");
    scene.web(|| scene.curl(&["-i", &format!("http://127.0.0.1:8000/{SIZE}")]));
    let options = ssh_options(scene.place(), None);
    scene.ssh(&options, "127.0.0.1", PORT_HERE);
    scene.git(&options, "127.0.0.1", PORT_HERE);
}

#[test]
fn curl_ssh_and_git_go_through_proxy_while_a_link_is_cut() {
    let Some(scene) = Scene::start() else { return };
    let _proxy = scene.start_verb(&["proxy", &scene.server.ticket], "socks5h://127.0.0.1:1080");
    let url = format!("http://{HOST}:{WEB}/{SIZE}");
    scene.web(|| scene.curl(&["-i", "-x", "socks5h://127.0.0.1:1080", &url]));
    scene.web(|| scene.curl(&["-i", "--proxytunnel", "-x", "http://127.0.0.1:1080", &url]));
    let options = ssh_options(scene.place(), Some("nc -X 5 -x 127.0.0.1:1080"));
    scene.ssh(&options, HOST, SSH);
    scene.git(&options, HOST, SSH);
}

#[test]
fn one_download_by_curl_is_as_fast_as_bench_over_two_links() {
    let Some(lab) = Lab::start(2, Family::V4) else { return };
    if !have(&PROGRAMS[..1]) {
        return;
    }
    lab.limit(1, 50);
    lab.limit(2, 50);
    serve_web(&lab);
    let server = lab.serve(&["--egress", "--allow", HOST]);
    let proxy = lab.start_client(&["proxy", &server.ticket]);
    proxy.wait_until("the proxy", || proxy.printed().contains("socks5h://"));
    let bytes = 50_000_000;
    let mut shares = Vec::new();
    // A busy machine slows down either; a fair share shows in one run.
    for _ in 0..3 {
        let summary =
            lab.run_client(&["bench", "-R", "-n", "50M", "--json", &server.ticket]).expect(0).summary();
        let bench = 8.0 * summary["bytes"].as_f64().unwrap() / summary["seconds"].as_f64().unwrap();
        let mut curl = lab.client.command("curl");
        curl.args(["-sS", "--noproxy", "", "-o", "/dev/null", "-w", "%{speed_download}", "-x"]);
        let done = curl
            .args(["socks5h://127.0.0.1:1080", &format!("http://{HOST}:{WEB}/{bytes}")])
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
        let curl = 8.0 * String::from_utf8(done.stdout).unwrap().parse::<f64>().unwrap();
        shares.push(format!("curl {curl:.0}, bench {bench:.0}"));
        tell(&format!("curl {curl:.0}, bench {bench:.0} bit/s"));
        if curl >= 0.95 * bench {
            return;
        }
    }
    panic!("{shares:?} bit/s");
}
