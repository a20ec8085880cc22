#!/usr/bin/env python3
"""Tests the dissector with tshark, on captures that are made here: `contrib/wireshark/test.py [--manyway COMMAND]`.

Needs tshark and nothing else; without it the tests are left out. One of them captures what the command sends, with
dumpcap, and is left out where either is missing or may not be used."""

import argparse
import json
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import capture
import expected
import picture
import seal
from capture import GOLDEN, dissect, frame, golden, mmsp1, tshark, write
from seal import AES_128_GCM, CHACHA20_POLY1305, Connection, block

CLIENT = {"ports": (40000, 4455), "hosts": ("192.0.2.1", "192.0.2.7")}
SERVER = {"ports": (4455, 40000), "hosts": ("192.0.2.7", "192.0.2.1")}
SIDES = {"client": CLIENT, "server": SERVER}
# Where namespaces are required, as in CI, captures are, too.
REQUIRED = bool(os.environ.get("MANYWAY_REQUIRE_NAMESPACES"))
MANYWAY = None
VERSION = ""


class Test(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        self.maxDiff = None

    def shown(self, frames, *arguments, key_log=None):
        """The fields of the frames, each of which is bytes."""
        path, keys = self.directory / "capture.pcap", self.directory / "keys"
        write(path, frames)
        if key_log is not None:
            keys.write_text(key_log)
        return dissect(path, *arguments, key_log=keys if key_log is not None else None)

    def check(self, fields, wanted, name):
        for field, values in wanted.items():
            self.assertEqual(fields.all(field), values, f"{name}: {field}")


class Mmsp1(Test):
    def test_every_golden_file_has_its_fields(self):
        files = {path.stem.removeprefix("mmsp1_") for path in GOLDEN.glob("mmsp1_*.hex")}
        self.assertEqual(files, set(expected.MMSP1) | {"info", "packet"})
        names = list(expected.MMSP1)
        shown = self.shown([frame(mmsp1(golden(f"mmsp1_{name}"))) for name in names])
        for name, fields in zip(names, shown):
            self.assertIn("mmsp1", fields.protocols, name)
            self.assertEqual(fields.all("mmsp1.checksum.status"), ["1"], name)
            self.assertEqual(fields.all("mmsp1.srcport"), ["4000"])
            self.assertEqual(fields.all("mmsp1.connection_id"), ["0xa1b2c3d4"])
            self.check(fields, expected.MMSP1[name], name)
            if name not in ("rst", "error"):
                self.assertEqual(fields.messages(), [], name)

    def test_info_and_a_whole_packet_have_their_fields(self):
        info = golden("mmsp1_info")
        ping = block(4, 0, struct.pack(">HH", 0, 4 + len(info)) + info)
        shown = self.shown([frame(mmsp1(ping)), frame(golden("mmsp1_packet"))])
        self.check(shown[0], expected.INFO, "info")
        self.assertEqual(shown[1].all("mmsp1.block.type"), ["0x05", "0x01", "0x00"])
        self.assertEqual(shown[1].messages(), [])

    def test_connections_probes_and_repeated_data_are_recognised(self):
        blocks = ["syn", "syn_ack", "data", "data", "probe", "probe_ack"]
        tags = [0xA1B2C3D4, 0xA1B2C3D4, 0x0BADCAFE, 0x0BADCAFE, 0x0BADCAFE, 0xA1B2C3D4]
        frames = [frame(mmsp1(golden(f"mmsp1_{name}"), tag)) for name, tag in zip(blocks, tags)]
        for arguments in ([], ["-2"]):
            shown = self.shown(frames, *arguments)
            self.assertEqual([fields.all("mmsp1.connection") for fields in shown], [["0"]] * 6)
            receivers = [fields.all("mmsp1.receiver")[0] for fields in shown]
            self.assertEqual(receivers, ["client", "client", "server", "server", "server", "client"])
            self.assertEqual([fields.all("mmsp1.data.first_sent") for fields in shown[2:4]], [[], ["3"]])
            self.assertEqual(shown[5].all("mmsp1.probe.request"), ["5"])
            self.assertEqual(shown[5].all("mmsp1.probe.time"), ["0.010000000"])

    def test_the_end_of_a_byte_stream_has_its_fields(self):
        body = struct.pack(">IHHI QQ", 1, 0, 9, 0x4D570002, 7, 70000)
        fields = self.shown([frame(mmsp1(block(0, 3, body)))])[0]
        self.check(fields, {"mmsp1.bytes_end.code": ["7"], "mmsp1.bytes_end.total": ["70000"]}, "end")

    def test_the_checksum_of_a_large_packet_is_right(self):
        fields = self.shown([frame(mmsp1(block(0, 3, bytes(12) + b"\xff" * 1100)))])[0]
        self.assertEqual(fields.all("mmsp1.checksum.status"), ["1"])

    def test_a_wrong_checksum_is_reported(self):
        damaged = bytearray(mmsp1(golden("mmsp1_data")))
        damaged[-2] ^= 1
        shown = self.shown([frame(mmsp1(golden("mmsp1_pong"))), frame(bytes(damaged))])
        self.assertEqual(shown[1].all("mmsp1.checksum.status"), ["0"])
        self.assertIn("Wrong checksum", shown[1].messages()[0])
        # Without a packet before it, nothing tells that it is one of MMSP/1; the port can be named.
        self.assertNotIn("mmsp1", self.shown([frame(bytes(damaged))])[0].protocols)
        self.assertIn("mmsp1", self.shown([frame(bytes(damaged))], "-o", "manyway.ports:4455")[0].protocols)
        self.assertIn("mmsp1", self.shown([frame(bytes(damaged))], "-d", "udp.port==4455,manyway")[0].protocols)

    def test_a_packet_that_was_captured_in_part_is_not_called_wrong(self):
        path = self.directory / "capture.pcap"
        write(path, [frame(mmsp1(golden("mmsp1_data")))], snap=68)
        fields = dissect(path, "-o", "manyway.ports:4455")[0]
        self.assertEqual(fields.all("mmsp1.checksum.status"), ["2"])
        self.assertEqual(fields.messages(), [])

    # Rules 3.4, 3.5, 3.7, 3.9, 3.10 to 3.12, 3.15, 3.16, 3.18, 3.28, 3.35, 3.45, 3.73, 3.138 and 3.148.
    def test_what_a_receiver_drops_refuses_or_skips_is_told(self):
        syn, syn_ack, pong = golden("mmsp1_syn"), golden("mmsp1_syn_ack"), golden("mmsp1_pong")
        no_tag = syn[:4] + bytes(4) + syn[8:]
        no_streams = syn[:14] + bytes(2) + syn[16:]
        info = struct.pack(">HHI", 0, 8, 1)
        sack = struct.pack(">IIHH", 1000, 1, 1, 0)
        probe = golden("mmsp1_probe")
        cases = [
            ("Flags without a meaning", mmsp1(b"\5\1" + pong[2:])),
            ("between 1 and 16383", mmsp1(pong, ports=(4000, 16384))),
            ("never 0", mmsp1(pong, connection=0)),
            ("not the tag", mmsp1(syn, connection=7)),
            ("travels alone", mmsp1(golden("mmsp1_fin_ack") + pong)),
            ("reading ends here, and it earns", mmsp1(block(0x2A) + pong)),
            ("skips the block", mmsp1(block(0x90, 0, b"x") + pong)),
            ("length 3, less", mmsp1(b"\5\0\0\3")),
            ("length 5 and 4 bytes", mmsp1(b"\5\0\0\5")),
            ("1 bytes too many", mmsp1(block(5, 0, b"x"))),
            ("ack TSEQ needs 4 bytes", mmsp1(block(6, 0, b"xyz"))),
            ("parameter INFO twice", mmsp1(block(4, 0, info + info))),
            ("skips this parameter, and", mmsp1(block(4, 0, info + struct.pack(">HH", 0x7F00, 4)))),
            ("skips this parameter (", mmsp1(block(4, 0, info + struct.pack(">HH", 0xFF00, 4)))),
            ("neither a list of 3", mmsp1(block(2, 0, syn[4:20] + b"\0\xff\0\3"))),
            ("INFO first", mmsp1(block(3, 0, syn_ack[4:24]))),
            ("tag is 0", mmsp1(no_tag, connection=0)),
            ("number of streams is 0", mmsp1(no_streams)),
            ("INFO is missing", mmsp1(block(4))),
            ("without a cause", mmsp1(block(10))),
            ("without data", mmsp1(block(0, 3, bytes(12)))),
            ("probe data is missing", mmsp1(block(11))),
            ("family 5", mmsp1(probe[:19] + b"\5" + probe[20:])),
            ("range 0 to 1", mmsp1(block(1, 0, sack + struct.pack(">HH", 0, 1)))),
            ("range 3 to 2", mmsp1(block(1, 0, sack + struct.pack(">HH", 3, 2)))),
            ("a range needs 4 bytes", mmsp1(block(1, 0, sack))),
        ]
        shown = self.shown([frame(packet) for _, packet in cases], "-o", "manyway.ports:4455")
        for (text, _), fields in zip(cases, shown):
            self.assertTrue(any(text in message for message in fields.messages()), f"{text}: {fields.messages()}")

    def test_damaged_blocks_cause_no_error_of_the_dissector(self):
        chance = random.Random(1)
        frames = []
        for name in expected.MMSP1:
            whole = golden(f"mmsp1_{name}")
            for end in range(len(whole)):
                frames.append(frame(mmsp1(whole[:end])))
                frames.append(frame(mmsp1(whole[:2] + struct.pack(">H", end) + whole[4:])))
            for _ in range(60):
                damaged = bytearray(whole)
                for _ in range(chance.randint(1, 4)):
                    damaged[chance.randrange(len(damaged))] = chance.randrange(256)
                frames.append(frame(mmsp1(bytes(damaged))))
        path = self.directory / "capture.pcap"
        write(path, frames)
        self.assertEqual(tshark(path, "-V").count("\nMobile Multi-Streaming Protocol, version 1"), len(frames))


class Mmsp2(Test):
    def test_every_golden_block_has_its_fields(self):
        others = {"header_handshake", "header_initial", "header_short", "header_short_longest", "header_version_list"}
        others |= {"parameters", "rendezvous_answer", "rendezvous_ask", "rendezvous_retry", "rendezvous_state"}
        files = {path.stem for path in GOLDEN.glob("*.hex") if not path.stem.startswith("mmsp1_")}
        self.assertEqual(files, set(expected.MMSP2) | others)
        for suite in (AES_128_GCM, CHACHA20_POLY1305):
            connection = Connection("golden", suite)
            frames = [frame(packet, **SIDES[side]) for side, packet in connection.hellos()]
            for number, (name, (level, sender, _)) in enumerate(expected.MMSP2.items(), 1):
                blocks = golden(name) + bytes(8 if len(golden(name)) < 4 else 0)
                make = connection.short if level == "1-RTT" else lambda *rest: connection.long(level, *rest)
                frames.append(frame(make(sender, number, blocks), **SIDES[sender]))
            shown = self.shown(frames, key_log=connection.key_log())
            for name, fields in zip(expected.MMSP2, shown[2:]):
                level, sender, wanted = expected.MMSP2[name]
                self.assertEqual(fields.all("mmsp2.level"), [level], name)
                self.assertEqual(fields.all("mmsp2.sender"), [sender], name)
                self.assertEqual(fields.all("mmsp2.block.type"), [f"0x{golden(name)[0]:02x}"], name)
                self.check(fields, wanted, name)
                ends = {"close_abort": ["The connection ends with TLS alert 42"]}
                self.assertEqual(fields.messages(), ends.get(name, []), name)

    def test_clear_headers_have_their_fields(self):
        sealed = bytes(range(40))
        frames = [
            frame(golden("header_initial") + sealed[1:]),
            frame(golden("header_handshake") + sealed[2:]),
            frame(golden("header_short") + sealed),
            frame(golden("header_version_list")),
        ]
        shown = self.shown(frames)
        identity = "01:02:03:04:05:06:07:08"
        self.assertEqual([fields.all("mmsp2.long") for fields in shown], [["1"], ["1"], ["0"], ["1"]])
        self.assertEqual([fields.all("mmsp2.dcid") for fields in shown], [[identity]] * 4)
        self.assertEqual([fields.all("mmsp2.type") for fields in shown[:2]], [["0"], ["1"]])
        self.assertEqual(shown[0].all("mmsp2.scid"), ["11:12:13:14:15:16:17:18"])
        self.assertEqual(shown[0].all("mmsp2.version"), ["0x4d4d5301"])
        self.assertEqual(shown[0].all("mmsp2.length"), ["40"])
        self.assertEqual(len(shown[0].all("mmsp2.sealed")[0].split(":")), 40)
        self.assertEqual(shown[3].all("mmsp2.version_list.version"), ["0x4d4d5301", "0x0a0a0a0a"])

    def test_parameters_of_the_connection_are_shown(self):
        connection = Connection("parameters", AES_128_GCM)
        parameters = golden("parameters")
        extensions = struct.pack(">HH", 0x39, len(parameters)) + parameters
        message = b"\x08" + struct.pack(">I", 2 + len(extensions))[1:] + struct.pack(">H", len(extensions)) + extensions
        packet = connection.long("Handshake", "server", 0, block(0x81, 0, b"\0" + message))
        frames = [frame(packet, **SIDES[side]) for side, packet in connection.hellos()] + [frame(packet, **SERVER)]
        fields = self.shown(frames, key_log=connection.key_log())[2]
        self.check(fields, expected.PARAMETERS, "parameters")
        self.assertEqual(fields.all("mmsp2.crypto.message"), ["8"])

    def test_keys_change_paths_have_numbers_of_their_own_and_resets_are_recognised(self):
        for identity in (b"12345678", b"1234567890abc", b"1234567890abcdefghij"):
            with self.subTest(identity=identity):
                self.check_phases_and_paths(identity)

    def check_phases_and_paths(self, identity):
        connection = Connection("phases", CHACHA20_POLY1305)
        token = bytes(range(16))
        new_cid = block(0x90, 0, b"\1\0\0" + identity + token)
        frames = [frame(packet, **SIDES[side]) for side, packet in connection.hellos()]
        stream = golden("stream")
        elsewhere = {"ports": (50000, 4455), "hosts": ("198.51.100.1", "198.51.100.7")}
        packets = [
            (connection.short("server", 0, new_cid), SERVER),
            (connection.short("client", 0, stream, path=1, destination=identity), elsewhere),
            (connection.short("client", 1, stream), CLIENT),
            (connection.short("client", 2, stream, phase=1), CLIENT),
            (connection.short("client", 0, stream), CLIENT),
            (connection.short("client", 3, stream, phase=2), CLIENT),
            (connection.short("client", 70000, stream, phase=2), CLIENT),
            (connection.short("client", 4, stream, reserved=1, phase=2), CLIENT),
            (b"\x55" + identity + bytes(20) + token, CLIENT),
            (connection.short("client", 5, stream)[:-1] + b"x", CLIENT),
        ]
        frames += [frame(packet, **place) for packet, place in packets]
        for arguments in ([], ["-2"]):
            shown = self.shown(frames, *arguments, key_log=connection.key_log())[2:]
            paths = [fields.all("mmsp2.packet_path") for fields in shown]
            self.assertEqual(paths, [["0"], ["1"]] + [["0"]] * 6 + [["1"], ["0"]])
            numbers = [fields.all("mmsp2.packet_number") for fields in shown]
            self.assertEqual(numbers, [["0"], ["0"], ["1"], ["2"], ["0"], ["3"], [], ["4"], [], []])
            phases = [fields.all("mmsp2.phase") for fields in shown]
            self.assertEqual(phases, [["0"], ["0"], ["0"], ["1"], ["0"], ["2"], [], ["2"], [], []])
            self.assertIn("reserved bits", shown[7].messages()[0])
            self.assertIn("Stateless reset", shown[8].messages()[0])
            self.assertIn("the keys do not fit", shown[9].messages()[0])

    def test_packets_that_share_a_datagram_are_separated(self):
        connection = Connection("shared", AES_128_GCM)
        (_, first), (_, second) = connection.hellos()
        ping = golden("ping_bare")
        short = [connection.short("client", number, golden("stream")) for number in range(3)]
        frames = [
            frame(first, **CLIENT),
            frame(second + connection.long("Handshake", "server", 0, ping), **SERVER),
            frame(connection.long("Handshake", "client", 0, ping) + b"".join(short), **CLIENT),
        ]
        shown = self.shown(frames, key_log=connection.key_log())
        self.assertEqual(shown[1].all("mmsp2.level"), ["Initial", "Handshake"])
        self.assertEqual(shown[2].all("mmsp2.level"), ["Handshake", "1-RTT", "1-RTT", "1-RTT"])
        self.assertEqual(shown[2].all("mmsp2.packet_number"), ["0", "0", "1", "2"])

    def test_without_a_key_log_the_reason_is_told(self):
        connection = Connection("no keys", AES_128_GCM)
        frames = [frame(packet, **SIDES[side]) for side, packet in connection.hellos()]
        frames.append(frame(connection.short("client", 0, golden("stream")), **CLIENT))
        elsewhere = {"ports": (50000, 4455), "hosts": ("198.51.100.1", "198.51.100.7")}
        frames.append(frame(connection.short("client", 0, golden("stream"), 1, b"12345678"), **elsewhere))
        shown = self.shown(frames)
        self.assertEqual([fields.all("mmsp2.packet_number") for fields in shown], [["0"], ["65536"], [], []])
        self.assertEqual(shown[3].messages(), ["Not opened: its ID is not known"])
        self.assertEqual(shown[2].messages(), ["Not opened: no CLIENT_TRAFFIC_SECRET_0 in the key log"])
        shown = self.shown(frames[1:], "-o", "manyway.ports:4455")
        self.assertEqual(shown[1].messages(), ["Not opened: its ID is not known"])

    def test_a_packet_that_was_captured_in_part_is_not_called_malformed(self):
        connection = Connection("in part", AES_128_GCM)
        frames = [frame(packet, **SIDES[side]) for side, packet in connection.hellos()]
        frames.append(frame(connection.short("client", 0, golden("stream") * 20), **CLIENT))
        path = self.directory / "capture.pcap"
        write(path, frames, snap=110)
        for fields in dissect(path, "-o", "manyway.ports:4455"):
            self.assertEqual(fields.messages(), ["Not opened: the capture has only a part of the packet"])

    # Rules 2.2, 2.3, 2.6, 2.7, 2.10, 2.13, 5.1, 5.2, 5.80, 5.83, 5.90, 5.94, 5.96 and 5.9b.
    def test_what_is_refused_is_told(self):
        info = struct.pack(">HHI", 0, 8, 1)
        huge = b"\xc0\0\0\1\0\0\0\0"
        cases = [
            ("length 3, less", "1-RTT", b"\x98\0\0\3"),
            ("flag 0x02 is not defined", "1-RTT", block(0x82, 2, b"\0\0")),
            ("type 0x99 is not known", "1-RTT", block(0x99)),
            ("type 0x00 is not known", "1-RTT", block(0x00)),
            ("offset is missing", "1-RTT", block(0x82, 0, b"\0")),
            ("1 bytes too many", "1-RTT", block(0x85, 0, b"\0\0")),
            ("parameter 0x0000 twice", "Handshake", block(4, 0, info + info)),
            ("parameter 0x0005 is not known", "Handshake", block(4, 0, struct.pack(">HH", 5, 4))),
            ("not below 2^32", "1-RTT", block(0x95, 0, huge + b"\0")),
            ("comes from the server only", "1-RTT", golden("pong")),
            ("may not stand in a packet of level Handshake", "Handshake", golden("stream")),
            ("range goes below 0", "1-RTT", block(0x80, 0, b"\0\1\0" + bytes(4) + b"\2")),
            ("offset 0", "1-RTT", block(0x83, 0, b"\0\0\0x")),
            ("above sequence", "1-RTT", block(0x90, 0, b"\0\1\2" + bytes(24))),
            ("4 is no state", "1-RTT", block(0x94, 0, b"\0\0\4\0")),
            ("flag 0x02 without 0x01", "1-RTT", block(0x96, 2, b"\0")),
            ("4 is no step", "1-RTT", block(0x9B, 0, b"\4\0")),
            ("more than 512", "1-RTT", block(0x9B, 0, b"\0\0" + bytes(513))),
            ("ends with NO_PATH", "1-RTT", block(0x95, 0, b"\0\x10")),
        ]
        connection = Connection("refused", AES_128_GCM)
        frames = [frame(packet, **SIDES[side]) for side, packet in connection.hellos()]
        for number, (_, level, blocks) in enumerate(cases):
            make = connection.short if level == "1-RTT" else lambda *rest: connection.long(level, *rest)
            frames.append(frame(make("client", number, blocks), **CLIENT))
        shown = self.shown(frames, key_log=connection.key_log())[2:]
        for (text, _, _), fields in zip(cases, shown):
            self.assertTrue(any(text in message for message in fields.messages()), f"{text}: {fields.messages()}")

    def test_headers_that_cannot_be_read_or_are_dropped_are_told(self):
        begin = b"\xc0" + struct.pack(">I", seal.VERSION)
        whole = golden("header_initial") + bytes(39)
        cases = [
            ("an ID of 21 bytes", begin + b"\x15" + bytes(60)),
            ("length 41, and 40 bytes are left", whole.replace(b"\x40\x28", b"\x40\x29")),
            ("Another version", b"\xc0\0\0\0\1" + whole[5:]),
            ("Reserved type", b"\xe0" + whole[1:]),
            ("Bit 0x40 is clear", b"\x80" + whole[1:]),
            ("bit 0x20 is set", b"\x60" + bytes(40)),
            ("Fewer than 20 bytes", b"\x40" + bytes(20)),
        ]
        shown = self.shown([frame(packet) for _, packet in cases], "-o", "manyway.ports:4455")
        for (text, _), fields in zip(cases, shown):
            self.assertTrue(any(text in message for message in fields.messages()), f"{text}: {fields.messages()}")

    def test_damaged_packets_and_blocks_cause_no_error_of_the_dissector(self):
        chance = random.Random(2)
        connection = Connection("damaged", CHACHA20_POLY1305)
        hellos = connection.hellos()
        frames, number = [frame(packet, **SIDES[side]) for side, packet in hellos], 0
        for name, (level, sender, _) in expected.MMSP2.items():
            if level != "1-RTT":
                continue
            whole = golden(name)
            damages = [whole[:end] for end in range(len(whole))]
            damages += [whole[:2] + struct.pack(">H", end) + whole[4:] for end in range(len(whole))]
            for _ in range(10):
                damaged = bytearray(whole)
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
                damages.append(bytes(damaged))
            for blocks in damages:
                frames.append(frame(connection.short(sender, number, blocks + bytes(4)), **SIDES[sender]))
                number += 1
        for _, packet in hellos:
            frames += [frame(packet[:end], **CLIENT) for end in range(len(packet))]
        for _ in range(300):
            first = chance.choice([0x40, 0x5F, 0x60, 0x80, 0xC0, 0xD0, 0xFF])
            frames.append(frame(bytes([first]) + chance.randbytes(chance.randrange(80)), **CLIENT))
        path, keys = self.directory / "capture.pcap", self.directory / "keys"
        write(path, frames)
        keys.write_text(connection.key_log())
        text = tshark(path, "-V", "-o", "manyway.ports:4455", key_log=keys)
        self.assertGreater(text.count("\nMobile Multi-Streaming Protocol, version 2"), len(frames) - 5)


class Rendezvous(Test):
    def test_its_datagrams_have_their_fields(self):
        request = golden("rendezvous_retry")[:3] + b"\1" + bytes(range(252))
        frames = [golden("rendezvous_answer"), golden("rendezvous_retry"), request, b"\0\0\1\5" + bytes(16)]
        shown = self.shown([frame(data) for data in frames], "-o", "manyway.ports:4455")
        self.assertEqual([fields.all("mmsp_rendezvous.kind") for fields in shown], [["4"], ["3"], ["1"], ["5"]])
        self.assertEqual(shown[0].all("mmsp_rendezvous.port"), ["4433"])
        self.assertEqual(shown[0].all("mmsp_rendezvous.address"), ["::ffff:192.0.2.7"])
        self.assertEqual(len(shown[1].all("mmsp_rendezvous.cookie")[0].split(":")), 16)

    def test_those_of_a_mailbox_have_their_fields(self):
        start = golden("rendezvous_ask")[:3]
        # Observe, bind and bound, and an ask and a state with letters.
        others = [start + bytes([kind]) + bytes(length - 4) for kind, length in [(10, 64), (11, 64), (12, 29), (6, 464), (8, 435)]]
        frames = [golden("rendezvous_ask"), golden("rendezvous_state"), *others]
        shown = self.shown([frame(data) for data in frames], "-o", "manyway.ports:4455")
        kinds = [fields.all("mmsp_rendezvous.kind")[0] for fields in shown]
        self.assertEqual(kinds, ["7", "8", "10", "11", "12", "6", "8"])
        field = lambda at, name: shown[at].all(f"mmsp_rendezvous.{name}")
        self.assertEqual([field(0, name) for name in ("number", "posted", "taken")], [["7"], ["1"], ["2"]])
        self.assertEqual([field(1, name) for name in ("number", "status", "held", "posted")], [["7"], ["0"], ["1"], ["2"]])
        self.assertEqual([len(field(at, "letter")[0].split(":")) for at in (5, 6)], [400, 400])
        self.assertFalse(field(0, "letter") or field(1, "letter"))


class OtherTraffic(Test):
    def test_none_of_it_is_claimed(self):
        chance = random.Random(3)
        connection = Connection("quic", AES_128_GCM)
        frames = [frame(packet, **SIDES[side]) for side, packet in connection.hellos()]
        (_, hello), _ = Connection("port of QUIC", AES_128_GCM).hellos()
        frames.append(frame(hello, (40000, 443)))
        ours = len(frames)
        dns = struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + b"\7example\3com\0\0\1\0\1"
        secret = connection.secrets["Initial", "client"]
        header = b"\xc0\0\0\0\1\x08" + connection.original + b"\0" + struct.pack(">H", 0x4000 | 1181) + b"\0"
        # QUIC version 1: CRYPTO frame and padding, sealed as Wireshark can open it.
        quic = seal.seal(AES_128_GCM, secret, secret, header, 1, 0, 0, b"\6\0\4\1\0\0\0" + bytes(1157))
        stun = struct.pack(">HHI", 1, 0, 0x2112A442) + chance.randbytes(12)
        rtp = b"\x80\x60" + chance.randbytes(170)
        others = [
            (dns, (50000, 53)),
            (dns, (50000, 5353)),
            (quic, (50001, 443)),
            (b"\x41" + chance.randbytes(100), (50001, 443)),
            (b"\x41" + chance.randbytes(100), (50003, 443)),
            (stun, (50002, 3478)),
            (rtp, (50004, 50006)),
            (b"\x23" + bytes(47), (123, 123)),
        ]
        for _ in range(1000):
            others.append((chance.randbytes(chance.randrange(1400)), (chance.randint(50100, 60000), 9999)))
        for length in range(40):
            others.append((bytes(length), (60001, 60002)))
        frames += [frame(data, ports, ("203.0.113.1", "203.0.113.2")) for data, ports in others]
        shown = self.shown(frames)
        for number, fields in enumerate(shown):
            claimed = fields.protocols & {"mmsp1", "mmsp2", "mmsp_rendezvous"}
            self.assertEqual(bool(claimed), number < ours, f"frame {number + 1}: {fields.protocols}")
        self.assertIn("dns", shown[ours].protocols)
        self.assertIn("quic", shown[ours + 2].protocols)


class Installed(Test):
    def test_the_dissector_works_from_the_plugin_folder(self):
        folder = self.directory / ".local/lib/wireshark/plugins"
        folder.mkdir(parents=True)
        shutil.copy(capture.HERE / "manyway.lua", folder)
        shutil.copytree(capture.HERE / "manyway", folder / "manyway")
        path = self.directory / "capture.pcap"
        write(path, [frame(mmsp1(golden("mmsp1_pong")))])
        self.assertIn("MMSP/1", tshark(path, script=()))


class Ciphers(unittest.TestCase):
    """The tests seal with ciphers of their own; these are the examples of the standards."""

    def test_chacha20_poly1305_seals_the_packet_of_rfc_9001_appendix_a_5(self):
        secret = bytes.fromhex("9ac312a7f877468ebe69422748ad00a15443f18203a07d6060f688f30f21632b")
        header = bytes.fromhex("4200bff4")
        packet = seal.seal(CHACHA20_POLY1305, secret, secret, header, 3, 0, 654360564, b"\1")
        self.assertEqual(packet.hex(), "4cfe4189655e5cd55c41f69080575d7999c25a5bfb")

    def test_aes_128_encrypts_the_block_of_fips_197_appendix_c_1(self):
        block = seal.aes(bytes(range(16)), bytes.fromhex("00112233445566778899aabbccddeeff"))
        self.assertEqual(block.hex(), "69c4e0d86a7b0430d8cdb78070b4c55a")


class Pictures(Test):
    def test_those_of_the_documentation_are_what_tshark_shows(self):
        if not VERSION.startswith("TShark (Wireshark) 4.0."):
            self.skipTest(f"the pictures are those of Wireshark 4.0, and this is {VERSION}")
        for path, content in picture.pictures():
            self.assertEqual(path.read_text(), content, f"{path.name}: contrib/wireshark/picture.py draws it again")


class RealTransfer(Test):
    """What the command sends, as tshark and as the command's own `decode` see it."""

    def run_transfer(self, path, keys, wire="mmsp2"):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        dumpcap = [shutil.which("dumpcap"), "-q", "-P", "-i", "lo", "-f", f"udp port {port}", "-w", str(path)]
        sniffer = self.start(dumpcap, stderr=subprocess.PIPE, text=True)
        heard = ""
        while "File:" not in heard:
            line = sniffer.stderr.readline()
            heard += line
            if not line:
                self.leave_out("dumpcap cannot capture here: " + "; ".join(heard.splitlines()[:3]))
        listen = ["--listen", f"127.0.0.1:{port}", "--listen", f"[::1]:{port}"]
        directory = self.directory / "served"
        directory.mkdir()
        clear = wire == "mmsp1"
        who = ["--wire", "mmsp1", "--from", "127.0.0.1,::1"] if clear else ["--ephemeral"]
        server = self.start(
            [MANYWAY, "serve", *who, "--dir", str(directory), *listen],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        line = server.stdout.readline().strip()
        target = [f"127.0.0.1:{port}", "--wire", "mmsp1"] if clear else [line]
        client = self.run_command(["bench", "-n", "300K", "-i", "0", *target], SSLKEYLOGFILE=str(keys))
        self.assertEqual(client.returncode, 0, client.stderr)
        server.send_signal(signal.SIGINT)
        server.wait(timeout=30)
        time.sleep(0.5)
        sniffer.send_signal(signal.SIGINT)
        sniffer.wait(timeout=30)

    def leave_out(self, reason):
        if REQUIRED:
            self.fail(reason)
        self.skipTest(reason)

    def start(self, command, **options):
        process = subprocess.Popen(command, env=self.environment(), **options)

        def end():
            process.kill()
            process.communicate()

        self.addCleanup(end)
        return process

    def environment(self, **more):
        kept = {name: value for name, value in os.environ.items() if name != "SSLKEYLOGFILE"}
        return kept | {"HOME": str(self.directory), "XDG_RUNTIME_DIR": str(self.directory)} | more

    def run_command(self, arguments, **environment):
        command = [MANYWAY, *arguments]
        return subprocess.run(
            command, env=self.environment(**environment), capture_output=True, text=True, timeout=120
        )

    def setUp(self):
        super().setUp()
        if MANYWAY is None:
            self.skipTest("no command manyway; --manyway names it")
        if shutil.which("dumpcap") is None:
            self.leave_out("dumpcap is not installed")

    def test_tshark_shows_what_decode_shows(self):
        path, keys = self.directory / "real.pcap", self.directory / "keys"
        self.run_transfer(path, keys)
        decoded = self.run_command(["decode", "--json", "--keylog", str(keys), str(path)])
        self.assertEqual(decoded.returncode, 0, decoded.stderr)
        names = {"initial": "Initial", "handshake": "Handshake", "1-RTT": "1-RTT"}
        theirs, theirs_blocks, frames = [], [], {}
        for packet in map(json.loads, decoded.stdout.splitlines()):
            frames[packet["number"]] = None
            theirs.append((names[packet["form"]], str(packet["packet_number"]), packet["sender"]))
            theirs_blocks += [entry["block"] for entry in packet["blocks"]]
        shown = dissect(path, key_log=keys)
        self.assertEqual(len(shown), len(frames))
        ours, ours_blocks = [], []
        for fields in shown:
            self.assertEqual(fields.messages(), [])
            ours += zip(*(fields.all(f"mmsp2.{name}") for name in ("level", "packet_number", "sender")))
            ours_blocks += fields.all("mmsp2.block.type")
        self.assertEqual(ours, theirs)
        self.assertEqual({path for fields in shown for path in fields.all("mmsp2.packet_path")}, {"0", "1"})
        types = dict(zip(theirs_blocks, ours_blocks))
        self.assertEqual([types[name] for name in theirs_blocks], ours_blocks)
        self.assertGreater(len(ours), 20)
        print(f"\n  {len(ours)} packets with {len(ours_blocks)} blocks of a transfer compared", file=sys.stderr)

        # Without the keys, every packet is still recognised, on both paths.
        for fields in dissect(path):
            self.assertIn("mmsp2", fields.protocols)

    def test_tshark_shows_the_blocks_of_mmsp1_that_decode_shows(self):
        path = self.directory / "real.pcap"
        self.run_transfer(path, self.directory / "keys", "mmsp1")
        decoded = self.run_command(["decode", "--json", str(path)])
        self.assertEqual(decoded.returncode, 0, decoded.stderr)
        theirs = [entry["block"] for line in decoded.stdout.splitlines() for entry in json.loads(line)["blocks"]]
        shown = dissect(path)
        ours = [kind for fields in shown for kind in fields.all("mmsp1.block.type")]
        self.assertEqual([fields.messages() for fields in shown if fields.messages()], [])
        self.assertEqual(len(ours), len(theirs))
        types = dict(zip(theirs, ours))
        self.assertEqual([types[name] for name in theirs], ours)
        self.assertEqual(len(set(types.values())), len(types))
        self.assertLessEqual({"SYN", "SYN-ACK", "PING", "PONG", "DATA", "SACK", "FIN", "FIN-ACK", "FIN-DONE"}, set(theirs))
        print(f"\n  {len(ours)} blocks of a transfer over MMSP/1 compared", file=sys.stderr)


def built_command():
    target = Path(os.environ.get("CARGO_TARGET_DIR", capture.ROOT / "target"))
    found = [path for path in (target / kind / "manyway" for kind in ("debug", "release")) if path.is_file()]
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def main():
    global MANYWAY, VERSION
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--manyway", help="the command [default: the newest one that cargo built]")
    options, rest = parser.parse_known_args()
    if shutil.which("tshark") is None:
        print("tshark is not installed: the dissector was not tested")
        sys.exit(1 if REQUIRED else 0)
    MANYWAY = options.manyway or built_command()
    VERSION = subprocess.run(["tshark", "--version"], capture_output=True, text=True).stdout.splitlines()[0]
    print(VERSION)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
