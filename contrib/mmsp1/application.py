"""What the command does on a connection: messages, byte streams, echo; and the account of it."""

from __future__ import annotations

import hashlib
import random
import struct
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Iterator

from .bench import Acceptor, Malformed, Opener, Request
from .connection import HANDSHAKE, Connection, State
from .transfer import Message
from .wire import BYTES, BYTES_END

QUEUE = 1 << 18  # bytes that wait in the connection before the application pauses
PIECE = 1 << 15  # bytes of a file in one message


@dataclass
class Settings:
    send: int = 0
    size: int = 1000
    unordered: bool = False
    protocol: int = 0
    files: list[FilePath] = field(default_factory=list)
    output: FilePath | None = None
    echo: bool = False
    expect: int = 0  # messages
    expect_streams: int = 0
    closes: bool = True
    pause: float = 0.0  # seconds before the first message is read
    seed: int = 0
    answers_bench: bool = False
    bench: tuple[int, int] | None = None  # direction and bytes of a request on stream 0


class Account:
    """Messages of one direction. The hashes are those of the content of each stream in its order."""

    def __init__(self):
        self.messages = self.bytes = self.byte_streams = 0
        self.streams: dict[int, list] = {}  # messages, bytes, SHA-256
        self.unordered = [0, 0, 0]  # messages, bytes, sum of the SHA-256 of each message

    def add(self, message: Message) -> None:
        of_stream = message.ordered and message.protocol in (BYTES, BYTES_END)
        self.messages += not of_stream
        self.byte_streams += of_stream and message.protocol == BYTES_END
        if not of_stream or message.protocol == BYTES:
            self.bytes += len(message.data)
        if not message.ordered:
            digest = int.from_bytes(hashlib.sha256(message.data).digest(), "big")
            count, size, total = self.unordered
            self.unordered = [count + 1, size + len(message.data), (total + digest) % 2**256]
        elif message.protocol != BYTES_END:
            stream = self.streams.setdefault(message.stream, [0, 0, hashlib.sha256()])
            stream[0] += 1
            stream[1] += len(message.data)
            stream[2].update(message.data)

    def summary(self) -> dict:
        streams = {
            str(number): {"messages": count, "bytes": size, "sha256": digest.hexdigest()}
            for number, (count, size, digest) in sorted(self.streams.items())
        }
        count, size, total = self.unordered
        return {
            "messages": self.messages,
            "bytes": self.bytes,
            "byte_streams": self.byte_streams,
            "streams": streams,
            "unordered": {"messages": count, "bytes": size, "sha256_sum": f"{total:064x}"},
        }


class Application:
    def __init__(self, connection: Connection, settings: Settings):
        self.connection, self.settings = connection, settings
        self.sent, self.received = Account(), Account()
        self.outgoing: Iterator[Message] | None = None
        self.back: deque[Message] = deque()  # to be echoed
        self.all_given = False
        self.faults: list[str] = []
        self.lengths: dict[int, int] = {}  # bytes of the byte stream that arrives on a stream
        self.outputs: dict[int, object] = {}
        self.outputs_opened = 0
        self.reads_from: float | None = None
        self.acceptor = Acceptor() if settings.answers_bench else None
        self.opener = Opener(*settings.bench) if settings.bench else None
        self.measured: Opener | None = None
        connection.handler = self

    def poll(self, now: float) -> None:
        connection = self.connection
        if connection.state == State.SYN_SENT or connection.sender is None:
            return
        if self.outgoing is None:
            self.outgoing = self.messages(connection.sender.streams)
        if connection.state not in HANDSHAKE:
            self.reads_from = now + self.settings.pause if self.reads_from is None else self.reads_from
        self.read(now)
        if self.acceptor:
            for request in list(self.acceptor.requests.values()):
                request.poll(now, lambda: connection.accepts_messages() and connection.sender.waiting_bytes < QUEUE)
        if connection.accepts_messages():
            self.give()
            if connection.state == State.ESTABLISHED and self.settings.closes and self.is_done():
                connection.close(now)
        elif connection.state == State.CLOSED:
            self.conclude()

    def wakes_at(self, now: float) -> float | None:
        """When poll() has something to do though no packet comes."""
        times = [self.reads_from if self.reads_from and self.reads_from > now else None]
        times += [request.wakes_at() for request in self.acceptor.requests.values()] if self.acceptor else []
        return min((time for time in times if time is not None), default=None)

    def is_done(self) -> bool:
        enough = self.received.messages >= self.settings.expect
        ended = self.received.byte_streams >= self.settings.expect_streams
        return self.all_given and not self.back and enough and ended and self.connection.sender.idle()

    # Sending.

    def give(self) -> None:
        sender = self.connection.sender
        while sender.waiting_bytes < QUEUE:
            message = self.back.popleft() if self.back else next(self.outgoing, None)
            if message is None:
                self.all_given = True
                return
            try:
                sender.push(message)
            except ValueError as error:
                self.faults.append(str(error))
                continue
            self.sent.add(message)

    def messages(self, streams: int) -> Iterator[Message]:
        """All that is to be sent: files on the first streams, messages on the others, in turn."""
        settings = self.settings
        sources = [self.byte_stream(path, index % streams) for index, path in enumerate(settings.files)]
        first = len(settings.files) if len(settings.files) < streams else 0
        sources.append(self.plain_messages(first, streams))
        if self.opener:
            sources.append(self.as_byte_stream(self.opener.pieces(), 0))
        while sources:
            for source in list(sources):
                message = next(source, None)
                if message is None:
                    sources.remove(source)
                else:
                    yield message

    def plain_messages(self, first: int, streams: int) -> Iterator[Message]:
        numbers = random.Random(self.settings.seed)
        for index in range(self.settings.send):
            stream = first + index % (streams - first)
            data = numbers.randbytes(self.settings.size)
            yield Message(stream, self.settings.protocol, not self.settings.unordered, data)

    def byte_stream(self, path: FilePath, stream: int) -> Iterator[Message]:
        """A file as a byte stream (3.90 to 3.92)."""
        with open(path, "rb") as file:
            yield from self.as_byte_stream(iter(lambda: file.read(PIECE), b""), stream)

    def as_byte_stream(self, pieces: Iterator[bytes], stream: int) -> Iterator[Message]:
        total, largest = 0, max(1, min(PIECE, self.connection.sender.largest_message))
        for piece in pieces:
            total += len(piece)
            for at in range(0, len(piece), largest):
                yield Message(stream, BYTES, True, piece[at : at + largest])
        yield Message(stream, BYTES_END, True, struct.pack(">QQ", 0, total))

    # Receiving.

    def read(self, now: float) -> None:
        if self.reads_from is None or now < self.reads_from:
            return
        while not (self.settings.echo and self.connection.sender.waiting_bytes >= QUEUE):
            message = self.connection.read_message()
            if message is None:
                return
            self.received.add(message)
            if message.ordered and message.protocol in (BYTES, BYTES_END):
                if self.acceptor:
                    self.on_request(message, now)
                else:
                    self.on_byte_stream(message)
            if self.settings.echo:
                self.back.append(message)
                if self.connection.accepts_messages():
                    self.give()

    def on_byte_stream(self, message: Message) -> None:
        stream = message.stream
        if stream not in self.lengths:
            self.lengths[stream] = 0
            if self.settings.output:
                name = str(self.settings.output) + (f".{self.outputs_opened}" if self.outputs_opened else "")
                self.outputs[stream] = open(name, "wb")
                self.outputs_opened += 1
        if message.protocol == BYTES:
            self.lengths[stream] += len(message.data)
            self.feed_opener(message)
            if stream in self.outputs:
                self.outputs[stream].write(message.data)
            return
        self.close_output(stream)
        length = self.lengths.pop(stream)
        code, total = struct.unpack(">QQ", message.data) if len(message.data) == 16 else (None, None)
        if code != 0 or total != length:  # 3.93
            reason = f"with code {code - 1}" if code else "without a code"  # 3.92: codes of applications begin with 0
            self.faults.append(f"the byte stream on stream {stream} was abandoned {reason} ({length} of {total})")

    def feed_opener(self, message: Message) -> None:
        if self.opener and message.stream == 0:
            try:
                self.opener.feed(message.data)
            except (Malformed, struct.error) as error:
                self.faults.append(f"the answer cannot be read: {error}")

    def on_request(self, message: Message, now: float) -> None:
        """Bytes of a request, which is answered on the stream of the same number (3.94)."""
        stream, requests = message.stream, self.acceptor.requests
        if stream not in requests:
            requests[stream] = self.new_request(stream)
        if message.protocol == BYTES:
            requests[stream].feed(message.data, now)
        else:
            requests[stream].on_end(now)
            if requests[stream].finished:
                del requests[stream]

    def new_request(self, stream: int) -> Request:
        total = 0

        def write(data: bytes) -> None:
            nonlocal total
            total += len(data)
            self.push(Message(stream, BYTES, True, data))

        def end() -> None:
            self.push(Message(stream, BYTES_END, True, struct.pack(">QQ", 0, total)))

        return Request(self.acceptor, write, end)

    def push(self, message: Message) -> None:
        if self.connection.accepts_messages():
            self.connection.sender.push(message)
            self.sent.add(message)

    def close_output(self, stream: int) -> None:
        if stream in self.outputs:
            self.outputs.pop(stream).close()

    # The end.

    def conclude(self) -> None:
        for stream in list(self.lengths):
            self.faults.append(f"the byte stream on stream {stream} was cut")  # 3.93
            self.lengths.pop(stream)
            self.close_output(stream)
        if not self.all_given or self.back:
            self.faults.append("the connection ended before everything was sent")
        if self.received.messages < self.settings.expect or self.received.byte_streams < self.settings.expect_streams:
            self.faults.append("fewer messages or byte streams arrived than expected")
        if self.opener and (fault := self.opener.conclude()):
            self.faults.append(f"bench: {fault}")
        self.opener, self.measured = None, self.opener or self.measured
        self.all_given, self.back = True, deque()
        self.settings.expect = self.settings.expect_streams = 0

    def is_ok(self) -> bool:
        return self.connection.state == State.CLOSED and self.connection.complete and not self.faults

    def summary(self) -> dict:
        connection = self.connection
        sender, receiver = connection.sender, connection.receiver
        count = connection.count
        return {
            "ok": self.is_ok(),
            "end": connection.end or connection.state.value,
            "closed_by": connection.closed_by,
            "faults": self.faults,
            "seconds": round(connection.ended_at - connection.started, 3) if connection.ended_at else None,
            "sent": self.sent.summary(),
            "received": self.received.summary(),
            "retransmissions": sender.count["retransmissions"] if sender else 0,
            "sacks_sent": count["sacks_sent"],
            "sacks_received": count["sacks_received"],
            "duplicates_received": receiver.count["duplicates"] if receiver else 0,
            "duplicates_reported_by_peer": sender.count["duplicates_reported"] if sender else 0,
            "bench": self.measured.result() if self.measured else None,
            "persist_probes": count["persist_probes"],
            "errors_sent": count["errors_sent"],
            "errors_received": {k.partition(" ")[2]: v for k, v in count.items() if k.startswith("error_received")},
            "paths": [path_summary(path) for path in connection.paths.values()],
        }


def path_summary(path) -> dict:
    names = ("packets_sent", "packets_dropped_here", "packets_received", "data_blocks", "data_blocks_received")
    return {
        "local": path.local[0],
        "remote": f"{path.remote[0]} port {path.remote[1]}",
        "verified": path.verified,
        "reachable": path.reachable,
        "rtt_ms": None if path.srtt is None else round(path.srtt * 1000, 3),
        **{name: path.count[name] for name in names},
    }
