"""All connections on one UDP port: tags, INFO, and packets that belong to no connection."""

from __future__ import annotations

import hmac
import random
import secrets
import struct
import sys
from collections import Counter, deque
from dataclasses import dataclass, replace
from typing import Callable

from .connection import HANDSHAKE, Connection, State
from .transfer import MAX_PATHS
from .wire import (
    ERROR,
    FIN_ACK,
    FIN_DONE,
    FLAG_T,
    HEADER,
    INVALID_VALUE,
    MAX_PACKET,
    NO_INFO,
    PING,
    PONG,
    RST,
    STALE_INFO,
    SYN,
    SYN_ACK,
    UNKNOWN_BLOCK,
    UNRECOGNISED,
    Address,
    Error,
    FinDone,
    Info,
    Packet,
    Pong,
    Raw,
    Rst,
    Side,
    SynAck,
    Unreadable,
    decode_packet,
    encode_packet,
    ip,
    mapped,
    padded,
    place,
)


@dataclass
class Options:
    listening: bool = False
    streams: int = 16
    window: int = 1 << 20
    loss: float = 0.0  # share of outgoing packets, 0 to 1
    loss_in: float = 0.0  # share of incoming packets
    primary_only: bool = False
    lifetime: float = 10.0  # of INFO
    tombstone: float = 10.0
    trace: bool = False


def amplified(size: int) -> int:
    """How long an answer to a packet of this size may be, with the headers of IP and UDP (3.57)."""
    return min(MAX_PACKET, 3 * (size + 28) - 28)


class Endpoint:
    """All connections on one UDP port: finds the connection of a packet, answers those that belong to none."""

    def __init__(self, local_addresses: list[Address], output: Callable, clock: Callable[[], float],
                 options: Options, losses: random.Random):  # fmt: skip
        self.locals, self.output, self.clock, self.options = local_addresses, output, clock, options
        self.losses, self.secret = losses, secrets.SystemRandom()
        self.probe_key = self.random_bytes(32)
        self.keys: dict[int, bytes] = {0: self.random_bytes(32)}
        self.key, self.key_since = 0, clock()
        self.connections: dict[int, Connection] = {}  # by the own tag
        self.tombstones: dict[int, tuple[int, float]] = {}  # own tag: tag of the peer, end (3.65)
        self.ended: dict[tuple[int, int], float] = {}  # tags, until their INFO has expired (3.56)
        self.accepted: deque[Connection] = deque()
        self.error_budget: Counter[tuple[int, int]] = Counter()  # by second and code
        self.count: Counter[str] = Counter()

    def random_bytes(self, size: int) -> bytes:
        return self.secret.getrandbits(8 * size).to_bytes(size, "big")

    def fresh_side(self) -> Side:
        tag = 0
        while tag == 0 or tag in self.connections or tag in self.tombstones:
            tag = self.secret.getrandbits(32)
        options = self.options
        return Side(tag, options.window, options.streams, options.streams, self.secret.getrandbits(32))

    def own_addresses(self) -> list[str]:
        return [address for address, _ in self.locals]

    def is_usable(self, address: str, source: str) -> bool:
        """Rule 3.109."""
        it = ip(address)
        if it.is_multicast or it.is_unspecified or address == "255.255.255.255":
            return False
        own = self.own_addresses()
        from_here = source in own or ip(source).is_loopback
        return from_here or not (it.is_loopback or address in own)

    def connect(self, remotes: list[Address], inner: int = 0, peer_inner: int = 5001) -> Connection:
        own = self.fresh_side()
        inner = inner or self.secret.randrange(1, 16384)
        connection = Connection(self, State.SYN_SENT, own, inner, peer_inner)
        self.connections[own.tag] = connection
        pairs = [(local, r) for r in remotes for local in self.locals if ip(local[0]).version == ip(r[0]).version]
        if not pairs:
            raise ValueError("no local address has the family of the server's address")
        connection.connect(pairs, self.clock())
        return connection

    def transmit(self, local, remote, source: int, destination: int, tag: int, blocks: list) -> bool:
        """Sends one packet. True if the simulated loss took it."""
        raw = encode_packet(source, destination, tag, blocks)
        lost = self.losses.random() < self.options.loss
        self.trace(">x" if lost else "->", local, remote, tag, blocks)
        self.count["packets_sent"] += 1
        if lost:
            self.count["packets_dropped_here"] += 1
        else:
            self.output(local, remote, raw)
        return lost

    def trace(self, arrow: str, local: Address, remote: Address, tag: int, blocks: list) -> None:
        if self.options.trace:
            print(f"{self.clock():.3f} {local} {arrow} {remote} {tag:08x} {blocks}", file=sys.stderr)

    def forget(self, connection: Connection) -> None:
        self.connections.pop(connection.own.tag, None)
        if connection.peer:
            self.ended[connection.own.tag, connection.peer.tag] = self.clock() + self.options.lifetime

    def bury(self, connection: Connection, now: float) -> None:
        longest = max(path.pto() for path in connection.paths.values())
        self.tombstones[connection.own.tag] = (connection.peer.tag, now + max(3 * longest, self.options.tombstone))

    def may_send_error(self, code: int) -> bool:
        """Rule 3.74; the code -1 stands for RST and FIN-DONE that belong to no connection."""
        slot = (int(self.clock()), code)
        self.error_budget[slot] += 1
        if len(self.error_budget) > 100:
            self.error_budget = Counter({slot: self.error_budget[slot]})
        return self.error_budget[slot] <= {UNKNOWN_BLOCK: 1, -1: 50}.get(code, 10)

    # Packets.

    def receive(self, local: Address, remote: Address, raw: bytes) -> None:
        if self.losses.random() < self.options.loss_in:
            self.count["packets_dropped_on_arrival"] += 1
            return
        self.count["packets_received"] += 1
        packet, now = decode_packet(raw), self.clock()
        if packet is None:
            self.count["packets_unreadable"] += 1
            return
        self.trace("<-", local, remote, packet.tag, [(b.kind, b.flags, len(b.body)) for b in packet.blocks])
        first = packet.blocks[0] if packet.blocks else None
        if first and first.kind == SYN:
            return self.on_syn(local, remote, packet, len(raw), now)
        connection = self.connections.get(packet.tag)
        if first and first.kind in (RST, FIN_DONE):
            connection = self.connection_of_last_word(local, remote, packet)
            if connection is None:
                return
        if connection:
            connection.receive(local, remote, packet, now)
            connection.flush(now)
        else:
            self.on_stray(local, remote, packet, now)

    def connection_of_last_word(self, local: Address, remote: Address, packet: Packet) -> Connection | None:
        """The connection that RST or FIN-DONE is for: from a verified path (3.117) or in the handshake (3.5c)."""
        reflected = packet.blocks[0].flags & FLAG_T
        for connection in self.connections.values():
            if connection.state == State.SYN_SENT:
                if connection.own.tag == packet.tag and remote in connection.peer_addresses:
                    return connection  # SYN went under the own tag, so one with T has it too
            elif (connection.peer.tag if reflected else connection.own.tag) == packet.tag:
                path = connection.paths.get((local, remote))
                if path and (path.verified or path is connection.handshake_path or connection.state in HANDSHAKE):
                    return connection
        return None

    def answer(self, local: Address, remote: Address, packet: Packet, block, tag: int | None = None) -> None:
        """Answers a packet that belongs to no connection, under its own id if no other is known."""
        if self.may_send_error(-1):
            tag = packet.tag if tag is None else tag
            self.transmit(local, remote, packet.destination, packet.source, tag, [block])

    def on_stray(self, local: Address, remote: Address, packet: Packet, now: float) -> None:
        """The table of rule 3.6, and tombstones (3.65)."""
        kinds = [block.kind for block in packet.blocks]
        peer_tag, until = self.tombstones.get(packet.tag, (0, 0.0))
        if now < until:
            if kinds == [FIN_ACK]:
                self.answer(local, remote, packet, FinDone(), peer_tag)
        elif packet.is_empty or (kinds and kinds[0] in (RST, ERROR, PONG, SYN_ACK, FIN_DONE) and PING not in kinds):
            pass
        elif PING in kinds:
            ping = packet.blocks[kinds.index(PING)]
            connection = self.on_ping(local, remote, packet, ping, now)
            if connection:
                connection.receive(local, remote, packet._replace(blocks=[b for b in packet.blocks if b != ping]), now)
                connection.flush(now)
        elif kinds == [FIN_ACK]:
            self.answer(local, remote, packet, FinDone(reflected=True))
        else:
            self.answer(local, remote, packet, Rst([], reflected=True))

    # Handshake of a server.

    def on_syn(self, local: Address, remote: Address, packet: Packet, size: int, now: float) -> None:
        rivals = [c for c in self.connections.values() if self.is_simultaneous(c, remote, packet)]
        if not self.options.listening and not rivals:
            return
        try:
            syn = packet.blocks[0].read([])
            if syn.side.tag != packet.tag:
                raise Unreadable(INVALID_VALUE)  # 3.148
        except Unreadable as fault:
            information = bytes([SYN]) if fault.code == INVALID_VALUE else b""
            return self.answer(local, remote, packet, Rst([(fault.code, information)]))
        if any(rival.own.tag >= syn.side.tag for rival in rivals):
            return  # 3.5a
        self.answer_syn(local, remote, packet, syn.side, self.fresh_side(), syn.addresses(), amplified(size))

    def is_simultaneous(self, connection: Connection, remote: Address, packet: Packet) -> bool:
        ports = (connection.peer_inner, connection.inner) == (packet.source, packet.destination)
        return connection.state == State.SYN_SENT and remote in connection.peer_addresses and ports

    def answer_syn(self, local, remote, packet, client: Side, server: Side, named: list[str], limit: int) -> None:
        """SYN-ACK with a new INFO. Leaves out addresses until it has at most `limit` bytes (3.57)."""
        own = self.own_addresses()
        named = [a for a in named if self.is_usable(a, remote[0])][:MAX_PATHS]
        while True:
            info = self.make_info(client, server, packet, remote, named)
            syn_ack = SynAck(server, *place(own, server.outgoing, for_syn=False), info.raw())
            if HEADER.size + len(syn_ack.raw()) <= limit or not (named or own):
                break
            (named or own).pop()
        self.transmit(local, remote, packet.destination, packet.source, client.tag, [syn_ack])

    def make_info(self, client: Side, server: Side, packet: Packet, remote: Address, named: list[str]) -> Info:
        now = self.clock()
        if now - self.key_since > 3600:
            self.key, self.key_since = (self.key + 1) % 256, now
            self.keys = {(self.key - 1) % 256: self.keys[(self.key - 1) % 256], self.key: self.random_bytes(32)}
        ipv4, ipv6 = ([a for a in named if ip(a).version == version] for version in (4, 6))
        info = Info(self.key, int(now * 1000), int(self.options.lifetime * 1000), client, server, packet.source,
                    packet.destination, remote[1], mapped(remote), ipv4, ipv6)  # fmt: skip
        return replace(info, mac=self.mac_of(info))

    def mac_of(self, info: Info) -> bytes:
        return hmac.digest(self.keys[info.key], info.unsigned(), "sha256")[:16]

    def on_ping(self, local, remote, packet: Packet, ping: Raw, now: float) -> Connection | None:
        """Rules 3.55 and 3.56. The connection, if the PING has begun one."""
        live = self.connections.get(packet.tag)
        try:
            info = Info.read(ping.read([]).info)
        except Unreadable:
            if live:
                raise
            self.answer(local, remote, packet, Rst([(NO_INFO, b"")], reflected=True))
            return None
        mine = info and info.key in self.keys and hmac.compare_digest(self.mac_of(info), info.mac)
        if not mine or info.server.tag != packet.tag:
            self.answer(local, remote, packet, Rst([(STALE_INFO, bytes(4))], reflected=True))
        elif (info.address, info.udp_port) != (mapped(remote), remote[1]):
            self.count["pings_from_elsewhere"] += 1
        elif live and live.peer.tag == info.client.tag:
            if path := live.find_path(local, remote, now):
                path.verified = True  # 3.82
                live.control.setdefault(path, []).append(Pong())
        elif live:
            self.answer(local, remote, packet, Rst([(UNRECOGNISED, b"")], reflected=True))
        elif now * 1000 > info.made_ms + info.lifetime_ms:
            late = struct.pack(">I", min(2**32 - 1, int(now * 1000) - info.made_ms - info.lifetime_ms))
            self.answer(local, remote, packet, Error([(STALE_INFO, late)]), info.client.tag)
            size = HEADER.size + sum(len(padded(block.body)) + 4 for block in packet.blocks)
            self.answer_syn(local, remote, packet, info.client, info.server, info.ipv4 + info.ipv6, amplified(size))
        elif (info.server.tag, info.client.tag) not in self.ended:
            return self.accept(local, remote, info, now)
        return None

    def accept(self, local: Address, remote: Address, info: Info, now: float) -> Connection:
        """The connection begins with the values of INFO."""
        inner = (info.server_inner, info.client_inner)
        attempt = None
        for old in list(self.connections.values()):
            if old.state == State.SYN_SENT:
                if remote in old.peer_addresses and (old.inner, old.peer_inner) == inner:
                    attempt = old  # a simultaneous open (3.142)
            elif old.handshake_path.remote == remote and (old.inner, old.peer_inner) == inner:
                old.finish("the peer began anew", False)  # 3.5b
        connection = attempt or Connection(self, State.ESTABLISHED, info.server, *inner)
        if attempt:
            del self.connections[attempt.own.tag]
            attempt.own = info.server
        self.connections[info.server.tag] = connection
        connection.set_peer(info.client)
        path = connection.add_path(local, remote, now)
        path.verified = True
        connection.control[path] = [Pong()]
        connection.establish(path, info.ipv4 + info.ipv6, now)
        if not attempt:
            self.accepted.append(connection)
        return connection

    # Time.

    def deadline(self) -> float | None:
        return min((t for c in self.connections.values() for t in c.deadlines()), default=None)

    def tick(self) -> None:
        now = self.clock()
        for connection in list(self.connections.values()):
            connection.tick(now)
        self.tombstones = {tag: grave for tag, grave in self.tombstones.items() if now < grave[1]}
        self.ended = {tags: until for tags, until in self.ended.items() if now < until}
