//! Starts commands as an ordinary user: as the user of the test, or as `nobody` if that is root.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail as tests do"
)]

use std::ffi::OsString;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use manyway_capture::packet::{Datagram, Packet};
use manyway_capture::{CaptureError, Captured, Config, Launcher, Prepared, Tun};
use manyway_sim::skipped::skip;
use tempfile::TempDir;
use tokio::time::timeout;

const STAGE: &str = env!("CARGO_BIN_EXE_manyway-capture-stage");
/// Longer than any step takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Who runs the command, and what root does before in a mount namespace of the test's own.
#[derive(Debug, Clone, Copy)]
pub(crate) enum User {
    /// An ordinary user, who may open `/dev/net/tun`.
    Ordinary,
    /// The same, after these commands of root.
    After(&'static str),
    /// Root.
    Root,
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

impl User {
    /// How to start the stage, and the path of the test program in the namespace.
    fn launcher(self) -> (Launcher, &'static str) {
        let prepare = match self {
            Self::Ordinary if !is_root() => "",
            // Where only root may open the device, the user gets one of its own.
            Self::Ordinary => "mknod -m 666 /mnt/tun c 10 200; mount --bind /mnt/tun /dev/net/tun;",
            Self::After(commands) => commands,
            Self::Root => "",
        };
        if !is_root() {
            return (Launcher { program: STAGE.into(), arguments: Vec::new() }, STAGE);
        }
        // The user may not reach the directory of the test program.
        let become_user = match self {
            Self::Ordinary | Self::After(_) => "setpriv --reuid 65534 --regid 65534 --clear-groups",
            Self::Root => "",
        };
        let script = format!(
            "set -e; cd /; mount -t tmpfs -o mode=755 none /mnt; touch /mnt/program; \
             mount --bind {STAGE} /mnt/program; {prepare} exec {become_user} /mnt/program \"$@\""
        );
        let arguments = ["--mount", "sh", "-c", &script, "sh"].map(OsString::from).into();
        (Launcher { program: "unshare".into(), arguments }, "/mnt/program")
    }

    /// Makes a namespace for a command.
    pub(crate) async fn prepare(self, command: &[&str]) -> Result<Prepared, CaptureError> {
        let mut config = Config::default();
        config.launcher = self.launcher().0;
        let command: Vec<_> = command.iter().map(OsString::from).collect();
        timeout(PATIENCE, Prepared::new(&config, &command)).await.unwrap()
    }

    /// Runs a shell script in a namespace, in which `$PROGRAM` is the test program and `$HERE` a directory of its own.
    /// `None`, and the test counts as skipped, where that is impossible.
    pub(crate) async fn run(self, script: &str) -> Option<Inside> {
        let here = TempDir::new().unwrap();
        std::fs::set_permissions(here.path(), Permissions::from_mode(0o777)).unwrap();
        let (path, program) = (here.path().display(), self.launcher().1);
        let script = format!("PROGRAM={program}; HERE={path}; exec >$HERE/out 2>&1; {script}");
        match self.prepare(&["sh", "-c", &script]).await {
            Ok(prepared) => Some(Inside { captured: prepared.start().await.unwrap(), here }),
            Err(error) => {
                skip(error);
                None
            }
        }
    }
}

/// A script that runs in its namespace.
pub(crate) struct Inside {
    pub(crate) captured: Captured,
    pub(crate) here: TempDir,
}

impl Inside {
    /// Waits for the end, and returns the exit status and everything that was printed.
    pub(crate) async fn end(mut self) -> (u8, String) {
        let status = timeout(PATIENCE, self.captured.command.wait()).await;
        let text = std::fs::read_to_string(self.here.path().join("out")).unwrap_or_default();
        match status {
            Ok(status) => (status.unwrap(), text),
            Err(_) => panic!("it does not end; it has printed {text:?}"),
        }
    }

    /// Waits until the script has made this file.
    pub(crate) async fn until(&self, file: &str) {
        let waiting = async {
            while !self.here.path().join(file).exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, waiting).await.unwrap();
    }
}

/// The next packet of the command that holds this.
pub(crate) async fn next(tun: &Tun, is_it: impl Fn(&Packet<'_>) -> bool) -> Vec<u8> {
    let mut buffer = vec![0; tun.mtu().into()];
    loop {
        let length = timeout(PATIENCE, tun.receive(&mut buffer)).await.unwrap().unwrap();
        if Packet::parse(&buffer[..length]).is_ok_and(|packet| is_it(&packet)) {
            buffer.truncate(length);
            return buffer;
        }
    }
}

/// The next datagram of the command.
pub(crate) async fn next_datagram(tun: &Tun) -> Vec<u8> {
    next(tun, |packet| matches!(packet, Packet::Datagram(_))).await
}

pub(crate) fn datagram(packet: &[u8]) -> Datagram<'_> {
    match Packet::parse(packet) {
        Ok(Packet::Datagram(datagram)) => datagram,
        other => panic!("{other:?}"),
    }
}
