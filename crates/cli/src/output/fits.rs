//! For tests: whether a screen fits its terminal, and texts that make that hard.

use manyway_terminal::text_width;

/// Every line of the screen has at most `width` columns.
#[track_caller]
pub(crate) fn assert_fits(screen: &str, width: usize) {
    for line in screen.lines() {
        let columns = text_width(line);
        assert!(columns <= width, "{columns} columns instead of {width}: {line}\n{screen}");
    }
}

/// A path whose name is as long as one gets: an adapter's name, and an address with its zone.
pub(crate) const LONG_PATH: &str = "enx00e04c680001 fe80::1234:5678:9abc:def0%enx00e04c680001";
/// File names that are longer than a line: one without a space, one of characters that take two columns, one with spaces.
pub(crate) const LONG_FILES: [&str; 3] = [
    "recordings/2026-11-25_concert-in-the-open_four-cameras_second-part-of-three_with-the-encore_uncut_1080p.mp4",
    "録音/二〇二六年十一月二十五日の野外演奏会、四台の撮影機による記録、三部構成の第二部、追加曲を含む完全版の映像.mp4",
    "Concert in the open, recorded with four cameras, second part of three, with the encore, uncut, in 1080p.mp4",
];
