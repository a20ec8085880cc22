-- The packets of MMSP/2, chapter 4 of the specification: headers, and what is inside of those that can be opened.

if ... == nil then return end -- Wireshark loads every file of its plugin folder; manyway.lua alone needs this one.

local Reader = require("manyway.reader")
local fields = require("manyway.mmsp2_fields")
local connections = require("manyway.connections")
local show_blocks = require("manyway.mmsp2_blocks")
local proto, f, e = fields.proto, fields.fields, fields.experts
local malformed = Reader.malformed

local VERSION = 0x4d4d5301
-- IDs that endpoints issue have 8 to 20 bytes (rule 4.2).
local SHORTEST_ID, LONGEST_ID = 8, 20
local TAG = 16
-- From the packet number on, a packet has at least this many bytes (rule 4.7).
local LEAST_SEALED = 20

-- Packets that were opened or tried, by frame and place: frames are looked at again in any order, but connections can
-- be followed in one order only.
local tried

function proto.init()
    tried = {}
    connections.reset()
end

local function id_text(bytes)
    return bytes == "" and "none" or (bytes:gsub(".", function(byte) return ("%02x"):format(byte:byte()) end))
end

local function read_id(reader, tree, length_field, field, longest)
    local length = reader:uint(tree, length_field, 1, "length of an ID")
    if length > longest then malformed("an ID of %d bytes (rule 4.2)", length) end
    if length == 0 then return "" end
    return reader:field(tree, field, length, "ID"):raw()
end

local function version_list(reader, tree)
    local count = 0
    while reader:left() >= 4 do
        reader:field(tree, f.listed_version, 4, "version")
        count = count + 1
    end
    return ("Version list, %d versions"):format(count)
end

-- Reads a long header. Returns the packet, or nothing and a text if there is nothing sealed.
local function long_header(reader, tree, first)
    tree:add(f.kind, first)
    local version, item = reader:uint(tree, f.version, 4, "version")
    local longest = version == VERSION and LONGEST_ID or 255
    local destination = read_id(reader, tree, f.destination_length, f.destination, longest)
    local source = read_id(reader, tree, f.source_length, f.source, longest)
    if version == 0 then return nil, version_list(reader, tree) end
    local kind = math.floor(first:uint() / 16) % 4
    if version ~= VERSION then
        item:add_proto_expert_info(e.dropped, "Another version: nothing more is read (rule 4.3)")
        reader:rest(tree, f.rest)
        return nil, ("Packet of version 0x%08x"):format(version)
    end
    local length = reader:varint(tree, f.length, "length")
    local packet = { level = fields.TYPES[kind], destination = destination, source = source, length = length }
    if length > reader:left() then
        if not Reader.is_in_part(reader.tvb) then
            malformed("length %.0f, and %d bytes are left", length, reader:left())
        end
        packet.length, packet.why = reader:left(), Reader.IN_PART
    elseif kind > 1 then
        packet.why = "its type is reserved"
        tree:add_proto_expert_info(e.dropped, "Reserved type: a receiver drops the packet (rule 4.4)")
    else
        packet.open = connections.open_long
    end
    return packet
end

-- Where the packet that begins at the reader ends. Packets of one send call, which the network card should have
-- separated, stand in the capture as one: the next one begins with the same ID.
local function end_of_short(reader, id)
    local bytes = reader.tvb:range(reader.at, reader:left()):raw()
    local at = LEAST_SEALED + 1
    while true do
        local found = bytes:find(id, at + 1, true)
        if not found then return reader:left() end
        local first = bytes:byte(found - 1)
        if first >= 0x40 and first < 0x60 then return found - 2 end
        at = found
    end
end

-- The length of the ID in a short header, which only its receiver knows: that of an ID seen before, or of most.
local function id_length(tvb, at)
    for length = SHORTEST_ID, math.min(LONGEST_ID, tvb:len() - at - 1) do
        if connections.is_known(tvb(at + 1, length):raw()) then return length end
    end
    return SHORTEST_ID
end

local function short_header(reader, tree, first)
    tree:add(f.unused, first)
    local length = id_length(reader.tvb, reader.at - 1)
    local id = reader:field(tree, f.destination, length, "destination ID"):raw()
    local packet = { level = "1-RTT", destination = id, length = end_of_short(reader, id) }
    if packet.length == reader:left() and Reader.is_in_part(reader.tvb) then
        packet.why = Reader.IN_PART
    else
        packet.open = connections.open_short
    end
    return packet
end

-- What header protection hid in the first byte, and the packet number.
local function show_unmasked(tvb, tree, packet, first)
    local value = packet.header:byte(1)
    local is_long = value >= 0x80
    local reserved = tree:add(is_long and f.long_reserved or f.short_reserved, first, value)
    if value % (is_long and 16 or 32) >= (is_long and 4 or 8) then
        reserved:add_proto_expert_info(e.violation, "The reserved bits are not 0: refused with PROTOCOL (rule 4.4)")
    end
    if not is_long then tree:add(f.phase_bit, first, value) end
    tree:add(f.number_length, first, value)
    local length = #packet.header - packet.number_offset
    local at = packet.at + packet.number_offset
    tree:add(f.number, tvb(at, length), UInt64(packet.number))
    tree:add(f.sealed_blocks, tvb(at + length, packet.length - length - TAG))
    tree:add(f.tag, tvb(at + packet.length - TAG, TAG))
end

local function show_state(tree, packet)
    tree:add(f.level, packet.level):set_generated()
    if packet.connection then
        tree:add(f.connection, packet.connection.number):set_generated()
        tree:add(f.sender, packet.sender):set_generated()
    end
    if packet.connection and packet.level == "1-RTT" then
        tree:add(f.packet_path, UInt64(packet.path)):set_generated()
    end
    if packet.phase then tree:add(f.phase, packet.phase):set_generated() end
end

-- Opens the packet if that was not tried yet.
local function try(tvb, pinfo, packet)
    local key = ("%d/%d"):format(pinfo.number, packet.at)
    if tried[key] then return tried[key], false end
    packet.bytes = tvb(packet.at, packet.number_offset + packet.length):raw()
    if packet.open then packet.open(packet) end
    packet.bytes, packet.open = nil, nil
    tried[key] = packet
    return packet, true
end

-- Shows what is inside of a packet, or why it is not shown. Returns its text, and its sender if that is known.
local function show_sealed(tvb, pinfo, tree, packet, first)
    if packet.length < LEAST_SEALED and packet.why ~= Reader.IN_PART then
        tree:add_proto_expert_info(e.dropped, "Fewer than 20 bytes from the packet number on: dropped (rule 4.7)")
        tree:add(f.sealed, tvb(packet.at + packet.number_offset, packet.length))
        return packet.level
    end
    local is_new
    packet, is_new = try(tvb, pinfo, packet)
    show_state(tree, packet)
    local title = packet.level
    if packet.level == "1-RTT" and packet.connection then title = ("%s path %.0f"):format(title, packet.path) end
    if not packet.text then
        tree:add(f.sealed, tvb(packet.at + packet.number_offset, packet.length))
        if packet.is_reset then
            tree:add_proto_expert_info(e.reset)
            return "Stateless reset"
        end
        tree:add_proto_expert_info(e.sealed, "Not opened: " .. packet.why)
        return title .. " sealed", packet.sender
    end
    show_unmasked(tvb, tree, packet, first)
    packet.is_new = is_new
    local inside = ByteArray.new(packet.text, true):tvb(("Opened %s packet %.0f"):format(title, packet.number))
    local blocks = show_blocks(inside, tree, packet)
    return ("%s #%.0f: %s"):format(title, packet.number, table.concat(blocks, "; ")), packet.sender
end

-- Shows the packet that begins at the reader, and moves the reader behind it. Returns its text for the list of
-- packets, and its sender if that is known.
local function show_packet(reader, pinfo, root)
    local tvb, at = reader.tvb, reader.at
    local tree = root:add(proto, tvb(at))
    local first = tvb(at, 1)
    tree:add(f.first, first)
    tree:add(f.is_long, first)
    local fixed = tree:add(f.fixed, first)
    local text, packet, sender
    local fault = Reader.protect(function()
        reader:take(1, "first byte")
        local value = first:uint()
        if value >= 0x80 then
            packet, text = long_header(reader, tree, first)
        else
            packet = short_header(reader, tree, first)
        end
        if packet and (value % 128 < 64 or value < 128 and value >= 0x60) then
            fixed:add_proto_expert_info(e.dropped, "Bit 0x40 is clear or bit 0x20 is set: dropped (rules 4.4 and 4.5)")
        end
    end)
    if fault then
        -- A header that cannot be read ends the datagram (rule 4.9).
        tree:add_proto_expert_info(e.header, "The header cannot be read: " .. fault)
        reader:rest(tree, f.rest)
        return "malformed"
    end
    if packet then
        packet.at, packet.number_offset = at, reader.at - at
        reader:take(packet.length, "the packet")
        text, sender = show_sealed(tvb, pinfo, tree, packet, first)
        tree:append_text((", to %s"):format(id_text(packet.destination)))
    end
    tree:append_text(", " .. text)
    tree:set_len(reader.at - at)
    return text, sender
end

-- Shows all packets of a datagram (rule 4.9). Returns how many bytes are MMSP/2, and who sent the first packet if
-- that is known.
local function dissect(tvb, pinfo, root)
    pinfo.cols.protocol:set("MMSP/2")
    local texts, first_sender = {}, nil
    local reader = Reader.new(tvb, 0, tvb:len())
    while reader:left() > 0 do
        local text, sender = show_packet(reader, pinfo, root)
        first_sender = first_sender or sender
        texts[#texts + 1] = text
    end
    pinfo.cols.info:set(table.concat(texts, " | "))
    return tvb:len(), first_sender
end

-- Whether a datagram begins with a packet of the handshake of this version, whose length fits (rule 4.4).
local function is_handshake(tvb)
    local length = tvb:len()
    if length < 7 + LEAST_SEALED or tvb(0, 1):uint() < 0xc0 or tvb(1, 4):uint() ~= VERSION then return false end
    local destination = tvb(5, 1):uint()
    if destination > LONGEST_ID or 7 + destination > length then return false end
    local source = tvb(6 + destination, 1):uint()
    return source <= LONGEST_ID and 8 + destination + source + LEAST_SEALED <= length
end

-- Whether a datagram may begin with a short header, and its ID if so (rule 4.5).
local function id_of_short(tvb)
    if tvb:len() < 1 + SHORTEST_ID + LEAST_SEALED then return nil end
    local first = tvb(0, 1):uint()
    if first < 0x40 or first >= 0x60 then return nil end
    return tvb(1, id_length(tvb, 0)):raw()
end

return {
    proto = proto, dissect = dissect, is_handshake = is_handshake, id_of_short = id_of_short,
    is_known = connections.is_known,
}
