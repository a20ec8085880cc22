//! The exit status of the process.

use std::process::ExitCode as ProcessExitCode;

/// An exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExitCode {
    /// 0: done.
    Ok,
    /// 1: failed.
    Failed,
    /// 2: wrong command line.
    Usage,
    /// 3: one side rejected the other's key.
    Authentication,
    /// 4: incomplete; the same command resumes it.
    Incomplete,
    /// 5: forbidden by a policy, such as a cap on a link.
    Policy,
    /// 6: below the required result, by `--min-gain`, the gates and goals of the lab, its comparison with virtual time or
    /// with theory.
    Gain,
    /// 7: the peer was not reached on any path.
    Unreachable,
    /// 129: the terminal was closed (SIGHUP) before the work was done.
    HungUp,
    /// 130: ended by Ctrl-C or SIGTERM before the work was done.
    Interrupted,
    /// 141: the reader of standard output closed it before the work was done, as for programs that SIGPIPE ends.
    OutputClosed,
    /// The status of the command that was run, as shells have it: 126 if it cannot be executed, 127 if it does not
    /// exist, 128 and the number of a signal that ended it.
    Command(u8),
}

impl ExitCode {
    /// The number.
    pub fn number(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Authentication => 3,
            Self::Incomplete => 4,
            Self::Policy => 5,
            Self::Gain => 6,
            Self::Unreachable => 7,
            Self::HungUp => 129,
            Self::Interrupted => 130,
            Self::OutputClosed => 141,
            Self::Command(status) => status,
        }
    }

    /// Its name in documents for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::Authentication => "authentication",
            Self::Incomplete => "incomplete",
            Self::Policy => "policy",
            Self::Gain => "gain",
            Self::Unreachable => "unreachable",
            Self::HungUp => "hung-up",
            Self::Interrupted => "interrupted",
            Self::OutputClosed => "output-closed",
            Self::Command(_) => "command",
        }
    }

    /// Whether a signal ended the command.
    pub fn is_interruption(self) -> bool {
        matches!(self, Self::HungUp | Self::Interrupted)
    }
}

impl From<ExitCode> for ProcessExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code.number())
    }
}
