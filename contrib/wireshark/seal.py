"""Seals packets of MMSP/2, for the tests of the dissector. It is written from the RFCs and the specification and shares
no code with the dissector, so that one shows the mistakes of the other."""

import hashlib
import hmac
import struct

INITIAL_SALT = bytes.fromhex("38762cf7f55934b34d179ae6a4c80cadccbb7f0a")
VERSION = 0x4D4D5301
AES_128_GCM, CHACHA20_POLY1305 = 0x1301, 0x1303
KEY_LENGTH = {AES_128_GCM: 16, CHACHA20_POLY1305: 32}
TYPES = {"Initial": 0xC0, "Handshake": 0xD0}


def expand_label(secret, label, length):
    """HKDF-Expand-Label of RFC 8446, section 7.1, for up to 32 bytes."""
    name = b"tls13 " + label
    info = struct.pack(">HB", length, len(name)) + name + b"\0\1"
    return hmac.digest(secret, info, hashlib.sha256)[:length]


# AES-128-GCM (FIPS 197, NIST SP 800-38D)


def _double(byte):
    return byte << 1 if byte < 128 else (byte << 1 ^ 0x11B) & 0xFF


def _multiply(a, b):
    product = 0
    while b:
        product ^= a if b & 1 else 0
        a, b = _double(a), b >> 1
    return product


def _substitution(byte):
    inverse = next((other for other in range(256) if _multiply(byte, other) == 1), 0)
    doubled = inverse << 8 | inverse
    return (inverse ^ doubled >> 4 ^ doubled >> 5 ^ doubled >> 6 ^ doubled >> 7) & 0xFF ^ 0x63


SUBSTITUTE = [_substitution(byte) for byte in range(256)]


def aes(key, block):
    """Encrypts one block of 16 bytes."""
    words, constant = [list(key[at : at + 4]) for at in range(0, 16, 4)], 1
    for i in range(4, 44):
        word = words[i - 1]
        if i % 4 == 0:
            word = [SUBSTITUTE[byte] for byte in word[1:] + word[:1]]
            word[0] ^= constant
            constant = _double(constant)
        words.append([a ^ b for a, b in zip(words[i - 4], word)])
    keys = [sum(words[at : at + 4], []) for at in range(0, 44, 4)]
    state = [a ^ b for a, b in zip(block, keys[0])]
    for turn in range(1, 11):
        state = [SUBSTITUTE[state[(i + 4 * (i % 4)) % 16]] for i in range(16)]
        if turn < 10:
            columns = [state[at : at + 4] for at in range(0, 16, 4)]
            state = [
                _double(c[i]) ^ _double(c[(i + 1) % 4]) ^ c[(i + 1) % 4] ^ c[(i + 2) % 4] ^ c[(i + 3) % 4]
                for c in columns
                for i in range(4)
            ]
        state = [a ^ b for a, b in zip(state, keys[turn])]
    return bytes(state)


def _padded(data):
    return data + bytes(-len(data) % 16)


def _ghash(key, data):
    key, total = int.from_bytes(key, "big"), 0
    for at in range(0, len(data), 16):
        total ^= int.from_bytes(data[at : at + 16], "big")
        product, factor = 0, key
        for bit in range(127, -1, -1):
            product ^= factor if total >> bit & 1 else 0
            factor = factor >> 1 ^ (0xE1 << 120 if factor & 1 else 0)
        total = product
    return total.to_bytes(16, "big")


def _xor(text, key):
    return bytes(a ^ b for a, b in zip(text, key))


def aes_gcm_seal(key, nonce, header, text):
    stream = b"".join(aes(key, nonce + struct.pack(">I", 2 + i)) for i in range(len(text) // 16 + 1))
    sealed = _xor(text, stream)
    lengths = struct.pack(">QQ", 8 * len(header), 8 * len(sealed))
    sum_ = _ghash(aes(key, bytes(16)), _padded(header) + _padded(sealed) + lengths)
    return sealed + _xor(sum_, aes(key, nonce + b"\0\0\0\1"))


# ChaCha20-Poly1305 (RFC 8439)


def chacha20(key, counter, nonce):
    """One block of 64 bytes."""
    begin = list(struct.unpack("<16I", b"expand 32-byte k" + key + struct.pack("<I", counter) + nonce))
    state = list(begin)

    def step(a, b, c, turn):
        state[a] = (state[a] + state[b]) & 0xFFFFFFFF
        word = state[c] ^ state[a]
        state[c] = (word << turn | word >> 32 - turn) & 0xFFFFFFFF

    for _ in range(10):
        for i in range(8):
            a, shift = i % 4, i // 4
            b, c, d = (4 + (a + shift) % 4, 8 + (a + 2 * shift) % 4, 12 + (a + 3 * shift) % 4)
            step(a, b, d, 16)
            step(c, d, b, 12)
            step(a, b, d, 8)
            step(c, d, b, 7)
    return struct.pack("<16I", *((a + b) & 0xFFFFFFFF for a, b in zip(state, begin)))


def chacha20_poly1305_seal(key, nonce, header, text):
    stream = b"".join(chacha20(key, 1 + i, nonce) for i in range(len(text) // 64 + 1))
    sealed = _xor(text, stream)
    one_time = chacha20(key, 0, nonce)
    r = int.from_bytes(one_time[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    total = 0
    data = _padded(header) + _padded(sealed) + struct.pack("<QQ", len(header), len(sealed))
    for at in range(0, len(data), 16):
        total = (total + int.from_bytes(data[at : at + 16] + b"\1", "little")) * r % (2**130 - 5)
    total += int.from_bytes(one_time[16:32], "little")
    return sealed + (total % 2**128).to_bytes(16, "little")


def _mask(suite, key, sample):
    if suite == AES_128_GCM:
        return aes(key, sample)[:5]
    return chacha20(key, int.from_bytes(sample[:4], "little"), sample[4:])[:5]


def seal(suite, secret, header_secret, header, number_length, path, number, text):
    """Seals a packet (RFC 9001, section 5): `header` ends with the packet number."""
    key = expand_label(secret, b"quic key", KEY_LENGTH[suite])
    nonce = _xor(expand_label(secret, b"quic iv", 12), struct.pack(">IQ", path, number))
    sealer = aes_gcm_seal if suite == AES_128_GCM else chacha20_poly1305_seal
    sealed = sealer(key, nonce, header, text)
    begin = 4 - number_length
    mask = _mask(suite, expand_label(header_secret, b"quic hp", KEY_LENGTH[suite]), sealed[begin : begin + 16])
    first = header[0] ^ mask[0] & (0x0F if header[0] & 0x80 else 0x1F)
    return bytes([first]) + header[1:-number_length] + _xor(header[-number_length:], mask[1:]) + sealed


class Connection:
    """A connection of which both endpoints are played here."""

    def __init__(self, name, suite):
        def random(what, length):
            return hashlib.sha256(f"{name} {what}".encode()).digest()[:length]

        self.suite = suite
        self.original = random("original destination", 8)
        self.ids = {"client": random("client", 8), "server": random("server", 8)}
        self.random = random("random", 32)
        initial = hmac.digest(INITIAL_SALT, self.original, hashlib.sha256)
        self.secrets = {
            ("Initial", side): expand_label(initial, f"{side} in".encode(), 32) for side in ("client", "server")
        }
        for level in ("Handshake", "1-RTT"):
            for side in ("client", "server"):
                self.secrets[level, side] = random(f"{level} secret of the {side}", 32)

    def key_log(self):
        """The lines that SSLKEYLOGFILE gets."""
        labels = {"Handshake": "HANDSHAKE_TRAFFIC_SECRET", "1-RTT": "TRAFFIC_SECRET_0"}
        return "".join(
            f"{side.upper()}_{label} {self.random.hex()} {self.secrets[level, side].hex()}\n"
            for level, label in labels.items()
            for side in ("client", "server")
        )

    def long(self, level, sender, number, blocks, destination=None):
        other = "server" if sender == "client" else "client"
        destination = self.ids[other] if destination is None else destination
        header = bytes([TYPES[level] | 2]) + struct.pack(">IB", VERSION, len(destination)) + destination
        header += bytes([8]) + self.ids[sender] + struct.pack(">H", 0x4000 | len(blocks) + 19)
        header += struct.pack(">I", number)[1:]
        secret = self.secrets[level, sender]
        suite = AES_128_GCM if level == "Initial" else self.suite
        return seal(suite, secret, secret, header, 3, 0, number, blocks)

    def short(self, sender, number, blocks, path=0, destination=None, phase=0, reserved=0):
        other = "server" if sender == "client" else "client"
        header = bytes([0x41 | reserved << 3 | phase % 2 << 2]) + (destination or self.ids[other])
        header += struct.pack(">H", number & 0xFFFF)
        secret = self.secrets["1-RTT", sender]
        current = secret
        for _ in range(phase):
            current = expand_label(current, b"quic ku", 32)
        return seal(self.suite, current, secret, header, 2, path, number, blocks)

    def hellos(self):
        """The Initial packets with the hellos, which tell which secrets and which cipher are used."""
        client = b"\x01\0\0\x29\3\3" + self.random + b"\0\0\2" + struct.pack(">H", self.suite) + b"\1\0\0\0"
        server = b"\x02\0\0\x28\3\3" + bytes(32) + b"\0" + struct.pack(">H", self.suite) + b"\0\0\0"

        def crypto(data):
            return block(0x81, 0, b"\0" + data)

        return [
            ("client", self.long("Initial", "client", 0, block(0x02) + crypto(client), self.original)),
            ("server", self.long("Initial", "server", 1 << 16, block(0x03) + crypto(server))),
        ]


def block(kind, flags=0, body=b""):
    """A block with its padding (rules 2.1 to 2.4)."""
    return _padded_to_4(struct.pack(">BBH", kind, flags, 4 + len(body)) + body)


def _padded_to_4(data):
    return data + bytes(-len(data) % 4)
