//! Raises the priority of the emulator's thread.

use std::num::NonZeroU64;
use std::process::{Command, Stdio};

use rustix::process::setpriority_process;
use rustix::thread::{gettid, set_current_timer_slack};

/// Gives this thread the highest priority that the system allows: real-time scheduling by `chrt`, else the best
/// niceness; and no timer slack. None of it is required, all of it makes the links more exact.
pub(crate) fn raise() {
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    let thread = gettid();
    let real_time = Command::new("chrt")
        .args(["--fifo", "--pid", "10", &thread.as_raw_nonzero().to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !real_time.is_ok_and(|status| status.success()) {
        // Linux expects a thread ID here.
        let _ = setpriority_process(Some(thread), -20);
    }
}
