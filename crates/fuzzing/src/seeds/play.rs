//! Small media, playlists, a manifest, and a range.

use super::seed::Seed;

pub(super) fn seeds() -> Vec<Seed> {
    let boxed = |kind: &[u8], content: &[u8]| {
        let length = u32::try_from(content.len() + 8).unwrap();
        [&length.to_be_bytes()[..], kind, content].concat()
    };
    let header = [&[0; 12][..], &1000_u32.to_be_bytes(), &90_000_u32.to_be_bytes(), &[0; 80]].concat();
    let mp4 = [boxed(b"ftyp", b"isom"), boxed(b"mdat", &[7; 20]), boxed(b"moov", &boxed(b"mvhd", &header))]
        .concat();
    let packet = |second: u8| {
        let mut packet = vec![0x47, 1, 0, 0x30, 7, 0x10, 0, second, 0, 0, 0, 0];
        packet.resize(188, 0xff);
        packet
    };
    let ts: Vec<u8> = (1..6).flat_map(packet).collect();
    let info = [&[0x44, 0x89, 0x84][..], &90_000_f32.to_be_bytes()].concat();
    let head = [0x1a, 0x45, 0xdf, 0xa3, 0x80, 0x18, 0x53, 0x80, 0x67, 0xff, 0x15, 0x49, 0xa9, 0x66, 0x87];
    let matroska = [&head[..], &info].concat();
    let master = "#EXTM3U\n#EXT-X-MEDIA:TYPE=AUDIO,URI=\"s.m3u8\"\n#EXT-X-STREAM-INF:BANDWIDTH=1\nlow.m3u8\n";
    let playlist = "#EXTM3U\n#EXT-X-MAP:URI=\"i.mp4\"\n#EXTINF:4.0,\n../b/1.ts\n#EXT-X-ENDLIST\n";
    let manifest = "<MPD mediaPresentationDuration=\"PT9S\"><Period><AdaptationSet contentType=\"video\"><SegmentTemplate \
                    timescale=\"10\" media=\"v$RepresentationID$-$Number%05d$-$Time$.m4s\"><SegmentTimeline>\
                    <S t=\"0\" d=\"40\" r=\"1\"/></SegmentTimeline></SegmentTemplate><Representation id=\"0\"/>\
                    </AdaptationSet></Period></MPD>";
    [
        ("mp4", 0, mp4),
        ("ts", 1, ts),
        ("hls-master", 2, master.into()),
        ("hls-media", 2, playlist.into()),
        ("dash", 3, manifest.into()),
        ("matroska", 4, matroska),
        ("range", 5, b"bytes=10-".to_vec()),
    ]
    .map(|(name, kind, bytes)| Seed::new("play", name, [vec![kind], bytes].concat()))
    .into()
}
