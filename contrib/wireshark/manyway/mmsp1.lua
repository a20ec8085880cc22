-- MMSP/1, chapter 3 of the specification: messages on several streams over several paths, in clear text.

if ... == nil then return end -- Wireshark loads every file of its plugin folder; manyway.lua alone needs this one.

local Reader = require("manyway.reader")
local fields = require("manyway.mmsp1_fields")
local malformed = Reader.malformed
local proto, f, e = fields.proto, fields.fields, fields.experts
local BLOCKS, PARAMETERS, CODES = fields.BLOCKS, fields.PARAMETERS, fields.CODES

local HEADER = 12
local LARGEST_PORT = 16383
local MOST_LISTED = 256
local INFO, IPV4_LIST, IPV6_LIST, PROBE_DATA, ECHO = 0x0000, 0x0001, 0x0002, 0x0010, 0x0011
local BYTES_END = 0x4d570002

-- Blocks that have no other block beside them (rule 3.7).
local ALONE = { [2] = true, [3] = true, [6] = true, [7] = true, [8] = true, [9] = true }
-- The flags that have a meaning, by type.
local FLAGS = { [0] = 0x07, [8] = 0x01, [9] = 0x01 }
-- What the flags B and E say (rule 3.34).
local PARTS = { [0] = "middle", "last", "first", "whole" }

-- What the capture has shown so far. Frames are read in order before any is looked at again.
local seen

function proto.init()
    seen = {
        connections = 0,
        tags = {}, -- tag -> { connection, receiver }
        data = {}, -- tag and TSEQ -> frame in which it was first
        probes = {}, -- nonce -> { frame, time }
    }
end

local function name_of(names, number, digits)
    return names[number] or ("0x%0" .. digits .. "x"):format(number)
end

-- Adler-32 over the packet, with zeros in the place of the checksum (rule 3.3).
-- `visit` is called with the number of bytes before each and their checksum.
local function adler32(bytes, visit)
    local a, b = 1, 0
    for at = 1, #bytes do
        if visit then visit(at - 1, b * 65536 + a) end
        -- The checksum is bytes 5 to 8.
        if at < 5 or at > 8 then a = (a + bytes:byte(at)) % 65521 end
        b = (b + a) % 65521
    end
    return b * 65536 + a
end

local function wrap32(number)
    return number % 2 ^ 32
end

-- Reads a parameter that is known and belongs to the block; `read` is called with its value and item.
local function add_parameter(tree, kind, range)
    local item = tree:add(f.parameter, range)
    item:set_text(("Parameter: %s"):format(name_of(PARAMETERS, kind, 4)))
    item:add(f.parameter_kind, range(0, 2))
    item:add(f.parameter_length, range(2, 2))
    return item
end

-- Reads parameters to the end of the block (rules 3.15, 3.16). `known` has a function for each type that belongs to
-- the block; it gets the item and a reader of the value. Returns which types were there.
local function parameters(reader, tree, known)
    local present = {}
    while reader:left() > 0 do
        local kind, value, range = reader:parameter()
        local item = add_parameter(tree, kind, range)
        if present[kind] and known[kind] then malformed("parameter %s twice (rule 3.15)", PARAMETERS[kind]) end
        present[kind] = true
        if known[kind] then
            known[kind](item, value)
        else
            value:rest(item, f.parameter_value)
            local answer = kind < 0x8000 and ", and earns ERROR with 0x0006" or ""
            item:add_proto_expert_info(e.skipped, ("A receiver skips this parameter%s (rule 3.16)"):format(answer))
        end
    end
    return present
end

local function info_side(item, reader, side)
    local range = reader.tvb:range(reader.at, 16)
    local tree = item:add(f.info_side, range)
    tree:set_text(side)
    reader:field(tree, f.info_tag, 4, "tag")
    reader:field(tree, f.info_window, 4, "AWS")
    reader:field(tree, f.info_outgoing, 2, "outgoing streams")
    reader:field(tree, f.info_incoming, 2, "incoming streams")
    reader:field(tree, f.info_tseq, 4, "initial TSEQ")
end

-- INFO is opaque; if it looks like that of Manyway's own server, its fields are shown (rule 3.59).
local function info(tree, reader)
    local length = reader:left()
    if length == 0 then return end
    local bytes = reader.tvb:range(reader.at, length)
    local item = tree:add(f.info, bytes)
    if length < 88 or bytes(0, 1):uint() ~= 1 then return end
    local ipv4, ipv6 = bytes(2, 1):uint(), bytes(3, 1):uint()
    if length ~= 88 + 4 * ipv4 + 16 * ipv6 then return end
    item:append_text(" (as Manyway's server makes it)")
    reader:field(item, f.info_version, 1, "version")
    reader:field(item, f.info_key, 1, "key")
    reader:field(item, f.info_ipv4_count, 1, "count")
    reader:field(item, f.info_ipv6_count, 1, "count")
    reader:field(item, f.info_made, 8, "time")
    reader:field(item, f.info_lifetime, 4, "lifetime")
    info_side(item, reader, "Client")
    info_side(item, reader, "Server")
    reader:field(item, f.info_client_port, 2, "port")
    reader:field(item, f.info_server_port, 2, "port")
    reader:take(2, "zero")
    reader:field(item, f.info_udp_port, 2, "port")
    reader:field(item, f.info_address, 16, "address")
    for _ = 1, ipv4 do reader:field(item, f.info_ipv4, 4, "address") end
    for _ = 1, ipv6 do reader:field(item, f.info_ipv6, 16, "address") end
    reader:field(item, f.info_mac, 16, "MAC")
end

-- A list of addresses of `size` bytes each.
local function addresses(field, size)
    return function(tree, reader)
        if reader:left() % size ~= 0 then malformed("a list of addresses has %d bytes", reader:left()) end
        while reader:left() > 0 do reader:field(tree, field, size, "address") end
    end
end

local SYN_PARAMETERS = { [IPV4_LIST] = addresses(f.ipv4, 4), [IPV6_LIST] = addresses(f.ipv6, 16) }
local SYN_ACK_PARAMETERS = {
    [INFO] = info, [IPV4_LIST] = SYN_PARAMETERS[IPV4_LIST], [IPV6_LIST] = SYN_PARAMETERS[IPV6_LIST],
}
local ADDRESS_SIZE = { [IPV4_LIST] = 4, [IPV6_LIST] = 16 }

-- Whether the bytes are a list of `entries` addresses and then nothing but parameters (rule 3.18).
local function is_reading(reader, entries, known, is_answer)
    local list = Reader.new(reader.tvb, reader.at, reader.limit)
    return Reader.protect(function()
        for _ = 1, entries do
            local address = list:take(4, "address"):uint()
            if address ~= 0 and address < 0x01000000 then malformed("an address of 0.0.0.0/8") end
        end
        local present, is_first = {}, true
        while list:left() > 0 do
            local kind, value = list:parameter()
            if is_answer and is_first and kind ~= INFO then malformed("INFO is not the first parameter") end
            if known[kind] and present[kind] then malformed("a parameter twice") end
            local size = known[kind] and ADDRESS_SIZE[kind] or 1
            if value:left() % size ~= 0 then malformed("a list of addresses") end
            present[kind], is_first = true, false
        end
        if is_answer and is_first then malformed("INFO is missing") end
    end) == nil
end

local function opening(reader, tree, is_answer)
    local tag = reader:uint(tree, f.tag, 4, "tag")
    local window = reader:uint(tree, f.window, 4, "AWS")
    local outgoing = reader:uint(tree, f.outgoing, 2, "outgoing streams")
    local incoming = reader:uint(tree, f.incoming, 2, "incoming streams")
    local tseq = reader:uint(tree, f.initial_tseq, 4, "initial TSEQ")
    if tag == 0 then malformed("the tag is 0 (rule 3.20)") end
    if outgoing == 0 or incoming == 0 then malformed("a number of streams is 0 (rule 3.20)") end
    local known = is_answer and SYN_ACK_PARAMETERS or SYN_PARAMETERS
    local entries = outgoing <= MOST_LISTED and outgoing or 0
    if not is_reading(reader, entries, known, is_answer) then entries = 0 end
    if not is_reading(reader, entries, known, is_answer) then
        malformed("what follows is neither a list of %d addresses with parameters nor parameters alone%s (rule 3.18)",
            outgoing, is_answer and ", INFO first," or "")
    end
    for _ = 1, entries do
        local is_filler = reader.tvb:range(reader.at, 4):uint() == 0
        reader:field(tree, is_filler and f.filler or f.ipv4, 4, "address")
    end
    parameters(reader, tree, known)
    return tag, ("tag=%08x AWS=%d streams=%d/%d TSEQ=%d"):format(tag, window, outgoing, incoming, tseq)
end

local function probe_data(tree, reader)
    if reader:left() ~= 44 then malformed("the value of a probe has %d bytes and not 44 (rule 3.38)", reader:left()) end
    reader:field(tree, f.sent, 8, "time")
    local path = reader:uint(tree, f.path, 2, "path")
    local family = reader:uint(tree, f.family, 2, "family")
    local address = reader:take(16, "address")
    if family == 4 then
        tree:add(f.address4, address(0, 4))
    elseif family == 6 then
        tree:add(f.address6, address)
    end
    local nonce = reader:field(tree, f.nonce, 8, "nonce")
    reader:field(tree, f.mac, 8, "MAC")
    if family ~= 4 and family ~= 6 then malformed("family %d: earns ERROR with 0x0002 (rule 3.73)", family) end
    return nonce:bytes():tohex(true), path
end

-- What each code tells beside itself (rule 3.71).
local INFORMATION = {
    [0x0001] = { f.cause_stream, 2 }, [0x0002] = { f.cause_family, 2 }, [0x0003] = { f.cause_block, 1 },
    [0x0004] = { f.cause_block, 1 }, [0x0006] = { f.cause_parameter, 2 }, [0x0007] = { f.cause_tseq, 4 },
    [0x0009] = { f.cause_expired, 4 },
}

local function causes(reader, tree)
    local names = {}
    while reader:left() > 0 do
        local code, value, range = reader:parameter()
        local name = name_of(CODES, code, 4)
        local item = tree:add(f.cause, range)
        item:set_text(("Cause: %s"):format(name))
        item:add(f.code, range(0, 2))
        item:add(f.code_length, range(2, 2))
        local expected = INFORMATION[code]
        if expected and value:left() == expected[2] then
            value:field(item, expected[1], expected[2], "information")
        elseif code == 0x000a and value:left() > 0 then
            value:rest(item, f.cause_text)
        else
            value:rest(item, f.information)
        end
        item:add_proto_expert_info(e.cause, name)
        names[#names + 1] = name
    end
    return table.concat(names, ", ")
end

-- The blocks. Each function gets a reader of the body, the tree of the block and the packet, and returns what the
-- list of packets shows of it.
local read = {}

read[0] = function(reader, tree, packet, flags, flags_item)
    flags_item:add(f.is_unordered, flags)
    flags_item:add(f.is_first, flags)
    flags_item:add(f.is_last, flags)
    local bits = flags:uint()
    local tseq, tseq_item = reader:uint(tree, f.tseq, 4, "TSEQ")
    local stream = reader:uint(tree, f.stream, 2, "stream")
    local sseq = reader:uint(tree, f.sseq, 2, "SSEQ")
    local protocol = reader:uint(tree, f.protocol, 4, "payload protocol")
    local length = reader:left()
    tree:add(f.data_length, length):set_generated()
    if length == 0 then
        tree:add_proto_expert_info(e.violation, "DATA without data: earns ERROR with 0x0007 (rule 3.35)")
    elseif protocol == BYTES_END and length == 16 and bits % 4 == 3 then
        reader:field(tree, f.end_code, 8, "code")
        reader:field(tree, f.end_total, 8, "total")
    else
        reader:rest(tree, f.data)
    end
    local key = ("%08x %08x"):format(packet.tag, tseq)
    if packet.is_good and not seen.data[key] then seen.data[key] = packet.frame end
    if seen.data[key] and seen.data[key] < packet.frame then
        tree:add(f.first_sent, seen.data[key]):set_generated()
        tseq_item:add_proto_expert_info(e.again)
    end
    local order = math.floor(bits / 4) % 2 == 1 and "unordered" or ("SSEQ=%d"):format(sseq)
    return ("TSEQ=%d stream=%d %s Len=%d %s"):format(tseq, stream, order, length, PARTS[bits % 4])
end

read[1] = function(reader, tree)
    local ack = reader:uint(tree, f.ack, 4, "ack TSEQ")
    local window = reader:uint(tree, f.window, 4, "AWS")
    local ranges = reader:uint(tree, f.ranges, 2, "number of ranges")
    local duplicates = reader:uint(tree, f.duplicates, 2, "number of duplicates")
    local arrived, fault = {}, nil
    for _ = 1, ranges do
        local range = reader:take(4, "a range")
        local first, last = range(0, 2):uint(), range(2, 2):uint()
        local text = first == last and ("%d"):format(wrap32(ack + first))
            or ("%d-%d"):format(wrap32(ack + first), wrap32(ack + last))
        local item = tree:add(f.range, range, text)
        item:add(f.range_start, range(0, 2), wrap32(ack + first))
        item:add(f.range_end, range(2, 2), wrap32(ack + last))
        if first == 0 or last < first then
            fault = ("range %d to %d: the SACK is ignored and earns ERROR with 0x0004 (rule 3.45)"):format(first, last)
        end
        arrived[#arrived + 1] = text
    end
    for _ = 1, duplicates do reader:field(tree, f.duplicate, 4, "a duplicate") end
    reader:finish("the duplicates")
    if fault then tree:add_proto_expert_info(e.violation, fault) end
    local text = ("ack=%d AWS=%d"):format(ack, window)
    if ranges > 0 then text = text .. " ranges=" .. table.concat(arrived, ",") end
    if duplicates > 0 then text = ("%s duplicates=%d"):format(text, duplicates) end
    return text
end

read[2] = function(reader, tree, packet)
    local tag, text = opening(reader, tree, false)
    if tag ~= packet.tag then
        tree:add_proto_expert_info(e.violation, "The connection ID is not the tag: earns RST with 0x0004 (rule 3.148)")
    elseif packet.is_good and not seen.tags[tag] then
        seen.tags[tag] = { connection = seen.connections, receiver = "client" }
        seen.connections = seen.connections + 1
    end
    return text
end

read[3] = function(reader, tree, packet)
    local tag, text = opening(reader, tree, true)
    local client = seen.tags[packet.tag]
    if packet.is_good and client and not seen.tags[tag] then
        seen.tags[tag] = { connection = client.connection, receiver = "server" }
    end
    return text
end

read[4] = function(reader, tree)
    if not parameters(reader, tree, { [INFO] = info })[INFO] then
        malformed("INFO is missing: earns ERROR, or RST for no connection, with 0x0008 (rules 3.56 and 3.73)")
    end
end

local function empty(reader)
    reader:finish("the header of the block")
end

local function with_t(reader, _, _, flags, flags_item)
    flags_item:add(f.reflected, flags)
    empty(reader)
    return flags:uint() % 2 == 1 and "T" or nil
end

read[5], read[7], read[8] = empty, empty, with_t

read[6] = function(reader, tree)
    local ack = reader:uint(tree, f.ack, 4, "ack TSEQ")
    reader:finish("ack TSEQ")
    return ("ack=%d"):format(ack)
end

read[9] = function(reader, tree, _, flags, flags_item)
    flags_item:add(f.reflected, flags)
    local text = causes(reader, tree)
    return flags:uint() % 2 == 1 and "T " .. text or text
end

read[10] = function(reader, tree)
    local text = causes(reader, tree)
    if text == "" then malformed("ERROR without a cause (rule 3.28)") end
    return text
end

read[11] = function(reader, tree, packet)
    local nonce, path
    local present = parameters(reader, tree, { [PROBE_DATA] = function(...) nonce, path = probe_data(...) end })
    if not present[PROBE_DATA] then malformed("probe data is missing (rule 3.138)") end
    if packet.is_good and not seen.probes[nonce] then
        seen.probes[nonce] = { frame = packet.frame, time = packet.time }
    end
    return ("path=%d nonce=%s"):format(path, nonce)
end

read[12] = function(reader, tree, packet)
    local echo, path
    local known = { [ECHO] = function(...) echo, path = probe_data(...) end, [PROBE_DATA] = probe_data }
    local present = parameters(reader, tree, known)
    if not (present[ECHO] and present[PROBE_DATA]) then malformed("echo or probe data is missing (rule 3.39)") end
    local probe = seen.probes[echo]
    if probe and probe.frame < packet.frame then
        tree:add(f.probe_frame, probe.frame):set_generated()
        local passed = packet.time - probe.time
        tree:add(f.probe_time, NSTime.new(math.floor(passed), math.floor(passed % 1 * 1e9 + 0.5))):set_generated()
    end
    return ("echo of path=%d nonce=%s"):format(path, echo)
end

-- Shows a block. Returns its text for the list of packets, and whether a receiver stops reading (rule 3.10).
local function show_block(kind, reader, range, zeros, tree, packet)
    local name = name_of(BLOCKS, kind, 2)
    local item = tree:add(f.block, zeros and reader.tvb:range(range:offset(), range:len() + zeros:len()) or range)
    item:set_text(("Block: %s"):format(name))
    local kind_item = item:add(f.kind, range(0, 1))
    kind_item:add(f.kind_skip, range(0, 1))
    local flags = reader:take(1, "flags")
    local flags_item = item:add(f.flags, flags)
    item:add(f.length, reader:take(2, "length"))
    local stops, text
    if read[kind] then
        if bit.band(flags:uint(), bit.bnot(FLAGS[kind] or 0)) ~= 0 then
            flags_item:add_proto_expert_info(e.skipped, "Flags without a meaning are ignored (rule 3.9)")
        end
        local fault = Reader.protect(function() text = read[kind](reader, item, packet, flags, flags_item) end)
        if fault then
            item:add_proto_expert_info(e.malformed, ("%s cannot be read: %s"):format(name, fault))
            text = "malformed"
        end
    else
        reader:rest(item, f.body)
        stops = kind < 0x80
        item:add_proto_expert_info(stops and e.cut or e.skipped, stops
            and "Unknown type: the reading ends here, and it earns ERROR with 0x0003 (rule 3.10)"
            or "Unknown type: a receiver skips the block (rule 3.10)")
    end
    if zeros then item:add(f.padding, zeros) end
    if text and text ~= "" then item:append_text(" " .. text) end
    return (text and text ~= "") and name .. " " .. text or name, stops
end

local function header(tvb, tree, packet)
    tree:add(f.source_port, tvb(0, 2))
    local port_item = tree:add(f.destination_port, tvb(2, 2))
    if packet.destination == 0 or packet.destination > LARGEST_PORT then
        port_item:add_proto_expert_info(e.dropped,
            "Ports lie between 1 and 16383: a receiver drops the packet (rule 3.4)")
    end
    local sum_item = tree:add(f.checksum, tvb(4, 4))
    sum_item:add(f.checksum_status, tvb(4, 4), packet.status):set_generated()
    if packet.status == 0 then
        sum_item:add_proto_expert_info(e.checksum,
            ("Wrong checksum, should be 0x%08x: a receiver drops the packet (rule 3.3)"):format(packet.computed))
    end
    local id_item = tree:add(f.connection_id, tvb(8, 4))
    if packet.tag == 0 then id_item:add_proto_expert_info(e.violation, "A tag is never 0 (rule 3.5)") end
    return id_item
end

-- The size of the first packet: of the whole datagram, or of one of many that a sender passed to the system at once, which
-- a capture shows as one before they are segmented. The others have the same ports and the same tag. `nil` if no
-- checksum is right (rule 3.3).
local function first_packet(tvb)
    local bytes, sum, first = tvb:raw(), tvb(4, 4):uint(), nil
    local function is_header(at)
        return bytes:sub(at + 1, at + 4) == bytes:sub(1, 4) and bytes:sub(at + 9, at + 12) == bytes:sub(9, 12)
    end
    local whole = adler32(bytes, function(size, computed)
        if not first and size >= HEADER and size % 4 == 0 and computed == sum and is_header(size) then first = size end
    end)
    return whole == sum and #bytes or first
end

-- Whether a receiver reads the header: two ports of MMSP/1 and a checksum that is right (rules 3.3, 3.4).
local function is_packet(tvb)
    if tvb:len() < HEADER or Reader.is_in_part(tvb) then return false end
    local source, destination = tvb(0, 2):uint(), tvb(2, 2):uint()
    if source < 1 or source > LARGEST_PORT or destination < 1 or destination > LARGEST_PORT then return false end
    return first_packet(tvb) ~= nil
end

local function show_connection(tree, packet)
    local known = seen.tags[packet.tag]
    if not known then return end
    tree:add(f.connection, known.connection):set_generated()
    tree:add(f.receiver, known.receiver):set_generated()
end

local function show(tvb, pinfo, root)
    local packet = { frame = pinfo.number, time = pinfo.rel_ts, tag = tvb(8, 4):uint(), destination = tvb(2, 2):uint() }
    packet.status = 2
    if not Reader.is_in_part(tvb) then
        packet.computed = adler32(tvb:raw())
        packet.status = packet.computed == tvb(4, 4):uint() and 1 or 0
    end
    -- What a receiver drops teaches nothing about the connection.
    packet.is_good = packet.status == 1 and not pinfo.visited
    pinfo.cols.protocol:set("MMSP/1")
    local source = tvb(0, 2):uint()
    local tree = root:add(proto, tvb:range())
    tree:append_text((", %d > %d, connection ID %08x"):format(source, packet.destination, packet.tag))
    local id_item = header(tvb, tree, packet)
    local names, count, alone = {}, 0, nil
    local reader = Reader.new(tvb, HEADER, tvb:len())
    local fault, rest = reader:blocks(function(kind, block, range, zeros)
        local text, stops = show_block(kind, block, range, zeros, tree, packet)
        names[#names + 1], count = text, count + 1
        if ALONE[kind] then alone = BLOCKS[kind] end
        return stops
    end)
    if fault and Reader.is_in_part(tvb) then
        tree:add(f.trailing, rest):append_text(" - " .. Reader.IN_PART)
    elseif fault then
        tree:add(f.trailing, rest):add_proto_expert_info(e.cut, ("The reading ends here: %s (rule 3.11)"):format(fault))
        names[#names + 1] = "malformed"
    elseif reader:left() > 0 then
        tree:add(f.trailing, tvb(reader.at))
    end
    if alone and count > 1 then
        tree:add_proto_expert_info(e.dropped,
            ("%s travels alone: a receiver drops the packet (rule 3.7)"):format(alone))
    end
    show_connection(id_item, packet)
    if packet.status == 0 then table.insert(names, 1, "[wrong checksum]") end
    pinfo.cols.info:set(("%d > %d  %s"):format(source, packet.destination, table.concat(names, "; ")))
end

-- Shows a datagram. Returns how many bytes are MMSP/1: 0 if it is too short for a packet.
local function dissect(tvb, pinfo, root)
    if tvb:len() < HEADER then return 0 end
    local size = not Reader.is_in_part(tvb) and first_packet(tvb) or tvb:len()
    for at = 0, tvb:len() - HEADER, size do
        local is_whole = size == tvb:len()
        show(is_whole and tvb or tvb(at, math.min(size, tvb:len() - at)):tvb(), pinfo, root)
    end
    return tvb:len()
end

return { proto = proto, dissect = dissect, is_packet = is_packet }
