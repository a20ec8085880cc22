//! Shows the progress of a campaign.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use manyway_lab::Stop;
use manyway_lab::campaign::{Ahead, Case, Notice, Plan, Run, Watcher};
use manyway_lab::report::run_line;
use manyway_terminal::{CommandError, ProgressMode, json, note};
use manyway_units::text;

use crate::args::GlobalArgs;

/// Shows progress on standard error, and prints each run for programs when it ends.
pub(super) struct Watch {
    mode: ProgressMode,
    json: bool,
    bar: ProgressBar,
    stop: Stop,
    told: Option<Instant>,
    /// The error of the output for programs, if it failed.
    broken: Option<CommandError>,
}

impl Watch {
    pub(super) fn new(global: &GlobalArgs, stop: Stop) -> Self {
        let mode = ProgressMode::detect(global.quiet);
        let target = match mode {
            ProgressMode::Terminal => ProgressDrawTarget::stderr_with_hz(4),
            ProgressMode::Plain | ProgressMode::Silent => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(None, target);
        let style = ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style);
        Self { mode, json: global.json, bar, stop, told: None, broken: None }
    }

    /// Ends the display.
    ///
    /// # Errors
    /// The output for programs failed, which also ended the campaign.
    pub(super) fn finish(self) -> Result<(), CommandError> {
        self.bar.finish_and_clear();
        self.broken.map_or(Ok(()), Err)
    }

    fn tell(&self, text: &str) {
        match self.mode {
            ProgressMode::Silent => {}
            ProgressMode::Plain => note(text),
            // Above the progress bar, which stays.
            ProgressMode::Terminal => self.bar.suspend(|| note(text)),
        }
    }

    fn begins(&self, plan: &Plan, (runs, time): (usize, Duration), left_out: &[String]) {
        self.bar.set_length(u64::try_from(plan.runs()).unwrap_or(u64::MAX));
        for sentence in left_out {
            self.tell(sentence);
        }
        let (time, plural) = (rounded(time), if runs == 1 { "run" } else { "runs" });
        self.tell(&format!(
            "{runs} {plural}, which takes about {time}; Ctrl-C ends early and reports what there is"
        ));
    }

    fn runs(&mut self, case: &Case, contender: &str, ahead: Ahead) {
        let left = rounded(ahead.left);
        self.bar.set_position(u64::try_from(ahead.done).unwrap_or(u64::MAX));
        self.bar.set_message(format!("{}: {contender}; {left} left", case.label()));
        self.bar.tick();
        let is_time = self.told.is_none_or(|told| told.elapsed() >= PAUSE);
        if self.mode == ProgressMode::Plain && is_time {
            self.told = Some(Instant::now());
            let (next, all) = (ahead.done + 1, ahead.all);
            note(&format!("{next} of {all}, {left} left: {}, {contender}", case.label()));
        }
    }

    fn ended(&mut self, plan: &Plan, run: &Run) {
        if self.json
            && self.broken.is_none()
            && let Err(error) = json::print(&run_line(plan, run))
        {
            // The reader is gone; the results so far still go into the report.
            self.broken = Some(error.into());
            self.stop.set();
        }
        let Some(case) = plan.cases.get(run.case) else { return };
        let name = case.contenders.get(run.contender).map(ToString::to_string).unwrap_or_default();
        if let Some(reason) = &run.failure {
            self.tell(&format!("{}: {name} failed: {reason}", case.label()));
        }
        if let Some(disturbance) = run.disturbance.filter(manyway_lab::campaign::Disturbance::is_notable) {
            self.tell(&format!("{}: {name} was disturbed: {}", case.label(), disturbance.words()));
        }
    }
}

impl Watcher for Watch {
    fn notice(&mut self, notice: Notice<'_>) {
        match notice {
            Notice::Begins { plan, runs, time, left_out } => self.begins(plan, (runs, time), left_out),
            Notice::Skipped(skip) => self.tell(&format!("{} does not run: {}", skip.contender, skip.reason)),
            Notice::Runs { case, contender, ahead } => self.runs(case, contender, ahead),
            Notice::Ended { plan, run } => self.ended(plan, run),
            Notice::Repeats { runs } => self.tell(&format!("{runs} disturbed runs are repeated")),
            _ => {}
        }
    }
}

/// A duration rounded to the precision of an estimate.
fn rounded(time: Duration) -> String {
    match time.as_secs() {
        0..2 => "a second".to_owned(),
        seconds @ 2..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds.div_ceil(60)),
        seconds => text::duration(Duration::from_secs(seconds.div_ceil(3600) * 3600)),
    }
}

/// Pause between two lines where nothing can be redrawn.
const PAUSE: Duration = Duration::from_secs(10);
const TEMPLATE: &str = "{bar:24} {pos}/{len} {msg}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_is_rounded_to_its_precision() {
        let words = |seconds| rounded(Duration::from_secs(seconds));
        assert_eq!(words(0), "a second");
        assert_eq!((words(59), words(601)), ("59 s".to_owned(), "11 min".to_owned()));
        assert!(ProgressStyle::with_template(TEMPLATE).is_ok());
    }
}
