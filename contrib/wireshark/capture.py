"""Makes captures for the tests of the dissector, and reads what tshark says of them."""

import json
import os
import re
import socket
import struct
import subprocess
import zlib
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
GOLDEN = ROOT / "docs/specification/golden"


def golden(name):
    """The bytes of a golden file."""
    text = (GOLDEN / f"{name}.hex").read_text()
    return bytes.fromhex("".join(re.sub(r"#.*|\s", "", line) for line in text.splitlines()))


def mmsp1(blocks, connection=0xA1B2C3D4, ports=(4000, 5001)):
    """A packet of MMSP/1 with these blocks and the right checksum (rules 3.2 and 3.3)."""
    packet = struct.pack(">HHII", *ports, 0, connection) + blocks
    return packet[:4] + struct.pack(">I", zlib.adler32(packet)) + packet[8:]


def frame(payload, ports=(40000, 4455), hosts=("192.0.2.1", "192.0.2.7")):
    """An Ethernet frame with one UDP datagram."""
    udp = struct.pack(">HHHH", *ports, 8 + len(payload), 0) + payload
    header = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0)
    return bytes(12) + b"\x08\x00" + header + b"".join(map(socket.inet_aton, hosts)) + udp


def write(path, frames, snap=65535):
    """Writes a pcap file in which one frame comes 10 ms after the other."""
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, snap, 1))
        for number, data in enumerate(frames):
            seconds, hundredths = divmod(number, 100)
            kept = data[:snap]
            file.write(struct.pack("<IIII", 1_800_000_000 + seconds, 10_000 * hundredths, len(kept), len(data)) + kept)


SCRIPT = ("-X", f"lua_script:{HERE / 'manyway.lua'}")


def tshark(path, *arguments, key_log=None, script=SCRIPT):
    """What tshark says of a capture with the dissector."""
    command = ["tshark", *script, "-n", "-r", str(path), *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "SSLKEYLOGFILE"}
    # Wireshark as it comes: no settings and plugins of this user.
    environment["HOME"] = environment["XDG_CONFIG_HOME"] = str(Path(path).parent)
    if key_log:
        environment["SSLKEYLOGFILE"] = str(key_log)
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    for text in (result.stdout, result.stderr):
        place = text.find("Lua Error")
        if place >= 0 or "Lua: Error" in text:
            raise AssertionError("an error of the dissector: " + text[max(place - 200, 0) :][:1000])
    if result.returncode != 0:
        raise AssertionError(f"tshark ended with {result.returncode}: {result.stderr}")
    return result.stdout


class Fields:
    """The fields of one frame."""

    def __init__(self, layers):
        self.layers = layers

    def all(self, name):
        """All values of a field, in the order of the tree."""
        found = []

        def walk(node):
            for item in node if isinstance(node, list) else [node]:
                if not isinstance(item, dict):
                    continue
                for key, value in item.items():
                    if key == name and not isinstance(value, (dict, list)):
                        found.append(value)
                    elif key == name and isinstance(value, list):
                        found.extend(entry for entry in value if not isinstance(entry, dict))
                        walk(value)
                    else:
                        walk(value)

        walk(self.layers)
        return found

    def messages(self):
        """The expert information."""
        return self.all("_ws.expert.message")

    @property
    def protocols(self):
        return set(self.layers)


def dissect(path, *arguments, key_log=None):
    """The fields of every frame of a capture."""
    text = tshark(path, "-T", "json", "--no-duplicate-keys", *arguments, key_log=key_log)
    return [Fields(packet["_source"]["layers"]) for packet in json.loads(text)]
