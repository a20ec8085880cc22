//! Thousands of connections at once over `manyway forward`: how fast they open, whether each gets its answers, and what
//! they cost at both ends.

mod echo;
mod ends;
mod load;
mod options;

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::error::LabError;
use crate::measures::Spread;

pub use echo::serve_echo;
use ends::Ends;
pub use options::FlowsOptions;

/// The figures of a measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FlowsReport {
    /// Connections that were opened.
    pub flows: u32,
    /// `manyway forward` processes that carried them, each with a ticket of its own: a ticket permits 512.
    pub clients: u32,
    /// Connections that were opened and answered, a second, from the first to the last.
    pub rate: f64,
    /// Seconds from the connect of a connection to the answer of its first request.
    pub opening: Spread,
    /// Of the request of each connection in each round, in seconds: the requests of a round leave within a second.
    pub rounds: Vec<Spread>,
    /// The server.
    pub server: EndFigures,
    /// All clients together.
    pub client: EndFigures,
}

/// Memory and processor time of the processes of an end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct EndFigures {
    /// Resident bytes before the first connection.
    pub idle_bytes: u64,
    /// Resident bytes when all are open and quiet.
    pub open_bytes: u64,
    /// Seconds of processor time.
    pub cpu: f64,
}

impl EndFigures {
    /// Resident bytes that a connection adds.
    pub fn bytes_of_a_flow(&self, flows: u32) -> u64 {
        self.open_bytes.saturating_sub(self.idle_bytes) / u64::from(flows.max(1))
    }
}

/// Connections that one ticket permits.
const OF_A_TICKET: u32 = 512;

/// Opens the connections and measures. `program` is the lab itself, beside which `manyway` lies; `say` gets sentences
/// about what is done. Needs no privilege: everything is on loopback.
///
/// # Errors
/// A process cannot be started; a connection is refused, or gets no answer for 30 s; [`LabError::Interrupted`] after a
/// [`Stop`](crate::Stop).
pub fn run(
    program: &Path,
    options: &FlowsOptions,
    mut say: impl FnMut(&str),
) -> Result<FlowsReport, LabError> {
    let flows = options.flows.max(1);
    let clients = flows.div_ceil(OF_A_TICKET);
    say(&format!("starting a server and {clients} clients"));
    let ends = Ends::start(program, clients, &options.stop)?;
    let before = (ends.server(), ends.clients());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| LabError::Io { doing: "starting a runtime".to_owned(), error })?;
    let measured = runtime.block_on(async {
        say(&format!("opening {flows} connections, {} a second", options.rate));
        let mut load = load::Load::open(ends.listening(), options).await?;
        let mut rounds = Vec::new();
        for round in 1..=options.rounds {
            say(&format!("round {round} of {}: a request on every connection", options.rounds));
            rounds.push(load.round(&options.stop).await?);
        }
        // What the rounds left in buffers is freed.
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok::<_, LabError>((load.rate(), load.opening()?, rounds, ends.server(), ends.clients()))
    })?;
    let (rate, opening, rounds, server, client) = measured;
    let figures = |idle: ends::Usage, open: ends::Usage| EndFigures {
        idle_bytes: idle.resident,
        open_bytes: open.resident,
        cpu: open.cpu.saturating_sub(idle.cpu).as_secs_f64(),
    };
    Ok(FlowsReport {
        flows,
        clients,
        rate,
        opening,
        rounds,
        server: figures(before.0, server),
        client: figures(before.1, client),
    })
}
