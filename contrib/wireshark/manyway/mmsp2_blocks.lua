-- The blocks of MMSP/2: chapters 2 and 5 of the specification.

if ... == nil then return end -- Wireshark loads every file of its plugin folder; manyway.lua alone needs this one.

local Reader = require("manyway.reader")
local fields = require("manyway.mmsp2_fields")
local connections = require("manyway.connections")
local tls = require("manyway.tls")
local malformed = Reader.malformed
local f, e = fields.fields, fields.experts

local ERRORS = {
    [0x00] = "NO_ERROR", [0x01] = "INTERNAL", [0x03] = "FLOW_CONTROL", [0x04] = "STREAM_LIMIT",
    [0x05] = "STREAM_STATE", [0x06] = "FINAL_SIZE", [0x07] = "MALFORMED", [0x08] = "PARAMETERS",
    [0x09] = "CONNECTION_ID", [0x0a] = "PROTOCOL", [0x0e] = "KEY_UPDATE", [0x0f] = "AEAD_LIMIT", [0x10] = "NO_PATH",
    [0x11] = "UNAUTHORISED",
}
local LARGEST_PATH = 2 ^ 32 - 1
local TOKEN = 16

local function error_name(code)
    if ERRORS[code] then return ERRORS[code] end
    if code >= 0x100 and code < 0x200 then return ("TLS alert %d"):format(code - 0x100) end
    if code >= 0x1000 then return ("application %.0f"):format(code - 0x1000) end
    return ("0x%x"):format(code)
end

local function has(flags, bit)
    return math.floor(flags / bit) % 2 == 1
end

local function path(reader, tree)
    local number, item = reader:varint(tree, f.path, "path")
    if number > LARGEST_PATH then malformed("path %.0f is not below 2^32 (rule 2.13)", number) end
    return number, item
end

-- Port and address; an IPv4 address is mapped into IPv6 (rule 2.11).
local function address(reader, tree)
    local port = reader:uint(tree, f.port, 2, "port")
    local range = reader:field(tree, f.address, 16, "address")
    local ipv4 = range(0, 12):bytes():tohex() == "00000000000000000000FFFF"
    local host = ipv4 and range(12, 4):ipv4() or range:ipv6()
    return (ipv4 and "%s:%d" or "[%s]:%d"):format(tostring(host), port)
end

-- How the values of parameters look (rule 4.17); all others are integers of variable length.
local VALUES = {
    [0x0100] = f.parameter_version, [0x010a] = f.token, [0x010b] = f.parameter_text,
    [0x0000] = f.parameter_bytes, [0x0101] = f.parameter_bytes, [0x0102] = f.parameter_bytes,
}

local function parameter_value(kind, item, value)
    if kind == 0x8101 then
        while value:left() > 0 do address(value, item) end
    elseif VALUES[kind] or not fields.PARAMETERS[kind] then
        value:rest(item, VALUES[kind] or f.parameter_bytes)
    elseif value:left() > 0 then
        local number = value:varint(item, f.parameter_number, "value")
        value:finish("the value of a parameter")
        item:append_text((": %.0f"):format(number))
    end
end

-- Reads parameters to the end (rule 2.10); those for which `is_known` says no and that cannot be skipped are refused.
local function parameters(reader, tree, is_known)
    local present = {}
    while reader:left() > 0 do
        local kind, value, range = reader:parameter()
        local item = tree:add(f.parameter, range)
        item:set_text(("Parameter: %s"):format(fields.PARAMETERS[kind] or ("0x%04x"):format(kind)))
        item:add(f.parameter_type, range(0, 2))
        item:add(f.parameter_length, range(2, 2))
        if present[kind] then malformed("parameter 0x%04x twice (rule 2.10)", kind) end
        present[kind] = true
        if not is_known(kind) and kind < 0x8000 then
            malformed("parameter 0x%04x is not known here (rule 2.10)", kind)
        end
        parameter_value(kind, item, value)
    end
end

local function nothing_or_info(reader, tree)
    parameters(reader, tree, function(kind) return kind == 0x0000 end)
end

local function empty() end

local function probe(reader, tree)
    return "nonce=" .. reader:field(tree, f.nonce, 8, "nonce"):bytes():tohex(true)
end

local function probe_ack(reader, tree)
    return probe(reader, tree) .. " seen from " .. address(reader, tree)
end

-- An acknowledgement; ranges are those of RFC 9000, section 19.3.1 (rule 5.80).
local function path_ack(reader, tree, flags)
    local number = path(reader, tree)
    local largest = reader:varint(tree, f.largest, "largest")
    local delay = reader:varint(tree, f.delay, "delay")
    reader:field(tree, f.receive_time, 4, "receive time")
    if has(flags, 1) then
        reader:varint(tree, f.ect0, "ECT(0)")
        reader:varint(tree, f.ect1, "ECT(1)")
        reader:varint(tree, f.ce, "CE")
    end
    local ranges, last = {}, largest
    local function arrived(length, begin)
        local first = last - length
        if first < 0 then malformed("a range goes below 0 (rule 5.80)") end
        local text = length == 0 and ("%.0f"):format(last) or ("%.0f-%.0f"):format(first, last)
        tree:add(f.range, reader.tvb:range(begin, reader.at - begin), text):set_generated()
        ranges[#ranges + 1] = text
        last = first
    end
    local begin = reader.at
    arrived(reader:varint(tree, f.first_length, "first length"), begin)
    while reader:left() > 0 do
        begin = reader.at
        last = last - reader:varint(tree, f.gap, "gap") - 2
        arrived(reader:varint(tree, f.range_length, "length"), begin)
    end
    return ("path=%.0f ranges=%s delay=%.0f"):format(number, table.concat(ranges, ","), delay)
end

local function data(reader, tree)
    local length = reader:left()
    tree:add(f.data_length, length):set_generated()
    reader:rest(tree, f.data)
    return length
end

-- Shows the messages of TLS at the beginning of all, with the parameters of the connection; in later pieces a message
-- may begin anywhere. Returns their names.
local function hello(range, tree)
    local names = {}
    tls.messages(Reader.new(range:tvb(), 0, range:len()), function(kind, body)
        names[#names + 1] = fields.HANDSHAKE[kind] or ("TLS message %d"):format(kind)
        local item = tree:add(f.tls_message, range(0, 1), kind)
        local list = body and tls.parameters(kind, body)
        if list then parameters(list, item, function(parameter) return fields.PARAMETERS[parameter] end) end
    end)
    return " " .. table.concat(names, ", ")
end

local function crypto(reader, tree, _, packet)
    local offset = reader:varint(tree, f.offset, "offset")
    local length = data(reader, tree)
    local names = ""
    if length > 0 then
        local range = reader.tvb:range(reader.limit - length, length)
        if packet.level == "Initial" and packet.is_new then connections.learn_hello(packet, offset, range:raw()) end
        if offset == 0 then names = hello(range, tree) end
    end
    return ("offset=%.0f Len=%d%s"):format(offset, length, names)
end

local function stream(reader, tree, flags)
    local number = reader:varint(tree, f.stream, "stream")
    local offset = reader:varint(tree, f.offset, "offset")
    return ("%.0f offset=%.0f Len=%d%s"):format(number, offset, data(reader, tree), has(flags, 1) and " end" or "")
end

local function message(reader, tree, flags)
    local number = reader:varint(tree, f.stream, "stream")
    local text = ("%.0f number=%.0f"):format(number, (reader:varint(tree, f.message, "number")))
    if has(flags, 2) then
        local protocol = reader:varint(tree, f.protocol, "payload protocol")
        if protocol > LARGEST_PATH then malformed("payload protocol %.0f is not below 2^32 (rule 5.83)", protocol) end
        text = text .. " begin"
    else
        local offset = reader:varint(tree, f.offset, "offset")
        if offset == 0 then malformed("a piece without B has offset 0 (rule 5.83)") end
        text = ("%s offset=%.0f"):format(text, offset)
    end
    return ("%s Len=%d%s%s"):format(text, data(reader, tree), has(flags, 1) and " end" or "",
        has(flags, 4) and " unordered" or "")
end

local function skip(reader, tree, flags)
    local text = ("%.0f"):format((reader:varint(tree, f.stream, "stream")))
    local numbers = {}
    repeat
        numbers[#numbers + 1] = ("%.0f"):format((reader:varint(tree, f.message, "number")))
        reader:varint(tree, f.reach, "reach")
    until reader:left() == 0
    return ("%s numbers=%s%s"):format(text, table.concat(numbers, ","), has(flags, 4) and " unordered" or "")
end

-- A block that is nothing but integers of variable length. `names` are the fields, and `text` shows them.
local function integers(text, ...)
    local names = { ... }
    return function(reader, tree)
        local values = {}
        for i, name in ipairs(names) do
            if name == "path" then
                values[i] = path(reader, tree)
            else
                values[i] = reader:varint(tree, f[name], name)
            end
        end
        return text:format((table.unpack or unpack)(values))
    end
end

local function blocked(reader, tree)
    local what = reader:uint(tree, f.blocked_by, 1, "what")
    local name = fields.LIMITS[what]
    if not name then malformed("%d is no limit (rule 5.8a)", what) end
    if what == 1 then name = ("%s %.0f"):format(name, (reader:varint(tree, f.stream, "stream"))) end
    return ("by %s %.0f"):format(name, (reader:varint(tree, f.blocked_limit, "limit")))
end

local function new_cid(reader, tree, _, packet)
    local number = path(reader, tree)
    local sequence = reader:varint(tree, f.sequence, "sequence")
    local retire = reader:varint(tree, f.retire, "retire prior to")
    -- The token ends the block.
    local length = reader:left() - TOKEN
    if length < 8 or length > 20 then malformed("an ID of %d bytes (rule 5.90)", length) end
    local id = reader:field(tree, f.new_id, length, "ID")
    local token = reader:field(tree, f.token, TOKEN, "reset token")
    if retire > sequence then malformed("retire prior to %.0f is above sequence %.0f (rule 5.90)", retire, sequence) end
    if packet.is_new then connections.learn_id(packet, number, id:raw(), token:raw()) end
    return ("path=%.0f sequence=%.0f %s"):format(number, sequence, id:bytes():tohex(true))
end

local function add_address(reader, tree)
    local id = reader:varint(tree, f.address_id, "address ID")
    reader:varint(tree, f.sequence, "sequence")
    reader:field(tree, f.priority, 1, "priority")
    reader:field(tree, f.cost, 1, "cost")
    return ("%.0f: %s"):format(id, address(reader, tree))
end

local function path_status(reader, tree, flags)
    local number = path(reader, tree)
    reader:varint(tree, f.sequence, "sequence")
    local state = reader:uint(tree, f.state, 1, "state")
    reader:field(tree, f.cost, 1, "cost")
    if not fields.STATES[state] then malformed("%d is no state (rule 5.94)", state) end
    if has(flags, 1) then reader:varint(tree, f.rate, "rate") end
    return ("path=%.0f %s"):format(number, fields.STATES[state])
end

local function receive_limit(reader, tree, flags)
    local number = path(reader, tree)
    reader:varint(tree, f.sequence, "sequence")
    local window = reader:varint(tree, f.window, "window")
    if has(flags, 1) then reader:varint(tree, f.rate, "rate") end
    return ("path=%.0f window=%.0f"):format(number, window)
end

local function error_code(reader, tree, when)
    local code, item = reader:varint(tree, f.code, "code")
    item:append_text((" (%s)"):format(error_name(code)))
    -- Code 0 of the application (0x1000) is no error either.
    if code ~= 0 and code ~= 0x1000 then
        item:add_proto_expert_info(e.close, ("%s ends with %s"):format(when, error_name(code)))
    end
    return error_name(code)
end

local function path_close(reader, tree)
    return ("path=%.0f %s"):format(path(reader, tree), error_code(reader, tree, "The path"))
end

local function liveness(reader, tree, flags)
    local number = path(reader, tree)
    if flags == 2 then malformed("flag 0x02 without 0x01 (rule 5.96)") end
    if not has(flags, 1) then return ("query path=%.0f"):format(number) end
    if has(flags, 2) then return ("answer path=%.0f nothing received"):format(number) end
    local largest = reader:varint(tree, f.largest, "largest")
    return ("answer path=%.0f largest=%.0f age=%.0f"):format(number, largest, (reader:varint(tree, f.age, "age")))
end

local function close(reader, tree)
    local step = reader:uint(tree, f.step, 1, "step")
    if not fields.STEPS[step] then malformed("%d is no step (rule 5.9b)", step) end
    local text = ("%s %s"):format(fields.STEPS[step], error_code(reader, tree, "The connection"))
    if reader:left() > 512 then malformed("the text has more than 512 bytes (rule 5.9b)") end
    reader:rest(tree, f.text)
    return text
end

local function padding(reader, tree)
    return ("%d bytes"):format(4 + reader:rest(tree, f.body))
end

-- Each block: how it is read, where it may stand (I Initial, H Handshake, 1 1-RTT), who sends it if only one endpoint
-- may, and its flags.
local BLOCKS = {
    [0x02] = { nothing_or_info, "I", "client" },
    [0x03] = { nothing_or_info, "I", "server" },
    [0x04] = { nothing_or_info, "IH", "client" },
    [0x05] = { empty, "1", "server" },
    [0x0b] = { probe, "1" },
    [0x0c] = { probe_ack, "1" },
    [0x80] = { path_ack, "IH1", nil, { f.ecn } },
    [0x81] = { crypto, "IH" },
    [0x82] = { stream, "1", nil, { f.stream_end } },
    [0x83] = { message, "1", nil, { f.message_end, f.message_begin, f.unordered } },
    [0x84] = { skip, "1", nil, { nil, nil, f.unordered } },
    [0x85] = { integers("%.0f", "credit"), "1" },
    [0x86] = { integers("%.0f %.0f", "stream", "credit"), "1" },
    [0x87] = { integers("%.0f", "streams"), "1" },
    [0x88] = { integers("%.0f code=%.0f final size=%.0f", "stream", "stream_code", "final_size"), "1" },
    [0x89] = { integers("%.0f code=%.0f", "stream", "stream_code"), "1" },
    [0x8a] = { blocked, "1" },
    [0x90] = { new_cid, "1" },
    [0x91] = { integers("path=%.0f sequence=%.0f", "path", "sequence"), "1" },
    [0x92] = { add_address, "1", "server" },
    [0x93] = { integers("%.0f sequence=%.0f", "address_id", "sequence"), "1", "server" },
    [0x94] = { path_status, "1", nil, { f.has_rate } },
    [0x95] = { path_close, "1" },
    [0x96] = { liveness, "1", nil, { f.is_answer, f.is_nothing } },
    [0x97] = { receive_limit, "1", nil, { f.has_rate } },
    [0x98] = { empty, "IH1" },
    [0x9b] = { close, "IH1" },
    [0x9d] = { padding, "IH1" },
    [0x9e] = { integers("%.0f", "path_limit"), "1" },
    [0x9f] = { integers("sequence=%.0f %.0f", "sequence", "connections"), "1", "server" },
}

local function check_flags(block, range, item)
    local value = range:uint()
    for place = 0, 7 do
        local field = block[4] and block[4][place + 1]
        if field then
            item:add(field, range)
        elseif has(value, 2 ^ place) then
            malformed("flag 0x%02x is not defined (rule 2.3)", 2 ^ place)
        end
    end
    return value
end

local function check_place(block, name, packet, item)
    if not block[2]:find(packet.level:sub(1, 1), 1, true) then
        item:add_proto_expert_info(e.violation,
            ("%s may not stand in a packet of level %s (rule 5.2)"):format(name, packet.level))
    end
    if block[3] and packet.sender and block[3] ~= packet.sender then
        item:add_proto_expert_info(e.violation, ("%s comes from the %s only (rule 5.1)"):format(name, block[3]))
    end
end

-- Shows a block and returns its text for the list of packets.
local function show_block(kind, reader, range, zeros, tree, packet)
    local block, name = BLOCKS[kind], fields.BLOCKS[kind] or ("0x%02x"):format(kind)
    local item = tree:add(f.block, zeros and reader.tvb:range(range:offset(), range:len() + zeros:len()) or range)
    item:set_text("Block: " .. name)
    item:add(f.block_type, range(0, 1))
    local flags = reader:take(1, "flags")
    local flags_item = item:add(f.flags, flags)
    item:add(f.block_length, reader:take(2, "length"))
    local text
    local fault = Reader.protect(function()
        if not block then malformed("type 0x%02x is not known (rule 2.6)", kind) end
        local value = check_flags(block, flags, flags_item)
        text = block[1](reader, item, value, packet)
        reader:finish("the last field")
    end)
    if fault then
        reader:rest(item, f.body)
        item:add_proto_expert_info(e.malformed, ("%s is refused: %s"):format(name, fault))
        text = "malformed"
    end
    if block then check_place(block, name, packet, item) end
    if zeros then item:add(f.padding, zeros) end
    text = text and name .. " " .. text or name
    item:set_text("Block: " .. text)
    return text
end

-- Shows the blocks inside a packet and returns their texts. `packet` has its level, sender and connection, and whether
-- it is seen for the first time.
return function(tvb, tree, packet)
    local texts = {}
    local reader = Reader.new(tvb, 0, tvb:len())
    local fault, rest = reader:blocks(function(kind, block, range, zeros)
        texts[#texts + 1] = show_block(kind, block, range, zeros, tree, packet)
    end)
    if fault then
        tree:add(f.trailing, rest):add_proto_expert_info(e.malformed, ("Refused: %s (rule 2.2)"):format(fault))
        texts[#texts + 1] = "malformed"
    elseif reader:left() > 0 then
        tree:add(f.trailing, tvb(reader.at))
    end
    return texts
end
