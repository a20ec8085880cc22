"""One connection: handshake of the client, data both ways, paths, close (mmsp1-states.md)."""

from __future__ import annotations

import hmac
import struct
from collections import Counter
from enum import Enum
from typing import TYPE_CHECKING, Iterator

from .transfer import ATTEMPTS, FIRST_WAIT, MAX_PATHS, SACK_DELAY, Message, Path, Receiver, Sender, Violation
from .wire import (
    DATA,
    ERROR,
    FIN,
    HEADER,
    INVALID_VALUE,
    MAX_PACKET,
    NO_INFO,
    PING,
    PONG,
    RST,
    SACK,
    SYN_ACK,
    UNKNOWN_BLOCK,
    UNKNOWN_PARAMETER,
    UNRECOGNISED,
    UNRESOLVED_ADDRESS,
    Address,
    Cause,
    Data,
    Error,
    Fin,
    FinAck,
    FinDone,
    Packet,
    Ping,
    Pong,
    Probe,
    ProbeAck,
    ProbeData,
    Raw,
    Rst,
    Sack,
    Side,
    Syn,
    Unreadable,
    ip,
    name_of,
    padded,
    place,
)

if TYPE_CHECKING:
    from .endpoint import Endpoint


class State(Enum):
    SYN_SENT = "SYN-SENT"
    INFO_PINGED = "INFO-PINGED"
    ESTABLISHED = "ESTABLISHED"
    FIN_PENDING = "FIN-PENDING"
    FIN_SENT = "FIN-SENT"
    FIN_RECEIVED = "FIN-RECEIVED"
    FIN_ACK_SENT = "FIN-ACK-SENT"
    CLOSED = "CLOSED"


HANDSHAKE = (State.SYN_SENT, State.INFO_PINGED)
PROBE_IDLE, UNREACHABLE_AFTER, OUT_OF_SERVICE, CLOSE_STALL = 15.0, 3, 60.0, 30.0


class Connection:
    """One connection: handshake of the client, data both ways, paths, close (mmsp1-states.md)."""

    def __init__(self, endpoint: Endpoint, state: State, own: Side, inner: int, peer_inner: int):
        self.endpoint, self.state, self.own, self.inner, self.peer_inner = endpoint, state, own, inner, peer_inner
        self.peer: Side | None = None
        self.sender: Sender | None = None
        self.receiver: Receiver | None = None
        self.paths: dict[tuple[Address, Address], Path] = {}
        self.handshake_path: Path | None = None
        self.peer_addresses: list[Address] = []
        self.servers: list[tuple[Address, Address]] = []  # where SYN may go
        self.candidates: list[tuple[Address, Address]] = []  # where SYN or PING go in turn
        self.info = b""
        self.attempts, self.attempt_wait, self.attempt_at = 0, FIRST_WAIT, None  # 3.77
        self.control: dict[Path, list] = {}
        self.sack_path: Path | None = None
        self.sack_at: float | None = None
        self.unsacked_datagrams = 0
        self.close_steps, self.close_limit = 0, None
        self.out_of_service_at: float | None = None
        self.started, self.ended_at = endpoint.clock(), 0.0
        self.end, self.complete, self.closed_by, self.sent_fin = "", False, "", False
        self.handler = None  # the application
        self.count: Counter[str] = Counter()

    # What the application calls.

    def accepts_messages(self) -> bool:
        return self.state in (State.INFO_PINGED, State.ESTABLISHED)

    def send_message(self, stream: int, data: bytes, protocol: int = 0, ordered: bool = True) -> None:
        self.sender.push(Message(stream, protocol, ordered, data))

    def read_message(self) -> Message | None:
        return self.receiver.read() if self.receiver else None

    def close(self, now: float) -> None:
        if self.state == State.ESTABLISHED:
            self.closed_by = "self"
            self.enter_close(State.FIN_PENDING, now)
            self.flush(now)
        elif self.state in HANDSHAKE:
            self.abort()

    def abort(self, code: int | None = None) -> None:
        """Ends the connection with RST (3.68)."""
        path = self.best_path() or self.handshake_path
        if path and self.peer:
            self.emit(path, [Rst([] if code is None else [(code, b"")])])
        self.finish("aborted" if code is None else f"aborted: {name_of(code)}", False)

    def finish(self, reason: str, complete: bool) -> None:
        if self.state != State.CLOSED:
            self.state, self.end, self.complete = State.CLOSED, reason, complete
            self.ended_at = self.endpoint.clock()
            self.endpoint.forget(self)

    # Paths.

    def emit(self, path: Path, blocks: list) -> None:
        path.count["packets_sent"] += 1
        lost = self.endpoint.transmit(path.local, path.remote, self.inner, self.peer_inner, self.peer.tag, blocks)
        path.count["packets_dropped_here"] += lost

    def find_path(self, local: Address, remote: Address, now: float) -> Path | None:
        """The path of a packet that arrived, a new one if its source may make one (3.81)."""
        path = self.paths.get((local, remote))
        if path is None and any(remote[0] == address for address, _ in self.peer_addresses):
            path = self.add_path(local, remote, now)
        return path

    def add_path(self, local: Address, remote: Address, now: float) -> Path | None:
        if (local, remote) not in self.paths and len(self.paths) < MAX_PATHS:
            self.paths[local, remote] = Path(len(self.paths), local, remote, now)
        return self.paths.get((local, remote))

    def make_paths(self, named: list[str], now: float) -> None:
        """Paths of all pairs of addresses (3.80); the peer's have the UDP port of its packet (3.108)."""
        handshake = self.handshake_path
        usable = [(a, handshake.remote[1]) for a in named if self.endpoint.is_usable(a, handshake.remote[0])]
        self.peer_addresses = list(dict.fromkeys([handshake.remote, *self.peer_addresses, *usable]))
        families = {ip(local[0]).version for local in self.endpoint.locals}
        for family in {ip(address).version for address, _ in self.peer_addresses} - families:
            self.earn(handshake, [(UNRESOLVED_ADDRESS, struct.pack(">H", family))])  # 3.73
        for remote in self.peer_addresses:
            for local in self.endpoint.locals:
                if ip(local[0]).version == ip(remote[0]).version:
                    self.add_path(local, remote, now)

    def usable_paths(self) -> list[Path]:
        verified = [path for path in self.paths.values() if path.verified]
        return [path for path in verified if path.reachable] or verified

    def best_path(self, avoid: Path | None = None, with_room: bool = False) -> Path | None:
        """The path for new DATA (3.86): the primary, or with the policy `all` the one with the most room."""
        paths = self.usable_paths()
        if self.endpoint.options.primary_only and avoid is None and self.handshake_path in paths:
            paths = [self.handshake_path]
        if with_room:
            paths = [p for p in paths if p.in_flight < p.window]
        paths = [p for p in paths if p is not avoid] or paths
        return min(paths, key=lambda p: (p.in_flight / p.window, p.srtt or 1.0), default=None)

    def send_probe(self, path: Path, now: float) -> None:
        data = self.probe_data(path, now)
        path.probes[data.nonce] = (data.mac, now)
        while len(path.probes) > 8:
            del path.probes[next(iter(path.probes))]
        path.probe_at = now
        self.count["probes_sent"] += 1
        self.emit(path, [Probe(data)])

    def probe_data(self, path: Path, now: float, address: Address | None = None) -> ProbeData:
        there = ip((address or path.remote)[0])
        nonce = self.endpoint.random_bytes(8)
        value = ProbeData(int(now * 1e6), path.number, there.version, there.packed.ljust(16, b"\0"), nonce, bytes(8))
        mac = hmac.digest(self.endpoint.probe_key, value.raw()[:36], "sha256")[:8]
        return value._replace(mac=mac)

    def on_probe_ack(self, path: Path, block: ProbeAck, now: float) -> None:
        mac, sent_at = path.probes.get(block.echo.nonce, (None, 0.0))
        if mac is None or not hmac.compare_digest(mac, block.echo.mac):
            return
        del path.probes[block.echo.nonce]
        path.on_rtt(now - sent_at)
        path.verified = path.reachable = True
        path.probe_at, path.unanswered = None, 0
        path.next_probe = now + PROBE_IDLE
        self.out_of_service_at = None

    def tick_path(self, path: Path, now: float) -> None:
        if path.probe_at is not None and now >= path.probe_at + max(1.0, path.pto()):  # 3.85
            path.probe_at = None
            path.unanswered += 1
            patience = 0.0 if path.verified or path.unanswered < 10 else min(PROBE_IDLE, path.unanswered - 9.0)
            path.next_probe = now + patience
            if path.verified and path.reachable and path.unanswered >= UNREACHABLE_AFTER:
                path.reachable = False
                for sent in list(path.flight.values()):
                    self.sender.lose(sent)
                if not any(p.verified and p.reachable for p in self.paths.values()):
                    self.out_of_service_at = now + OUT_OF_SERVICE  # 3.87
        if path.probe_at is None and now >= path.next_probe:
            self.send_probe(path, now)
        if path.loss_timer is not None and now >= path.loss_timer:
            self.sender.on_loss_timer(path, now)
            if path.backoff >= 2 and path.probe_at is None:
                path.next_probe = now

    # Handshake of a client.

    def connect(self, candidates: list[tuple[Address, Address]], now: float) -> None:
        self.servers = self.candidates = candidates
        self.peer_addresses = list(dict.fromkeys(remote for _, remote in candidates))
        self.attempt(now)

    def attempt(self, now: float) -> None:
        """The next SYN or PING, to the next address in turn (3.111)."""
        pairs = self.candidates
        if self.state == State.INFO_PINGED:  # from the address at which SYN-ACK came
            pairs = [pair for pair in pairs if pair[0] == self.handshake_path.local] or pairs
        local, remote = pairs[self.attempts % len(pairs)]
        self.attempts += 1
        self.attempt_at = now + self.attempt_wait
        self.attempt_wait *= 2
        if self.state == State.SYN_SENT:
            syn = Syn(self.own, *place(self.endpoint.own_addresses(), self.own.outgoing, for_syn=True))
            self.endpoint.transmit(local, remote, self.inner, self.peer_inner, self.own.tag, [syn])
        else:
            self.send_ping(self.add_path(local, remote, now) or self.handshake_path, now)

    def send_ping(self, path: Path, now: float) -> None:
        """PING, and DATA in the same packet if there is some (3.102, 3.103)."""
        ping = Ping(self.info)
        for sent in list(self.sender.blocks.values()):
            self.sender.lose(sent)
        self.emit(path, [ping, *self.next_data(path, MAX_PACKET - HEADER.size - len(padded(ping.raw())), now)])

    def on_syn_ack(self, raw: Raw, local: Address, remote: Address, now: float) -> None:
        """The first SYN-ACK begins PING, a further one of the same server renews INFO (3.54, 3.105)."""
        try:
            syn_ack = raw.read([])
        except Unreadable as fault:
            return self.refuse_syn_ack(raw, fault, local, remote)
        if self.state == State.INFO_PINGED:
            if syn_ack.side.tag == self.peer.tag:
                self.info = syn_ack.info
                self.attempts, self.attempt_wait = 0, FIRST_WAIT
                self.attempt(now)
            return
        self.state, self.info = State.INFO_PINGED, syn_ack.info
        self.set_peer(syn_ack.side)
        self.handshake_path = self.add_path(local, remote, now)
        usable = [(a, remote[1]) for a in syn_ack.addresses() if self.endpoint.is_usable(a, remote[0])]
        self.peer_addresses = list(dict.fromkeys([remote, *usable]))  # the others may be other hosts (3.80)
        pairs = [(local, r) for r in self.peer_addresses if ip(r[0]).version == ip(local[0]).version]
        self.candidates = pairs
        self.attempts, self.attempt_wait = 0, FIRST_WAIT
        if self.handler:
            self.handler.poll(now)  # messages for the first packet
        if self.state == State.INFO_PINGED:
            self.attempt(now)

    def refuse_syn_ack(self, raw: Raw, fault: Unreadable, local: Address, remote: Address) -> None:
        """What a SYN-ACK earns that cannot be read (3.106)."""
        if self.state != State.SYN_SENT:
            return
        tag = int.from_bytes(raw.body[:4], "big") if len(raw.body) >= 4 else 0
        if fault.code == NO_INFO:
            answer = Error([(NO_INFO, b"")]) if tag else None
        else:
            information = bytes([raw.kind]) if fault.code == INVALID_VALUE else b""
            answer = Rst([(fault.code, information)], reflected=not tag)
        if answer:
            self.endpoint.transmit(local, remote, self.inner, self.peer_inner, tag or self.own.tag, [answer])

    def set_peer(self, peer: Side) -> None:
        early = self.sender.take_back() if self.sender else []
        self.peer = peer
        self.sender, self.receiver = Sender(self.own, peer), Receiver(self.own, peer)
        for message in early:  # of an attempt over another address (3.5c)
            self.sender.push(message)

    def establish(self, path: Path, named: list[str], now: float) -> None:
        self.state, self.handshake_path = State.ESTABLISHED, path
        self.attempt_at, self.attempts = None, 0
        self.make_paths(named, now)
        for sent in list(self.sender.blocks.values()):
            if not sent.acked and sent.tseq not in self.sender.again and sent.tseq not in sent.path.flight:
                self.sender.in_flight(sent, now)

    # Packets.

    def receive(self, local: Address, remote: Address, packet: Packet, now: float) -> None:
        """A packet under the own tag, or RST and FIN-DONE with T under the peer's."""
        if self.state == State.SYN_SENT:
            return self.receive_in_syn_sent(local, remote, packet, now)
        path = self.find_path(local, remote, now)
        if path is None:
            self.count["packets_from_elsewhere"] += 1
            return
        path.count["packets_received"] += 1
        if path.verified and path.probe_at is None and path.srtt is not None:
            path.next_probe = now + PROBE_IDLE
        if self.state == State.FIN_SENT:
            self.attempts, self.attempt_wait = 0, 0.0  # 3.114
        had_data, at_once, unknown = False, False, []
        for raw in sorted(packet.blocks, key=lambda block: block.kind not in (PING, PONG)):
            try:
                block = raw.read(unknown) if raw.kind != SYN_ACK else None
                if raw.kind == DATA:
                    had_data, at_once = True, self.on_data(path, block, now) or at_once
                else:
                    self.on_block(path, raw, block, packet, now)
            except Unreadable as fault:
                self.on_unreadable(path, raw, fault)
            except Violation as violation:
                self.abort(violation.code)
            if self.state == State.CLOSED:
                return
        if had_data:
            self.want_sack(path, at_once, now)
        causes = [(UNKNOWN_PARAMETER, struct.pack(">H", kind)) for kind in unknown]
        if packet.unknown is not None:
            causes.append((UNKNOWN_BLOCK, bytes([packet.unknown])))
        self.earn(path, causes)

    def receive_in_syn_sent(self, local: Address, remote: Address, packet: Packet, now: float) -> None:
        if remote not in self.peer_addresses or not packet.blocks:
            return
        if packet.blocks[0].kind == SYN_ACK:
            self.on_syn_ack(packet.blocks[0], local, remote, now)
        elif packet.blocks[0].kind == RST:
            self.on_rst(packet.blocks[0], remote, now)

    def on_unreadable(self, path: Path, raw: Raw, fault: Unreadable) -> None:
        """What a block earns that cannot be read (3.73)."""
        if raw.kind not in (RST, ERROR):
            information = bytes([raw.kind]) if fault.code == INVALID_VALUE else fault.information
            self.earn(path, [(fault.code, information)])

    def earn(self, path: Path, causes: list[Cause]) -> None:
        causes = [cause for cause in causes if self.endpoint.may_send_error(cause[0])]
        if causes:
            self.count["errors_sent"] += 1
            self.control.setdefault(path, []).append(Error(causes))

    def on_block(self, path: Path, raw: Raw, block, packet: Packet, now: float) -> None:
        match block:
            case None:  # SYN-ACK, which is read elsewhere
                if self.state == State.INFO_PINGED:
                    self.on_syn_ack(raw, path.local, path.remote, now)
            case Ping():
                self.endpoint.on_ping(path.local, path.remote, packet, raw, now)
            case Pong():
                if self.state == State.INFO_PINGED:
                    path.verified = True
                    self.establish(path, [a for a, _ in self.peer_addresses], now)
            case Sack():
                self.leave_handshake(path, now)
                self.count["sacks_received"] += 1
                if not self.sender.on_ack(block.ack, block.aws, block.ranges, now):
                    self.earn(path, [(INVALID_VALUE, bytes([SACK]))])
                self.sender.count["duplicates_reported"] += len(block.duplicates)
            case Fin():
                self.on_fin(path, block, now)
            case FinAck():
                if self.sent_fin:  # otherwise it is dropped (3.66)
                    self.emit(path, [FinDone()])
                    self.endpoint.bury(self, now)
                    self.finish("closed", True)
            case FinDone():
                if self.state == State.FIN_ACK_SENT:
                    self.finish("closed", True)
            case Rst():
                self.on_rst(raw, path.remote, now)
            case Error():
                for code, _ in block.causes:
                    self.count[f"error_received {name_of(code)}"] += 1
            case Probe():
                self.emit(path, [ProbeAck(block.data, self.probe_data(path, now, path.local))])
            case ProbeAck():
                self.on_probe_ack(path, block, now)

    def leave_handshake(self, path: Path, now: float) -> None:
        """SACK or DATA complete the handshake too; the path is not verified by them (3.58, 3.82)."""
        if self.state == State.INFO_PINGED:
            self.establish(path, [a for a, _ in self.peer_addresses], now)

    def on_data(self, path: Path, block: Data, now: float) -> bool:
        """True if the SACK must go at once (3.46)."""
        self.leave_handshake(path, now)
        path.count["data_blocks_received"] += 1
        earned = self.receiver.on_data(block)
        self.earn(path, earned or [])
        return earned is None or self.receiver.has_gap()

    def on_rst(self, raw: Raw, remote: Address, now: float) -> None:
        try:
            rst = raw.read([])
        except Unreadable:
            return
        causes = ", ".join(name_of(code) for code, _ in rst.causes)
        self.servers = [pair for pair in self.servers if pair[1] != remote]
        if self.state in HANDSHAKE and self.servers:  # 3.5c
            self.attempts, self.attempt_wait, self.state = 0, FIRST_WAIT, State.SYN_SENT
            self.paths.clear()
            self.connect(self.servers, now)
        else:
            complete = self.state == State.FIN_ACK_SENT  # all data are acknowledged; the peer has forgotten the rest
            self.finish("reset by the peer" + (f": {causes}" if causes else ""), complete)

    # SACK.

    def want_sack(self, path: Path, at_once: bool, now: float) -> None:
        self.unsacked_datagrams += 1
        self.sack_path = path
        if at_once or self.unsacked_datagrams >= 2:
            self.sack_at = now
        elif self.sack_at is None:
            self.sack_at = now + SACK_DELAY

    def take_sack(self) -> Sack:
        self.sack_at, self.unsacked_datagrams = None, 0
        self.count["sacks_sent"] += 1
        return self.receiver.sack()

    # Sending.

    def next_data(self, path: Path, room: int, now: float) -> list[Data]:
        """Blocks to repeat and new ones, as many as fit into a packet (3.8c)."""
        blocks: list[Data] = []
        while (sent := self.sender.peek()) and len(padded(sent.block.raw())) <= room:
            room -= len(padded(sent.block.raw()))
            self.sender.transmitted(sent, path, now)
            if self.state != State.INFO_PINGED:
                self.sender.in_flight(sent, now)
            blocks.append(sent.block)
        path.next_number += bool(blocks)
        return blocks

    def flush(self, now: float) -> None:
        """Sends all that may go now: DATA with the control blocks of its path, then what is left of these."""
        if self.state in HANDSHAKE or self.state == State.CLOSED:
            return
        if self.receiver.wants_update() and self.sack_at is None:
            self.sack_at = now
        while sent := self.sender.peek():
            path = self.best_path(avoid=sent.path, with_room=True)
            if path is None:
                break
            control = self.control.pop(path, [])
            if self.sack_at is not None and path is self.path_of_sack():
                control.append(self.take_sack())
            room = MAX_PACKET - HEADER.size - sum(len(padded(block.raw())) for block in control)
            self.emit(path, in_order(control + self.next_data(path, room, now)))
        if self.sack_at is not None and now >= self.sack_at and (path := self.path_of_sack()):
            self.control.setdefault(path, []).append(self.take_sack())
        for path in [path for path in self.control if path.verified]:
            self.emit(path, in_order(self.control.pop(path)))
        self.arm_persist(now)
        self.advance_close(now)

    def path_of_sack(self) -> Path | None:
        return self.sack_path if self.sack_path and self.sack_path.verified else self.best_path()

    def arm_persist(self, now: float) -> None:
        sender = self.sender
        if not sender.is_blocked():
            sender.persist_at = None
        elif sender.persist_at is None and (path := self.best_path()):
            sender.persist_wait = sender.persist_wait or path.pto()
            sender.persist_at = now + sender.persist_wait

    def send_persist_probe(self, now: float) -> None:
        """One block beyond the edge (3.47)."""
        sender, path = self.sender, self.best_path()
        sent = sender.persist or (sender.cut[0] if sender.cut else None)
        sender.persist_wait = min(5.0, 2 * sender.persist_wait)
        sender.persist_at = now + sender.persist_wait
        if path and sent:
            sender.transmitted(sent, path, now)
            path.next_number += 1
            sender.persist = sent
            self.count["persist_probes"] += 1
            self.emit(path, [sent.block])

    # Close.

    def enter_close(self, state: State, now: float) -> None:
        self.state, self.attempts, self.attempt_wait = state, 0, 0.0
        self.close_limit = None if state == State.FIN_ACK_SENT else now + CLOSE_STALL
        self.sent_fin = self.sent_fin or state == State.FIN_SENT
        self.stalled_at = self.progress()
        if state in (State.FIN_SENT, State.FIN_ACK_SENT):
            self.send_close_step(now)

    def send_close_step(self, now: float) -> None:
        """FIN or FIN-ACK, over the verified paths in turn (3.111, 3.82)."""
        paths = self.usable_paths()
        self.close_steps += 1
        self.attempts += 1
        self.attempt_wait = 2 * self.attempt_wait or max([FIRST_WAIT] if not paths else [path.pto() for path in paths])
        self.attempt_at = now + self.attempt_wait
        if paths:
            step = Fin(self.receiver.ack % 2**32) if self.state == State.FIN_SENT else FinAck()
            self.emit(paths[self.close_steps % len(paths)], [step])

    def advance_close(self, now: float) -> None:
        """FIN and FIN-ACK wait until all DATA are acknowledged (3.60, 3.61)."""
        if self.state in (State.FIN_PENDING, State.FIN_RECEIVED) and self.sender.idle():
            self.enter_close(State.FIN_SENT if self.state == State.FIN_PENDING else State.FIN_ACK_SENT, now)

    def on_fin(self, path: Path, fin: Fin, now: float) -> None:
        if self.state in HANDSHAKE:
            return
        if not self.sender.on_ack(fin.ack, None, [], now):
            return self.earn(path, [(INVALID_VALUE, bytes([FIN]))])
        if self.state in (State.ESTABLISHED, State.FIN_PENDING):
            self.closed_by = "peer" if self.state == State.ESTABLISHED else "both"
            self.enter_close(State.FIN_RECEIVED, now)
        elif self.state == State.FIN_SENT:  # both close (3.64)
            self.closed_by = "both"
            self.enter_close(State.FIN_ACK_SENT, now)
        elif self.state == State.FIN_ACK_SENT:
            self.emit(path, [FinAck()])

    # Time.

    def deadlines(self) -> Iterator[float]:
        if self.state == State.CLOSED:
            return
        yield from (t for t in (self.attempt_at, self.close_limit, self.out_of_service_at) if t is not None)
        if self.state in HANDSHAKE:
            return
        if self.sack_at is not None and self.path_of_sack():
            yield self.sack_at
        if self.sender.persist_at is not None:
            yield self.sender.persist_at
        for path in self.paths.values():
            yield path.next_probe if path.probe_at is None else path.probe_at + max(1.0, path.pto())
            if path.loss_timer is not None:
                yield path.loss_timer

    def tick(self, now: float) -> None:
        if self.attempt_at is not None and now >= self.attempt_at:
            self.on_attempt_timer(now)
        if self.state not in (*HANDSHAKE, State.CLOSED):
            if self.close_limit is not None and now >= self.close_limit:
                return self.on_close_limit(now)
            if self.out_of_service_at is not None and now >= self.out_of_service_at:
                return self.finish("no path was reachable any more", self.state == State.FIN_ACK_SENT)
            for path in list(self.paths.values()):
                self.tick_path(path, now)
            if self.sender.persist_at is not None and now >= self.sender.persist_at:
                self.send_persist_probe(now)
        self.flush(now)

    def on_attempt_timer(self, now: float) -> None:
        if self.attempts < ATTEMPTS:
            return self.attempt(now) if self.state in HANDSHAKE else self.send_close_step(now)
        if self.state == State.FIN_ACK_SENT:
            self.finish("closed, FIN-DONE did not come", True)  # 3.115
        else:
            self.finish(f"no answer in {self.state.value}", False)

    def on_close_limit(self, now: float) -> None:
        """Ends a close in which nothing moves; what is still acknowledged prolongs it."""
        if self.progress() > self.stalled_at:
            self.stalled_at, self.close_limit = self.progress(), now + CLOSE_STALL
        else:
            self.abort(UNRECOGNISED)

    def progress(self) -> int:
        return self.sender.acked + self.receiver.ack


def in_order(blocks: list) -> list:
    """PING and PONG first, then the other control blocks, then DATA (3.8)."""
    return sorted(blocks, key=lambda block: (block.KIND == DATA, block.KIND not in (PING, PONG)))
