"""Measurements over byte streams: the verbs hello, bench and account of docs/specification/transfer.md, version 3.

The acceptor answers requests on whatever stream they come; the opener makes one bench request on stream 0. Rules are
cited as `transfer 6.3`. MMSP/1 cannot stop a stream of the peer, so a receiver whose time is over ignores the rest.
"""

from __future__ import annotations

import struct
from typing import Callable, Iterator

REQUEST, ACCEPTED, REFUSED, HELLO, INTERVAL, SUMMARY, ACCOUNT = 1, 2, 3, 4, 0x30, 0x31, 0x32
VERSION, UNSUPPORTED, MALFORMED = 3, 15, 16
VERB_HELLO, VERB_BENCH, VERB_ACCOUNT = 1, 5, 6
OPENER_SENDS, ACCEPTOR_SENDS = 0, 1
IN_TIME, IN_BYTES = 0, 1
BENCH = struct.Struct(">BBQQQQI")  # direction, kind of limit, limit, interval, omit, rate, length


class Malformed(Exception):
    pass


def frame(kind: int, body: bytes) -> bytes:
    return bytes([kind]) + len(body).to_bytes(3, "big") + body


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack(">H", len(raw)) + raw


def take_frame(buffer: bytearray) -> tuple[int, bytes] | None:
    """Cuts the first whole frame off (transfer 1.2, 1.3)."""
    if len(buffer) < 4:
        return None
    length = int.from_bytes(buffer[1:4], "big")
    if length > 65536:
        raise Malformed(f"a frame of {length} bytes")
    if len(buffer) < 4 + length:
        return None
    kind, body = buffer[0], bytes(buffer[4 : 4 + length])
    del buffer[: 4 + length]
    return kind, body


class Meter:
    """Counts what arrives from the clock's start on, and reports it by intervals (transfer 6.4, 6.6, 6.7)."""

    def __init__(self, start: float, interval_us: int, omit_us: int):
        self.interval = max(0.01, interval_us / 1e6)
        self.counted_from = start + omit_us / 1e6
        self.start, self.begin, self.number = start, start, 0
        self.in_interval = self.total = 0
        self.last, self.silence = self.counted_from, 0.0

    def count(self, size: int, now: float) -> None:
        self.in_interval += size
        if now >= self.counted_from:
            self.total += size
            self.silence, self.last = max(self.silence, now - self.last), now

    def end_of_interval(self) -> float:
        end = self.begin + self.interval
        return self.counted_from if self.begin < self.counted_from < end else end

    def intervals(self, now: float) -> Iterator[bytes]:
        """The INTERVAL frames of intervals that have ended."""
        while self.end_of_interval() <= now:
            yield self.close_interval(self.end_of_interval())

    def close_interval(self, end: float) -> bytes:
        omitted = self.begin < self.counted_from
        times = [int((moment - self.start) * 1e6) for moment in (self.begin, end)]
        body = struct.pack(">IBQQQ", self.number, omitted, *times, self.in_interval)
        self.begin, self.in_interval, self.number = end, 0, self.number + 1
        return frame(INTERVAL, body)

    def summary(self, end: float) -> bytes:
        silence = max(self.silence, end - self.last)
        elapsed = max(0, int((end - self.counted_from) * 1e6))
        return frame(SUMMARY, struct.pack(">QQQ", self.total, elapsed, max(0, int(silence * 1e6))))


class Request:
    """One stream of the acceptor. `write(bytes)` and `end()` go to the answer on the same stream."""

    def __init__(self, acceptor: Acceptor, write: Callable[[bytes], None], end: Callable[[], None]):
        self.acceptor, self.write, self.end = acceptor, write, end
        self.buffer, self.verb, self.finished = bytearray(), 0, False
        self.meter: Meter | None = None
        self.filler_left, self.filler_until = 0, None
        self.deadline: float | None = None

    def feed(self, data: bytes, now: float) -> None:
        if self.meter and not self.finished:
            self.meter.count(len(data), now)
        if self.verb or self.finished:
            return
        self.buffer += data
        try:
            found = take_frame(self.buffer)
            if found:
                self.begin(*found, now)
        except (Malformed, struct.error, IndexError):
            self.refuse(MALFORMED, "a request that cannot be read")

    def begin(self, kind: int, body: bytes, now: float) -> None:
        if kind != REQUEST or len(body) < 2:
            raise Malformed("no request")
        version, self.verb = body[0], body[1]
        if version != VERSION or self.verb not in (VERB_HELLO, VERB_BENCH, VERB_ACCOUNT):
            return self.refuse(UNSUPPORTED, "this peer speaks version 3 with hello, bench and account")
        if self.verb == VERB_HELLO:
            self.write(frame(HELLO, bytes([VERSION, VERSION, 1]) + text("mmsp1_peer")))
            return self.finish()
        if self.verb == VERB_ACCOUNT and body[2:] != text(""):
            return self.refuse(UNSUPPORTED, "the congestion control of this peer cannot be changed")
        if self.verb == VERB_BENCH:
            self.begin_bench(BENCH.unpack(body[2:]), now)
        self.write(frame(ACCEPTED, bytes(16)))
        if self.verb == VERB_ACCOUNT:
            self.acceptor.accounts += 1
            self.sent_before = self.acceptor.filler_sent

    def begin_bench(self, fields: tuple, now: float) -> None:
        direction, kind, limit, interval, omit, _, length = fields
        if direction > 1 or kind > 1 or not 1 <= length <= 1 << 20:
            raise Malformed("a field out of range")
        if direction == OPENER_SENDS:
            self.meter = Meter(self.acceptor.clock(now), interval, omit)
            self.meter.count(len(self.buffer), now)
            if kind == IN_TIME:
                self.deadline = self.meter.counted_from + limit / 1e6
        elif kind == IN_BYTES:
            self.filler_left = limit
        else:
            self.filler_left, self.filler_until = 1 << 62, now + (omit + limit) / 1e6 + 1.0

    def refuse(self, reason: int, why: str) -> None:
        self.write(frame(REFUSED, bytes([reason]) + text(why)))
        self.finish()

    def finish(self) -> None:
        self.finished = True
        self.end()

    def on_end(self, now: float) -> None:
        """The opener's half has ended; one that was abandoned counts as ended too (transfer 6.9)."""
        if self.finished:
            return
        if self.meter:
            self.report(now)
        elif self.verb == VERB_ACCOUNT:
            self.acceptor.accounts -= 1
            sent = self.acceptor.filler_sent - self.sent_before
            self.write(frame(ACCOUNT, struct.pack(">QQQQQ", sent, 0, 0, 0, 0) + text("newreno")))
            self.finish()
        elif not self.verb:
            self.refuse(MALFORMED, "the stream ended before its request")

    def report(self, now: float) -> None:
        for part in self.meter.intervals(now):
            self.write(part)
        if self.meter.in_interval:
            self.write(self.meter.close_interval(now))
        self.write(self.meter.summary(now))
        self.finish()

    def poll(self, now: float, has_room: Callable[[], bool]) -> None:
        if self.finished:
            return
        if self.deadline is not None and now >= self.deadline:
            self.report(self.deadline)
        elif self.meter:
            for part in self.meter.intervals(now):
                self.write(part)
        elif self.filler_left:
            while self.filler_left and has_room():
                size = min(self.filler_left, 1 << 15)
                self.write(bytes(size))
                self.filler_left -= size
                self.acceptor.filler_sent += size
            if not self.filler_left or (self.filler_until is not None and now >= self.filler_until):
                self.finish()

    def wakes_at(self) -> float | None:
        if self.finished:
            return None
        times = [self.deadline, self.filler_until, self.meter.end_of_interval() if self.meter else None]
        return min((time for time in times if time is not None), default=None)


class Acceptor:
    """All requests of a connection."""

    def __init__(self):
        self.requests: dict[int, Request] = {}
        self.accounts = self.filler_sent = 0
        self.run_start: float | None = None

    def clock(self, now: float) -> float:
        """One clock for all streams of a run, which is an account; otherwise one for each (transfer 6.4)."""
        running = any(r.meter and not r.finished for r in self.requests.values())
        if not (self.accounts and running):
            self.run_start = now
        return self.run_start


def bench_request(direction: int, size: int) -> bytes:
    body = BENCH.pack(direction, IN_BYTES, size, 1_000_000, 0, 0, 1 << 15)
    return frame(REQUEST, bytes([VERSION, VERB_BENCH]) + body)


class Opener:
    """One bench request with a limit in bytes, and what the answer says."""

    def __init__(self, direction: int, size: int):
        self.direction, self.size = direction, size
        self.buffer, self.accepted, self.received = bytearray(), False, 0
        self.summary: dict | None = None
        self.intervals, self.fault = 0, ""

    def pieces(self) -> Iterator[bytes]:
        yield bench_request(self.direction, self.size)
        left = self.size if self.direction == OPENER_SENDS else 0
        while left:
            yield bytes(min(left, 1 << 15))
            left -= min(left, 1 << 15)

    def feed(self, data: bytes) -> None:
        self.buffer += data
        while not (self.accepted and self.direction == ACCEPTOR_SENDS) and (found := take_frame(self.buffer)):
            kind, body = found
            if kind == REFUSED:
                self.fault = f"refused: reason {body[0]}, {body[3:].decode(errors='replace')}"
            elif kind == ACCEPTED:
                self.accepted = True
            elif kind == INTERVAL:
                self.intervals += 1
            elif kind == SUMMARY:
                total, elapsed, silence = struct.unpack(">QQQ", body)
                self.summary = {"bytes": total, "elapsed_us": elapsed, "longest_stall_us": silence}
            else:
                self.fault = f"an unexpected frame {kind}"
        if self.accepted and self.direction == ACCEPTOR_SENDS:
            self.received += len(self.buffer)
            self.buffer.clear()

    def result(self) -> dict:
        return self.summary or {"bytes": self.received}

    def conclude(self) -> str:
        """Why the measurement failed, empty if it did not."""
        if self.fault:
            return self.fault
        arrived = self.result()["bytes"]
        return "" if arrived == self.size else f"{arrived} of {self.size} bytes were measured"
