//! A machine that was suspended. Its clock since boot has gone on, and its monotonic clock has not (`clock_gettime(2)`).
//!
//! No program can set either clock, and a time namespace has offsets from its start on alone. So a library that is loaded
//! before the C library answers for the clock since boot of the tunnel's process: what the tunnel sees is what the kernel
//! shows after a suspend.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use manyway_sim::skipped::skip_optional;

use super::Machine;
use crate::common::lab::Hole;
use crate::common::program::{MANYWAY, Running, wait_until};

/// Adds five minutes to the clock since boot as soon as a file exists, which the environment names.
const CLOCK: &str = "\
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = syscall(SYS_clock_gettime, clock, now);
    const char *file = getenv(\"SLEPT\");
    if (result == 0 && clock == CLOCK_BOOTTIME && file && access(file, F_OK) == 0)
        now->tv_sec += 300;
    return result;
}
";

/// Builds the library; `None`, and the test counts as skipped, without a C compiler.
fn library(place: &Path) -> Option<PathBuf> {
    let (source, library) = (place.join("clock.c"), place.join("clock.so"));
    std::fs::write(&source, CLOCK).unwrap();
    match Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).output() {
        Ok(done) => {
            assert!(done.status.success(), "{done:?}");
            Some(library)
        }
        Err(error) => {
            skip_optional(format!("cc: {error}"));
            None
        }
    }
}

#[test]
fn a_tunnel_whose_machine_was_suspended_is_whole_within_two_seconds_though_routes_and_a_link_are_gone() {
    let Some(machine) = Machine::start() else { return };
    let place = machine.0.lab.here();
    let Some(library) = library(&place) else { return };
    let slept = place.join("slept");
    let mut command = machine.0.lab.client.command(MANYWAY);
    command.args(["tunnel", &machine.0.server.ticket, "-v"]).env("LD_PRELOAD", &library).env("SLEPT", &slept);
    let tunnel = Running::start(command);
    tunnel.wait_for("goes by manyway-tun until Ctrl-C");
    let rules = machine.rules();
    assert!(machine.downloads() && !tunnel.messages().contains("this host slept"), "{}", tunnel.messages());

    // During the suspend a network went away, and the network manager removed the rules.
    machine.0.lab.black_hole(1, Hole::Both);
    machine.client(&["ip", "rule", "flush"]);
    machine.client(&["ip", "rule", "add", "lookup", "main", "priority", "32766"]);
    std::fs::write(&slept, "").unwrap();
    let woke = Instant::now();
    wait_until("the tunnel to notice", || tunnel.messages().contains("this host slept"));
    wait_until("its rules", || machine.rules() == rules);
    assert!(machine.downloads(), "{}", tunnel.messages());
    assert!(woke.elapsed() < Duration::from_secs(2), "{:?}", woke.elapsed());
    assert_eq!(tunnel.messages().matches("this host slept").count(), 1);
}
