//! What a player's server reads of others: media, playlists and manifests of the server, ranges of players.

use std::time::Duration;

use manyway_play::fuzzing::{list, range};
use manyway_play::media_length;
use manyway_transfer::RelativePath;

/// Most bytes of the names of all files that are remembered.
const MOST_BYTES: usize = 32 << 20;

/// The first byte tells what the rest is.
pub fn run(data: &[u8]) {
    let (kind, rest) = data.split_first().unwrap_or((&0, &[]));
    let text = String::from_utf8_lossy(rest);
    match kind % 6 {
        0 => media("film.mp4", rest),
        1 => media("film.ts", rest),
        2 => named("a/list.m3u8", &text),
        3 => named("a/manifest.mpd", &text),
        4 => media("film.mkv", rest),
        _ => {
            if let Some(Some(range)) = range(&text, 1000) {
                assert!(range.start < range.end && range.end <= 1000);
            }
        }
    }
}

fn media(name: &str, file: &[u8]) {
    if let Some(length) = media_length(name, file) {
        assert!(length >= Duration::from_millis(100) && !file.is_empty());
    }
}

fn named(name: &str, text: &str) {
    let (files, bytes) = list(&RelativePath::parse(name).unwrap(), text);
    // Each file takes at least a line of a playlist; a manifest names 50 000 at most.
    assert!(files <= text.len().max(50_000) && bytes <= MOST_BYTES, "{files} files, {bytes} bytes");
}
