//! Caches of names that run on the machine are not asked inside `manyway run`: they know what the machine knows.

use std::process::{Command, Stdio};

use manyway_sim::skipped::skip_optional;

use super::run::Scene;
use crate::common::program::MANYWAY;

/// Only the cache knows this address: it has it from a file that is gone.
const KNOWN: &str = "192.0.2.9";

/// Arguments: a directory, the program, the ticket. Prints what the cache tells outside and inside.
const SCRIPT: &str = "\
set -e
cd \"$1\"
mount -t tmpfs none /run
mkdir -p /run/nscd
printf '%s cached.test\\n' 192.0.2.9 >hosts
printf 'enable-cache hosts yes\\npositive-time-to-live hosts 3600\\ncheck-files hosts no\\n\
persistent hosts no\\nshared hosts no\\nserver-user root\\n' >nscd.conf
mount --bind hosts /etc/hosts
nscd -F -f \"$1/nscd.conf\" >nscd.log 2>&1 &
trap \"kill $!\" EXIT
for i in $(seq 200); do [ -S /run/nscd/socket ] && break; sleep 0.05; done
getent ahostsv4 cached.test >warm
umount /etc/hosts
echo outside: $(getent ahostsv4 cached.test | cut -d ' ' -f 1 | sort -u)
echo inside: $(\"$2\" run \"$3\" -- getent ahostsv4 cached.test | cut -d ' ' -f 1 | sort -u)
";

#[test]
fn a_command_does_not_ask_nscd() {
    let Some(scene) = Scene::start() else { return };
    if let Err(error) = Command::new("nscd").arg("--version").output() {
        return skip_optional(format!("nscd: {error}"));
    }
    let mut command = scene.lab.client.command("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", SCRIPT, "sh"]);
    command.arg(scene.lab.here()).args([MANYWAY, &scene.server.ticket]);
    let done = command.env("MANYWAY_HOME", scene.lab.here()).stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout);
    assert_eq!(
        text.lines().collect::<Vec<_>>(),
        [format!("outside: {KNOWN}").as_str(), "inside:"],
        "{done:?}"
    );
}
