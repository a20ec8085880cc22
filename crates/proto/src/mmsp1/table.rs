//! Transition tables: the machines of handshake and close run by them, and the diagrams of the specification are made of
//! them.

/// What an event does in some states.
#[derive(Debug)]
pub(crate) struct Transition<S: 'static, E, A> {
    pub(crate) from: &'static [S],
    pub(crate) event: E,
    pub(crate) action: A,
    pub(crate) to: S,
}

/// The row for an event in a state. An event without a row is ignored.
pub(crate) fn find<S: PartialEq, E: PartialEq, A>(
    table: &'static [Transition<S, E, A>],
    from: S,
    event: E,
) -> Option<&'static Transition<S, E, A>> {
    table.iter().find(|row| row.event == event && row.from.contains(&from))
}

/// Checks that each event has at most one row in each state, and that each state can be reached.
#[cfg(test)]
pub(crate) fn check<S, E, A>(start: S, states: &[S], events: &[E], table: &'static [Transition<S, E, A>])
where
    S: std::fmt::Debug + PartialEq + Copy,
    E: std::fmt::Debug + PartialEq + Copy,
{
    for state in states {
        for event in events {
            let rows = table.iter().filter(|row| row.event == *event && row.from.contains(state)).count();
            assert!(rows <= 1, "{state:?} has {rows} rows for {event:?}");
        }
        let is_entered =
            table.iter().any(|row| row.to == *state && row.from.iter().any(|from| from != state));
        assert!(is_entered || *state == start, "nothing leads to {state:?}");
    }
    for event in events {
        assert!(table.iter().any(|row| row.event == *event), "{event:?} has no row");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static TABLE: [Transition<&str, &str, &str>; 2] = [
        Transition { from: &["OFF"], event: "button", action: "light", to: "ON-TIME" },
        Transition { from: &["ON-TIME", "OFF"], event: "timer", action: "none", to: "OFF" },
    ];

    #[test]
    fn an_event_without_a_row_is_not_found() {
        assert_eq!(find(&TABLE, "OFF", "button").map(|row| row.to), Some("ON-TIME"));
        assert!(find(&TABLE, "ON-TIME", "button").is_none());
    }
}
