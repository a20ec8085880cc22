#!/usr/bin/env python3
"""A small peer of MMSP/1, written from docs/specification/mmsp1.md alone.

It needs Python 3.10 and nothing else. It shares no code with the Rust implementation: where the two understand each
other, the specification says enough. The protocol is in the package mmsp1 beside this file; here are the sockets and
the command. `mmsp1_peer.py --help` has examples.
"""

from __future__ import annotations

import argparse
import contextlib
import ipaddress
import json
import random
import selectors
import socket
import sys
import time
from dataclasses import replace
from pathlib import Path as FilePath

from mmsp1.application import Application, Settings
from mmsp1.bench import ACCEPTOR_SENDS, OPENER_SENDS
from mmsp1.connection import State
from mmsp1.endpoint import Endpoint, Options
from mmsp1.wire import BYTES, Address

EXAMPLES = """\
examples:
  a server that sends every message back, on two addresses, for one connection:
    mmsp1_peer.py listen 127.0.0.1:5001 --bind 127.0.0.2 --echo --json
  a client with two addresses that sends 1000 messages on four streams and waits for as many:
    mmsp1_peer.py connect 127.0.0.1:5001 --bind 127.0.0.1 --bind 127.0.0.2 --streams 4 \\
        --send 1000 --size 3000 --expect 1000 --loss 2 --seed 1 --json
  a file as a byte stream, and where it arrives:
    mmsp1_peer.py listen 127.0.0.1:5001 --output received.bin
    mmsp1_peer.py connect 127.0.0.1:5001 --file original.bin

exit status: 0 complete, 1 failed or incomplete, 2 wrong usage, 3 out of time, 130 interrupted
"""
OK, FAILED, USAGE, OUT_OF_TIME, INTERRUPTED = 0, 1, 2, 3, 130


class UsageError(Exception):
    pass


class Sockets:
    """One UDP socket for each local address, all with the same port (3.108)."""

    def __init__(self, addresses: list[str], port: int):
        self.selector = selectors.DefaultSelector()
        self.by_address: dict[Address, socket.socket] = {}
        for attempt in range(20):
            try:
                return self.bind(addresses, port)
            except OSError as error:
                self.close()
                if port or attempt == 19:
                    raise UsageError(f"cannot bind {', '.join(addresses)} port {port}: {error}") from None

    def bind(self, addresses: list[str], port: int) -> None:
        for address in addresses:
            version = ipaddress.ip_address(address.partition("%")[0]).version
            family = socket.AF_INET if version == 4 else socket.AF_INET6
            it = socket.socket(family, socket.SOCK_DGRAM)
            self.by_address[address, -len(self.by_address)] = it  # so that close() finds it if bind fails
            it.setblocking(False)
            it.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            it.bind((address, port))
            port = port or it.getsockname()[1]
        self.by_address = {(it.getsockname()[0], port): it for it in self.by_address.values()}
        for local, it in self.by_address.items():
            self.selector.register(it, selectors.EVENT_READ, local)

    def send(self, local: Address, remote: Address, raw: bytes) -> None:
        with contextlib.suppress(OSError):  # as if the network had lost it
            self.by_address[local].sendto(raw, remote)

    def receive(self, timeout: float):
        """Datagrams that arrive within `timeout` seconds, as (local, remote, bytes)."""
        for key, _ in self.selector.select(timeout):
            for _ in range(64):
                try:
                    raw, remote = key.fileobj.recvfrom(65535)
                except OSError:
                    break
                yield key.data, remote[:2], raw

    def close(self) -> None:
        for it in self.by_address.values():
            if it.fileno() in (key.fd for key in self.selector.get_map().values()):
                self.selector.unregister(it)
            it.close()
        self.by_address = {}


class Runner:
    """Drives one endpoint and the applications on its connections in real time."""

    def __init__(self, sockets: Sockets, options: Options, settings: Settings, seed: int | None):
        self.sockets, self.settings = sockets, settings
        self.endpoint = Endpoint(list(sockets.by_address), sockets.send, time.monotonic, options, random.Random(seed))
        self.applications: list[Application] = []

    def adopt(self, connection) -> None:
        settings = self.settings
        if self.applications and settings.output:
            settings = replace(settings, output=FilePath(f"{settings.output}.connection{len(self.applications)}"))
        self.applications.append(Application(connection, replace(settings)))

    def step(self, latest: float) -> None:
        """Waits for packets until the next timer, at most until `latest`, and handles what there is."""
        now = time.monotonic()
        deadline = self.endpoint.deadline()
        times = [latest, deadline, *(application.wakes_at(now) for application in self.applications)]
        until = min(moment for moment in times if moment is not None)
        for local, remote, raw in self.sockets.receive(max(0.0, until - now)):
            self.endpoint.receive(local, remote, raw)
        while self.endpoint.accepted:
            self.adopt(self.endpoint.accepted.popleft())
        for application in self.applications:
            application.poll(time.monotonic())
        self.endpoint.tick()

    def run(self, connections: int, timeout: float, linger: float) -> int:
        """Until so many connections have ended (0: until the time is over). The exit status."""
        end = time.monotonic() + timeout
        while not self.has_finished(connections):
            if time.monotonic() >= end:
                return self.give_up(connections)
            self.step(end)
        end = min(time.monotonic() + linger, end)
        while self.endpoint.tombstones and time.monotonic() < end:
            self.step(min([end] + [until for _, until in self.endpoint.tombstones.values()]))
        return OK if all(application.is_ok() for application in self.applications) else FAILED

    def has_finished(self, connections: int) -> bool:
        ended = [a for a in self.applications if a.connection.state == State.CLOSED]
        for application in ended:
            application.poll(time.monotonic())
        return 0 < connections <= len(ended) == len(self.applications)

    def give_up(self, connections: int) -> int:
        live = list(self.endpoint.connections.values())
        self.abort()
        if connections == 0 and not live:
            return OK if all(application.is_ok() for application in self.applications) else FAILED
        return OUT_OF_TIME

    def abort(self) -> None:
        for connection in list(self.endpoint.connections.values()):
            connection.abort()
        for application in self.applications:
            application.poll(time.monotonic())


def parse_address(text: str, default_port: int | None = None) -> tuple[str, int]:
    """HOST:PORT, [IPv6]:PORT, or an address alone where a default port is given."""
    host, separator, port = text.rpartition(":")
    if default_port is not None and (not separator or (":" in host and not host.startswith("["))):
        host, port = text, str(default_port)
    if not host or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"{text!r} is not HOST:PORT")
    return host.strip("[]"), int(port)


def resolve(host: str, port: int) -> list[Address]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    except OSError as error:
        raise UsageError(f"{host}: {error}") from None
    return list(dict.fromkeys(entry[4][:2] for entry in found if entry[0] in (socket.AF_INET, socket.AF_INET6)))


def address_towards(remote: Address) -> str | None:
    """The local address from which packets to `remote` go."""
    family = socket.AF_INET6 if ":" in remote[0] else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as it:
        try:
            it.connect(remote)
        except OSError:
            return None
        return it.getsockname()[0]


def parser() -> argparse.ArgumentParser:
    both = argparse.ArgumentParser(add_help=False)
    add = both.add_argument
    add("--bind", action="append", default=[], metavar="ADDR[:PORT]", help="a local address, also several times")
    add("--send", type=int, default=0, metavar="N", help="send N messages")
    add("--size", type=int, default=1000, metavar="BYTES", help="of each message (default 1000)")
    add("--unordered", action="store_true", help="send the messages unordered")
    add("--protocol", type=lambda text: int(text, 0), default=0, help="payload protocol of the messages (default 0)")
    add("--file", action="append", type=FilePath, default=[], metavar="PATH", help="send a file as a byte stream")
    add("--output", type=FilePath, metavar="PATH", help="write byte streams there; further ones to PATH.1, PATH.2, …")
    add("--echo", action="store_true", help="send back what arrives")
    add("--expect", type=int, default=0, metavar="N", help="N messages must arrive; close only then")
    add("--expect-streams", type=int, default=0, metavar="N", help="N byte streams must arrive; close only then")
    add("--streams", type=int, default=16, metavar="N", help="streams in each direction (default 16)")
    add("--window", type=int, default=1 << 20, metavar="BYTES", help="receive window, the AWS (default 1048576)")
    add("--pause", type=float, default=0, metavar="SECONDS", help="read nothing for so long: the window fills up")
    add("--primary-only", action="store_true", help="new DATA on one path as long as it is reachable")
    add("--loss", type=float, default=0, metavar="PERCENT", help="drop so many outgoing packets at random")
    add("--loss-in", type=float, default=0, metavar="PERCENT", help="drop so many incoming packets at random")
    add("--seed", type=int, help="of the losses and of the content of messages")
    add("--timeout", type=float, default=60, metavar="SECONDS", help="give up after (default 60)")
    add("--linger", type=float, default=10, metavar="SECONDS", help="keep a tombstone at most so long (default 10)")
    add("--json", action="store_true", help="print a summary as JSON at the end")
    add("--trace", action="store_true", help="print every packet to standard error")
    top = argparse.ArgumentParser(description=__doc__.partition("\n")[0], epilog=EXAMPLES,
                                  formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    roles = top.add_subparsers(dest="role", required=True)
    shape = {"parents": [both], "formatter_class": argparse.RawDescriptionHelpFormatter, "epilog": EXAMPLES}
    connect = roles.add_parser("connect", help="connect to a server", **shape)
    connect.add_argument("address", metavar="HOST:PORT")
    connect.add_argument("--bench-send", type=int, metavar="BYTES", help="measure as `manyway bench` does")
    connect.add_argument("--bench-receive", type=int, metavar="BYTES", help="the same in the other direction")
    connect.add_argument("--wait", action="store_true", help="let the server close the connection")
    connect.add_argument("--inner-port", type=int, default=0, help="source port in the header (default random)")
    connect.add_argument("--peer-inner-port", type=int, default=5001, help="destination port there (default 5001)")
    listen = roles.add_parser("listen", help="wait for clients", **shape)
    listen.add_argument("address", metavar="ADDR:PORT")
    listen.add_argument("--bench", action="store_true", help="answer requests of `manyway bench` on byte streams")
    listen.add_argument("--close", action="store_true", help="close when everything is sent and has arrived")
    listen.add_argument("--connections", type=int, default=1, metavar="N", help="end after N; 0: never (default 1)")
    return top


def check(args: argparse.Namespace) -> None:
    limits = [
        (args.send >= 0 and args.expect >= 0 and args.expect_streams >= 0, "--send and --expect are not negative"),
        (args.size >= 1, "--size is at least 1"),
        (1 <= args.streams <= 65535, "--streams is 1 to 65535"),
        (0 <= args.window < 1 << 32, "--window is 0 to 4294967295"),
        (0 <= args.loss < 100 and 0 <= args.loss_in < 100, "--loss and --loss-in are 0 to 99"),
        (0 <= args.protocol < 1 << 32 and args.protocol >> 16 != BYTES >> 16, "--protocol is 32 bits, not reserved"),
        (args.timeout > 0 and args.linger >= 0 and args.pause >= 0, "times are positive"),
    ]
    for path in args.file:
        limits.append((path.is_file(), f"{path} is no file"))
    if args.role == "connect":
        fits = 0 <= args.inner_port <= 16383 and 1 <= args.peer_inner_port <= 16383
        limits.append((fits, "inner ports are 1 to 16383"))
    for holds, text in limits:
        if not holds:
            raise UsageError(text)


def settings_from(args: argparse.Namespace) -> Settings:
    closes = not args.wait if args.role == "connect" else args.close
    bench, expect_streams = None, args.expect_streams
    if args.role == "connect" and args.bench_send is not None:
        bench, expect_streams = (OPENER_SENDS, args.bench_send), max(1, expect_streams)
    elif args.role == "connect" and args.bench_receive is not None:
        bench, expect_streams = (ACCEPTOR_SENDS, args.bench_receive), max(1, expect_streams)
    answers = args.role == "listen" and args.bench
    return Settings(args.send, args.size, args.unordered, args.protocol, args.file, args.output, args.echo, args.expect,
                    expect_streams, closes, args.pause, args.seed or 0, answers, bench)  # fmt: skip


def make_runner(args: argparse.Namespace) -> Runner:
    check(args)
    listening = args.role == "listen"
    host, port = parse_address(args.address)
    remotes = resolve(host, port)
    binds = [parse_address(text, 0) for text in args.bind]
    ports = {bound for _, bound in binds if bound} | ({port} if listening else set())
    if len(ports) > 1:
        raise UsageError("an endpoint uses one UDP port on all of its addresses (rule 3.108)")
    addresses = [resolve(name, 0)[0][0] for name, _ in binds]
    if listening:
        addresses = [remotes[0][0], *addresses]
    elif not addresses:
        addresses = [address for remote in remotes if (address := address_towards(remote))]
    if not addresses:
        raise UsageError(f"no way to {args.address}")
    sockets = Sockets(list(dict.fromkeys(addresses)), next(iter(ports), 0))
    options = Options(listening, args.streams, args.window, args.loss / 100, args.loss_in / 100, args.primary_only,
                      trace=args.trace)  # fmt: skip
    runner = Runner(sockets, options, settings_from(args), args.seed)
    if not listening:
        try:
            runner.adopt(runner.endpoint.connect(remotes, args.inner_port, args.peer_inner_port))
        except ValueError as error:
            raise UsageError(str(error)) from None
    return runner


def report(args: argparse.Namespace, runner: Runner, status: int) -> None:
    connections = [application.summary() for application in runner.applications]
    if args.json:
        whole = {"role": args.role, "ok": status == OK, "status": status, "connections": connections}
        print(json.dumps({**whole, "packets": dict(runner.endpoint.count)}, indent=2))
        return
    for one in connections:
        sent, received = one["sent"], one["received"]
        print(f"{one['end']}: sent {sent['messages']} messages, {sent['bytes']} bytes; received {received['messages']} "
              f"messages, {received['bytes']} bytes; {one['retransmissions']} retransmissions")  # fmt: skip
        for fault in one["faults"]:
            print(f"  {fault}", file=sys.stderr)


def main(arguments: list[str] | None = None) -> int:
    args = parser().parse_args(arguments)
    try:
        runner = make_runner(args)
    except UsageError as error:
        print(f"mmsp1_peer.py: {error}", file=sys.stderr)
        return USAGE
    try:
        if args.role == "listen":
            where = ", ".join(f"{address} port {port}" for address, port in runner.sockets.by_address)
            print(f"listening on {where}", file=sys.stderr, flush=True)
        status = runner.run(getattr(args, "connections", 1), args.timeout, args.linger)
    except KeyboardInterrupt:
        runner.abort()
        status = INTERRUPTED
    report(args, runner, status)
    runner.sockets.close()
    return status


if __name__ == "__main__":
    sys.exit(main())
