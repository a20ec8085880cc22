//! Named values below each other, such as the results of a run.

use manyway_terminal::{text_width, wrap_strictly};

/// Lines for a terminal of that width: names in a column of their own, and a long value continued below its first line.
pub fn facts(facts: &[(&str, String)], width: usize) -> Vec<String> {
    let names = facts.iter().map(|(name, _)| text_width(name)).max().unwrap_or(0);
    let mut lines = Vec::new();
    for (name, value) in facts {
        for (number, part) in wrap_strictly(value, width.saturating_sub(names + 2)).into_iter().enumerate() {
            let name = if number == 0 { *name } else { "" };
            lines.push(format!("{name:<names$}  {part}"));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_value_continues_in_its_column() {
        let lines =
            facts(&[("time", "12.50 s".to_owned()), ("longest", "140 ms at the receiver".to_owned())], 20);
        assert_eq!(lines, ["time     12.50 s", "longest  140 ms at", "         the", "         receiver"]);
    }
}
