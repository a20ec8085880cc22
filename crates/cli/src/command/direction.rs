//! The direction of a command's data, and the options without effect on received data.

use manyway::Wire;
use manyway_transfer::BenchFlow;

use crate::args::GlobalArgs;

/// The direction of a command's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// This end sends.
    Out,
    /// The peer sends.
    In,
    /// Both send.
    Both,
}

impl From<BenchFlow> for Direction {
    fn from(flow: BenchFlow) -> Self {
        match flow {
            BenchFlow::Upload => Self::Out,
            BenchFlow::Download => Self::In,
            BenchFlow::Both => Self::Both,
        }
    }
}

impl Direction {
    /// Whether this end sends data, so that its scheduler has an effect.
    pub fn sends(self) -> bool {
        self != Self::In
    }

    /// Says which options of the command line have no effect on received data, and what to do instead.
    pub fn tell_what_decides(self, global: &GlobalArgs) {
        if let Some(text) = self.what_decides(global).filter(|_| !global.quiet) {
            global.desk.tell(&text);
        }
    }

    fn what_decides(self, global: &GlobalArgs) -> Option<String> {
        let options = options_of_sender(global);
        let (last, first) = options.split_last().filter(|_| self != Self::Out)?;
        let names = if first.is_empty() { last.clone() } else { format!("{} and {last}", first.join(", ")) };
        let is_one = first.is_empty();
        let effect = match (self, is_one) {
            (Self::In | Self::Out, true) => "has no effect here: the server sends, and its",
            (Self::In | Self::Out, false) => "have no effect here: the server sends, and its",
            (Self::Both, true) => "holds for what this end sends; for what it receives the server's",
            (Self::Both, false) => "hold for what this end sends; for what it receives the server's",
        };
        // MMSP/1 has no block for them.
        let told = if is_mmsp1(global) { "" } else { "; role=backup and cost=N of -I reach it" };
        Some(format!(
            "{names} {effect} own scheduler decides which path carries data (`manyway serve --scheduler`){told}"
        ))
    }
}

/// The options of the command line that only a sender obeys. Settings apply to all commands, so such an option in them
/// is no mistake.
fn options_of_sender(global: &GlobalArgs) -> Vec<String> {
    let scheduler = global.scheduler.iter().filter(|_| !global.scheduler_of_settings);
    let mut options: Vec<_> = scheduler.map(|name| format!("--scheduler {name}")).collect();
    for wish in global.interfaces.iter().filter(|_| !global.interfaces_of_settings) {
        let rule = &wish.rule;
        if rule.cost != 0 && is_mmsp1(global) {
            options.push(format!("-I {},cost={}", rule.pattern, rule.cost));
        }
        if rule.weight != 1 {
            options.push(format!("-I {},weight={}", rule.pattern, rule.weight));
        }
    }
    options
}

fn is_mmsp1(global: &GlobalArgs) -> bool {
    global.wire == Wire::Mmsp1
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::Cli;

    fn told(direction: Direction, arguments: &[&str]) -> Option<String> {
        let cli = Cli::try_parse_from([&["manyway", "get", "mw1x"], arguments].concat()).unwrap();
        direction.what_decides(&cli.global)
    }

    #[test]
    fn a_receiver_names_the_options_that_apply_instead_of_its_scheduler_and_weights() {
        insta::assert_snapshot!(
            told(Direction::In, &["--scheduler", "primary"]).unwrap(),
            @"--scheduler primary has no effect here: the server sends, and its own scheduler decides which path carries data (`manyway serve --scheduler`); role=backup and cost=N of -I reach it"
        );
        let weights = &["-I", "lte0,weight=5", "-I", "eth0,weight=3", "-I", "sat0,role=backup,cost=5"];
        insta::assert_snapshot!(
            told(Direction::In, weights).unwrap(),
            @"-I lte0,weight=5 and -I eth0,weight=3 have no effect here: the server sends, and its own scheduler decides which path carries data (`manyway serve --scheduler`); role=backup and cost=N of -I reach it"
        );
        insta::assert_snapshot!(
            told(Direction::Both, &["--scheduler", "cost"]).unwrap(),
            @"--scheduler cost holds for what this end sends; for what it receives the server's own scheduler decides which path carries data (`manyway serve --scheduler`); role=backup and cost=N of -I reach it"
        );
        insta::assert_snapshot!(
            told(Direction::In, &["--wire", "mmsp1", "-I", "lte0,cost=5"]).unwrap(),
            @"-I lte0,cost=5 has no effect here: the server sends, and its own scheduler decides which path carries data (`manyway serve --scheduler`)"
        );
    }

    #[test]
    fn senders_and_options_for_both_directions_cause_no_warning() {
        assert_eq!(told(Direction::Out, &["--scheduler", "primary", "-I", "lte0,weight=5"]), None);
        assert_eq!(told(Direction::In, &["-I", "lte0,role=backup,cost=5"]), None);
        let mut settings = GlobalArgs { scheduler: Some("cost".to_owned()), ..GlobalArgs::default() };
        settings.scheduler_of_settings = true;
        assert_eq!(Direction::In.what_decides(&settings), None);
    }
}
