//! Real sockets over the emulated links of `manyway demo`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use manyway::ConnectionConfig;
use manyway_cli::command::session::NetSession;
use manyway_cli::demo::emulator::{Direction, LinkHandle, SERIES_BIN};
use manyway_cli::demo::link_spec::LinkSpec;
use manyway_cli::demo::stage::Stage;
use manyway_proto::{ByteCount, Rate};
use manyway_transfer::{BenchDirection, BenchLimit, BenchPlan, NoProgress, bench};

/// Describes [`share`].
pub(super) fn scenario(links: &[&str], time: Duration) -> String {
    format!(
        "one process, real UDP sockets, emulated links {} (rate with IP and UDP headers, delay one way), one bench \
         stream for {} s, bytes that reach the receiving application",
        links.join(" + "),
        time.as_secs()
    )
}

/// Describes [`black_hole`].
pub(super) fn black_hole_scenario() -> String {
    format!(
        "one process, real UDP sockets, emulated links {} + {}, one bench stream for {} s; the first link drops all \
         from second {} to second {}; it carries data again when a tenth of its rate comes out of it within {} ms",
        BLACK_HOLE[0],
        BLACK_HOLE[1],
        WHOLE.as_secs(),
        CUT.as_secs(),
        RESTORED.as_secs(),
        SERIES_BIN.as_millis()
    )
}

/// Sends for a while; returns the received share of the sum of the links.
pub(super) fn share(links: &[&str], time: Duration) -> Result<f64, String> {
    let links = specs(links)?;
    let sum: u64 = links.iter().map(|link| link.rate.bits_per_second()).sum();
    let rate = block_on(async {
        let (directory, stage) = set_up(&links).await?;
        let rate = send(&stage, time).await?;
        stage.close().await;
        drop(directory);
        Ok(rate)
    })?;
    Ok(ratio(rate.bits_per_second(), sum))
}

/// Cuts one of two links and restores it; returns the longest stall in milliseconds and the time until the restored
/// link carries data in seconds.
pub(super) fn black_hole() -> Result<Vec<f64>, String> {
    let links = specs(&BLACK_HOLE)?;
    block_on(async {
        let (directory, stage) = set_up(&links).await?;
        let link = stage.links().first().ok_or("no link")?.clone();
        let fault = async {
            tokio::time::sleep(CUT).await;
            link.cut();
            tokio::time::sleep(RESTORED.saturating_sub(CUT)).await;
            link.restore();
            Instant::now()
        };
        let (rate, restored) = tokio::join!(send(&stage, WHOLE), fault);
        rate?;
        let stall = stage.meter().arrivals().longest_stall;
        let back = first_data(&link, restored.saturating_duration_since(stage.started()));
        stage.close().await;
        drop(directory);
        let back = back.ok_or("the restored link carried no data until the end")?;
        Ok(vec![stall.as_secs_f64() * 1000.0, back.as_secs_f64()])
    })
}

/// Delay from `restored` until the link first delivered a tenth of its rate.
fn first_data(link: &LinkHandle, restored: Duration) -> Option<Duration> {
    let enough = (link.spec().rate * SERIES_BIN).get() / 10;
    let delivered = link.figures(Direction::Up).delivered;
    let ends = (1_u32..).map(|end| SERIES_BIN * end);
    let mut later = delivered.iter().zip(ends).filter(|(_, end)| *end > restored);
    later.find(|(bytes, _)| **bytes >= enough).map(|(_, end)| end.saturating_sub(restored))
}

async fn set_up(links: &[LinkSpec]) -> Result<(tempfile::TempDir, Stage), String> {
    let directory = tempfile::TempDir::new().map_err(|error| error.to_string())?;
    let config = ConnectionConfig::default();
    let stage = Stage::set_up(links, &config, directory.path(), Arc::new(NoProgress)).await;
    Ok((directory, stage.map_err(|error| error.to_string())?))
}

async fn send(stage: &Stage, time: Duration) -> Result<Rate, String> {
    let mut plan = BenchPlan::default();
    plan.limit = BenchLimit::Duration(time);
    let session = NetSession(stage.connection().clone());
    let outcome = bench(&session, &plan, |_| {}).await.map_err(|error| error.to_string())?;
    let received = outcome.received(BenchDirection::Upload);
    Ok(ByteCount(received.bytes).per(received.elapsed))
}

fn block_on<T>(work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().map_err(|error| error.to_string())?;
    runtime.block_on(work)
}

fn specs(links: &[&str]) -> Result<Vec<LinkSpec>, String> {
    links.iter().map(|link| link.parse().map_err(|error| format!("{link}: {error}"))).collect()
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people has three digits")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

const BLACK_HOLE: [&str; 2] = ["20Mbit,10ms", "20Mbit,10ms"];
const WHOLE: Duration = Duration::from_secs(11);
const CUT: Duration = Duration::from_secs(3);
const RESTORED: Duration = Duration::from_secs(6);
