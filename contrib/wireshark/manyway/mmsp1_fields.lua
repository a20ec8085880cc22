-- The fields of MMSP/1 and what may be wrong with them, under the names of chapter 3 of the specification.

if ... == nil then return end -- Wireshark loads every file of its plugin folder; manyway.lua alone needs this one.

local proto = Proto("mmsp1", "Mobile Multi-Streaming Protocol, version 1")

local BLOCKS = {
    [0] = "DATA", "SACK", "SYN", "SYN-ACK", "PING", "PONG", "FIN", "FIN-ACK", "FIN-DONE", "RST", "ERROR", "PROBE",
    "PROBE-ACK",
}
local PARAMETERS = {
    [0x0000] = "INFO", [0x0001] = "IPv4 list", [0x0002] = "IPv6 list", [0x0010] = "probe data", [0x0011] = "echo",
}
local CODES = {
    "wrong stream", "unresolved address", "unrecognised block type", "invalid field value", "missing mandatory field",
    "unrecognised block field", "no user data", "no INFO", "stale or invalid INFO", "unrecognised error",
}
local PROTOCOLS = { [0] = "nothing said", [0x4d570001] = "BYTES", [0x4d570002] = "BYTES-END" }
local STATUS = { [0] = "wrong", "right", "not verified" }

local f = {
    source_port = ProtoField.uint16("mmsp1.srcport", "Source port"),
    destination_port = ProtoField.uint16("mmsp1.dstport", "Destination port"),
    checksum = ProtoField.uint32("mmsp1.checksum", "Checksum (Adler-32)", base.HEX),
    checksum_status = ProtoField.uint8("mmsp1.checksum.status", "Checksum status", base.DEC, STATUS),
    connection_id = ProtoField.uint32("mmsp1.connection_id", "Connection ID", base.HEX),
    connection = ProtoField.uint32("mmsp1.connection", "Connection in this capture"),
    receiver = ProtoField.string("mmsp1.receiver", "Receiver"),

    block = ProtoField.none("mmsp1.block", "Block"),
    kind = ProtoField.uint8("mmsp1.block.type", "Type", base.HEX, BLOCKS),
    kind_skip = ProtoField.bool("mmsp1.block.type.skip", "High bit: skip if the type is not known", 8, nil, 0x80),
    flags = ProtoField.uint8("mmsp1.block.flags", "Flags", base.HEX),
    length = ProtoField.uint16("mmsp1.block.length", "Length"),
    body = ProtoField.bytes("mmsp1.block.body", "Body"),
    padding = ProtoField.bytes("mmsp1.block.padding", "Padding"),
    trailing = ProtoField.bytes("mmsp1.trailing", "Bytes behind the last block"),
    reflected = ProtoField.bool("mmsp1.flags.t", "T: under the connection ID of its cause", 8, nil, 0x01),

    tseq = ProtoField.uint32("mmsp1.data.tseq", "TSEQ"),
    stream = ProtoField.uint16("mmsp1.data.stream", "Stream"),
    sseq = ProtoField.uint16("mmsp1.data.sseq", "SSEQ"),
    protocol = ProtoField.uint32("mmsp1.data.protocol", "Payload protocol", base.HEX, PROTOCOLS),
    data = ProtoField.bytes("mmsp1.data.data", "Data"),
    data_length = ProtoField.uint32("mmsp1.data.length", "Length of the data"),
    is_last = ProtoField.bool("mmsp1.data.flags.e", "E: the message ends here", 8, nil, 0x01),
    is_first = ProtoField.bool("mmsp1.data.flags.b", "B: the message begins here", 8, nil, 0x02),
    is_unordered = ProtoField.bool("mmsp1.data.flags.u", "U: unordered", 8, nil, 0x04),
    first_sent = ProtoField.framenum("mmsp1.data.first_sent", "Sent before in frame", base.NONE,
        frametype.RETRANS_PREV),
    end_code = ProtoField.uint64("mmsp1.bytes_end.code", "Code of the application plus one (0: the byte stream is complete)"),
    end_total = ProtoField.uint64("mmsp1.bytes_end.total", "Bytes in all"),

    ack = ProtoField.uint32("mmsp1.ack", "Ack TSEQ"),
    window = ProtoField.uint32("mmsp1.aws", "AWS: receive window in bytes"),
    ranges = ProtoField.uint16("mmsp1.sack.ranges", "Ranges"),
    duplicates = ProtoField.uint16("mmsp1.sack.duplicates", "Duplicates"),
    range = ProtoField.string("mmsp1.sack.range", "Arrived"),
    range_start = ProtoField.uint32("mmsp1.sack.range.start", "From TSEQ"),
    range_end = ProtoField.uint32("mmsp1.sack.range.end", "To TSEQ"),
    duplicate = ProtoField.uint32("mmsp1.sack.duplicate", "Arrived again: TSEQ"),

    tag = ProtoField.uint32("mmsp1.syn.tag", "Tag", base.HEX),
    outgoing = ProtoField.uint16("mmsp1.syn.outgoing", "Outgoing streams"),
    incoming = ProtoField.uint16("mmsp1.syn.incoming", "Incoming streams"),
    initial_tseq = ProtoField.uint32("mmsp1.syn.tseq", "Initial TSEQ"),
    filler = ProtoField.ipv4("mmsp1.syn.filler", "Filler"),
    ipv4 = ProtoField.ipv4("mmsp1.syn.ipv4", "Address"),
    ipv6 = ProtoField.ipv6("mmsp1.syn.ipv6", "Address"),

    parameter = ProtoField.none("mmsp1.parameter", "Parameter"),
    parameter_kind = ProtoField.uint16("mmsp1.parameter.type", "Type", base.HEX, PARAMETERS),
    parameter_length = ProtoField.uint16("mmsp1.parameter.length", "Length"),
    parameter_value = ProtoField.bytes("mmsp1.parameter.value", "Value"),

    info = ProtoField.bytes("mmsp1.info", "INFO"),
    info_version = ProtoField.uint8("mmsp1.info.version", "Version"),
    info_key = ProtoField.uint8("mmsp1.info.key", "Key"),
    info_ipv4_count = ProtoField.uint8("mmsp1.info.ipv4_count", "IPv4 addresses"),
    info_ipv6_count = ProtoField.uint8("mmsp1.info.ipv6_count", "IPv6 addresses"),
    info_made = ProtoField.uint64("mmsp1.info.made", "Made at (ms, clock of the server)"),
    info_lifetime = ProtoField.uint32("mmsp1.info.lifetime", "Lifetime (ms)"),
    info_side = ProtoField.none("mmsp1.info.side", "Side"),
    info_tag = ProtoField.uint32("mmsp1.info.tag", "Tag", base.HEX),
    info_window = ProtoField.uint32("mmsp1.info.aws", "AWS"),
    info_outgoing = ProtoField.uint16("mmsp1.info.outgoing", "Outgoing streams"),
    info_incoming = ProtoField.uint16("mmsp1.info.incoming", "Incoming streams"),
    info_tseq = ProtoField.uint32("mmsp1.info.tseq", "Initial TSEQ"),
    info_client_port = ProtoField.uint16("mmsp1.info.client_port", "Inner port of the client"),
    info_server_port = ProtoField.uint16("mmsp1.info.server_port", "Inner port of the server"),
    info_udp_port = ProtoField.uint16("mmsp1.info.udp_port", "UDP port of the client"),
    info_address = ProtoField.ipv6("mmsp1.info.address", "Address of the client"),
    info_ipv4 = ProtoField.ipv4("mmsp1.info.ipv4", "Address that SYN named"),
    info_ipv6 = ProtoField.ipv6("mmsp1.info.ipv6", "Address that SYN named"),
    info_mac = ProtoField.bytes("mmsp1.info.mac", "MAC"),

    sent = ProtoField.uint64("mmsp1.probe.sent", "Sent (µs, clock of the sender)"),
    path = ProtoField.uint16("mmsp1.probe.path", "Path (number of the sender)"),
    family = ProtoField.uint16("mmsp1.probe.family", "Family", base.DEC, { [4] = "IPv4", [6] = "IPv6" }),
    address4 = ProtoField.ipv4("mmsp1.probe.ipv4", "Address"),
    address6 = ProtoField.ipv6("mmsp1.probe.ipv6", "Address"),
    nonce = ProtoField.bytes("mmsp1.probe.nonce", "Nonce"),
    mac = ProtoField.bytes("mmsp1.probe.mac", "MAC"),
    probe_frame = ProtoField.framenum("mmsp1.probe.request", "Answers PROBE in frame", base.NONE, frametype.REQUEST),
    probe_time = ProtoField.relative_time("mmsp1.probe.time", "Time since PROBE"),

    cause = ProtoField.none("mmsp1.cause", "Cause"),
    code = ProtoField.uint16("mmsp1.cause.code", "Code", base.HEX, CODES),
    code_length = ProtoField.uint16("mmsp1.cause.length", "Length"),
    information = ProtoField.bytes("mmsp1.cause.information", "Information"),
    cause_stream = ProtoField.uint16("mmsp1.cause.stream", "Stream"),
    cause_family = ProtoField.uint16("mmsp1.cause.family", "Family"),
    cause_block = ProtoField.uint8("mmsp1.cause.block_type", "Type of the block", base.HEX, BLOCKS),
    cause_parameter = ProtoField.uint16("mmsp1.cause.parameter_type", "Type of the parameter", base.HEX),
    cause_tseq = ProtoField.uint32("mmsp1.cause.tseq", "TSEQ"),
    cause_expired = ProtoField.uint32("mmsp1.cause.expired", "Expired since (ms; 0: invalid)"),
    cause_text = ProtoField.string("mmsp1.cause.text", "Text", base.UNICODE),
}
proto.fields = f

local e = {
    checksum = ProtoExpert.new("mmsp1.expert.checksum", "Wrong checksum: a receiver drops the packet (rule 3.3)",
        expert.group.CHECKSUM, expert.severity.ERROR),
    malformed = ProtoExpert.new("mmsp1.expert.malformed", "The block cannot be read (rule 3.12)",
        expert.group.MALFORMED, expert.severity.ERROR),
    cut = ProtoExpert.new("mmsp1.expert.cut", "The reading of the packet ends here",
        expert.group.MALFORMED, expert.severity.ERROR),
    dropped = ProtoExpert.new("mmsp1.expert.dropped", "A receiver drops the packet",
        expert.group.PROTOCOL, expert.severity.WARN),
    violation = ProtoExpert.new("mmsp1.expert.violation", "Against a rule of the specification",
        expert.group.PROTOCOL, expert.severity.WARN),
    skipped = ProtoExpert.new("mmsp1.expert.skipped", "Not known and skipped",
        expert.group.UNDECODED, expert.severity.NOTE),
    cause = ProtoExpert.new("mmsp1.expert.cause", "The sender reports an error",
        expert.group.RESPONSE_CODE, expert.severity.NOTE),
    again = ProtoExpert.new("mmsp1.expert.again", "DATA with this TSEQ was sent before",
        expert.group.SEQUENCE, expert.severity.NOTE),
}
proto.experts = e

return {
    proto = proto, fields = f, experts = e,
    BLOCKS = BLOCKS, PARAMETERS = PARAMETERS, CODES = CODES,
}
