//! Caches of names that run on the machine are not asked inside `manyway run`: they know what the machine knows.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use manyway_sim::skipped::skip_optional;

use super::run::Scene;
use crate::common::program::MANYWAY;

/// Arguments: a directory, the program, the ticket, nscd. Prints what nscd tells outside and inside. It alone knows the address,
/// from a file that is gone.
const NSCD: &str = "\
set -e
cd \"$1\"
mount -t tmpfs none /run
mkdir -p /run/nscd
printf '%s cached.test\\n' 192.0.2.9 >hosts
printf 'enable-cache hosts yes\\npositive-time-to-live hosts 3600\\ncheck-files hosts no\\n\
persistent hosts no\\nshared hosts no\\nserver-user root\\n' >nscd.conf
mount --bind hosts /etc/hosts
\"$4\" -F -f \"$1/nscd.conf\" >nscd.log 2>&1 &
trap \"kill $!\" EXIT
for i in $(seq 200); do [ -S /run/nscd/socket ] && break; sleep 0.05; done
getent ahostsv4 cached.test >warm
umount /etc/hosts
echo outside: $(getent ahostsv4 cached.test | cut -d ' ' -f 1 | sort -u)
echo inside: $(\"$2\" run \"$3\" -- getent ahostsv4 cached.test | cut -d ' ' -f 1 | sort -u)
";

/// The same with nss-resolve, which asks systemd-resolved over a socket; instead of nscd, arguments name the directory of the
/// module and the program. It has an address from a file that only it sees, a user that the system need not have, and no message
/// bus. Prints also how often it was asked.
const RESOLVED: &str = "\
set -e
cd \"$1\"
mount -t tmpfs none /run
mkdir -p /run/systemd
printf '%s cached.test\\n' 192.0.2.9 >hosts
printf 'hosts: resolve [!UNAVAIL=return] files dns\\n' >nsswitch
{ grep -v ^systemd-resolve: /etc/passwd; echo systemd-resolve:x:61990:61990::/:/usr/sbin/nologin; } >passwd
{ grep -v ^systemd-resolve: /etc/group; echo systemd-resolve:x:61990:; } >group
mount --bind nsswitch /etc/nsswitch.conf
mount --bind passwd /etc/passwd
mount --bind group /etc/group
unshare --mount sh -c 'mount --bind hosts /etc/hosts && \
SYSTEMD_LOG_LEVEL=debug LD_LIBRARY_PATH=\"$1/systemd\" exec \"$0\"' \"$5\" \"$4\" >resolved.log 2>&1 &
trap \"kill $!\" EXIT
for i in $(seq 200); do [ -S /run/systemd/resolve/io.systemd.Resolve ] && break; sleep 0.05; done
asked() { grep -c 'New incoming message.*ResolveHostname' resolved.log || true; }
echo outside: $(env LD_LIBRARY_PATH=\"$4\" getent ahostsv4 cached.test | cut -d ' ' -f 1 | sort -u)
before=$(asked)
[ \"$before\" -gt 0 ] && echo it was asked
echo inside: $(\"$2\" run \"$3\" -- env LD_LIBRARY_PATH=\"$4\" getent ahostsv4 cached.test | cut -d ' ' -f 1 | sort -u)
[ \"$(asked)\" = \"$before\" ] && echo it was not asked again
";

/// Runs a script in a mount namespace of its own at the client, which has to print these lines.
#[track_caller]
fn check(scene: &Scene, script: &str, more: &[&Path], lines: &[&str]) {
    let mut command = scene.lab.client.command("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"]);
    command.arg(scene.lab.here()).args([MANYWAY, &scene.server.ticket]).args(more);
    let done = command.env("MANYWAY_HOME", scene.lab.here()).stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout);
    assert_eq!(text.lines().collect::<Vec<_>>(), lines, "{done:?}");
}

#[test]
fn a_command_does_not_ask_nscd() {
    let Some(scene) = Scene::start() else { return };
    let Some(nscd) = roots().map(|root| root.join("usr/sbin/nscd")).find(|nscd| nscd.exists()) else {
        return skip_optional(format!("there is no nscd here, nor below the directory in {PLACE}"));
    };
    if let Err(error) = Command::new(&nscd).arg("--version").output() {
        return skip_optional(format!("{}: {error}", nscd.display()));
    }
    check(&scene, NSCD, &[&nscd], &["outside: 192.0.2.9", "inside:"]);
}

#[test]
fn a_command_does_not_ask_systemd_resolved() {
    let Some(scene) = Scene::start() else { return };
    let Some([module, program]) = resolved() else {
        return skip_optional(format!(
            "there is no nss-resolve with systemd-resolved here, nor below the directory in {PLACE}"
        ));
    };
    // It has a library of its own, which may not be there.
    let mut version = Command::new(&program);
    let version = version.arg("--version").env("LD_LIBRARY_PATH", module.join("systemd")).output();
    if !version.as_ref().is_ok_and(|done| done.status.success()) {
        return skip_optional(format!("{} --version: {version:?}", program.display()));
    }
    let lines = ["outside: 192.0.2.9", "it was asked", "inside:", "it was not asked again"];
    check(&scene, RESOLVED, &[&module, &program], &lines);
}

/// The directory of the module nss-resolve, and the program systemd-resolved.
fn resolved() -> Option<[PathBuf; 2]> {
    roots().find_map(|root| resolved_below(&root))
}

/// Below which programs may be.
fn roots() -> impl Iterator<Item = PathBuf> {
    let unpacked = std::env::var_os(PLACE).map(PathBuf::from);
    unpacked.into_iter().chain([PathBuf::from("/")])
}

fn resolved_below(root: &Path) -> Option<[PathBuf; 2]> {
    let directories = std::fs::read_dir(root.join("usr/lib")).into_iter().flatten().flatten();
    let mut directories = directories.map(|entry| entry.path());
    let module = directories.find(|directory| directory.join("libnss_resolve.so.2").exists())?;
    let programs = ["usr/lib", "lib"].map(|place| root.join(place).join("systemd/systemd-resolved"));
    let program = programs.into_iter().find(|program| program.exists())?;
    Some([module, program])
}

/// The environment variable that names the directory below which packages were unpacked, since installing them changes how the
/// whole system resolves names.
const PLACE: &str = "MANYWAY_NAME_CACHES";
