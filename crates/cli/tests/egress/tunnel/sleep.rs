//! A machine that was suspended. Its clock since boot has gone on, and its monotonic clock has not (`clock_gettime(2)`).
//!
//! No program can set either clock, and a time namespace has offsets from its start on alone. So a library that is loaded
//! before the C library answers for the clock since boot of the tunnel's process: what the tunnel sees is what the kernel
//! shows after a suspend.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use manyway_sim::skipped::skip_optional;

use super::Machine;
use crate::common::lab::Hole;
use crate::common::program::{MANYWAY, Running, wait_until};

/// Adds five minutes to the clock since boot for each byte of a file, which the environment names.
const CLOCK: &str = "\
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = syscall(SYS_clock_gettime, clock, now);
    const char *file = getenv(\"SLEPT\");
    struct stat about;
    if (result == 0 && clock == CLOCK_BOOTTIME && file && stat(file, &about) == 0)
        now->tv_sec += 300 * about.st_size;
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

/// During a suspend a network goes away, and the network manager removes the rules. Returns how long the tunnel takes after it
/// until it is whole.
fn suspend(machine: &Machine, tunnel: &Running, (file, number): (&Path, usize)) -> Duration {
    let rules = machine.rules();
    machine.0.lab.black_hole(1, Hole::Both);
    machine.client(&["ip", "rule", "flush"]);
    machine.client(&["ip", "rule", "add", "lookup", "main", "priority", "32766"]);
    let mut slept = OpenOptions::new().create(true).append(true).open(file).unwrap();
    slept.write_all(b".").unwrap();
    let woke = Instant::now();
    wait_until("the tunnel to notice", || tunnel.messages().matches("this host slept").count() == number);
    wait_until("its rules", || machine.rules() == rules);
    assert!(machine.downloads(), "{}", tunnel.messages());
    let took = woke.elapsed();
    machine.0.lab.release();
    took
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
    assert!(machine.downloads() && !tunnel.messages().contains("this host slept"), "{}", tunnel.messages());
    // A busy machine only ever adds to a time.
    let mut times = Vec::new();
    for number in 1..=4 {
        let took = suspend(&machine, &tunnel, (&slept, number));
        assert_eq!(tunnel.messages().matches("this host slept").count(), number);
        if took < Duration::from_secs(2) {
            return;
        }
        times.push(took);
    }
    panic!("whole after {times:?}");
}
