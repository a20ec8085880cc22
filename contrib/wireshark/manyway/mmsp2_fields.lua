-- The fields of MMSP/2 and what may be wrong with them, under the names of docs/specification.

if ... == nil then return end -- Wireshark loads every file of its plugin folder; manyway.lua alone needs this one.

local proto = Proto("mmsp2", "Mobile Multi-Streaming Protocol, version 2")

local BLOCKS = {
    [0x02] = "SYN", [0x03] = "SYN-ACK", [0x04] = "PING", [0x05] = "PONG", [0x0b] = "PROBE", [0x0c] = "PROBE-ACK",
    [0x80] = "PATH-ACK", [0x81] = "CRYPTO", [0x82] = "STREAM", [0x83] = "MESSAGE", [0x84] = "SKIP",
    [0x85] = "MAX-DATA", [0x86] = "MAX-STREAM-DATA", [0x87] = "MAX-STREAMS", [0x88] = "RESET-STREAM",
    [0x89] = "STOP-SENDING", [0x8a] = "BLOCKED", [0x90] = "NEW-CID", [0x91] = "RETIRE-CID", [0x92] = "ADD-ADDRESS",
    [0x93] = "REMOVE-ADDRESS", [0x94] = "PATH-STATUS", [0x95] = "PATH-CLOSE", [0x96] = "LIVENESS",
    [0x97] = "RECEIVE-LIMIT", [0x98] = "ACK-NOW", [0x9b] = "CLOSE", [0x9d] = "PADDING", [0x9e] = "PATH-LIMIT",
    [0x9f] = "TCP-CONNECTIONS",
}
local TYPES = { [0] = "Initial", "Handshake", "early (reserved)", "reserved" }
local VERSIONS = { [0] = "version list", [0x4d4d5301] = "MMSP/2, draft 1" }
local PARAMETERS = {
    [0x0000] = "INFO", [0x0100] = "version", [0x0101] = "original destination", [0x0102] = "source",
    [0x0103] = "idle timeout", [0x0104] = "initial max data", [0x0105] = "initial max stream data",
    [0x0106] = "initial max streams", [0x0107] = "path limit", [0x0108] = "max ack delay", [0x0109] = "max datagram",
    [0x010a] = "reset token", [0x010b] = "application", [0x8100] = "max message", [0x8101] = "rendezvous",
    [0x8102] = "rates",
}
local STEPS = { [0] = "FIN", "FIN-ACK", "FIN-DONE", "ABORT" }
local STATES = { [0] = "available", "backup", "suspect", "dead" }
local LIMITS = { [0] = "credit of the connection", "credit of a stream", "number of streams" }
local HANDSHAKE = {
    [1] = "ClientHello", [2] = "ServerHello", [4] = "NewSessionTicket", [8] = "EncryptedExtensions",
    [11] = "Certificate", [13] = "CertificateRequest", [15] = "CertificateVerify", [20] = "Finished",
}

-- Most integers have a variable length; they are shown as 64 bits.
local function varint(name, label, ...)
    return ProtoField.uint64("mmsp2." .. name, label, ...)
end

local function bits(name, label, mask, ...)
    return ProtoField.uint8("mmsp2." .. name, label, base.DEC, nil, mask, ...)
end

local function flag(name, label, mask)
    return ProtoField.bool("mmsp2." .. name, label, 8, nil, mask)
end

local f = {
    first = ProtoField.uint8("mmsp2.first", "First byte", base.HEX),
    is_long = flag("long", "Long header", 0x80),
    fixed = flag("fixed", "Fixed bit", 0x40),
    kind = ProtoField.uint8("mmsp2.type", "Type", base.DEC, TYPES, 0x30),
    long_reserved = bits("reserved", "Reserved, protected", 0x0c),
    unused = flag("unused", "Not used", 0x20),
    short_reserved = bits("reserved", "Reserved, protected", 0x18),
    phase_bit = flag("key_phase", "Key phase, protected", 0x04),
    number_length = bits("packet_number_length", "Length of the packet number - 1, protected", 0x03),
    version = ProtoField.uint32("mmsp2.version", "Version", base.HEX, VERSIONS),
    listed_version = ProtoField.uint32("mmsp2.version_list.version", "Version", base.HEX, VERSIONS),
    destination_length = ProtoField.uint8("mmsp2.dcid.length", "Length of the destination ID"),
    destination = ProtoField.bytes("mmsp2.dcid", "Destination ID"),
    source_length = ProtoField.uint8("mmsp2.scid.length", "Length of the source ID"),
    source = ProtoField.bytes("mmsp2.scid", "Source ID"),
    length = varint("length", "Length"),
    protected_number = ProtoField.bytes("mmsp2.packet_number.protected", "Packet number, protected"),
    number = varint("packet_number", "Packet number"),
    sealed = ProtoField.bytes("mmsp2.sealed", "Sealed: packet number, blocks and tag"),
    sealed_blocks = ProtoField.bytes("mmsp2.sealed_blocks", "Sealed blocks"),
    tag = ProtoField.bytes("mmsp2.tag", "Tag"),
    rest = ProtoField.bytes("mmsp2.rest", "Bytes that are not read"),
    connection = ProtoField.uint32("mmsp2.connection", "Connection in this capture"),
    sender = ProtoField.string("mmsp2.sender", "Sender"),
    level = ProtoField.string("mmsp2.level", "Level"),
    packet_path = varint("packet_path", "Path of the packet"),
    phase = ProtoField.uint32("mmsp2.phase", "Changes of keys before"),

    block = ProtoField.none("mmsp2.block", "Block"),
    block_type = ProtoField.uint8("mmsp2.block.type", "Type", base.HEX, BLOCKS),
    flags = ProtoField.uint8("mmsp2.block.flags", "Flags", base.HEX),
    block_length = ProtoField.uint16("mmsp2.block.length", "Length"),
    body = ProtoField.bytes("mmsp2.block.body", "Body"),
    padding = ProtoField.bytes("mmsp2.block.padding", "Padding"),
    trailing = ProtoField.bytes("mmsp2.trailing", "Bytes behind the last block"),

    path = varint("path", "Path"),
    stream = varint("stream", "Stream"),
    offset = varint("offset", "Offset"),
    data = ProtoField.bytes("mmsp2.data", "Data"),
    data_length = ProtoField.uint32("mmsp2.data.length", "Length of the data"),
    stream_end = flag("stream.end", "The stream ends behind these bytes", 0x01),
    message_end = flag("message.end", "E: the message ends behind these bytes", 0x01),
    message_begin = flag("message.begin", "B: the message begins with these bytes", 0x02),
    unordered = flag("message.unordered", "U: unordered", 0x04),
    message = varint("message.number", "Number of the message"),
    protocol = varint("message.protocol", "Payload protocol"),
    reach = varint("skip.reach", "Highest offset that was sent"),

    largest = varint("ack.largest", "Largest"),
    delay = varint("ack.delay", "Delay (µs)"),
    receive_time = ProtoField.uint32("mmsp2.ack.receive_time", "Receive time (µs, modulo 2^32)"),
    ecn = flag("ack.ecn", "ECN counts are present", 0x01),
    ect0 = varint("ack.ect0", "ECT(0)"),
    ect1 = varint("ack.ect1", "ECT(1)"),
    ce = varint("ack.ce", "CE"),
    first_length = varint("ack.first_length", "First length"),
    gap = varint("ack.gap", "Gap"),
    range_length = varint("ack.length", "Length"),
    range = ProtoField.string("mmsp2.ack.range", "Arrived"),

    credit = varint("credit", "Credit"),
    streams = varint("streams", "Streams"),
    stream_code = varint("stream.code", "Code of the application"),
    final_size = varint("stream.final_size", "Final size"),
    blocked_by = ProtoField.uint8("mmsp2.blocked.by", "Blocked by", base.DEC, LIMITS),
    blocked_limit = varint("blocked.limit", "Limit"),

    sequence = varint("sequence", "Sequence"),
    retire = varint("new_cid.retire_prior_to", "Retire prior to"),
    new_id = ProtoField.bytes("mmsp2.new_cid.id", "ID"),
    token = ProtoField.bytes("mmsp2.reset_token", "Reset token"),
    address_id = varint("address.id", "Address ID"),
    priority = ProtoField.uint8("mmsp2.address.priority", "Priority"),
    cost = ProtoField.uint8("mmsp2.cost", "Cost"),
    port = ProtoField.uint16("mmsp2.address.port", "Port"),
    address = ProtoField.ipv6("mmsp2.address", "Address"),
    state = ProtoField.uint8("mmsp2.path.state", "State", base.DEC, STATES),
    has_rate = flag("path.has_rate", "A rate is there", 0x01),
    rate = varint("path.rate", "Rate (bytes per second)"),
    is_answer = flag("liveness.answer", "Answer", 0x01),
    is_nothing = flag("liveness.nothing", "Nothing received", 0x02),
    age = varint("liveness.age", "Age (µs)"),
    nonce = ProtoField.bytes("mmsp2.probe.nonce", "Nonce"),
    path_limit = varint("path_limit", "Path limit"),
    window = varint("path.window", "Window (bytes)"),
    connections = varint("tcp_connections", "TCP connections"),
    step = ProtoField.uint8("mmsp2.close.step", "Step", base.DEC, STEPS),
    code = varint("code", "Error code", base.HEX),
    text = ProtoField.string("mmsp2.close.text", "Text", base.UNICODE),

    parameter = ProtoField.none("mmsp2.parameter", "Parameter"),
    parameter_type = ProtoField.uint16("mmsp2.parameter.type", "Type", base.HEX, PARAMETERS),
    parameter_length = ProtoField.uint16("mmsp2.parameter.length", "Length"),
    parameter_bytes = ProtoField.bytes("mmsp2.parameter.value", "Value"),
    parameter_number = varint("parameter.number", "Value"),
    parameter_text = ProtoField.string("mmsp2.parameter.text", "Value", base.UNICODE),
    parameter_version = ProtoField.uint32("mmsp2.parameter.version", "Version", base.HEX, VERSIONS),
    tls_message = ProtoField.uint8("mmsp2.crypto.message", "TLS message", base.DEC, HANDSHAKE),
}
proto.fields = f

local e = {
    header = ProtoExpert.new("mmsp2.expert.header", "The header cannot be read",
        expert.group.MALFORMED, expert.severity.ERROR),
    dropped = ProtoExpert.new("mmsp2.expert.dropped", "A receiver drops the packet",
        expert.group.PROTOCOL, expert.severity.WARN),
    sealed = ProtoExpert.new("mmsp2.expert.sealed", "The packet was not opened",
        expert.group.DECRYPTION, expert.severity.CHAT),
    reset = ProtoExpert.new("mmsp2.expert.reset", "Stateless reset (rule 4.11)",
        expert.group.SEQUENCE, expert.severity.NOTE),
    malformed = ProtoExpert.new("mmsp2.expert.malformed", "A block that cannot be read is refused with MALFORMED",
        expert.group.MALFORMED, expert.severity.ERROR),
    violation = ProtoExpert.new("mmsp2.expert.violation", "Against a rule of the specification",
        expert.group.PROTOCOL, expert.severity.WARN),
    close = ProtoExpert.new("mmsp2.expert.close", "The connection or path ends with an error",
        expert.group.RESPONSE_CODE, expert.severity.NOTE),
}
proto.experts = e

return {
    proto = proto, fields = f, experts = e,
    BLOCKS = BLOCKS, TYPES = TYPES, PARAMETERS = PARAMETERS, STEPS = STEPS, STATES = STATES, LIMITS = LIMITS,
    HANDSHAKE = HANDSHAKE,
}
