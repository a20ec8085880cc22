//! Names of programs inside `manyway run`: answers are kept as long as they hold, and caches that run on the machine, which
//! know what the machine knows, are not asked.

use std::process::{Command, Stdio};

use manyway_sim::skipped::skip_optional;

use super::hosts::HOST;
use super::run::Scene;
use crate::common::lab::{Family, Lab};
use crate::common::program::{MANYWAY, Running, have};

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

/// Answers every question with 192.0.2.1, for a minute, and prints its first label.
const NAME_SERVER: &str = "\
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((sys.argv[1], 53))
print('ready', flush=True)
while True:
    query, source = s.recvfrom(2000)
    end = query.index(0, 12) + 5
    print(query[13:13 + query[12]].decode(), query[end - 3], flush=True)
    count = 1 if query[end - 3] == 1 else 0
    record = b'\\xc0\\x0c\\0\\x01\\0\\x01\\0\\0\\0\\x3c\\0\\x04\\xc0\\0\\x02\\x01' * count
    s.sendto(query[:2] + b'\\x81\\x80\\0\\x01\\0' + bytes([count]) + bytes(4) + query[12:end] + record, source)
";

#[test]
fn a_name_is_asked_once_and_not_for_a_family_that_the_server_does_not_reach() {
    let Some(lab) = Lab::start(1, Family::V4).filter(|_| have(&[("python3", "--version")])) else { return };
    lab.server.ip(&format!("addr add {HOST}/32 dev lo"));
    let mut command = lab.server.command("python3");
    command.args(["-c", NAME_SERVER, HOST]);
    let names = Running::start(command);
    names.wait_until("the name server", || names.printed().contains("ready"));
    lab.server.set_name_server(HOST);
    let server = lab.serve(&["--egress", "--allow", HOST]);
    let script = "for i in 1 2 3; do getent ahosts often.test; done; getent ahosts other.test";
    let done = lab.start_client(&["run", &server.ticket, "--", "sh", "-c", script]).end().expect(0);
    assert!(done.out.lines().all(|line| line.starts_with("192.0.2.1 ")), "{done:?}");
    assert!(done.out.lines().count() >= 4, "{done:?}");
    // The type of addresses of IPv4 is 1.
    assert_eq!(names.printed().lines().collect::<Vec<_>>(), ["ready", "often 1", "other 1"]);
}
