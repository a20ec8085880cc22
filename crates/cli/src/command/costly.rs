//! Decides whether a costlier path may take over: by the options, or by asking the user (MMSP 5.2).

use manyway::{Connection, Event, PathId};
use tokio::sync::broadcast::error::RecvError;

use crate::args::{Costly, GlobalArgs};

/// Answers the connection's requests about costly paths until its end, beside other work.
pub fn attend(global: &GlobalArgs, connection: &Connection) {
    let mut events = connection.events();
    let (global, connection) = (global.clone(), connection.clone());
    tokio::spawn(async move {
        loop {
            match events.recv().await {
                Ok(Event::CostlyPathNeeded(path)) => {
                    if decide(&global, &connection, path).await {
                        connection.path(path).allow_costly();
                    }
                }
                Ok(Event::Closed(_)) | Err(RecvError::Closed) => return,
                Ok(_) | Err(RecvError::Lagged(_)) => {}
            }
        }
    });
}

/// Whether a path may be used although it costs more than the one before.
async fn decide(global: &GlobalArgs, connection: &Connection, path: PathId) -> bool {
    let info = connection.path(path).info().await.ok().flatten();
    // Without an interface its number is its best name.
    let name = info.and_then(|info| info.interface).unwrap_or_else(|| path.to_string());
    let cost = global.interfaces.iter().find(|wish| wish.rule.pattern.matches(&name));
    let place = Place { name, cost: cost.map_or(0, |wish| wish.rule.cost) };
    let desk = global.desk.clone();
    match global.costly.unwrap_or_default() {
        Costly::Allow => true,
        Costly::Never => {
            tell(global, &place.waits());
            false
        }
        Costly::Ask => match desk.answer(&place.name) {
            Some(answer) => answer,
            None if desk.can_ask() && !global.quiet => {
                let question = place.question();
                let asked = tokio::task::spawn_blocking(move || desk.ask(&place.name, &question)).await;
                matches!(asked, Ok(Ok(true)))
            }
            None => {
                tell(global, &(place.waits() + "; --costly allow uses it"));
                false
            }
        },
    }
}

fn tell(global: &GlobalArgs, text: &str) {
    if !global.quiet {
        global.desk.tell(text);
    }
}

/// An interface with a cost.
struct Place {
    name: String,
    cost: u8,
}

impl Place {
    fn question(&self) -> String {
        let Self { name, cost } = self;
        format!("Nothing cheaper works now, and data wait. Use {name} (cost {cost})?")
    }

    fn waits(&self) -> String {
        let Self { name, cost } = self;
        format!("nothing cheaper than {name} (cost {cost}) works now: data wait for the other interfaces")
    }
}
