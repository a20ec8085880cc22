//! Services behind the server: a web server of the test, and sshd with keys and settings of its own.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common::lab::Lab;
use crate::common::program::wait_until;

/// An address of the server's host, which its clients may be connected to.
pub(crate) const HOST: &str = "10.9.0.1";
pub(crate) const WEB: u16 = 8080;
pub(crate) const SSH: u16 = 2222;

/// Prints a line of the test's own.
#[expect(clippy::print_stdout, reason = "it says what it measured")]
pub(crate) fn tell(text: &str) {
    println!("{text}");
}

/// Gives the server's host its address, and serves files by HTTP there: `/N` has N bytes.
pub(crate) fn serve_web(lab: &Lab) {
    lab.server.ip(&format!("addr add {HOST}/32 dev lo"));
    let listener = lab.server.inside(|| TcpListener::bind((HOST, WEB)).unwrap());
    // It ends with the test program.
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            std::thread::spawn(move || drop(answer(socket)));
        }
    });
}

fn answer(mut socket: TcpStream) -> std::io::Result<()> {
    let (mut request, mut buffer) = (Vec::new(), [0; 1024]);
    while !request.ends_with(b"\r\n\r\n") {
        match socket.read(&mut buffer)? {
            0 => return Ok(()),
            length => request.extend_from_slice(&buffer[..length]),
        }
    }
    let text = String::from_utf8_lossy(&request);
    let size: u64 = text.split(['/', ' ']).find_map(|word| word.parse().ok()).unwrap_or(0);
    write!(socket, "HTTP/1.1 200 OK\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n")?;
    std::io::copy(&mut blake3::Hasher::new().finalize_xof().take(size), &mut socket)?;
    Ok(())
}

/// The hash of `/N`.
pub(crate) fn web_hash(size: u64) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    std::io::copy(&mut blake3::Hasher::new().finalize_xof().take(size), &mut hasher).unwrap();
    hasher.finalize()
}

/// A running sshd; dropping it ends it.
pub(crate) struct Sshd {
    child: Child,
    place: PathBuf,
}

impl Sshd {
    /// Starts it at [`HOST`], with keys and settings in `place`.
    pub(crate) fn start(lab: &Lab, place: &Path) -> Self {
        // Debian makes it when the service starts.
        std::fs::create_dir_all("/run/sshd").unwrap();
        for name in ["host", "client"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(place.join(name))
                .output()
                .unwrap();
            assert!(made.status.success(), "{made:?}");
        }
        std::fs::copy(place.join("client.pub"), place.join("authorized")).unwrap();
        let key = std::fs::read_to_string(place.join("host.pub")).unwrap();
        let mut known = String::new();
        for host in [HOST, "127.0.0.1"] {
            writeln!(known, "{host} {key}").unwrap();
            for port in [SSH, PORT_HERE] {
                writeln!(known, "[{host}]:{port} {key}").unwrap();
            }
        }
        std::fs::write(place.join("known"), known).unwrap();
        let settings = format!(
            "Port {SSH}\nListenAddress {HOST}\nHostKey {0}/host\nAuthorizedKeysFile {0}/authorized\nPidFile none\n\
             UsePAM no\nStrictModes no\nPermitRootLogin yes\nPasswordAuthentication no\nUseDNS no\n",
            place.display()
        );
        std::fs::write(place.join("settings"), settings).unwrap();
        let log = File::create(place.join("log")).unwrap();
        let mut command = lab.server.command("/usr/sbin/sshd");
        command.args(["-D", "-e", "-f"]).arg(place.join("settings")).stdin(Stdio::null());
        let child = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let sshd = Self { child, place: place.to_owned() };
        wait_until("sshd", || sshd.log().contains("Server listening"));
        sshd
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.place.join("log")).unwrap_or_default()
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where a forward to sshd listens at the client.
pub(crate) const PORT_HERE: u16 = 2200;

/// A script that ssh runs to reach its host, or none.
pub(crate) fn ssh_options(place: &Path, proxy: Option<&str>) -> Vec<String> {
    let mut options: Vec<String> = vec!["-F".into(), "none".into(), "-i".into()];
    options.push(place.join("client").display().to_string());
    let mut set = |option: String| options.extend(["-o".to_owned(), option]);
    set(format!("UserKnownHostsFile={}", place.join("known").display()));
    set("StrictHostKeyChecking=yes".to_owned());
    set("BatchMode=yes".to_owned());
    if let Some(command) = proxy {
        // A script, so that ssh, git and the command need no quoting.
        let script = place.join("proxy");
        std::fs::write(&script, format!("#!/bin/sh\nexec {command} \"$1\" \"$2\"\n")).unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        set(format!("ProxyCommand={} %h %p", script.display()));
    }
    options
}

/// A repository with one commit of this many bytes; its file is `blob`.
pub(crate) fn make_repository(place: &Path, size: usize) -> PathBuf {
    let repository = place.join("repository");
    std::fs::create_dir(&repository).unwrap();
    crate::common::program::make_file(&repository.join("blob"), size);
    let git = |arguments: &[&str]| {
        let done = Command::new("git")
            .args(["-c", "user.name=Test", "-c", "user.email=test@localhost", "-C"])
            .arg(&repository)
            .args(arguments)
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    git(&["init", "-q"]);
    git(&["add", "blob"]);
    git(&["commit", "-q", "-m", "blob"]);
    repository
}

/// How long a test waits for a client.
pub(crate) const LONG: Duration = Duration::from_secs(120);
