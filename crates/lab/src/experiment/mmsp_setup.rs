//! The MMSP thesis, section 4: is a connection set up over one, two and three paths, with data both ways?

use manyway_sim::pair::Side;

use super::definition::everywhere;
use super::mmsp_links::{WIRED, WIRELESS, kinds, links_with};
use super::{Alone, Bound, Claim, Column, Experiment, Measure, Quantity, Row, Unit};

pub(super) static EXPERIMENT: Experiment = Experiment {
    name: "mmsp-setup",
    title: "set-up over one, two and three paths, full duplex",
    source: "MMSP thesis 4 and 4.1, page 52",
    found: "a connection is set up via one, two and three paths; both hosts send (Table 2.1: full duplex)",
    chosen: SCALED,
    values: &["paths"],
    rows: || [1.0, 2.0, 3.0].map(|paths| Row::new([paths], []).quick()).to_vec(),
    template: |values| {
        let paths = values.first().copied().unwrap_or(1.0);
        let links = links_with(kinds(1.0, paths - 1.0), TENTH, "queue = '30ms'\n");
        format!("duration = '20s'\n{links}[[traffic]]\nbulk = 'both'\n")
    },
    contenders: &[THESIS, ALL],
    kernel: &[],
    alone: Alone::Not,
    columns: &[
        Column { head: "primary: up", quantity: at(THESIS, Side::Server), unit: Unit::Megabits },
        Column { head: "down", quantity: at(THESIS, Side::Client), unit: Unit::Megabits },
        Column { head: "all paths: wired up", quantity: up(0), unit: Unit::Megabits },
        Column { head: "down", quantity: down(0), unit: Unit::Megabits },
        Column { head: "wireless up", quantity: up(1), unit: Unit::Megabits },
        Column { head: "down", quantity: down(1), unit: Unit::Megabits },
        Column { head: "second wireless up", quantity: up(2), unit: Unit::Megabits },
        Column { head: "down", quantity: down(2), unit: Unit::Megabits },
    ],
    claims: &[
        full("over the primary up, of its rate", Quantity::Scaled(&PRIMARY_UP, 10.0 / WIRED), everywhere),
        full("and down at the same time", Quantity::Scaled(&PRIMARY_DOWN, 10.0 / WIRED), everywhere),
        full("over all: the wired path up", Quantity::Scaled(&up(0), 10.0 / WIRED), everywhere),
        full("and down", Quantity::Scaled(&down(0), 10.0 / WIRED), everywhere),
        full("the wireless one up", Quantity::Scaled(&up(1), 10.0 / WIRELESS), has_wireless),
        full("and down", Quantity::Scaled(&down(1), 10.0 / WIRELESS), has_wireless),
        full("the second wireless one up", Quantity::Scaled(&up(2), 10.0 / WIRELESS), has_both),
        full("and down", Quantity::Scaled(&down(2), 10.0 / WIRELESS), has_both),
    ],
    traces: &[],
    curves: None,
};

const SCALED: &str = "links of a tenth of the rates of mmsp-table42, since nothing here depends on them, with queues of \
30 ms: the acknowledgements of one direction wait in the queue of the other, and behind one of 100 ms NewReno needs \
longer than the experiment lasts to recover from a loss. The thesis's scheduler sends new data on the primary alone, so \
all paths are filled with the default scheduler";

const THESIS: &str = "manyway:wire=mmsp1";
const ALL: &str = "manyway:wire=mmsp1,scheduler=earliest";
const TENTH: f64 = 0.1;

const PRIMARY_UP: Quantity = at(THESIS, Side::Server);
const PRIMARY_DOWN: Quantity = at(THESIS, Side::Client);
const fn at(name: &'static str, side: Side) -> Quantity {
    Quantity::Ours(name, Measure::GoodputAt(side))
}

/// What the route carries from client to server.
const fn up(route: usize) -> Quantity {
    Quantity::Ours(ALL, Measure::RouteTo(Side::Server, route))
}

/// What the route carries back.
const fn down(route: usize) -> Quantity {
    Quantity::Ours(ALL, Measure::RouteTo(Side::Client, route))
}

const fn full(what: &'static str, quantity: Quantity, applies: fn(&Row) -> bool) -> Claim {
    Claim { what, quantity, bound: Bound::AtLeast(0.85), unit: Unit::Share, applies }
}

fn has_wireless(row: &Row) -> bool {
    row.values.first().is_some_and(|paths| *paths >= 2.0)
}

fn has_both(row: &Row) -> bool {
    row.values.first().is_some_and(|paths| *paths >= 3.0)
}
