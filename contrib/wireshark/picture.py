#!/usr/bin/env python3
"""Draws docs/pictures/wireshark-mmsp1.svg and wireshark-mmsp2.svg: what tshark shows of two captures that are made
here."""

import struct
import sys
import tempfile
from pathlib import Path
from xml.sax.saxutils import escape

from capture import ROOT, frame, golden, mmsp1, tshark, write
from seal import AES_128_GCM, Connection, block

PICTURES = ROOT / "docs/pictures"
COLUMNS, LINE, CHARACTER, MARGIN = 122, 17, 7.25, 12
CLIENT = {"ports": (40000, 4455), "hosts": ("192.0.2.1", "198.51.100.7")}
SERVER = {"ports": (4455, 40000), "hosts": ("198.51.100.7", "192.0.2.1")}
TAG = {"client": 0xA1B2C3D4, "server": 0x0BADCAFE}


def mmsp1_frames():
    """A connection from its SYN to its FIN-DONE, and the frame that is shown in full."""

    def ours(*names):
        return frame(mmsp1(b"".join(map(bytes_of, names)), TAG["server"], (4000, 5001)), **CLIENT)

    def theirs(*names):
        return frame(mmsp1(b"".join(map(bytes_of, names)), TAG["client"], (5001, 4000)), **SERVER)

    def bytes_of(name):
        return name if isinstance(name, bytes) else golden(f"mmsp1_{name}") + bytes(-len(golden(f"mmsp1_{name}")) % 4)

    def data(tseq, text):
        return block(0, 3, struct.pack(">IHHI", tseq, 0, tseq - 1000, 51) + text)

    info = golden("mmsp1_info")
    frames = [
        frame(mmsp1(golden("mmsp1_syn"), TAG["client"], (4000, 5001)), **CLIENT),
        theirs("syn_ack"),
        ours(block(4, 0, struct.pack(">HH", 0, 4 + len(info)) + info), data(1000, b"hello")),
        frame(golden("mmsp1_packet"), **SERVER),
        ours("probe"),
        theirs("probe_ack"),
        ours(data(1002, b"three")),
        ours(data(1003, b"four")),
        ours(data(1007, b"eight")),
        theirs("sack"),
        ours(data(1002, b"three")),
        ours("fin"),
        theirs("fin_ack"),
        ours("fin_done"),
    ]
    return frames, 10, None


def mmsp2_frames():
    """The same for MMSP/2, with the key log that opens it."""
    connection = Connection("picture", AES_128_GCM)
    sides = {"client": CLIENT, "server": SERVER}
    new_cid = block(0x90, 0, b"\1\0\0" + b"wlan-id8" + bytes(range(16)))
    stream = block(0x82, 0, b"\0\0" + b"film.mp4")
    ack_and_data = golden("path_ack") + golden("stream")
    frames = [frame(packet, **sides[side]) for side, packet in connection.hellos()]
    elsewhere = {"ports": (40000, 4455), "hosts": ("203.0.113.9", "198.51.100.7")}
    frames += [
        frame(connection.long("Handshake", "client", 0, golden("ping")), **CLIENT),
        frame(connection.short("server", 0, golden("pong") + new_cid), **SERVER),
        frame(connection.short("client", 0, stream), **CLIENT),
        frame(connection.short("client", 0, golden("probe"), path=1, destination=b"wlan-id8"), **elsewhere),
        frame(connection.short("client", 1, ack_and_data, path=1, destination=b"wlan-id8"), **elsewhere),
        frame(connection.short("client", 1, golden("close")), **CLIENT),
    ]
    return frames, 7, connection.key_log()


def text_of(frames, shown, key_log):
    """What tshark says: the list of packets and the tree of one of them."""
    with tempfile.TemporaryDirectory() as directory:
        path, keys = Path(directory) / "capture.pcap", Path(directory) / "keys"
        write(path, frames)
        keys.write_text(key_log or "")
        packets = tshark(path, key_log=keys).rstrip("\n").split("\n")
        tree = tshark(path, "-V", "-O", "mmsp1,mmsp2", "-Y", f"frame.number == {shown}", key_log=keys)
    return packets, [line for line in tree.split("\n") if line.strip()]


def cut(line):
    return line if len(line) <= COLUMNS else line[: COLUMNS - 1] + "…"


def draw(title, packets, tree, shown):
    """An SVG of both."""
    width = round(COLUMNS * CHARACTER + 2 * MARGIN)
    lines = [(line, "#cfe2f3" if number == shown else None) for number, line in enumerate(packets, 1)]
    split = len(lines)
    lines += [(line, "#fff2cc" if "[Expert Info" in line else None) for line in tree]
    height = (len(lines) + 2) * LINE + 2 * MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="12">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff" stroke="#b0b0b0"/>',
        f'<text x="{MARGIN}" y="{MARGIN + 12}" font-family="sans-serif" font-weight="bold">{escape(title)}</text>',
    ]
    top = MARGIN + LINE + 6
    for number, (line, colour) in enumerate(lines):
        if number == split:
            top += LINE // 2
            parts.append(f'<line x1="0" x2="{width}" y1="{top - 4}" y2="{top - 4}" stroke="#b0b0b0"/>')
        if colour:
            parts.append(f'<rect x="1" y="{top}" width="{width - 2}" height="{LINE}" fill="{colour}"/>')
        parts.append(f'<text x="{MARGIN}" y="{top + 13}" xml:space="preserve">{escape(cut(line))}</text>')
        top += LINE
    return "\n".join([*parts, "</svg>", ""])


def pictures():
    """The path and the content of each picture."""
    for version, frames in (("1", mmsp1_frames), ("2", mmsp2_frames)):
        packets, shown, key_log = frames()
        listed, tree = text_of(packets, shown, key_log)
        title = f"tshark shows a connection of MMSP/{version}, and frame {shown} in full"
        yield PICTURES / f"wireshark-mmsp{version}.svg", draw(title, listed, tree, shown)


def main():
    for path, content in pictures():
        path.write_text(content)
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    sys.exit(main())
