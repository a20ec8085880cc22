//! Why the system refuses a step, and what to do.

use std::fs;
use std::io;

/// A step of making the namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Namespaces,
    UserMap,
    Mounts,
    ResolvConf,
    Device,
    Routes,
    Listeners,
    Redirection,
    HandOver,
    Privileges,
}

/// A step that failed.
#[derive(Debug)]
pub(super) struct StepError {
    step: Step,
    error: io::Error,
}

/// What this system tells about its rules; `None` where it knows no such rule.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// `kernel.unprivileged_userns_clone` of Debian's and other kernels: 0 forbids.
    userns_clone: Option<u64>,
    /// `user.max_user_namespaces`, `user.max_net_namespaces`, `user.max_mnt_namespaces`: 0 forbids.
    most: [Option<u64>; 3],
    /// `kernel.apparmor_restrict_unprivileged_userns` of Ubuntu: 1 forbids all but programs with a profile.
    apparmor: Option<u64>,
    /// Whether a filter for system calls applies to this process, as in containers.
    is_filtered: bool,
}

const MOST: [&str; 3] = ["user.max_user_namespaces", "user.max_net_namespaces", "user.max_mnt_namespaces"];

/// Numbers of errno(3) that `ErrorKind` does not distinguish.
const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const EACCES: i32 = 13;
const ENOSPC: i32 = 28;
const EUSERS: i32 = 87;
const ENOSYS: i32 = 38;
const EINVAL: i32 = 22;

impl Step {
    /// Makes an error of this step.
    pub(super) fn failed(self) -> impl FnOnce(io::Error) -> StepError {
        move |error| StepError { step: self, error }
    }

    fn what(self) -> &'static str {
        match self {
            Self::Namespaces => "the system refuses a user namespace",
            Self::UserMap => "the system refuses to map the user into a namespace",
            Self::Mounts => "the system refuses mounts in the namespace",
            Self::ResolvConf => "/etc/resolv.conf cannot be replaced in the namespace",
            Self::Device => "/dev/net/tun cannot be used",
            Self::Routes => "the network of the namespace cannot be set up",
            Self::Listeners => "no port can be opened in the namespace",
            Self::Redirection => "TCP cannot be redirected by nftables",
            Self::HandOver => "the namespace cannot be handed over",
            Self::Privileges => "the command's privileges cannot be dropped",
        }
    }
}

impl StepError {
    /// The whole story in a line: the step, the error, its likely cause, and what to do.
    pub(super) fn explain(&self, facts: &Facts) -> String {
        let number = self.error.raw_os_error().unwrap_or_default();
        let advice = match (self.step, number) {
            (Step::Namespaces, ENOSPC | EUSERS) => Some(facts.limit().unwrap_or_else(|| TOO_MANY.to_owned())),
            (Step::Namespaces, ENOSYS | EINVAL) => Some(NO_KERNEL.to_owned()),
            (Step::Namespaces, EPERM | EACCES) => {
                Some(facts.prohibition().unwrap_or_else(|| UNKNOWN.to_owned()))
            }
            (Step::Device, number) => Some(device_advice(number).to_owned()),
            (Step::ResolvConf, ENOENT) => Some(NO_FILE.to_owned()),
            // AppArmor lets the namespace come into being, and then refuses everything in it.
            (_, EPERM | EACCES) => facts.prohibition(),
            (Step::Redirection, _) => Some(NO_NFTABLES.to_owned()),
            (_, _) => None,
        };
        let (what, error) = (self.step.what(), &self.error);
        advice.map_or_else(|| format!("{what}: {error}"), |advice| format!("{what}: {error}; {advice}"))
    }
}

impl Facts {
    /// Reads them.
    pub(super) fn of_this_system() -> Self {
        let number = |path: String| fs::read_to_string(path).ok()?.trim().parse().ok();
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mode = status.lines().find_map(|line| line.strip_prefix("Seccomp:"));
        Self {
            userns_clone: number("/proc/sys/kernel/unprivileged_userns_clone".to_owned()),
            most: MOST.map(|name| number(format!("/proc/sys/{}", name.replace('.', "/")))),
            apparmor: number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns".to_owned()),
            is_filtered: mode.is_some_and(|mode| mode.trim() == "2"),
        }
    }

    /// What forbids namespaces to this user.
    fn prohibition(&self) -> Option<String> {
        if self.userns_clone == Some(0) {
            return Some(
                "kernel.unprivileged_userns_clone is 0; root allows it by `sysctl \
                 kernel.unprivileged_userns_clone=1`"
                    .to_owned(),
            );
        }
        if let Some(text) = self.limit() {
            return Some(text);
        }
        if self.apparmor.is_some_and(|value| value > 0) {
            return Some(
                "AppArmor forbids it to programs without a profile that allows `userns` \
                 (kernel.apparmor_restrict_unprivileged_userns is 1); root installs the profile of \
                 docs/programs.md, or sets this sysctl to 0"
                    .to_owned(),
            );
        }
        let text = "a seccomp filter applies to this process, as in containers; start the container with \
                    `--security-opt seccomp=unconfined` or a profile that allows `unshare` and `mount`";
        self.is_filtered.then(|| text.to_owned())
    }

    /// A limit that is 0.
    fn limit(&self) -> Option<String> {
        let mut limits = MOST.iter().zip(self.most);
        let (name, _) = limits.find(|(_, most)| *most == Some(0))?;
        Some(format!("{name} is 0; root allows it by `sysctl {name}=10000`"))
    }
}

fn device_advice(number: i32) -> &'static str {
    match number {
        EACCES => {
            "this user may not open it; root allows it by `chmod 666 /dev/net/tun`, as most systems have it"
        }
        EPERM => "in a container, start that with `--device /dev/net/tun`",
        _ => {
            "load the module by `modprobe tun` as root; in a container, start that with `--device /dev/net/tun`"
        }
    }
}

const UNKNOWN: &str = "a security policy of this system forbids it, or this program runs in a chroot";
const TOO_MANY: &str = "too many namespaces exist already";
const NO_KERNEL: &str = "the kernel was built without user namespaces (CONFIG_USER_NS)";
const NO_FILE: &str = "root makes an empty one by `touch /etc/resolv.conf`";
const NO_NFTABLES: &str = "the kernel needs nf_tables with NAT (modules nf_tables, nft_chain_nat and nft_redir), Linux 5.2 or newer";

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(step: Step, number: i32, facts: &Facts) -> String {
        step.failed()(io::Error::from_raw_os_error(number)).explain(facts)
    }

    #[test]
    fn a_refusal_names_its_cause_and_what_to_do() {
        let facts = Facts { most: [Some(9); 3], ..Facts::default() };
        let hardened = Facts { userns_clone: Some(0), ..Facts::default() };
        let limited = Facts { most: [Some(9), Some(0), Some(9)], ..Facts::default() };
        let ubuntu = Facts { apparmor: Some(1), userns_clone: Some(1), ..Facts::default() };
        let container = Facts { is_filtered: true, ..Facts::default() };
        for (step, number, facts, part) in [
            (Step::Namespaces, EPERM, &hardened, "sysctl kernel.unprivileged_userns_clone=1"),
            (Step::Namespaces, ENOSPC, &limited, "user.max_net_namespaces is 0; root allows"),
            (Step::Namespaces, ENOSPC, &facts, "too many namespaces"),
            (Step::Namespaces, EPERM, &ubuntu, "AppArmor"),
            (Step::UserMap, EPERM, &ubuntu, "kernel.apparmor_restrict_unprivileged_userns is 1"),
            (Step::Mounts, EACCES, &ubuntu, "AppArmor"),
            (Step::Device, EPERM, &ubuntu, "--device /dev/net/tun"),
            (Step::Namespaces, EPERM, &container, "seccomp=unconfined"),
            (Step::Namespaces, EPERM, &facts, "a security policy"),
            (Step::Namespaces, ENOSYS, &facts, "CONFIG_USER_NS"),
            (Step::Device, EACCES, &facts, "chmod 666 /dev/net/tun"),
            (Step::Device, 2, &facts, "modprobe tun"),
            (Step::Redirection, 95, &facts, "nf_tables with NAT"),
            (Step::ResolvConf, 2, &facts, "touch /etc/resolv.conf"),
        ] {
            let text = explained(step, number, facts);
            assert!(text.starts_with(step.what()) && text.contains(part), "{part} in {text:?}");
        }
        assert_eq!(
            explained(Step::Routes, 17, &facts),
            "the network of the namespace cannot be set up: File exists (os error 17)"
        );
    }
}
