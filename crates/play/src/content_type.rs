//! What a file is, by the end of its name.

/// The kinds of files that players ask for; everything else is bytes.
const TYPES: [(&str, &str); 30] = [
    ("mp4", "video/mp4"),
    ("m4v", "video/mp4"),
    ("m4s", "video/iso.segment"),
    ("cmfv", "video/mp4"),
    ("cmfa", "audio/mp4"),
    ("mov", "video/quicktime"),
    ("mkv", "video/x-matroska"),
    ("webm", "video/webm"),
    ("ts", "video/mp2t"),
    ("m2ts", "video/mp2t"),
    ("mts", "video/mp2t"),
    ("mpg", "video/mpeg"),
    ("mpeg", "video/mpeg"),
    ("avi", "video/x-msvideo"),
    ("ogv", "video/ogg"),
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("mpd", "application/dash+xml"),
    ("mp3", "audio/mpeg"),
    ("m4a", "audio/mp4"),
    ("aac", "audio/aac"),
    ("flac", "audio/flac"),
    ("ogg", "audio/ogg"),
    ("opus", "audio/ogg"),
    ("wav", "audio/wav"),
    ("vtt", "text/vtt"),
    ("srt", "text/plain; charset=utf-8"),
    ("txt", "text/plain; charset=utf-8"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("png", "image/png"),
];

/// The extension of a name in lower case; empty if it has none.
pub(crate) fn extension(name: &str) -> String {
    name.rsplit_once('.').map_or_else(String::new, |(_, extension)| extension.to_ascii_lowercase())
}

/// The field `Content-Type` for a name. HTML is sent as `application/octet-stream`, because
/// its scripts could read the other files.
pub(crate) fn content_type(name: &str) -> &'static str {
    let extension = extension(name);
    TYPES.iter().find(|(known, _)| *known == extension).map_or("application/octet-stream", |(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_goes_by_the_extension_in_any_case() {
        assert_eq!(content_type("a/b.MP4"), "video/mp4");
        assert_eq!(content_type("live.m3u8"), "application/vnd.apple.mpegurl");
        for name in ["page.html", "script.js", "image.svg", "mp4", "a.b/c"] {
            assert_eq!(content_type(name), "application/octet-stream", "{name}");
        }
    }
}
