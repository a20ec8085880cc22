//! Shorthands for tests: quantities, connected pairs, and the events of the paths of an end.

use std::time::Duration;

use manyway_proto::{
    ByteCount, ConnectionConfig, Event, Instant, PathEvent, PathState, PathStatistics, Rate,
};

use crate::endpoint::{EndpointPair, endpoint_pair};
use crate::pair::{PairBuilder, PairError, Side};

/// A millisecond.
pub const MS: Duration = Duration::from_millis(1);
/// A second.
pub const SECOND: Duration = Duration::from_secs(1);
/// Longer than anything should take.
pub const MINUTE: Duration = Duration::from_secs(60);

/// This many megabits a second.
pub fn mbit(megabits: u64) -> Rate {
    Rate::from_bits_per_second(megabits * 1_000_000)
}

/// This many megabytes.
pub fn megabytes(number: u64) -> ByteCount {
    ByteCount(number * 1_000_000)
}

/// `part` of `whole` in percent, rounded down.
pub fn percent(part: Rate, whole: Rate) -> u64 {
    part.bytes_per_second() * 100 / whole.bytes_per_second().max(1)
}

/// A connected pair, with the default settings at both ends.
///
/// # Errors
/// If the handshake takes longer than 10 s, or a law is violated.
pub fn connected(builder: PairBuilder) -> Result<EndpointPair, PairError> {
    connected_with(builder, &ConnectionConfig::default())
}

/// A connected pair, with the same settings at both ends.
///
/// # Errors
/// If the handshake takes longer than 10 s, or a law is violated.
pub fn connected_with(builder: PairBuilder, config: &ConnectionConfig) -> Result<EndpointPair, PairError> {
    let mut pair = endpoint_pair(builder, config);
    pair.connect(10 * SECOND)?;
    Ok(pair)
}

/// The events of the paths of an end, with their times.
pub fn path_events(pair: &mut EndpointPair, side: Side) -> Vec<(Instant, PathEvent)> {
    let events = pair.peer(side).map(|peer| peer.events().to_vec()).unwrap_or_default();
    let path = |(at, event)| if let Event::Path(path) = event { Some((at, path)) } else { None };
    events.into_iter().filter_map(path).collect()
}

/// The figures of the open paths of an end.
pub fn path_figures(pair: &mut EndpointPair, side: Side) -> Vec<PathStatistics> {
    let connection = pair.peer(side).and_then(|peer| peer.connection());
    connection.map(|connection| connection.statistics().paths).unwrap_or_default()
}

/// Number of paths of an end in a state.
pub fn count_in(pair: &mut EndpointPair, side: Side, state: PathState) -> usize {
    path_figures(pair, side).iter().filter(|path| path.state == state).count()
}
