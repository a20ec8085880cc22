//! Time per packet beside many idle connections, or beside many that send in turn; without sockets.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use manyway_proto::{ByteCount, ConnectionConfig};
use manyway_sim::Crowd;

use crate::output::print;

/// Connections that send while the others are idle.
const BUSY: usize = 10;
/// Exchanges of a measurement, each of a few packets.
const EXCHANGES: usize = 20_000;

/// Prints a table: nanoseconds per packet in or out of the server, and the ratio to the first row.
pub(super) fn measure(counts: &[usize]) -> Result<(), String> {
    print("connections  ns/packet, 10 of them busy  ratio  ns/packet, all in turn  ratio")?;
    let mut first = None;
    for count in counts {
        let mut config = ConnectionConfig::default();
        config.idle_timeout = Duration::from_secs(24 * 3600);
        let mut crowd = Crowd::new(*count, 1, &config, nanoseconds);
        let few = exchanges(&mut crowd, BUSY.min(*count));
        let all = exchanges(&mut crowd, *count);
        let (few_first, all_first) = *first.get_or_insert((few, all));
        let line = format!(
            "{count:>11}  {few:>26.0}  {:>5.2}  {all:>22.0}  {:>5.2}",
            few / few_first,
            all / all_first
        );
        print(&line)?;
    }
    Ok(())
}

/// Makes the first `busy` clients send a little in turn; returns nanoseconds per packet of the server.
fn exchanges(crowd: &mut Crowd, busy: usize) -> f64 {
    let run = |crowd: &mut Crowd, times: usize| {
        (0..times).for_each(|number| crowd.exchange(number % busy, ByteCount(100)));
    };
    // Warm-up, which also reserves memory.
    run(crowd, busy.max(1000));
    let (time, packets) = (crowd.metered(), crowd.packets());
    run(crowd, EXCHANGES);
    let nanoseconds = crowd.metered() - time;
    #[expect(clippy::cast_precision_loss, reason = "three digits are printed")]
    let each = nanoseconds as f64 / (crowd.packets() - packets).max(1) as f64;
    each
}

fn nanoseconds() -> i64 {
    static START: OnceLock<Instant> = OnceLock::new();
    i64::try_from(START.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(i64::MAX)
}
