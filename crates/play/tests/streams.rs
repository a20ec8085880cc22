//! What players cause at the server.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::sync::atomic::Ordering;
use std::time::Duration;

use manyway_play::{Buffer, Config, TargetChoice};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::common::{STREAM, Web, until};

const BUFFER: u64 = 512 * 1024;
/// Far more than the sockets and buffers on the way hold.
const BIG: u64 = 64 << 20;

fn small() -> Config {
    let mut config = Config::default();
    config.buffer = Buffer::Bytes(BUFFER);
    config
}

/// An MP4 file of zeros that lasts so many seconds.
fn film(seconds: u32, size: usize) -> Vec<u8> {
    let boxed = |kind: &[u8], content: &[u8]| {
        let length = u32::try_from(content.len() + 8).unwrap();
        [&length.to_be_bytes()[..], kind, content].concat()
    };
    let header = [&[0; 12][..], &1000_u32.to_be_bytes(), &(seconds * 1000).to_be_bytes(), &[0; 80]].concat();
    let mut file = boxed(b"moov", &boxed(b"mvhd", &header));
    file.extend(boxed(b"mdat", &vec![0; size - file.len() - 8]));
    file
}

#[tokio::test]
async fn what_a_player_leaves_waiting_is_not_fetched_and_what_it_closes_is_stopped() {
    let directory = TempDir::new().unwrap();
    std::fs::File::create(directory.path().join("big.mkv")).unwrap().set_len(BIG).unwrap();
    let web = Web::start(directory.path(), small()).await;
    let mut socket = TcpStream::connect(web.address).await.unwrap();
    socket.write_all(b"GET /big.mkv HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    socket.read_exact(&mut [0; 1000]).await.unwrap();
    let written = || web.wire.written.load(Ordering::SeqCst);
    let mut before = 0;
    until("the server stands still", || std::mem::replace(&mut before, written()) == written() && before > 0)
        .await;
    // The system's buffers of both sockets come on top.
    assert!(written() < BUFFER + STREAM as u64 + (16 << 20), "{}", written());
    assert_eq!(web.wire.open.load(Ordering::SeqCst), 1);
    drop(socket);
    until("the server stops", || web.wire.open.load(Ordering::SeqCst) == 0).await;
}

#[tokio::test]
async fn a_part_goes_on_where_it_was_when_the_connection_breaks() {
    let directory = TempDir::new().unwrap();
    let content: Vec<u8> = (0..2_000_000_u32).map(|number| number.to_be_bytes()[1]).collect();
    std::fs::write(directory.path().join("film.mkv"), &content).unwrap();
    let web = Web::start(directory.path(), small()).await;
    web.wire.budget.store(700_000, Ordering::SeqCst);
    let answer = web.ask("GET /film.mkv", &["Range: bytes=10-"]).await;
    assert!(answer.status == 206 && answer.body == content[10..]);
    assert_eq!(web.wire.budget.load(Ordering::SeqCst), 0, "it broke");
}

#[tokio::test]
async fn the_target_is_that_of_the_media_with_a_margin_and_raised_while_little_is_buffered() {
    let directory = TempDir::new().unwrap();
    // 8 kbit/s, and more bytes than the buffers on the way hold.
    let size = 16_000_000;
    std::fs::write(directory.path().join("film.mp4"), film(16_000, size)).unwrap();
    std::fs::write(directory.path().join("no-film.mp4"), vec![7; 1_000_000]).unwrap();
    let targets = |web: &Web| web.wire.targets.lock().unwrap().clone();
    let web = Web::start(directory.path(), small()).await;
    let mut socket = TcpStream::connect(web.address).await.unwrap();
    socket.write_all(b"GET /film.mp4 HTTP/1.1\r\nHost: localhost\r\nUser-Agent: x\r\n\r\n").await.unwrap();
    let mut body = Vec::new();
    while body.len() < size {
        assert!(socket.read_buf(&mut body).await.unwrap() > 0);
        if targets(&web).is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    let told = targets(&web);
    // The high one is not told if the length is known late; after the low one it never comes again.
    assert!(matches!(told[..], [32_000, 10_000] | [10_000]), "{told:?}");
    let [figures] = web.play.figures().try_into().unwrap();
    assert_eq!((figures.bit_rate, figures.stalls, figures.seeks), (Some(8000), 0, 0));
    assert!(
        figures.startup.unwrap() < Duration::from_secs(10) && figures.buffered.unwrap().as_secs() > 15_000
    );

    web.wire.targets.lock().unwrap().clear();
    assert_eq!(web.ask("GET /no-film.mp4", &[]).await.body.len(), 1_000_000);
    assert_eq!(targets(&web), [], "no media, no target");

    let mut config = small();
    config.target = TargetChoice::Fixed(5_000_000);
    let web = Web::start(directory.path(), config).await;
    web.ask("GET /no-film.mp4", &[]).await;
    assert_eq!(targets(&web), [5_000_000]);
}

#[tokio::test]
async fn a_presentation_is_one_film_whose_variants_are_counted() {
    let directory = TempDir::new().unwrap();
    let write = |name: &str, text: &[u8]| std::fs::write(directory.path().join(name), text).unwrap();
    write(
        "all.m3u8",
        b"#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\nlow.m3u8\n#EXT-X-STREAM-INF:BANDWIDTH=2\nhigh.m3u8\n",
    );
    for name in ["low", "high"] {
        let segments: Vec<_> = (0..5).map(|number| format!("#EXTINF:2,\n{name}{number}.ts\n")).collect();
        write(&format!("{name}.m3u8"), format!("#EXTM3U\n{}#EXT-X-ENDLIST\n", segments.concat()).as_bytes());
        (0..5).for_each(|number| write(&format!("{name}{number}.ts"), &[7; 1000]));
    }
    let web = Web::start(directory.path(), small()).await;
    for name in ["all.m3u8", "low.m3u8", "low0.ts", "low1.ts", "high.m3u8", "high1.ts", "high2.ts", "low4.ts"]
    {
        let answer = web.ask(&format!("GET /{name}"), &["Range: bytes=0-"]).await;
        assert_eq!((answer.status, answer.body.is_empty()), (206, false), "{name}");
    }
    let [figures] = web.play.figures().try_into().unwrap();
    assert_eq!((figures.name.as_str(), figures.bytes, figures.bit_rate), ("all.m3u8", 5000, None));
    assert_eq!((figures.variant_switches, figures.seeks, figures.stalls), (2, 1, 0));
    assert!(web.wire.targets.lock().unwrap().is_empty(), "its player chooses by the rate that it sees");
}
