#!/usr/bin/env python3
"""Tests of the small peer of MMSP/1: golden bytes, peer against peer in virtual time, and the command on loopback.

python3 contrib/test_mmsp1_peer.py
"""

from __future__ import annotations

import heapq
import io
import json
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path as FilePath

HERE = FilePath(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import mmsp1_peer  # noqa: E402
from mmsp1 import bench, wire  # noqa: E402
from mmsp1.application import Application, Settings  # noqa: E402
from mmsp1.connection import Connection, State  # noqa: E402
from mmsp1.endpoint import Endpoint, Options  # noqa: E402
from mmsp1.transfer import Message, Path, Receiver, Sender, Violation  # noqa: E402
from mmsp1.wire import Data, Error, Fin, FinAck, FinDone, Info, Ping, Pong, Raw, Rst, Sack, Side, Syn, SynAck  # noqa: E402

GOLDEN = HERE.parent / "docs" / "specification" / "golden"
COMMAND = [sys.executable, str(HERE / "mmsp1_peer.py")]
CLIENT, CLIENT2 = ("10.0.0.1", 4000), ("10.0.1.1", 4000)
SERVER, SERVER2 = ("10.0.0.2", 5001), ("10.0.1.2", 5001)
B, E, U = wire.FLAG_B, wire.FLAG_E, wire.FLAG_U


def golden(name: str) -> bytes:
    lines = (GOLDEN / f"mmsp1_{name}.hex").read_text().splitlines()
    return bytes.fromhex("".join(line.partition("#")[0] for line in lines))


def read_block(raw: bytes):
    """The one block of `raw`, and the types of parameters that earn ERROR."""
    kind, flags, length = struct.unpack_from(">BBH", raw)
    unknown: list[int] = []
    return Raw(kind, flags, raw[4:length]).read(unknown), unknown


def syn_body(rest: bytes, outgoing: int = 1) -> bytes:
    return Side(7, 1 << 20, outgoing, 4, 1000).raw() + rest


class GoldenFiles(unittest.TestCase):
    def test_every_block_is_read_and_written_back_identically(self):
        names = [path.stem.removeprefix("mmsp1_") for path in GOLDEN.glob("mmsp1_*.hex")]
        self.assertGreaterEqual(len(names), 18)
        kinds = set()
        for name in set(names) - {"packet", "info"}:
            with self.subTest(name):
                block, unknown = read_block(golden(name))
                self.assertEqual(wire.padded(block.raw()), golden(name))
                self.assertEqual(unknown, [])
                kinds.add(block.KIND)
        self.assertEqual(kinds, set(range(13)))

    def test_a_whole_packet(self):
        packet = wire.decode_packet(golden("packet"))
        self.assertEqual((packet.source, packet.destination, packet.tag), (5001, 4000, 0xA1B2C3D4))
        blocks = [raw.read([]) for raw in packet.blocks]
        self.assertEqual(blocks[2], Data(B | E, 2000, 1, 0, 51, b"abc"))
        self.assertEqual(wire.encode_packet(5001, 4000, 0xA1B2C3D4, blocks), golden("packet"))

    def test_info(self):
        info = Info.read(golden("info"))
        self.assertEqual((info.client.tag, info.server.tag, info.udp_port), (0xA1B2C3D4, 0x0BADCAFE, 40000))
        self.assertEqual(info.address, wire.mapped(("192.0.2.1", 40000)))
        self.assertEqual(info.raw(), golden("info"))

    def test_values_of_some_blocks(self):
        sack, _ = read_block(golden("sack"))
        self.assertEqual((sack.ranges, sack.duplicates), ([(2, 3), (7, 7)], [999, 999, 1002]))
        self.assertEqual(read_block(golden("syn"))[0].addresses(), ["192.0.2.1", "198.51.100.1"])
        self.assertEqual(read_block(golden("syn_parameters"))[0].addresses(), ["2001:db8::1"])
        self.assertEqual(read_block(golden("syn_ack"))[0].addresses(), ["192.0.2.7", "198.51.100.7"])


class Wire(unittest.TestCase):
    def test_the_checksum_is_the_adler_32_of_rule_3_3(self):
        raw = golden("packet")
        a, b = 1, 0
        for byte in raw[:4] + bytes(4) + raw[8:]:
            a = (a + byte) % 65521
            b = (b + a) % 65521
        self.assertEqual(raw[4:8], struct.pack(">I", b << 16 | a))

    def test_packets_with_a_wrong_checksum_or_port_are_dropped(self):
        raw = golden("packet")
        for at in range(len(raw)):
            changed = raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]
            self.assertIsNone(wire.decode_packet(changed), at)
        self.assertIsNone(wire.decode_packet(wire.encode_packet(0, 1, 5, [Pong()])))
        self.assertIsNone(wire.decode_packet(wire.encode_packet(1, 16384, 5, [Pong()])))
        self.assertIsNone(wire.decode_packet(raw[:11]))

    def packet(self, body: bytes):
        header = wire.HEADER.pack(1, 2, 0, 3) + body
        return wire.decode_packet(header[:4] + struct.pack(">I", zlib.adler32(header)) + header[8:])

    def test_unknown_blocks_and_wrong_lengths(self):
        pong, skipped, ends = Pong().raw(), b"\x90\0\0\x04", b"\x20\0\0\x04"
        self.assertEqual(len(self.packet(pong + skipped + pong).blocks), 2)
        packet = self.packet(pong + ends + pong)
        self.assertEqual((len(packet.blocks), packet.unknown), (1, 0x20))
        for wrong in (b"\x05\0\0\x03", b"\x05\0\0\x05"):
            packet = self.packet(pong + wrong)
            self.assertEqual((len(packet.blocks), packet.unknown), (1, None))
        self.assertEqual(len(self.packet(pong + b"\1\2\3").blocks), 1)
        self.assertTrue(self.packet(b"").is_empty)

    def test_blocks_that_travel_alone(self):
        self.assertIsNotNone(self.packet(FinAck().raw()))
        for beside in (Pong().raw(), b"\x90\0\0\x04", b"\x20\0\0\x04"):
            self.assertIsNone(self.packet(FinAck().raw() + beside))

    def test_a_parameter_has_padding_inside_or_outside_of_the_length(self):
        for length in (13, 16):
            block, _ = read_block(struct.pack(">BBH", wire.PING, 0, length) + wire.padded(b"\0\0\0\x09abcde"))
            self.assertEqual(block, Ping(b"abcde"))

    def test_parameters_that_cannot_be_read(self):
        info = wire.parameter(wire.INFO, b"abcd")
        for body, code in ((info + info, wire.INVALID_VALUE), (b"\0\0\0\3", wire.INVALID_VALUE),
                           (b"\0\0\0\x09", wire.INVALID_VALUE), (b"", wire.NO_INFO)):  # fmt: skip
            with self.assertRaises(wire.Unreadable) as caught:
                Ping.read(0, body, [])
            self.assertEqual(caught.exception.code, code)

    def test_unknown_parameters_are_skipped_and_earn_error_without_the_high_bit(self):
        unknown: list[int] = []
        body = wire.parameter(0x7F01, b"") + wire.parameter(0xFF01, b"") + wire.parameter(wire.INFO, b"abcd")
        self.assertEqual(Ping.read(0, body, unknown), Ping(b"abcd"))
        self.assertEqual(unknown, [0x7F01])

    def test_the_two_readings_of_addresses(self):
        list4 = wire.parameter(wire.IPV4_LIST, b"\xc0\0\2\1")
        cases = [
            (syn_body(b""), []),
            (syn_body(b"\xc0\0\2\1"), ["192.0.2.1"]),
            (syn_body(bytes(4)), []),
            (syn_body(list4, outgoing=300), ["192.0.2.1"]),
            (syn_body(list4, outgoing=1), ["192.0.2.1"]),
            (syn_body(bytes(4) + list4), ["192.0.2.1"]),
        ]
        for body, expected in cases:
            self.assertEqual(Syn.read(0, body, []).addresses(), expected)
        for rest in (b"\0\1\2\3", b"\xc0", b"\xc0\0\2\1\xc0\0\2\1", wire.parameter(wire.IPV6_LIST, bytes(4))):
            with self.assertRaises(wire.Unreadable) as caught:
                Syn.read(0, syn_body(rest), [])
            self.assertEqual(caught.exception.code, wire.INVALID_VALUE)
        with self.assertRaises(wire.Unreadable) as caught:
            Syn.read(0, bytes(15), [])
        self.assertEqual(caught.exception.code, wire.MISSING_FIELD)

    def test_info_is_the_first_parameter_of_syn_ack(self):
        info, list4 = wire.parameter(wire.INFO, b"abcd"), wire.parameter(wire.IPV4_LIST, b"\xc0\0\2\1")
        self.assertEqual(SynAck.read(0, syn_body(info + list4), []).info, b"abcd")
        for rest in (b"", list4 + info, wire.parameter(0x7F01, b"") + info):
            with self.assertRaises(wire.Unreadable) as caught:
                SynAck.read(0, syn_body(rest, outgoing=300), [])
            self.assertEqual(caught.exception.code, wire.NO_INFO, rest)

    def test_placed_addresses_are_read_again(self):
        some4, some6 = ["192.0.2.1", "192.0.2.2", "192.0.2.3"], ["2001:db8::1"]
        for outgoing in (1, 2, 3, 5, 256, 300):
            for addresses in ([], some4, some6, some4 + some6):
                side = Side(7, 1, outgoing, 1, 0)
                syn = Syn(side, *wire.place(addresses, outgoing, True))
                self.assertEqual(sorted(Syn.read(0, syn.body(), []).addresses()), sorted(addresses))
                syn_ack = SynAck(side, *wire.place(addresses, outgoing, False), b"info")
                self.assertEqual(sorted(SynAck.read(0, syn_ack.body(), []).addresses()), sorted(addresses))

    def test_random_bytes_never_break_the_reader(self):
        numbers = random.Random(3)
        for _ in range(3000):
            raw = Raw(numbers.randrange(13), numbers.randrange(8), numbers.randbytes(numbers.randrange(120)))
            try:
                block = raw.read([])
            except wire.Unreadable:
                continue
            self.assertEqual(type(block).read(block.flags(), block.body(), []), block)


class Net:
    """A network and a clock of its own. `drop` decides over each datagram; taps see those that are sent."""

    def __init__(self, seed: int = 1):
        self.now, self.order, self.queue = 1000.0, 0, []
        self.nodes: dict = {}
        self.random = random.Random(seed)
        self.drop = lambda local, remote, packet: False
        self.change = lambda raw: raw
        self.delay = lambda packet: 0.01
        self.log: list = []
        self.parts: list = []

    def send(self, local, remote, raw: bytes) -> None:
        packet = wire.decode_packet(raw)
        assert packet is not None and len(raw) <= wire.MAX_PACKET
        self.log.append((self.now, local, remote, packet))
        if not self.drop(local, remote, packet):
            self.order += 1
            at = self.now + self.delay(packet)
            heapq.heappush(self.queue, (at, self.order, local, remote, self.change(raw)))

    def run(self, seconds: float, until=lambda: False) -> bool:
        end = self.now + seconds
        while self.now < end and not until():
            times = [self.queue[0][0]] if self.queue else []
            times += [t for part in self.parts for t in part.times()]
            self.now = max(self.now, min(times + [end]))
            while self.queue and self.queue[0][0] <= self.now:
                _, _, local, remote, raw = heapq.heappop(self.queue)
                if remote in self.nodes:
                    self.nodes[remote].receive(remote, local, raw)
            for part in self.parts:
                part.poll()
        return until()

    def sent(self, kind: int, source=None) -> list:
        """Blocks of this kind that were sent, in their order."""
        return [raw.read([]) for _, local, _, packet in self.log for raw in packet.blocks
                if raw.kind == kind and source in (None, local)]  # fmt: skip


class Node(Endpoint):
    """An endpoint of the virtual network that puts an application on each of its connections."""

    def __init__(self, net: Net, addresses: list, settings: Settings, **options):
        super().__init__(addresses, net.send, lambda: net.now, Options(**options), net.random)
        self.settings = settings
        self.applications: list[Application] = []
        net.parts.append(self)
        net.nodes.update(dict.fromkeys(addresses, self))

    def poll(self) -> None:
        while self.accepted:
            self.applications.append(Application(self.accepted.popleft(), replace(self.settings)))
        for application in self.applications:
            application.poll(self.clock())
        self.tick()

    def times(self) -> list[float]:
        """When something happens here if no packet comes."""
        times = [application.wakes_at(self.clock()) for application in self.applications] + [self.deadline()]
        return [time for time in times if time is not None]

    def start(self, remotes=(SERVER,), **ports) -> Application:
        self.applications.append(Application(self.connect(list(remotes), **ports), replace(self.settings)))
        return self.applications[-1]


class Pair(unittest.TestCase):
    """A client and a server with two addresses each."""

    def pair(self, client: dict | None = None, server: dict | None = None, seed: int = 1, loss: float = 0.0, **options):
        self.net = Net(seed)
        settings = Settings(**{"closes": False, **(server or {})})
        self.server = Node(self.net, [SERVER, SERVER2], settings, listening=True, loss=loss, **options)
        self.client = Node(self.net, [CLIENT, CLIENT2], Settings(**(client or {})), loss=loss, **options)
        self.application = self.client.start()
        return self.application

    def accepted(self) -> Application:
        self.assertEqual(len(self.server.applications), 1)
        return self.server.applications[0]

    def is_over(self) -> bool:
        applications = self.client.applications + self.server.applications
        return all(a.connection.state == State.CLOSED for a in applications) and bool(self.server.applications)

    def finish(self, seconds: float = 100.0) -> None:
        self.assertTrue(self.net.run(seconds, self.is_over), "the connection did not end")

    def assert_all_arrived(self) -> None:
        client, server = self.application, self.accepted()
        for application in (client, server):
            self.assertTrue(application.is_ok(), application.summary())
        for sender, receiver in ((client, server), (server, client)):
            self.assertEqual(sender.sent.summary(), receiver.received.summary())


class Transfers(Pair):
    def test_messages_both_ways_over_two_paths_with_loss(self):
        for seed in range(1, 4):
            with self.subTest(seed=seed):
                both = {"send": 300, "size": 2500, "expect": 300}
                self.pair(both, both, seed, loss=0.02)
                self.finish()
                self.assert_all_arrived()
                self.assertEqual(self.application.received.messages, 300)
                used = [p for p in self.application.connection.paths.values() if p.count["data_blocks"] > 20]
                self.assertGreater(len(used), 1)
                self.assertGreater(self.application.connection.sender.count["retransmissions"], 0)

    def test_messages_arrive_at_twenty_per_cent_loss(self):
        both = {"send": 60, "size": 2500, "expect": 60}
        self.pair(both, both, 9, loss=0.2)
        self.finish(300)
        self.assert_all_arrived()

    def test_echo_of_ordered_and_unordered_messages(self):
        for unordered in (False, True):
            self.pair({"send": 200, "size": 1800, "expect": 200, "unordered": unordered}, {"echo": True}, 3, loss=0.02)
            self.finish()
            self.assert_all_arrived()
            self.assertEqual(self.application.sent.summary(), self.application.received.summary())

    def test_small_messages_share_packets_and_sseq_wraps(self):
        self.pair({"closes": False}, streams=1)
        self.net.run(1.0)
        connection = self.application.connection
        connection.sender.next_sseq[0] = self.accepted().connection.receiver.next_sseq[0] = 65_000
        self.client.options.loss = 0.05
        for number in range(3000):
            connection.send_message(0, struct.pack(">H", number))
        connection.close(self.net.now)
        self.finish()
        self.assertEqual(self.accepted().received.messages, 3000)
        self.assertEqual({block.sseq for block in self.net.sent(wire.DATA)}, {n % 65536 for n in range(65_000, 68_000)})
        packets = [packet for *_, packet in self.net.log if packet.blocks[0].kind == wire.DATA]
        self.assertLess(len(packets), 3000 / 20)

    def test_tseq_wraps(self):
        self.net = Net()
        self.pair({"send": 100, "size": 3000})
        self.client.connections.clear()
        own = replace(self.application.connection.own, tseq=2**32 - 20)
        self.client.applications.clear()
        connection = Connection(self.client, State.SYN_SENT, own, 77, 5001)
        self.client.connections[own.tag] = connection
        self.application = Application(connection, Settings(send=100, size=3000))
        self.client.applications.append(self.application)
        self.net.queue.clear()
        connection.connect([(CLIENT, SERVER)], self.net.now)
        self.finish()
        self.assert_all_arrived()

    def test_a_zero_window_is_probed_until_the_application_reads(self):
        self.pair({"send": 200, "size": 1000}, {"pause": 8.0}, window=20_000)
        self.finish()
        self.assert_all_arrived()
        self.assertGreater(self.application.connection.count["persist_probes"], 2)
        self.assertIn(0, [sack.aws // 1000 for sack in self.net.sent(wire.SACK, SERVER)])
        times = [
            t for t, local, _, packet in self.net.log if local[0][:4] == "10.0" and packet.blocks[0].kind == wire.DATA
        ]
        self.assertLess(len([t for t in times if 1002 < t < 1007]), 12)

    def test_bytes_flipped_on_the_way_are_ignored(self):
        both = {"send": 200, "size": 1500, "expect": 200}
        self.pair(both, both)
        flips = random.Random(4)

        def change(raw: bytes) -> bytes:
            if flips.random() < 0.05:
                at = flips.randrange(len(raw))
                return raw[:at] + bytes([raw[at] ^ 0x10]) + raw[at + 1 :]
            return raw

        self.net.change = change
        self.finish()
        self.assert_all_arrived()
        self.assertGreater(self.client.count["packets_unreadable"], 0)

    def test_a_path_that_fails_is_left_and_the_data_arrive(self):
        self.pair({"send": 1500, "size": 3000})
        self.net.run(0.2)
        dead = {(CLIENT, SERVER), (SERVER, CLIENT)}
        self.net.drop = lambda local, remote, packet: (local, remote) in dead
        self.finish(200)
        self.assert_all_arrived()

    def test_a_measurement_in_each_direction(self):
        for direction in (bench.OPENER_SENDS, bench.ACCEPTOR_SENDS):
            self.pair({"bench": (direction, 700_000), "expect_streams": 1}, {"answers_bench": True}, 2, loss=0.02)
            self.finish()
            self.assert_all_arrived()
            self.assertEqual(self.application.measured.result()["bytes"], 700_000)

    def test_requests_that_the_acceptor_does_not_know_are_refused(self):
        hello = bench.frame(1, b"\3\1" + bench.text("x"))
        contents = {bench.frame(1, b"\3\2"): bench.REFUSED, b"\7\0\0\0": bench.REFUSED, b"\1": bench.REFUSED}
        for content, kind in {**contents, hello: bench.HELLO}.items():
            self.pair({"closes": False}, {"answers_bench": True})
            self.net.run(1.0)
            connection, answer = self.application.connection, []
            self.application.on_byte_stream = answer.append
            connection.send_message(3, content, wire.BYTES)
            connection.send_message(3, struct.pack(">QQ", 0, len(content)), wire.BYTES_END)
            connection.flush(self.net.now)
            self.net.run(1.0)
            self.assertEqual([m.stream for m in answer], [3, 3])
            self.assertEqual((answer[0].data[0], answer[1].protocol), (kind, wire.BYTES_END))

    def test_a_measurement_in_time_counts_until_its_end(self):
        meter = bench.Meter(10.0, 1_000_000, 500_000)
        for moment in (10.2, 10.7, 11.6, 12.4):
            meter.count(100, moment)
        frames = list(meter.intervals(12.5))
        parts = [struct.unpack(">IBQQQ", part[4:])[1:4] for part in frames]
        self.assertEqual(parts, [(1, 0, 500_000), (0, 500_000, 1_500_000), (0, 1_500_000, 2_500_000)])
        self.assertEqual(struct.unpack(">QQQ", meter.summary(12.5)[4:])[:2], (300, 2_000_000))

    def test_unordered_messages_with_the_protocol_of_byte_streams_are_messages(self):
        self.pair({"expect": 1})
        self.net.run(1.0)
        self.application.connection.send_message(0, b"abc", wire.BYTES, ordered=False)
        self.net.run(1.0)
        self.application.connection.close(self.net.now)
        self.finish()
        self.assertEqual(self.accepted().faults, [])
        self.assertEqual((self.accepted().received.messages, self.accepted().received.byte_streams), (1, 0))

    def test_the_primary_alone_carries_new_data_if_asked(self):
        self.pair({"send": 300, "size": 3000}, primary_only=True)
        self.finish()
        self.assert_all_arrived()
        carried = [path.count["data_blocks"] for path in self.application.connection.paths.values()]
        self.assertEqual([count > 0 for count in carried], [True, False, False, False])

    def test_no_path_left_ends_the_connection(self):
        self.pair({"send": 10, "expect": 1})
        self.net.run(5.0)
        self.net.drop = lambda *_: True
        self.finish(200)
        self.assertEqual(self.application.connection.end, "no path was reachable any more")

    def test_byte_streams(self):
        with tempfile.TemporaryDirectory() as directory:
            there = FilePath(directory)
            contents = [random.Random(n).randbytes(size) for n, size in enumerate((200_000, 0, 5))]
            for number, content in enumerate(contents):
                (there / f"in{number}").write_bytes(content)
            files = [there / f"in{number}" for number in range(3)]
            self.pair({"files": files}, {"output": there / "out"}, loss=0.02)
            self.finish()
            self.assert_all_arrived()
            outputs = [path.read_bytes() for path in there.glob("out*")]
            self.assertEqual(sorted(outputs), sorted(contents))
            self.assertEqual(self.accepted().received.byte_streams, 3)

    def test_a_byte_stream_with_another_length_or_without_end_is_no_success(self):
        abandoned = golden("data_end")[16:]
        for end in (struct.pack(">QQ", 0, 4), abandoned, b"short", None):
            self.pair({"expect": 1})
            self.net.run(1.0)
            connection = self.application.connection
            connection.send_message(0, b"abc", wire.BYTES)
            if end is not None:
                connection.send_message(0, end, wire.BYTES_END)
            self.net.run(1.0)
            connection.close(self.net.now)
            self.finish()
            self.assertEqual(len(self.accepted().faults), 1, end)
            if end == abandoned:
                self.assertIn("with code 7 (3 of 100)", self.accepted().faults[0])


class Closes(Pair):
    def test_the_client_closes(self):
        self.pair({"send": 5})
        self.finish()
        self.assert_all_arrived()
        self.assertEqual(
            (self.application.connection.closed_by, self.accepted().connection.closed_by), ("self", "peer")
        )
        self.assertEqual(len(self.client.tombstones) + len(self.server.tombstones), 1)

    def test_the_server_closes_and_the_client_sends_what_waits(self):
        self.pair({"send": 100, "closes": False}, {"closes": True, "send": 1, "expect": 1})
        self.finish()
        self.assertTrue(self.application.connection.complete)
        self.assertEqual(self.application.connection.closed_by, "peer")
        self.assertEqual(self.accepted().received.messages, self.application.sent.messages)

    def test_both_close_at_once(self):
        self.pair({"send": 3, "expect": 3, "closes": False}, {"send": 3, "expect": 3})
        self.net.run(2.0)
        self.application.connection.close(self.net.now)
        self.accepted().connection.close(self.net.now)
        self.finish()
        self.assert_all_arrived()
        for kind in (wire.FIN, wire.FIN_ACK, wire.FIN_DONE):
            for source in ((CLIENT, CLIENT2), (SERVER, SERVER2)):
                self.assertEqual(sum(len(self.net.sent(kind, address)) for address in source), 1, kind)
        self.assertEqual(len(self.client.tombstones) + len(self.server.tombstones), 2)

    def test_every_close_ends_well_with_losses(self):
        for seed in range(40):
            self.pair({"closes": False}, {}, seed)
            self.net.run(2.0)
            self.client.options.loss = self.server.options.loss = 0.3
            closers = [[self.application], [self.accepted()], [self.application, self.accepted()]][seed % 3]
            for application in closers:
                application.connection.close(self.net.now)
            self.finish()
            self.assert_all_arrived()

    def test_a_tombstone_repeats_fin_done(self):
        self.pair({"closes": False})
        self.net.run(2.0)
        lost: list = []
        self.net.drop = lambda _, __, p: p.blocks[0].kind == wire.FIN_DONE and len(lost) < 1 and not lost.append(1)
        self.application.connection.close(self.net.now)
        self.finish(8)
        self.assertEqual(self.accepted().connection.end, "closed")
        self.assertEqual(len(self.net.sent(wire.FIN_DONE)), 2)

    def test_unanswered_fin_ack_ends_as_complete_and_unanswered_fin_does_not(self):
        for lost, complete, known in (
            (wire.FIN_DONE, True, True),
            (wire.FIN_DONE, True, False),
            (wire.FIN, False, True),
        ):
            self.pair({"closes": False})
            self.net.run(2.0)
            self.net.drop = lambda _, __, p, lost=lost: p.blocks[0].kind == lost
            connection = self.application.connection
            closing = self.accepted().connection if complete else connection
            for path in closing.paths.values():
                path.srtt = path.srtt if known else None
            self.client.options.tombstone = 100
            connection.close(self.net.now)
            self.net.run(100, lambda closing=closing: closing.state == State.CLOSED)
            self.assertEqual((closing.state, closing.complete), (State.CLOSED, complete))
            steps = self.net.sent(wire.FIN_ACK if complete else wire.FIN)
            self.assertIn(len(steps), (6,) if known else (5, 6))

    def test_rst_ends_the_connection_at_the_other_end(self):
        self.pair({"closes": False})
        self.net.run(2.0)
        self.application.connection.abort()
        self.finish(1)
        self.assertEqual(self.accepted().connection.end, "reset by the peer")
        self.assertFalse(self.accepted().is_ok())


class Handshakes(Pair):
    def test_each_packet_of_the_handshake_may_be_lost(self):
        for kind in (wire.SYN, wire.SYN_ACK, wire.PING, wire.PONG):
            lost: list = []
            self.pair({"send": 5, "expect": 5}, {"echo": True})
            self.net.drop = lambda _, __, p: p.blocks[0].kind == kind and not lost and not lost.append(1)
            if kind == wire.SYN:
                self.net.queue.clear()
            self.finish()
            self.assert_all_arrived()

    def test_ping_reaches_the_server_at_another_address_if_the_first_fell_silent(self):
        self.pair({"send": 5, "expect": 5}, {"echo": True})
        self.net.drop = lambda local, _, p: local == SERVER and p.blocks[0].kind != wire.SYN_ACK
        self.finish()
        self.assert_all_arrived()

    def test_data_of_the_client_travels_with_ping(self):
        self.pair({"send": 1})
        self.finish()
        first = next(packet for *_, packet in self.net.log if packet.blocks[0].kind == wire.PING)
        self.assertEqual([raw.kind for raw in first.blocks], [wire.PING, wire.DATA])

    def test_without_a_server_the_client_gives_up_after_six_syn(self):
        net = Net()
        application = Node(net, [CLIENT], Settings()).start()
        self.assertTrue(net.run(100, lambda: application.connection.state == State.CLOSED))
        self.assertEqual(len(net.sent(wire.SYN)), 6)
        self.assertEqual(net.now - 1000, 63)
        self.assertEqual(application.connection.end, "no answer in SYN-SENT")

    def test_stale_info_is_renewed(self):
        self.pair({"send": 5})
        delayed: list = []
        self.net.delay = lambda p: (
            11.0 if p.blocks[0].kind == wire.PING and len(delayed) < 4 and not delayed.append(1) else 0.01
        )
        self.finish()
        self.assert_all_arrived()
        stale = [error.causes for error in self.net.sent(wire.ERROR, SERVER)]
        self.assertEqual(stale[0][0][0], wire.STALE_INFO)
        self.assertGreater(len(self.net.sent(wire.SYN_ACK)), 1)

    def test_rst_in_the_handshake_leads_to_the_next_address_and_loses_no_message(self):
        net = Net()
        refusing = Node(net, [SERVER], Settings(closes=False), listening=True)
        taking = Node(net, [SERVER2], Settings(closes=False), listening=True)
        refusing.mac_of = lambda info: bytes(16) if info.mac else bytes([1] * 16)
        application = Node(net, [CLIENT, CLIENT2], Settings(send=5, size=3000)).start([SERVER, SERVER2])
        self.assertTrue(net.run(60, lambda: application.connection.state == State.CLOSED))
        self.assertTrue(application.is_ok(), application.summary())
        self.assertEqual(len(net.sent(wire.RST, SERVER)), 1)
        self.assertEqual(taking.applications[0].received.summary(), application.sent.summary())

    def test_rst_of_another_host_at_a_named_address_ends_nothing(self):
        net = Net()
        Node(net, [SERVER, SERVER2], Settings(closes=False), listening=True)
        Node(net, [SERVER2], Settings())
        application = Node(net, [CLIENT, CLIENT2], Settings(send=5, closes=False)).start()
        net.run(3)
        self.assertGreater(len(net.sent(wire.RST, SERVER2)), 0)
        self.assertEqual(application.connection.state, State.ESTABLISHED)

    def test_ipv6_and_ipv4_together(self):
        net = Net()
        server = Node(net, [SERVER, ("2001:db8::2", 5001)], Settings(closes=False), listening=True)
        application = Node(net, [CLIENT, ("2001:db8::1", 4000)], Settings(send=100, size=5000)).start()
        self.assertTrue(net.run(60, lambda: application.connection.state == State.CLOSED))
        self.assertTrue(application.is_ok())
        self.assertEqual(len([p for p in application.connection.paths.values() if p.verified]), 2)
        self.assertEqual(server.applications[0].received.messages, 100)

    def test_a_simultaneous_open_makes_one_connection(self):
        net = Net()
        left = Node(net, [CLIENT], Settings(send=50, expect=50))
        right = Node(net, [SERVER], Settings(send=50, expect=50))
        applications = [left.start([SERVER], inner=7, peer_inner=8), right.start([CLIENT], inner=8, peer_inner=7)]
        self.assertTrue(net.run(60, lambda: all(a.connection.state == State.CLOSED for a in applications)))
        for application in applications:
            self.assertTrue(application.is_ok(), application.summary())
        self.assertEqual(len(net.sent(wire.PONG)), 1)

    def test_a_client_that_lost_its_connection_begins_anew(self):
        self.pair({"closes": False})
        self.net.run(1.0)
        ports = self.application.connection.inner
        self.client.connections.clear()
        self.client.applications.clear()
        self.client.start([SERVER], inner=ports)
        self.net.run(2.0)
        self.assertEqual(self.server.applications[0].connection.end, "the peer began anew")
        self.assertEqual(self.server.applications[1].connection.state, State.ESTABLISHED)


class Puppet:
    """A client without a state machine: it sends what a test says, and keeps what comes."""

    def __init__(self, net: Net, address=CLIENT):
        self.net, self.address, self.got, self.tag = net, address, [], 0
        self.side = Side(0xC0FFEE, 1 << 20, 4, 4, 100)
        net.nodes[address] = self

    def receive(self, local, remote, raw: bytes) -> None:
        self.got.append(wire.decode_packet(raw))

    def send(self, *blocks, tag: int | None = None, source=None, inner: int = 77) -> list:
        """The packets that come back within a second, as (tag, kind of the first block, block)."""
        self.got = []
        raw = wire.encode_packet(inner, 5001, self.tag if tag is None else tag, list(blocks))
        self.net.send(source or self.address, SERVER, raw)
        self.net.run(0.2)
        return [(packet.tag, raw.kind, raw.read([])) for packet in self.got for raw in packet.blocks
                if raw.kind != wire.PROBE]  # fmt: skip

    def connect(self) -> None:
        [(_, _, syn_ack)] = self.send(Syn(self.side), tag=self.side.tag)
        self.peer, self.info, self.tag = syn_ack.side, syn_ack.info, syn_ack.side.tag
        [(_, kind, _)] = self.send(Ping(self.info))
        assert kind == wire.PONG

    def data(self, tseq: int, bits: int, stream: int = 0, sseq: int = 0, content: bytes = b"x") -> Data:
        return Data(bits, (self.side.tseq + tseq) % 2**32, stream, sseq, 0, content)


class Odd(wire.Simple):
    """A block of any type and body."""

    def __init__(self, kind: int, body: bytes):
        self.KIND, self.content = kind, body

    def body(self) -> bytes:
        return self.content


class Answers(unittest.TestCase):
    """What a server answers to packets that no honest client sends, rule by rule."""

    def setUp(self):
        self.net = Net()
        self.server = Node(self.net, [SERVER], Settings(closes=False), listening=True, window=8000, streams=4)
        self.puppet = Puppet(self.net)

    def connect(self) -> Connection:
        self.puppet.connect()
        return self.server.applications[-1].connection

    def test_packets_of_no_connection(self):
        send = self.puppet.send
        self.assertEqual(send(Pong(), tag=5), [])
        self.assertEqual(send(Rst([]), tag=5), [])
        self.assertEqual(send(Error([(1, b"")]), tag=5), [])
        self.assertEqual(send(FinDone(), tag=5), [])
        self.assertEqual(send(tag=5), [])
        self.assertEqual(send(FinAck(), tag=5), [(5, wire.FIN_DONE, FinDone(True))])
        self.assertEqual(send(Fin(3), tag=5), [(5, wire.RST, Rst([], True))])
        self.assertEqual(send(Odd(0x90, b""), tag=5), [(5, wire.RST, Rst([], True))])
        self.assertEqual(send(self.puppet.data(0, B | E), tag=5), [(5, wire.RST, Rst([], True))])
        self.assertEqual(send(Odd(wire.PING, b""), tag=5), [(5, wire.RST, Rst([(wire.NO_INFO, b"")], True))])
        forged = Rst([(wire.STALE_INFO, bytes(4))], True)
        self.assertEqual(send(Ping(bytes(88)), tag=5), [(5, wire.RST, forged)])

    def test_a_syn_that_cannot_be_read_earns_rst(self):
        send, side = self.puppet.send, self.puppet.side
        invalid = Rst([(wire.INVALID_VALUE, b"\2")])
        self.assertEqual(send(Syn(side), tag=9), [(9, wire.RST, invalid)])
        self.assertEqual(send(Syn(replace(side, outgoing=0)), tag=side.tag), [(side.tag, wire.RST, invalid)])
        self.assertEqual(send(Odd(wire.SYN, side.raw() + b"\1"), tag=side.tag), [(side.tag, wire.RST, invalid)])
        missing = Rst([(wire.MISSING_FIELD, b"")])
        self.assertEqual(send(Odd(wire.SYN, side.raw()[:-4]), tag=side.tag), [(side.tag, wire.RST, missing)])

    def test_syn_ack_is_at_most_three_times_its_syn(self):
        self.server.locals = [SERVER] + [(f"10.0.2.{n}", 5001) for n in range(1, 40)]
        self.puppet.send(Syn(self.puppet.side), tag=self.puppet.side.tag)
        [packet] = self.puppet.got
        size = wire.HEADER.size + 4 + len(packet.blocks[0].body)
        self.assertLessEqual(size + 28, 3 * (32 + 28))
        self.assertEqual(len(self.server.connections), 0)

    def test_pings_of_live_ended_and_foreign_connections(self):
        connection = self.connect()
        puppet, send = self.puppet, self.puppet.send
        self.assertEqual([kind for _, kind, _ in send(Ping(puppet.info))], [wire.PONG])
        other = Puppet(self.net, ("10.0.0.9", 4000))
        self.assertEqual(other.send(Ping(puppet.info), tag=puppet.tag), [])
        self.assertEqual(send(Odd(wire.PING, b""))[0][1:], (wire.ERROR, Error([(wire.NO_INFO, b"")])))
        connection.abort()
        self.assertEqual(len(send(Ping(puppet.info))), 1, "RST alone comes")
        self.assertEqual(send(Ping(puppet.info)), [])
        self.net.run(11)
        kinds = [kind for _, kind, _ in send(Ping(puppet.info))]
        self.assertEqual(kinds, [wire.ERROR, wire.SYN_ACK])

    def test_a_tag_in_use_by_another_client_earns_rst(self):
        self.connect()
        mine = Info.read(self.puppet.info)
        forged = replace(mine, client=replace(mine.client, tag=1))
        forged = replace(forged, mac=self.server.mac_of(forged))
        answers = self.puppet.send(Ping(forged.raw()))
        self.assertEqual(answers, [(self.puppet.tag, wire.RST, Rst([(wire.UNRECOGNISED, b"")], True))])

    def test_rst_counts_under_the_right_tag_and_from_a_path_only(self):
        connection = self.connect()
        puppet = self.puppet
        puppet.send(Rst([]), tag=puppet.side.tag)
        puppet.send(Rst([], True), tag=puppet.tag)
        puppet.send(Rst([]), source=("10.0.0.9", 4000))
        puppet.send(Odd(wire.RST, b"\1"))
        self.assertEqual(connection.state, State.ESTABLISHED)
        puppet.send(Rst([], True), tag=puppet.side.tag)
        self.assertEqual(connection.state, State.CLOSED)

    def test_packets_from_another_address_are_dropped_and_another_port_is_not_verified(self):
        self.connect()
        puppet = self.puppet
        puppet.send(puppet.data(0, B | E), source=("10.0.0.9", 4000))
        self.assertEqual(puppet.send(puppet.data(0, B | E))[0][2].ack, 100)
        moved = Puppet(self.net, (CLIENT[0], 4444))
        moved.tag = puppet.tag
        moved.send(puppet.data(1, B | E, sseq=1))
        self.net.run(3)
        kinds = {raw.kind for packet in moved.got for raw in packet.blocks}
        self.assertEqual(kinds, {wire.PROBE})
        self.assertLessEqual(len(moved.got), 4)

    def test_sack_tells_ranges_and_duplicates(self):
        self.connect()
        puppet = self.puppet
        puppet.send(puppet.data(0, B | E))
        [(_, _, sack)] = puppet.send(puppet.data(2, B | E, sseq=2), puppet.data(3, B | E, sseq=3))
        self.assertEqual((sack.ack, sack.ranges, sack.duplicates), (100, [(2, 3)], []))
        [(_, _, sack)] = puppet.send(puppet.data(2, B | E, sseq=2), puppet.data(0, B | E))
        self.assertEqual((sack.ranges, sack.duplicates), ([(2, 3)], [102, 100]))
        [(_, _, sack)] = puppet.send(puppet.data(1, B | E, sseq=1))
        self.assertEqual((sack.ack, sack.ranges), (103, []))

    def test_faults_that_earn_error(self):
        self.connect()
        puppet = self.puppet

        def causes(*blocks):
            return [cause for _, kind, block in puppet.send(*blocks) if kind == wire.ERROR for cause in block.causes]

        self.assertEqual(causes(Sack(puppet.peer.tseq, 0, [], [])), [(wire.INVALID_VALUE, b"\1")])
        self.assertEqual(
            causes(Odd(wire.SACK, struct.pack(">IIHHHH", 0, 0, 1, 0, 0, 5))), [(wire.INVALID_VALUE, b"\1")]
        )
        self.assertEqual(causes(Fin(puppet.peer.tseq)), [(wire.INVALID_VALUE, b"\6")])
        self.assertEqual(causes(Odd(wire.DATA, b"short")), [(wire.INVALID_VALUE, b"\0")])
        self.assertEqual(causes(puppet.data(0, B | E, stream=4)), [(wire.WRONG_STREAM, b"\0\4")])
        self.assertEqual(causes(puppet.data(1, B | E, content=b"")), [(wire.NO_USER_DATA, struct.pack(">I", 101))])
        self.assertEqual(causes(Odd(0x20, b"")), [(wire.UNKNOWN_BLOCK, b"\x20")])
        probe = struct.pack(">QHH16s8s8s", 0, 0, 5, bytes(16), bytes(8), bytes(8))
        self.assertEqual(causes(Odd(wire.PROBE, wire.parameter(0x10, probe))), [(wire.UNRESOLVED_ADDRESS, b"\0\5")])
        self.assertEqual(causes(Odd(wire.PROBE, wire.parameter(0x7F00, b""))),
                         [(wire.INVALID_VALUE, b"\x0b"), (wire.UNKNOWN_PARAMETER, b"\x7f\0")])  # fmt: skip
        [(_, _, sack)] = puppet.send(puppet.data(2, B | E, sseq=1))
        self.assertEqual(sack.ack, 102)
        application = self.server.applications[0]
        self.assertEqual(application.received.messages, 1)

    def test_contradictions_end_the_connection(self):
        puppet = self.puppet
        cases = [
            [puppet.data(0, E)],
            [puppet.data(0, B), puppet.data(1, B | E)],
            [puppet.data(0, B), puppet.data(1, E, stream=1)],
            [puppet.data(0, B), puppet.data(1, E, sseq=1)],
            [puppet.data(0, B), puppet.data(1, E | U)],
            [puppet.data(1, E), puppet.data(0, B | E)],
            [puppet.data(0, B | E), puppet.data(1, B | E)],
            [puppet.data(0, B | E), puppet.data(1, B | E, sseq=2), puppet.data(2, B | E, sseq=2)],
        ]
        for number, blocks in enumerate(cases):
            puppet.side = replace(puppet.side, tag=1000 + number)
            connection = self.connect()
            answers = puppet.send(*blocks)
            self.assertEqual(answers[-1][2], Rst([(wire.INVALID_VALUE, b"")]), number)
            self.assertEqual(connection.state, State.CLOSED)

    def test_a_message_of_more_than_half_the_window_ends_the_connection(self):
        self.connect()
        pieces = [self.puppet.data(n, B * (n == 0), content=bytes(1000)) for n in range(5)]
        answers = [answer for piece in pieces for answer in self.puppet.send(piece)]
        self.assertEqual(answers[-1][2], Rst([(wire.UNRECOGNISED, b"")]))

    def test_steps_of_the_close_that_do_not_fit_are_dropped(self):
        connection = self.connect()
        self.puppet.send(FinAck())
        self.puppet.send(FinDone())
        self.assertEqual(connection.state, State.ESTABLISHED)
        [(tag, kind, _)] = self.puppet.send(Fin(self.puppet.peer.tseq - 1))
        self.assertEqual((tag, kind), (self.puppet.side.tag, wire.FIN_ACK))
        self.puppet.send(FinAck())
        self.assertEqual(connection.state, State.FIN_ACK_SENT)
        self.puppet.send(FinDone())
        self.assertTrue(connection.complete)

    def test_random_blocks_break_nothing(self):
        numbers = random.Random(11)
        for number in range(30):
            self.puppet.side = replace(self.puppet.side, tag=5000 + number)
            self.connect()
            for _ in range(20):
                blocks = [Odd(numbers.randrange(14), numbers.randbytes(numbers.randrange(64))) for _ in range(3)]
                blocks.append(self.puppet.data(numbers.randrange(6), numbers.randrange(8), numbers.randrange(6)))
                sack = Sack(
                    (self.puppet.peer.tseq - 1) % 2**32, 100, [(numbers.randrange(3), numbers.randrange(4))], []
                )
                blocks = [sack, *numbers.sample(blocks, 2)]
                alone = [block for block in blocks if block.KIND in wire.TRAVEL_ALONE]
                self.puppet.send(*(alone[:1] or blocks))

    def test_a_probe_is_answered_with_its_echo(self):
        self.connect()
        data = wire.ProbeData(1, 2, 4, bytes(16), bytes(8), b"12345678")
        [(_, kind, block)] = self.puppet.send(wire.Probe(data))
        self.assertEqual((kind, block.echo, block.own.address[:4]), (wire.PROBE_ACK, data, b"\x0a\0\0\2"))


class Halves(unittest.TestCase):
    """Sender and receiver alone."""

    def receiver(self) -> Receiver:
        return Receiver(Side(1, 8000, 4, 4, 0), Side(2, 8000, 4, 4, 100))

    def test_data_in_any_order_makes_the_same_messages(self):
        blocks = [Data(B, 100, 0, 0, 9, b"ab"), Data(0, 101, 0, 0, 0, b"cd"), Data(E, 102, 0, 0, 0, b"e"),
                  Data(B | E, 103, 0, 1, 0, b"f"), Data(B | E | U, 104, 0, 0, 0, b"u")]  # fmt: skip
        for seed in range(50):
            receiver, order = self.receiver(), random.Random(seed).sample(blocks, len(blocks))
            for block in order:
                self.assertEqual(receiver.on_data(block), [])
            messages = []
            while message := receiver.read():
                messages.append((message.protocol, message.data))
            self.assertEqual([m for m in messages if m[1] != b"u"], [(9, b"abcde"), (0, b"f")])
            self.assertEqual(len(messages), 3)
            self.assertEqual((receiver.ack, receiver.window()), (104, 8000))

    def test_an_unordered_message_beyond_a_gap_can_be_read_early(self):
        receiver = self.receiver()
        receiver.on_data(Data(B | E | U, 101, 0, 0, 0, b"late"))
        self.assertEqual(receiver.read().data, b"late")
        self.assertEqual(receiver.window(), 8000)
        receiver.on_data(Data(B | E | U, 100, 0, 0, 0, b"first"))
        self.assertEqual(receiver.window(), 7995)
        receiver.read()
        self.assertEqual((receiver.window(), receiver.acked_bytes), (8000, 9))

    def test_old_sacks_do_not_move_the_edge(self):
        sender = Sender(Side(1, 1000, 1, 1, 0), Side(2, 3000, 1, 1, 0))
        path = Path(0, CLIENT, SERVER, 0.0)
        for _ in range(3):
            sender.push(Message(0, 0, True, bytes(1000)))
        while sent := sender.peek():
            sender.transmitted(sent, path, 0.0)
            sender.in_flight(sent, 0.0)
        self.assertTrue(sender.on_ack(1, 1000, [], 0.1))
        self.assertEqual(sender.edge, 3000)
        self.assertTrue(sender.on_ack(0, 9000, [(2, 2)], 0.1))
        self.assertEqual(sender.edge, 3000)
        self.assertTrue(sender.on_ack(2, 4000, [], 0.1))
        self.assertEqual((sender.edge, sender.idle()), (7000, True))
        self.assertFalse(sender.on_ack(3, 4000, [], 0.1))

    def test_small_blocks_meet_the_edge_of_memory(self):
        sender = Sender(Side(1, 1000, 1, 1, 0), Side(2, 1340, 1, 1, 0))
        path = Path(0, CLIENT, SERVER, 0.0)
        for _ in range(30):
            sender.push(Message(0, 0, True, b"sixsix"))

        def send() -> int:
            count = 0
            while sent := sender.peek():
                sender.transmitted(sent, path, 0.0)
                sender.in_flight(sent, 0.0)
                count += 1
            return count

        self.assertEqual(send(), 20)
        self.assertTrue(sender.on_ack(9, 1004, [], 0.1))
        self.assertEqual(send(), 4)
        self.assertTrue(sender.on_ack(23, 0, [], 0.1))
        self.assertEqual((send(), sender.is_blocked()), (0, True))
        self.assertTrue(sender.on_ack(23, 67, [], 0.1))
        self.assertEqual(send(), 1)

    def test_contradictions_are_seen_in_any_order(self):
        with self.assertRaises(Violation):
            receiver = self.receiver()
            receiver.on_data(Data(E, 101, 0, 0, 0, b"x"))
            receiver.on_data(Data(B | E, 100, 0, 0, 0, b"x"))


class Command(unittest.TestCase):
    """The command itself, on loopback."""

    def run_pair(self, listen: list[str], connect: list[str], address: str = "127.0.0.1"):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as it:
            it.bind((address, 0))
            port = it.getsockname()[1]
        there = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        common = ["--json", "--linger", "0.3", "--timeout", "20"]
        server = subprocess.Popen(
            [*COMMAND, "listen", there, *common, *listen], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        server.stderr.readline()
        client = subprocess.Popen([*COMMAND, "connect", there, *common, *connect], stdout=subprocess.PIPE)
        try:
            results = [json.loads(process.communicate(timeout=25)[0]) for process in (client, server)]
        finally:
            for process in (client, server):
                process.kill()
                process.wait()
        return results, (client.returncode, server.returncode)

    def test_messages_both_ways_over_two_paths_with_two_per_cent_loss(self):
        paths = ["--bind", "127.0.0.1", "--bind", "127.0.0.2", "--streams", "4"]
        messages = ["--send", "200", "--size", "3000", "--expect", "200", "--loss", "2"]
        for closer in (["--close"], []):
            wait = ["--wait"] if closer else []
            server = ["--bind", "127.0.0.2", "--streams", "4", *messages, "--seed", "2", *closer]
            (client, server), codes = self.run_pair(server, [*paths, *messages, "--seed", "1", *wait])
            self.assertEqual(codes, (0, 0), (client, server))
            [client], [server] = client["connections"], server["connections"]
            self.assertEqual(client["sent"], server["received"])
            self.assertEqual(server["sent"], client["received"])
            self.assertEqual(
                (client["closed_by"], server["closed_by"]), ("peer", "self") if closer else ("self", "peer")
            )
            self.assertGreater(len([path for path in client["paths"] if path["data_blocks"] > 10]), 1)
            self.assertGreater(client["retransmissions"] + server["retransmissions"], 0)

    def test_a_file_over_ipv6(self):
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as it:
            try:
                it.bind(("::1", 0))
            except OSError:
                self.skipTest("no IPv6 here")
        with tempfile.TemporaryDirectory() as directory:
            source, target = FilePath(directory) / "source", FilePath(directory) / "target"
            source.write_bytes(random.Random(5).randbytes(300_000))
            listen = ["--output", str(target), "--loss", "2", "--expect-streams", "1"]
            _, codes = self.run_pair(listen, ["--file", str(source), "--loss", "2"], "::1")
            self.assertEqual(codes, (0, 0))
            self.assertEqual(target.read_bytes(), source.read_bytes())

    def test_measurements(self):
        for option in ("--bench-send", "--bench-receive"):
            (client, _), codes = self.run_pair(["--bench", "--loss", "2"], [option, "400000", "--loss", "2"])
            self.assertEqual((codes, client["connections"][0]["bench"]["bytes"]), ((0, 0), 400_000))

    def test_exit_statuses(self):
        cases = [
            (["connect", "127.0.0.1:9", "--timeout", "0.3"], 3),
            (["connect", "nonsense"], 2),
            (["connect", "127.0.0.1:9", "--loss", "200"], 2),
            (["connect", "127.0.0.1:9", "--file", "/does/not/exist"], 2),
            (["listen", "127.0.0.1:0", "--connections", "0", "--timeout", "0.3"], 0),
            (["listen", "127.0.0.1:5001", "--bind", "127.0.0.2:5002"], 2),
            (["--help"], 0),
        ]
        for arguments, expected in cases:
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                try:
                    status = mmsp1_peer.main(arguments)
                except SystemExit as end:  # of argparse
                    status = end.code
            self.assertEqual(status, expected, arguments)

    def test_an_interrupt_ends_it_cleanly(self):
        process = subprocess.Popen(
            [*COMMAND, "listen", "127.0.0.1:0", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.assertTrue(process.stderr.readline().startswith(b"listening on 127.0.0.1 port "))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=5)
        self.assertEqual((process.returncode, err), (130, b""))
        self.assertFalse(json.loads(out)["ok"])


if __name__ == "__main__":
    unittest.main()
