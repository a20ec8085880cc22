//! The machine of a campaign: its hardware, and the load by other programs.

use std::fs;
use std::num::NonZeroUsize;

use serde::Serialize;

/// The machine, as a reader of the results has to know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// The operating system and its version.
    pub kernel: String,
    /// The processor.
    pub cpu: String,
    /// How many processors this process may use.
    pub cores: usize,
    /// Memory in bytes; 0 if unknown.
    pub memory: u64,
}

impl Machine {
    /// Reads the facts from the system; missing ones are `unknown`.
    pub fn look() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let unknown = || "unknown".to_owned();
        let release = read("/proc/sys/kernel/osrelease");
        let system = std::env::consts::OS;
        let kernel = if release.trim().is_empty() {
            system.to_owned()
        } else {
            format!("{system} {}", release.trim())
        };
        let memory = field(&read("/proc/meminfo"), "MemTotal")
            .and_then(|text| text.strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024));
        Self {
            kernel,
            cpu: field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(unknown),
            cores: std::thread::available_parallelism().map_or(1, NonZeroUsize::get),
            memory: memory.unwrap_or(0),
        }
    }
}

/// The value after `name` and a colon.
fn field(text: &str, name: &str) -> Option<String> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
}

/// Processor time until a moment, in ticks of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Activity {
    /// All processors, idle or not.
    all: u64,
    /// Programs and the system on their behalf, without interrupts: these may be the lab's.
    programs: u64,
    /// Taken by the host of a virtual machine.
    stolen: u64,
    /// This process and its children that have ended.
    own: u64,
}

impl Activity {
    /// Reads the counters; `None` where the system has none.
    pub(crate) fn now() -> Option<Self> {
        Self::read(&fs::read_to_string("/proc/stat").ok()?, &fs::read_to_string("/proc/self/stat").ok()?)
    }

    fn read(machine: &str, process: &str) -> Option<Self> {
        let line = machine.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let at = |place: usize| ticks.get(place).copied().unwrap_or(0);
        // The name of the process is in brackets and may hold any characters; numbers follow.
        let (_, numbers) = process.rsplit_once(')')?;
        let own = numbers.split_whitespace().skip(11).take(4).filter_map(|word| word.parse::<u64>().ok());
        Some(Self {
            // Guest time is included in user time.
            all: ticks.iter().take(8).sum(),
            programs: at(0) + at(1) + at(2),
            stolen: at(7),
            own: own.sum(),
        })
    }

    /// The activity of other programs since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Disturbance {
        let all = self.all.saturating_sub(earlier.all).max(1);
        let programs = self.programs.saturating_sub(earlier.programs);
        let others = programs.saturating_sub(self.own.saturating_sub(earlier.own));
        let share = |part: u64| crate::measures::count(part) / crate::measures::count(all);
        Disturbance { others: share(others), stolen: share(self.stolen.saturating_sub(earlier.stolen)) }
    }
}

/// Load by others during a run.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Disturbance {
    /// The share of all processor time used by programs other than the lab's, from 0 to 1.
    pub others: f64,
    /// The share that the host of this virtual machine took away, from 0 to 1.
    pub stolen: f64,
}

impl Disturbance {
    /// Share of the machine that others may use without a warning.
    pub const TOLERATED: f64 = 0.10;
    /// Share that a host may take away without a warning.
    pub const TOLERATED_STEAL: f64 = 0.02;

    /// Whether the results need caution.
    pub fn is_notable(&self) -> bool {
        self.others > Self::TOLERATED || self.stolen > Self::TOLERATED_STEAL
    }

    /// The disturbance as text.
    pub fn words(&self) -> String {
        let mut words = format!("other programs had {:.0} % of the machine", self.others * 100.0);
        if self.stolen > Self::TOLERATED_STEAL {
            words += &format!(", its host took {:.0} %", self.stolen * 100.0);
        }
        words
    }

    /// One number for comparisons.
    pub(crate) fn weight(&self) -> f64 {
        self.others + self.stolen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_others_is_that_of_all_programs_without_our_own() {
        let stat = |user: u64, idle: u64, steal: u64| {
            format!("cpu  {user} 0 0 {idle} 0 0 0 {steal} 0 0\ncpu0 1 2 3\n")
        };
        let own = |ticks: u64| format!("7 (a (strange) name) S 1 1 1 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 1\n");
        let begin = Activity::read(&stat(100, 1000, 0), &own(10)).unwrap();
        let end = Activity::read(&stat(200, 1080, 20), &own(70)).unwrap();
        let disturbance = end.since(begin);
        assert_eq!((disturbance.others, disturbance.stolen), (0.2, 0.1));
        assert!(disturbance.is_notable());
        assert_eq!(disturbance.words(), "other programs had 20 % of the machine, its host took 10 %");
        assert!(!begin.since(begin).is_notable());
    }

    #[test]
    fn this_machine_reports_its_name() {
        let machine = Machine::look();
        assert!(machine.cores >= 1 && !machine.kernel.is_empty());
    }
}
