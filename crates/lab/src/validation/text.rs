//! Prints the figures for people.

use std::fmt::Write as _;

use manyway_chart::{Align, Table};

use super::{Report, Row};

/// The table, and below it the remarks.
pub fn text(report: &Report) -> String {
    let mut table = Table::new([
        ("property", Align::Left),
        ("setting", Align::Left),
        ("theory", Align::Right),
        ("measured", Align::Right),
        ("least–most", Align::Right),
        ("unit", Align::Left),
        ("allowed", Align::Left),
        ("", Align::Left),
    ]);
    for row in &report.rows {
        let spread = row.measured;
        let range = format!("{}–{}", number(spread.least), number(spread.most));
        table.row([
            row.property.to_string(),
            row.setting.clone(),
            row.theory.map_or_else(String::new, number),
            number(spread.median),
            if spread.count > 1 { range } else { String::new() },
            row.unit.to_owned(),
            allowed(row),
            judgement(row).to_owned(),
        ]);
    }
    let judged = report.rows.iter().filter(|row| row.is_judged()).count();
    let holding = report.rows.iter().filter(|row| row.is_judged() && row.holds()).count();
    let mut text = table.to_string();
    let _ = writeln!(text, "\n{holding} of {judged} hold");
    for remark in &report.remarks {
        let _ = writeln!(text, "{remark}");
    }
    text
}

fn allowed(row: &Row) -> String {
    match (row.least, row.most) {
        (Some(least), Some(most)) if least.total_cmp(&most).is_eq() => number(least),
        (Some(least), Some(most)) => format!("{} to {}", number(least), number(most)),
        (Some(least), None) => format!("at least {}", number(least)),
        (None, Some(most)) => format!("at most {}", number(most)),
        (None, None) => String::new(),
    }
}

fn judgement(row: &Row) -> &'static str {
    match (row.is_judged(), row.holds()) {
        (false, _) => "to compare",
        (true, true) => "holds",
        (true, false) => "falls short",
    }
}

/// Up to four significant digits; at most three decimals.
fn number(value: f64) -> String {
    // A value that is rounded up to 10 is printed as 10.
    let digits = match value.abs() {
        0.0 => 0,
        less if less < 9.9995 => 3,
        less if less < 99.995 => 2,
        less if less < 999.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measures::Spread;
    use crate::validation::{Figure, Property, rows};

    fn report() -> Report {
        let figures = |rate, speed| {
            vec![
                Figure::new(Property::Rate, "10 Mbit/s", "Mbit/s", rate).near(10.0, 0.1),
                Figure::new(Property::Delay, "a thread", "ms", 20.0),
                Figure::new(Property::Speed, "one core", "Gbit/s", speed).at_least(1.0),
            ]
        };
        Report {
            rows: rows(&[figures(9.95, 0.5), figures(9.0, 0.75), figures(10.05, 1.75)]),
            remarks: Vec::new(),
        }
    }

    #[test]
    fn numbers_have_four_digits() {
        let numbers = [0.0, 0.4216, 9.9994, 9.9997, 99.999, 100.04, 12_345.6].map(number);
        assert_eq!(numbers, ["0", "0.422", "9.999", "10.00", "100.0", "100.0", "12346"]);
    }

    #[test]
    fn the_median_of_all_repetitions_is_judged() {
        let report = report();
        assert_eq!(report.rows[0].measured, Spread::of([9.0, 9.95, 10.05]).unwrap());
        assert_eq!(report.rows.iter().map(Row::holds).collect::<Vec<_>>(), [true, true, false]);
        assert!(!report.holds());
        insta::assert_snapshot!(text(&report), @r"
        property  setting    theory  measured   least–most  unit    allowed
        rate      10 Mbit/s   10.00     9.950  9.000–10.05  Mbit/s  9.900 to 10.10  holds
        delay     a thread              20.00  20.00–20.00  ms                      to compare
        speed     one core              0.750  0.500–1.750  Gbit/s  at least 1.000  falls short

        1 of 2 hold
        ");
    }
}
