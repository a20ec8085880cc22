"""One direction of a connection: messages to DATA and SACK, and back."""

from __future__ import annotations

import struct
from collections import Counter, deque
from dataclasses import dataclass
from typing import NamedTuple

from .wire import (
    CAUSE_NAMES,
    FLAG_B,
    FLAG_E,
    FLAG_U,
    HEADER,
    INVALID_VALUE,
    MAX_PACKET,
    NO_USER_DATA,
    UNRECOGNISED,
    WRONG_STREAM,
    Address,
    Cause,
    Data,
    Sack,
    Side,
)

MIN_PTO, SACK_DELAY, FIRST_WAIT, ATTEMPTS, MAX_PATHS = 0.1, 0.02, 1.0, 6, 32
FRAGMENT = MAX_PACKET - HEADER.size - 16  # bytes of user data in a packet with nothing else (3.8b)
BLOCK_MEMORY = 128  # what a block takes beside its user data (3.98)


def unwrap(value: int, near: int, bits: int = 32) -> int:
    """The number closest to `near` whose low `bits` are `value`: RFC 1982 without its wrapping."""
    half = 1 << (bits - 1)
    return near + ((value - near + half) % (2 * half) - half)


class Message(NamedTuple):
    stream: int
    protocol: int
    ordered: bool
    data: bytes
    tseqs: tuple[int, ...] = ()  # of a received one: its fragments


class Path:
    """A pair of addresses (3.80) with its own round-trip time and congestion window (3.88)."""

    def __init__(self, number: int, local: Address, remote: Address, now: float):
        self.number, self.local, self.remote = number, local, remote
        self.verified, self.reachable = False, True
        self.srtt: float | None = None
        self.rttvar = 0.0
        self.window, self.threshold, self.in_flight = 10.0 * MAX_PACKET, 1 << 30, 0
        self.flight: dict[int, Sent] = {}  # by TSEQ, in the order of transmission
        self.next_number, self.highest_acked, self.recovery = 0, -1, -1
        self.backoff, self.loss_timer = 0, None
        self.probes: dict[bytes, tuple[bytes, float]] = {}  # nonce: MAC and time of those without an answer
        self.probe_at: float | None = None  # when the newest PROBE went, until it is answered or given up
        self.unanswered, self.next_probe = 0, now
        self.count: Counter[str] = Counter()

    def pto(self) -> float:
        if self.srtt is None:
            return FIRST_WAIT
        return max(MIN_PTO, self.srtt + max(4 * self.rttvar, 0.002) + SACK_DELAY)  # 3.78, 9.16

    def on_rtt(self, sample: float) -> None:
        if self.srtt is None:
            self.srtt, self.rttvar = sample, sample / 2
        else:
            self.rttvar += (abs(self.srtt - sample) - self.rttvar) / 4
            self.srtt += (sample - self.srtt) / 8

    def restart_loss_timer(self, now: float) -> None:
        self.loss_timer = now + self.pto() * 2**self.backoff if self.flight else None

    def on_loss(self, number: int, timeout: bool) -> None:
        """Halves the window once for everything that was sent before the loss was seen."""
        if number > self.recovery:
            self.recovery = self.next_number
            self.threshold = max(self.window / 2, 2 * MAX_PACKET)
            self.window = self.threshold
        if timeout:
            self.window = 2 * MAX_PACKET

    def on_acked(self, size: int) -> None:
        self.window += size if self.window < self.threshold else size * MAX_PACKET / self.window


@dataclass
class Sent:
    """A DATA block that is not acknowledged by the ack TSEQ yet. `end` counts the user data up to it (3.43)."""

    block: Data
    tseq: int
    end: int
    path: Path | None = None
    number: int = 0
    sent_at: float = 0.0
    times: int = 0
    acked: bool = False


class Sender:
    """Messages to DATA blocks, SACKs to losses: one direction of a connection."""

    def __init__(self, own: Side, peer: Side):
        self.streams = min(own.outgoing, peer.incoming)
        self.first = self.next_tseq = own.tseq
        self.acked = self.highest_sent = own.tseq - 1
        self.acked_bytes = self.cut_bytes = self.waiting_bytes = 0
        self.edge, self.memory_edge, self.largest_message = peer.aws, 2 * peer.aws, peer.aws // 2  # 3.43, 3.98, 3.48
        self.queue: deque[Message] = deque()
        self.cut: deque[Sent] = deque()  # have a TSEQ and wait for their first transmission
        self.blocks: dict[int, Sent] = {}
        self.again: set[int] = set()  # TSEQs to send again
        self.next_sseq: Counter[int] = Counter()
        self.unacked_messages: Counter[int] = Counter()
        self.persist: Sent | None = None  # the persist probe that waits for an answer
        self.persist_wait, self.persist_at = 0.0, None
        self.count: Counter[str] = Counter()

    def push(self, message: Message) -> None:
        if not 0 <= message.stream < self.streams:
            raise ValueError(f"there is no stream {message.stream}: this direction has {self.streams}")
        if not 0 < len(message.data) <= self.largest_message:
            raise ValueError(f"a message has 1 to {self.largest_message} bytes here, not {len(message.data)}")
        self.queue.append(message)
        self.waiting_bytes += len(message.data)

    def take_back(self) -> list[Message]:
        """All messages that are not acknowledged, in their order."""
        messages, data = [], b""
        for sent in [*self.blocks.values(), *self.cut]:
            block, data = sent.block, data + sent.block.data
            if block.bits & FLAG_E:
                messages.append(Message(block.stream, block.protocol, not block.bits & FLAG_U, data))
                data = b""
        return messages + list(self.queue)

    def idle(self) -> bool:
        return not (self.queue or self.cut or self.blocks)

    def cut_next(self) -> bool:
        """Gives TSEQs to the fragments of the next message (3.34). False if there is none or none may begin."""
        if not self.queue or (self.queue[0].ordered and self.unacked_messages[self.queue[0].stream] >= 32767):
            return False
        message = self.queue.popleft()
        self.waiting_bytes -= len(message.data)
        sseq = 0
        if message.ordered:
            sseq = self.next_sseq[message.stream] % 65536
            self.next_sseq[message.stream] += 1
            self.unacked_messages[message.stream] += 1
        for at in range(0, len(message.data), FRAGMENT):
            piece = message.data[at : at + FRAGMENT]
            bits = FLAG_B * (at == 0) | FLAG_E * (at + FRAGMENT >= len(message.data)) | FLAG_U * (not message.ordered)
            block = Data(bits, self.next_tseq % 2**32, message.stream, sseq, message.protocol, piece)
            self.cut_bytes += len(piece)
            self.cut.append(Sent(block, self.next_tseq, self.cut_bytes))
            self.next_tseq += 1
        return True

    def peek(self) -> Sent | None:
        """The next block to send: one to repeat, or a new one within the edge and the range of TSEQs (3.99, 3.31)."""
        if self.again:
            return self.blocks[min(self.again)]
        if (self.cut or self.cut_next()) and self.cut[0].tseq - self.acked <= 65535:
            return self.cut[0] if self.may_go(self.cut[0]) else None
        return None

    def memory(self, tseq: int, end: int) -> int:
        """The memory of all blocks up to this one (3.98)."""
        return end + BLOCK_MEMORY * (tseq - self.first + 1)

    def may_go(self, sent: Sent) -> bool:
        return sent.end <= self.edge and self.memory(sent.tseq, sent.end) <= self.memory_edge

    def is_blocked(self) -> bool:
        """The edge alone keeps a block back, and nothing is in flight (3.47)."""
        if any(not sent.acked and sent is not self.persist for sent in self.blocks.values()):
            return False
        return self.persist is not None or bool((self.cut or self.cut_next()) and not self.may_go(self.cut[0]))

    def transmitted(self, sent: Sent, path: Path, now: float) -> None:
        if self.cut and sent is self.cut[0]:
            self.cut.popleft()
            self.blocks[sent.tseq] = sent
            self.highest_sent = sent.tseq
        self.again.discard(sent.tseq)
        sent.path, sent.number, sent.sent_at = path, path.next_number, now
        sent.times += 1
        self.count["blocks"] += 1
        self.count["retransmissions"] += sent.times > 1
        path.count["data_blocks"] += 1

    def in_flight(self, sent: Sent, now: float) -> None:
        path = sent.path
        path.flight[sent.tseq] = sent
        path.in_flight += len(sent.block.data) + 16
        if path.loss_timer is None:
            path.restart_loss_timer(now)

    def leave_flight(self, sent: Sent) -> None:
        if sent.path and sent.path.flight.pop(sent.tseq, None):
            sent.path.in_flight -= len(sent.block.data) + 16

    def lose(self, sent: Sent) -> None:
        self.leave_flight(sent)
        self.again.add(sent.tseq)

    def on_ack(self, ack32: int, aws: int | None, ranges: list[tuple[int, int]], now: float) -> bool:
        """A SACK or FIN. False if it acknowledges what was never sent (3.45)."""
        ack = unwrap(ack32, self.acked)
        highest = max([ack] + [ack + end for _, end in ranges])
        if highest > self.highest_sent or ack < self.first - 1:
            return False
        newly: list[Sent] = []
        for tseq in range(self.acked + 1, ack + 1):
            sent = self.blocks.pop(tseq)
            self.acked_bytes = sent.end
            self.again.discard(tseq)
            if not sent.acked:
                newly.append(sent)
            if sent.block.bits & FLAG_E and not sent.block.bits & FLAG_U:
                self.unacked_messages[sent.block.stream] -= 1
        for start, end in ranges:
            for tseq in range(max(ack + start, self.acked + 1), ack + end + 1):
                sent = self.blocks.get(tseq)
                if sent and not sent.acked:
                    sent.acked = True
                    self.again.discard(tseq)
                    newly.append(sent)
        if aws is not None and ack >= self.acked:  # an old one has no AWS (3.44)
            before = self.edge, self.memory_edge
            self.edge = max(self.edge, self.acked_bytes + aws)
            self.memory_edge = max(self.memory_edge, self.memory(ack, self.acked_bytes) + 2 * aws)
            if (self.edge, self.memory_edge) != before:
                self.end_persist()
        self.acked = max(self.acked, ack)
        self.settle(newly, now)
        return True

    def settle(self, newly: list[Sent], now: float) -> None:
        """What newly acknowledged blocks tell about their paths: round trips, room, losses (3.89)."""
        touched: dict[Path, None] = {}
        for sent in newly:
            if sent is self.persist:
                self.persist = None
            path, was_in_flight = sent.path, sent.tseq in sent.path.flight
            self.leave_flight(sent)
            touched[path] = None
            if was_in_flight:
                path.on_acked(len(sent.block.data) + 16)
            if sent.times == 1:
                path.highest_acked = max(path.highest_acked, sent.number)
        for path in touched:
            once = [sent for sent in newly if sent.path is path and sent.times == 1]
            if once:
                path.on_rtt(now - max(sent.sent_at for sent in once))
            path.backoff = 0
            for sent in list(path.flight.values()):
                if sent.number > path.highest_acked - 3:
                    break
                path.on_loss(sent.number, timeout=False)
                self.lose(sent)
            path.restart_loss_timer(now)

    def on_loss_timer(self, path: Path, now: float) -> None:
        """Sends again what has been in flight for longer than the timer, and nothing else."""
        limit = now - path.pto() * 2**path.backoff + 0.001
        for sent in [sent for sent in path.flight.values() if sent.sent_at <= limit]:
            path.on_loss(sent.number, timeout=True)
            self.lose(sent)
        path.backoff = min(path.backoff + 1, 6)
        path.restart_loss_timer(now)

    def end_persist(self) -> None:
        if self.persist and self.persist.tseq in self.blocks and not self.persist.acked:
            self.again.add(self.persist.tseq)
        self.persist, self.persist_wait, self.persist_at = None, 0.0, None


class Violation(Exception):
    """The peer contradicts itself: the connection ends with RST and this cause."""

    def __init__(self, code: int):
        super().__init__(CAUSE_NAMES[code])
        self.code = code


class Receiver:
    """DATA blocks to messages, and what SACK says about them: one direction of a connection."""

    def __init__(self, own: Side, peer: Side):
        self.streams = min(peer.outgoing, own.incoming)
        self.first, self.ack = peer.tseq, peer.tseq - 1
        self.buffer, self.largest_message = own.aws, own.aws // 2
        self.edge = own.aws  # what the SYN or the SACKs have advertised, counted as in 3.43
        self.acked_bytes = self.ahead_bytes = self.unread_bytes = 0
        self.shape: dict[int, Data] = {self.ack: None}  # every block from the ack TSEQ on, to compare neighbours
        self.pieces: dict[int, Data] = {}  # blocks that belong to no whole message yet
        self.read_early: set[int] = set()  # read by the application, beyond the ack TSEQ
        self.next_sseq: Counter[int] = Counter()
        self.waiting: dict[tuple[int, int], Message] = {}
        self.ready: deque[Message] = deque()
        self.duplicates: list[int] = []
        self.advertised = own.aws
        self.count: Counter[str] = Counter()

    def on_data(self, block: Data) -> list[Cause] | None:
        """None if the block was dropped or is a duplicate, otherwise what it earns."""
        tseq = unwrap(block.tseq, self.ack)
        if tseq <= self.ack or tseq in self.shape:
            self.duplicates.append(block.tseq)
            self.count["duplicates"] += 1
            return None
        beyond = self.acked_bytes + self.ahead_bytes + len(block.data) > self.edge
        if tseq - self.ack > 65535 or beyond:
            self.count["dropped"] += 1
            return None
        self.compare(tseq, block)
        self.shape[tseq] = block
        self.ahead_bytes += len(block.data)
        earned: list[Cause] = []
        if not block.data:
            earned.append((NO_USER_DATA, struct.pack(">I", block.tseq)))  # 3.35
        if block.stream < self.streams:
            self.pieces[tseq] = block
            self.join(tseq)
        else:
            earned.append((WRONG_STREAM, struct.pack(">H", block.stream)))  # 3.36
            self.read_early.add(tseq)
        self.advance()
        return earned

    def compare(self, tseq: int, block: Data) -> None:
        """Rule 3.118, between the block and both of its neighbours."""
        if tseq - 1 in self.shape and not fits(self.shape[tseq - 1], block):
            raise Violation(INVALID_VALUE)
        if tseq + 1 in self.shape and not fits(block, self.shape[tseq + 1]):
            raise Violation(INVALID_VALUE)

    def join(self, tseq: int) -> None:
        """Makes a message of the fragments around `tseq` if all of them are there."""
        last = tseq
        while not self.pieces[last].bits & FLAG_E:
            last += 1
            if last not in self.pieces:
                return self.check_size(tseq)
        first = tseq
        while not self.pieces[first].bits & FLAG_B:
            first -= 1
            if first not in self.pieces:
                return self.check_size(tseq)
        head = self.pieces[first]
        tseqs = tuple(range(first, last + 1))
        data = b"".join(self.pieces.pop(t).data for t in tseqs)
        if len(data) > self.largest_message:
            raise Violation(UNRECOGNISED)  # 3.140
        self.deliver(Message(head.stream, head.protocol, not head.bits & FLAG_U, data, tseqs), head.sseq)

    def check_size(self, tseq: int) -> None:
        """Ends a message that cannot be whole any more because it is too large (3.140)."""
        if len(self.pieces) * FRAGMENT <= self.largest_message:
            return
        first, last = tseq, tseq
        while not self.pieces[first].bits & FLAG_B and first - 1 in self.pieces:
            first -= 1
        while not self.pieces[last].bits & FLAG_E and last + 1 in self.pieces:
            last += 1
        if sum(len(self.pieces[t].data) for t in range(first, last + 1)) > self.largest_message:
            raise Violation(UNRECOGNISED)

    def deliver(self, message: Message, sseq16: int) -> None:
        if not message.ordered:
            return self.make_ready(message)
        stream = message.stream
        sseq = unwrap(sseq16, self.next_sseq[stream], 16)
        if sseq < self.next_sseq[stream] or (stream, sseq) in self.waiting:
            raise Violation(INVALID_VALUE)  # 3.119
        self.waiting[stream, sseq] = message
        while (stream, self.next_sseq[stream]) in self.waiting:
            self.make_ready(self.waiting.pop((stream, self.next_sseq[stream])))
            self.next_sseq[stream] += 1

    def make_ready(self, message: Message) -> None:
        if message.data:
            self.ready.append(message)
        else:
            self.free(message)  # 3.35

    def advance(self) -> None:
        """Moves the ack TSEQ to the last one before the first gap (3.40)."""
        while self.ack + 1 in self.shape:
            self.shape.pop(self.ack, None)
            self.ack += 1
            size = len(self.shape[self.ack].data)
            self.acked_bytes += size
            self.ahead_bytes -= size
            if self.ack in self.read_early:
                self.read_early.discard(self.ack)
            else:
                self.unread_bytes += size

    def read(self) -> Message | None:
        """The next message for the application."""
        if not self.ready:
            return None
        message = self.ready.popleft()
        self.free(message)
        return message

    def free(self, message: Message) -> None:
        rest = len(message.data)
        for index, tseq in enumerate(message.tseqs):
            if tseq > self.ack:
                self.read_early.update(message.tseqs[index:])
                rest = sum(len(self.shape[t].data) for t in message.tseqs[index:])
                self.unread_bytes -= len(message.data) - rest
                return
        self.unread_bytes -= rest

    def window(self) -> int:
        return max(0, self.buffer - self.unread_bytes)

    def wants_update(self) -> bool:
        """The application has read so much that the peer should hear of it, though no DATA came."""
        return self.advertised < self.buffer // 2 and self.window() - self.advertised >= self.buffer // 4

    def has_gap(self) -> bool:
        return len(self.shape) > 1

    def sack(self) -> Sack:
        """The SACK of this moment: at most 100 ranges and 100 duplicates, so that it fits into a packet."""
        ranges: list[tuple[int, int]] = []
        for tseq in sorted(t - self.ack for t in self.shape if t > self.ack):
            if ranges and ranges[-1][1] == tseq - 1:
                ranges[-1] = (ranges[-1][0], tseq)
            elif len(ranges) < 100:
                ranges.append((tseq, tseq))
            else:
                break
        duplicates, self.duplicates = self.duplicates[:100], self.duplicates[100:]
        self.advertised = self.window()
        self.edge = max(self.edge, self.acked_bytes + self.advertised)
        return Sack(self.ack % 2**32, self.advertised, ranges, duplicates)


def fits(before: Data | None, block: Data) -> bool:
    """Whether a block may follow another one, or be the first of all (3.118)."""
    if before is None or before.bits & FLAG_E:
        return bool(block.bits & FLAG_B)
    same = before.stream == block.stream and not (before.bits ^ block.bits) & FLAG_U
    return same and not block.bits & FLAG_B and (bool(block.bits & FLAG_U) or before.sseq == block.sseq)
