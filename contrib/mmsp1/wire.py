"""The wire format of MMSP/1: bytes to packets, blocks and parameters, and back."""

from __future__ import annotations

import ipaddress
import struct
import zlib
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

MAX_PACKET = 1200  # bytes of UDP payload (3.1, 3.8b)
HEADER = struct.Struct(">HHII")  # source port, destination port, checksum, connection id (3.2)
DATA, SACK, SYN, SYN_ACK, PING, PONG, FIN, FIN_ACK, FIN_DONE, RST, ERROR, PROBE, PROBE_ACK = range(13)
TRAVEL_ALONE = {SYN, SYN_ACK, FIN, FIN_ACK, FIN_DONE, RST}  # 3.7
FLAG_E, FLAG_B, FLAG_U = 1, 2, 4  # of DATA (3.30)
FLAG_T = 1  # of RST and FIN-DONE (3.116)
INFO, IPV4_LIST, IPV6_LIST, PROBE_DATA, ECHO = 0, 1, 2, 0x10, 0x11  # parameters (3.15)
BYTES, BYTES_END = 0x4D570001, 0x4D570002  # payload protocols (3.90, 3.92)

# Codes of causes (3.71).
WRONG_STREAM, UNRESOLVED_ADDRESS, UNKNOWN_BLOCK, INVALID_VALUE, MISSING_FIELD = 1, 2, 3, 4, 5
UNKNOWN_PARAMETER, NO_USER_DATA, NO_INFO, STALE_INFO, UNRECOGNISED = 6, 7, 8, 9, 10
CAUSE_NAMES = (
    "no code", "wrong stream", "unresolved address", "unrecognised block type", "invalid field value",
    "missing mandatory field", "unrecognised block field", "no user data", "no INFO", "stale or invalid INFO",
    "unrecognised error",
)  # fmt: skip

Cause = tuple[int, bytes]
Address = tuple[str, int]  # text of the IP address, UDP port


class Unreadable(Exception):
    """A block of known type that cannot be read (3.12); `code` and `information` are those of the answer (3.73)."""

    def __init__(self, code: int, information: bytes = b""):
        super().__init__(f"cause {code}")
        self.code, self.information = code, information


def padded(raw: bytes) -> bytes:
    return raw + bytes(-len(raw) % 4)


def frame(kind: int, flags: int, body: bytes) -> bytes:
    """A block without its padding (3.9)."""
    return struct.pack(">BBH", kind, flags, 4 + len(body)) + body


def parameter(kind: int, value: bytes) -> bytes:
    """A parameter or a cause without its padding (3.15, 3.70)."""
    return struct.pack(">HH", kind, 4 + len(value)) + value


def joined(parts: list[bytes]) -> bytes:
    """Parts one behind the other, each but the last filled up to a multiple of 4 (2.4, 3.15)."""
    return b"".join(padded(part) for part in parts[:-1]) + b"".join(parts[-1:])


def read_items(body: bytes) -> list[Cause]:
    """The sequence of parameters or causes that fills `body`, with or without the padding of the last one (3.15)."""
    items, at = [], 0
    while at < len(body):
        if len(body) - at < 4:
            raise Unreadable(INVALID_VALUE)
        kind, length = struct.unpack_from(">HH", body, at)
        if length < 4 or at + length > len(body):
            raise Unreadable(INVALID_VALUE)
        items.append((kind, body[at + 4 : at + length]))
        at += length + -length % 4
    return items


def read_parameters(body: bytes, known: set[int], unknown: list[int]) -> dict[int, bytes]:
    """The known parameters in their order. Types that earn ERROR are added to `unknown` (3.16)."""
    found: dict[int, bytes] = {}
    for kind, value in read_items(body):
        if kind not in known:
            if not kind & 0x8000:
                unknown.append(kind)
        elif kind in found:
            raise Unreadable(INVALID_VALUE)
        else:
            found[kind] = value
    return found


def ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    return ipaddress.ip_address(text.partition("%")[0])


def addresses_from(raw: bytes, size: int) -> list[str]:
    if len(raw) % size:
        raise Unreadable(INVALID_VALUE)
    return [str(ipaddress.ip_address(raw[at : at + size])) for at in range(0, len(raw), size)]


def addresses_raw(addresses: list[str]) -> bytes:
    return b"".join(ip(address).packed for address in addresses)


@dataclass(frozen=True)
class Side:
    """The fixed fields of SYN and SYN-ACK: what one endpoint brings to a connection (3.20)."""

    tag: int
    aws: int
    outgoing: int
    incoming: int
    tseq: int
    LAYOUT: ClassVar[struct.Struct] = struct.Struct(">IIHHI")

    def raw(self) -> bytes:
        return self.LAYOUT.pack(self.tag, self.aws, self.outgoing, self.incoming, self.tseq)


class Simple:
    """A block without fields."""

    KIND: ClassVar[int]

    def flags(self) -> int:
        return 0

    def body(self) -> bytes:
        return b""

    @classmethod
    def read(cls, flags: int, body: bytes, unknown: list[int]):
        if body:
            raise Unreadable(INVALID_VALUE)
        return cls()

    def raw(self) -> bytes:
        return frame(self.KIND, self.flags(), self.body())


@dataclass(frozen=True)
class Data(Simple):
    bits: int
    tseq: int
    stream: int
    sseq: int
    protocol: int
    data: bytes = field(repr=False)
    KIND = DATA

    def flags(self) -> int:
        return self.bits

    def body(self) -> bytes:
        return struct.pack(">IHHI", self.tseq, self.stream, self.sseq, self.protocol) + self.data

    @classmethod
    def read(cls, flags, body, unknown):
        if len(body) < 12:
            raise Unreadable(INVALID_VALUE)
        return cls(flags & 7, *struct.unpack_from(">IHHI", body), body[12:])


@dataclass(frozen=True)
class Sack(Simple):
    ack: int
    aws: int
    ranges: list[tuple[int, int]]
    duplicates: list[int]
    KIND = SACK

    def body(self) -> bytes:
        raw = struct.pack(">IIHH", self.ack, self.aws, len(self.ranges), len(self.duplicates))
        raw += b"".join(struct.pack(">HH", *pair) for pair in self.ranges)
        return raw + struct.pack(f">{len(self.duplicates)}I", *self.duplicates)

    @classmethod
    def read(cls, flags, body, unknown):
        if len(body) < 12:
            raise Unreadable(INVALID_VALUE)
        ack, aws, ranges, duplicates = struct.unpack_from(">IIHH", body)
        if len(body) != 12 + 4 * ranges + 4 * duplicates:
            raise Unreadable(INVALID_VALUE)
        pairs = [struct.unpack_from(">HH", body, 12 + 4 * i) for i in range(ranges)]
        if any(start == 0 or end < start for start, end in pairs):
            raise Unreadable(INVALID_VALUE)  # 3.45
        return cls(ack, aws, pairs, list(struct.unpack_from(f">{duplicates}I", body, 12 + 4 * ranges)))


@dataclass(frozen=True)
class Syn(Simple):
    """`listed` is the list of rule 3.17 with its filler, empty if there is none; `more` are the parameters."""

    side: Side
    listed: list[str] = field(default_factory=list)
    more: dict[int, list[str]] = field(default_factory=dict)
    info: bytes | None = None
    KIND = SYN

    def body(self) -> bytes:
        parts = [] if self.info is None else [parameter(INFO, self.info)]
        parts += [parameter(kind, addresses_raw(found)) for kind, found in self.more.items()]
        return self.side.raw() + addresses_raw(self.listed) + joined(parts)

    def addresses(self) -> list[str]:
        found = self.listed + self.more.get(IPV4_LIST, []) + self.more.get(IPV6_LIST, [])
        return list(dict.fromkeys(address for address in found if address != "0.0.0.0"))

    @classmethod
    def read(cls, flags, body, unknown):
        if len(body) < Side.LAYOUT.size:
            raise Unreadable(MISSING_FIELD)
        side = Side(*Side.LAYOUT.unpack_from(body))
        if 0 in (side.tag, side.outgoing, side.incoming):
            raise Unreadable(INVALID_VALUE)
        rest, code = body[Side.LAYOUT.size :], INVALID_VALUE
        for entries in [side.outgoing, 0] if side.outgoing <= 256 else [0]:  # 3.18
            earned: list[int] = []
            try:
                listed, found, first = cls.read_addresses(rest, entries, earned)
            except Unreadable:
                continue
            if cls.KIND == SYN_ACK and first != INFO:
                code = NO_INFO
                continue
            unknown += earned
            more = {kind: value for kind, value in found.items() if kind != INFO}
            return cls(side, listed, more, found.get(INFO))
        raise Unreadable(code)

    @classmethod
    def read_addresses(cls, rest: bytes, entries: int, unknown: list[int]):
        """One reading of rule 3.18: the list, the known parameters, and the type of the first parameter."""
        if len(rest) < 4 * entries:
            raise Unreadable(INVALID_VALUE)
        listed, rest = addresses_from(rest[: 4 * entries], 4), rest[4 * entries :]
        if any(entry.startswith("0.") and entry != "0.0.0.0" for entry in listed):
            raise Unreadable(INVALID_VALUE)
        found = read_parameters(rest, {IPV4_LIST, IPV6_LIST} | ({INFO} if cls.KIND == SYN_ACK else set()), unknown)
        sizes = {IPV4_LIST: 4, IPV6_LIST: 16}
        values = {kind: addresses_from(v, sizes[kind]) if kind in sizes else v for kind, v in found.items()}
        return listed, values, next((kind for kind, _ in read_items(rest)), None)


@dataclass(frozen=True)
class SynAck(Syn):
    KIND = SYN_ACK


@dataclass(frozen=True)
class Ping(Simple):
    info: bytes
    KIND = PING

    def body(self) -> bytes:
        return parameter(INFO, self.info)

    @classmethod
    def read(cls, flags, body, unknown):
        found = read_parameters(body, {INFO}, unknown)
        if INFO not in found:
            raise Unreadable(NO_INFO)
        return cls(found[INFO])


@dataclass(frozen=True)
class Pong(Simple):
    KIND = PONG


@dataclass(frozen=True)
class Fin(Simple):
    ack: int
    KIND = FIN

    def body(self) -> bytes:
        return struct.pack(">I", self.ack)

    @classmethod
    def read(cls, flags, body, unknown):
        if len(body) != 4:
            raise Unreadable(INVALID_VALUE)
        return cls(*struct.unpack(">I", body))


@dataclass(frozen=True)
class FinAck(Simple):
    KIND = FIN_ACK


@dataclass(frozen=True)
class FinDone(Simple):
    reflected: bool = False
    KIND = FIN_DONE

    def flags(self) -> int:
        return FLAG_T if self.reflected else 0

    @classmethod
    def read(cls, flags, body, unknown):
        if body:
            raise Unreadable(INVALID_VALUE)
        return cls(bool(flags & FLAG_T))


@dataclass(frozen=True)
class Error(Simple):
    causes: list[Cause]
    KIND = ERROR

    def body(self) -> bytes:
        return joined([parameter(*cause) for cause in self.causes])

    @classmethod
    def read(cls, flags, body, unknown):
        if not body:
            raise Unreadable(INVALID_VALUE)  # one or several causes (3.28)
        return cls(read_items(body))


@dataclass(frozen=True)
class Rst(Error):
    reflected: bool = False
    KIND = RST

    def flags(self) -> int:
        return FLAG_T if self.reflected else 0

    @classmethod
    def read(cls, flags, body, unknown):
        return cls(read_items(body), bool(flags & FLAG_T))


class ProbeData(NamedTuple):
    """The value of the parameters probe data and echo (3.38)."""

    sent_us: int
    path: int
    family: int
    address: bytes
    nonce: bytes
    mac: bytes

    LAYOUT = struct.Struct(">QHH16s8s8s")

    def raw(self) -> bytes:
        return self.LAYOUT.pack(*self)

    @classmethod
    def read(cls, raw: bytes) -> ProbeData:
        if len(raw) != cls.LAYOUT.size:
            raise Unreadable(INVALID_VALUE)
        value = cls(*cls.LAYOUT.unpack(raw))
        if value.family not in (4, 6):
            raise Unreadable(UNRESOLVED_ADDRESS, struct.pack(">H", value.family))
        return value


@dataclass(frozen=True)
class Probe(Simple):
    data: ProbeData
    KIND = PROBE

    def body(self) -> bytes:
        return parameter(PROBE_DATA, self.data.raw())

    @classmethod
    def read(cls, flags, body, unknown):
        found = read_parameters(body, {PROBE_DATA}, unknown)
        if PROBE_DATA not in found:
            raise Unreadable(INVALID_VALUE)
        return cls(ProbeData.read(found[PROBE_DATA]))


@dataclass(frozen=True)
class ProbeAck(Simple):
    echo: ProbeData
    own: ProbeData
    KIND = PROBE_ACK

    def body(self) -> bytes:
        return parameter(ECHO, self.echo.raw()) + parameter(PROBE_DATA, self.own.raw())

    @classmethod
    def read(cls, flags, body, unknown):
        found = read_parameters(body, {PROBE_DATA, ECHO}, unknown)
        if len(found) != 2:
            raise Unreadable(INVALID_VALUE)
        return cls(ProbeData.read(found[ECHO]), ProbeData.read(found[PROBE_DATA]))


BLOCKS = (Data, Sack, Syn, SynAck, Ping, Pong, Fin, FinAck, FinDone, Rst, Error, Probe, ProbeAck)


class Raw(NamedTuple):
    """A block whose body is not read yet."""

    kind: int
    flags: int
    body: bytes

    def read(self, unknown: list[int]):
        """The block; types of parameters that earn ERROR are added to `unknown`."""
        return BLOCKS[self.kind].read(self.flags, self.body, unknown)


class Packet(NamedTuple):
    source: int
    destination: int
    tag: int
    blocks: list[Raw]  # those of known types
    unknown: int | None  # type of the block that ended the reading (3.10)
    is_empty: bool  # no block at all, not even an unknown one


def encode_packet(source: int, destination: int, tag: int, blocks: list) -> bytes:
    body = joined([block.raw() for block in blocks])
    checksum = zlib.adler32(HEADER.pack(source, destination, 0, tag) + body)
    return HEADER.pack(source, destination, checksum, tag) + body


def decode_packet(raw: bytes) -> Packet | None:
    """None if the packet is dropped as a whole: checksum, ports, or a block that must travel alone."""
    if len(raw) < HEADER.size:
        return None
    source, destination, checksum, tag = HEADER.unpack_from(raw)
    if not (1 <= source <= 16383 and 1 <= destination <= 16383):
        return None
    if zlib.adler32(raw[:4] + bytes(4) + raw[8:]) != checksum:
        return None
    blocks, unknown, at = [], None, HEADER.size
    while len(raw) - at >= 4:  # 1 to 3 bytes behind the last block are ignored (2.5)
        kind, flags, length = struct.unpack_from(">BBH", raw, at)
        if length < 4 or at + length > len(raw):
            break  # 3.11
        blocks.append(Raw(kind, flags, raw[at + 4 : at + length]))
        if kind > PROBE_ACK and not kind & 0x80:
            unknown = kind
            break
        at += length + -length % 4
    if len(blocks) > 1 and any(block.kind in TRAVEL_ALONE for block in blocks):
        return None
    known = [block for block in blocks if block.kind <= PROBE_ACK]
    return Packet(source, destination, tag, known, unknown, not blocks)


def mapped(address: Address) -> bytes:
    """An address in 16 bytes, IPv4 as IPv4-mapped IPv6 (2.11)."""
    packed = ip(address[0]).packed
    return packed if len(packed) == 16 else bytes(10) + b"\xff\xff" + packed


def name_of(code: int) -> str:
    return CAUSE_NAMES[code] if code < len(CAUSE_NAMES) else f"code {code}"


def place(addresses: list[str], outgoing: int, for_syn: bool) -> tuple[list[str], dict[int, list[str]]]:
    """Addresses as list and parameters (3.17)."""
    ipv4 = [a for a in addresses if ip(a).version == 4]
    ipv6 = [a for a in addresses if ip(a).version == 6]
    listed: list[str] = []
    if outgoing <= 256 and addresses and (for_syn or outgoing <= len(ipv4)):
        listed = ipv4[:outgoing] + ["0.0.0.0"] * (outgoing - len(ipv4))
    more = {IPV4_LIST: ipv4[len(listed) :], IPV6_LIST: ipv6}
    return listed, {kind: found for kind, found in more.items() if found}


@dataclass(frozen=True)
class Info:
    """INFO in the layout of rule 3.59. Only its maker ever reads it, so another layout would do as well."""

    key: int
    made_ms: int
    lifetime_ms: int
    client: Side
    server: Side
    client_inner: int
    server_inner: int
    udp_port: int
    address: bytes
    ipv4: list[str]
    ipv6: list[str]
    mac: bytes = b""

    def unsigned(self) -> bytes:
        raw = struct.pack(">BBBBQI", 1, self.key, len(self.ipv4), len(self.ipv6), self.made_ms, self.lifetime_ms)
        raw += self.client.raw() + self.server.raw()
        raw += struct.pack(">HHHH", self.client_inner, self.server_inner, 0, self.udp_port) + self.address
        return raw + addresses_raw(self.ipv4) + addresses_raw(self.ipv6)

    def raw(self) -> bytes:
        return self.unsigned() + self.mac

    @classmethod
    def read(cls, raw: bytes) -> Info | None:
        """The fields, without a look at the MAC; None if the layout is another one."""
        if len(raw) < 88 or raw[0] != 1 or len(raw) != 88 + 4 * raw[2] + 16 * raw[3]:
            return None
        _, key, count4, count6, made, lifetime = struct.unpack_from(">BBBBQI", raw)
        sides = [Side(*Side.LAYOUT.unpack_from(raw, at)) for at in (16, 32)]
        client_inner, server_inner, _, udp = struct.unpack_from(">HHHH", raw, 48)
        end4 = 72 + 4 * count4
        lists = addresses_from(raw[72:end4], 4), addresses_from(raw[end4:-16], 16)
        return cls(key, made, lifetime, *sides, client_inner, server_inner, udp, raw[56:72], *lists, raw[-16:])
