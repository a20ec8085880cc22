-- Follows the connections of MMSP/2 through a capture, and opens their packets: Initial ones by their IDs alone, the
-- others with the secrets of a key log (RFC 9001, section 5; rules 4.6 to 4.8 and 4.37).

if ... == nil then return end -- Wireshark loads every file of its plugin folder; manyway.lua alone needs this one.

local hash = require("manyway.hash")
local ciphers = require("manyway.aead")

local INITIAL_SALT = "\x38\x76\x2c\xf7\xf5\x59\x34\xb3\x4d\x17\x9a\xe6\xa4\xc8\x0c\xad\xcc\xbb\x7f\x0a"
local AES_128_GCM = 0x1301
local LABELS = {
    Handshake = { client = "CLIENT_HANDSHAKE_TRAFFIC_SECRET", server = "SERVER_HANDSHAKE_TRAFFIC_SECRET" },
    ["1-RTT"] = { client = "CLIENT_TRAFFIC_SECRET_0", server = "SERVER_TRAFFIC_SECRET_0" },
}
local OTHER = { client = "server", server = "client" }
-- How many changes of keys may lie between two packets that the capture holds.
local LOOK_AHEAD = 3

local bxor, band = bit.bxor, bit.band
local connections, ids, tokens
local secrets, read_until = {}, 0

local function reset()
    connections = 0
    ids = {} -- ID -> { connection, issuer, path }
    tokens = {} -- reset token -> true
end
reset()

local function bytes_of(hex)
    return (hex:gsub("%x%x", function(pair) return string.char(tonumber(pair, 16)) end))
end

-- Reads what the key log has more than last time.
local function read_key_log()
    local known, name = pcall(get_preference, "tls.keylog_file")
    if not known or not name or name == "" then name = os.getenv("SSLKEYLOGFILE") end
    local file = name and name ~= "" and io.open(name, "rb")
    if not file then return end
    if file:seek("end") < read_until then secrets, read_until = {}, 0 end
    file:seek("set", read_until)
    local text = file:read("*a"):match("^(.*\n)") or ""
    file:close()
    read_until = read_until + #text
    for label, random, secret in text:gmatch("(%u[%u%d_]+) (%x+) (%x+)") do
        secrets[label .. " " .. random:lower()] = bytes_of(secret)
    end
end

local function secret_of(label, random)
    local key = label .. " " .. random:gsub(".", function(byte) return ("%02x"):format(byte:byte()) end)
    if not secrets[key] then read_key_log() end
    return secrets[key]
end

local function phase_of(cipher, secret)
    return {
        open = cipher.opener(hash.expand_label(secret, "quic key", cipher.key_length)),
        iv = hash.expand_label(secret, "quic iv", 12),
    }
end

-- The keys of one direction of one level, through all changes of keys.
local function keys_of(suite, secret)
    local cipher = ciphers[suite]
    return {
        cipher = cipher,
        mask = cipher.mask(hash.expand_label(secret, "quic hp", cipher.key_length)),
        secret = secret, -- of the last phase there is
        phases = { [0] = phase_of(cipher, secret) },
        last = 0,
        current = 0,
    }
end

local function phase(keys, number)
    while keys.last < number do
        keys.secret = hash.expand_label(keys.secret, "quic ku", 32)
        keys.last = keys.last + 1
        keys.phases[keys.last] = phase_of(keys.cipher, keys.secret)
    end
    return keys.phases[number]
end

local function new_connection(original_destination)
    local initial = hash.hmac(INITIAL_SALT, original_destination)
    local function keys(label)
        return keys_of(AES_128_GCM, hash.expand_label(initial, label, 32))
    end
    return {
        keys = { Initial = { client = keys("client in"), server = keys("server in") }, Handshake = {}, ["1-RTT"] = {} },
        hello = { client = {}, server = {} }, -- the first bytes of each TLS conversation, by their offset
        next = {}, -- packet number that is expected next, for each sender, level and path
    }
end

local function issue(connection, id, issuer, path)
    if not ids[id] then ids[id] = { connection = connection, issuer = issuer, path = path } end
end

local function hello_bytes(hello, from, to)
    local bytes = {}
    for offset = from, to do
        if not hello[offset] then return nil end
        bytes[#bytes + 1] = string.char(hello[offset])
    end
    return table.concat(bytes)
end

-- The keys for a packet, or nil and why there are none.
local function find_keys(connection, level, sender)
    local found = connection.keys[level][sender]
    if found then return found end
    local random = hello_bytes(connection.hello.client, 6, 37)
    local session = connection.hello.server[38]
    local suite = session and hello_bytes(connection.hello.server, 39 + session, 40 + session)
    if not random or not suite then return nil, "the hellos of the connection are not in the capture" end
    suite = suite:byte(1) * 256 + suite:byte(2)
    if not ciphers[suite] then return nil, ("no support for cipher suite 0x%04x here"):format(suite) end
    local label = LABELS[level][sender]
    local secret = secret_of(label, random)
    if not secret then return nil, ("no %s in the key log"):format(label) end
    found = keys_of(suite, secret)
    connection.keys[level][sender] = found
    return found
end

-- The packet number nearest to the one that is expected (RFC 9000, appendix A.3).
local function expand_number(expected, truncated, length)
    local window = 256 ^ length
    local number = expected - expected % window + truncated
    if number <= expected - window / 2 then return number + window end
    if number > expected + window / 2 and number >= window then return number - window end
    return number
end

-- Path ID in 32 bits and packet number in 64, combined with the IV (rule 4.37).
local function nonce_of(iv, path, number)
    local parts, value = {}, number
    for at = 12, 1, -1 do
        if at == 4 then value = path end
        parts[at] = string.char(bxor(iv:byte(at), value % 256))
        value = math.floor(value / 256)
    end
    return table.concat(parts)
end

-- Removes header protection (RFC 9001, section 5.4). Returns the header up to the sealed blocks, its first byte, and
-- the packet number as it was sent with its length.
local function unmask(keys, packet, number_offset)
    local sample = packet:sub(number_offset + 5, number_offset + 20)
    if #sample < 16 then return nil end
    local mask = keys.mask(sample)
    local first = packet:byte(1)
    first = bxor(first, band(mask:byte(1), first >= 0x80 and 0x0f or 0x1f))
    local length, truncated = first % 4 + 1, 0
    local header = { string.char(first), packet:sub(2, number_offset) }
    for i = 1, length do
        local byte = bxor(packet:byte(number_offset + i), mask:byte(1 + i))
        truncated = truncated * 256 + byte
        header[#header + 1] = string.char(byte)
    end
    return table.concat(header), first, truncated, length
end

-- Tries the phases of keys that a packet may have by its key phase bit, the likeliest first.
local function open_in_phase(keys, first, nonce, header, sealed)
    local now, wanted = keys.current, math.floor(first / 4) % 2
    local candidates = { now, now + 1, now - 1 }
    for ahead = 2, LOOK_AHEAD do candidates[#candidates + 1] = now + ahead end
    for _, number in ipairs(candidates) do
        if number >= 0 and number % 2 == wanted then
            local candidate = phase(keys, number)
            local text = candidate.open(nonce(candidate.iv), header, sealed)
            if text then
                keys.current = math.max(now, number)
                return text, number
            end
        end
    end
end

-- Opens a packet: `packet` has its `bytes`, `number_offset`, `level`, `sender` and `path`. Adds `text`, `number`,
-- `header` and `phase`, or `why` it cannot be opened.
local function open(connection, packet)
    local keys, why = find_keys(connection, packet.level, packet.sender)
    if not keys then packet.why = why return end
    packet.why = "the keys do not fit"
    local header, first, truncated, length = unmask(keys, packet.bytes, packet.number_offset)
    if not header then return end
    local space = ("%s %s %d"):format(packet.sender, packet.level, packet.path)
    local expected = connection.next[space] or 0
    local number = expand_number(expected, truncated, length)
    local sealed = packet.bytes:sub(#header + 1)
    if #sealed < 16 then return end
    local function nonce(iv) return nonce_of(iv, packet.path, number) end
    local text, phase_number
    if packet.level == "1-RTT" then
        text, phase_number = open_in_phase(keys, first, nonce, header, sealed)
    else
        text = keys.phases[0].open(nonce(keys.phases[0].iv), header, sealed)
    end
    if not text then return end
    connection.next[space] = math.max(expected, number + 1)
    packet.text, packet.number, packet.header, packet.phase, packet.why = text, number, header, phase_number, nil
end

local function is_reset(bytes)
    return tokens[bytes:sub(-16)]
end

local M = { reset = reset }

-- Whether an endpoint of the capture has issued this ID.
function M.is_known(id)
    return ids[id] ~= nil
end

-- Finds the connection of a packet with a long header and opens the packet.
function M.open_long(packet)
    local known = ids[packet.destination]
    packet.path = 0
    if known then
        packet.sender, packet.connection = OTHER[known.issuer], known.connection
        open(known.connection, packet)
    elseif packet.level == "Initial" then
        -- It may be the first of a connection: then its keys follow from its destination ID.
        packet.sender = "client"
        local fresh = new_connection(packet.destination)
        open(fresh, packet)
        if not packet.text then packet.why = "its connection did not begin in the capture" return end
        fresh.number, connections = connections, connections + 1
        packet.connection = fresh
        issue(fresh, packet.destination, "server", 0)
    else
        packet.why = "its connection did not begin in the capture"
    end
    if packet.text then issue(packet.connection, packet.source, packet.sender, 0) end
end

-- The same for a packet with a short header.
function M.open_short(packet)
    local known = ids[packet.destination]
    if known then
        packet.sender, packet.connection, packet.path = OTHER[known.issuer], known.connection, known.path
        open(known.connection, packet)
    else
        packet.why = "its ID is not known"
    end
    packet.is_reset = not packet.text and is_reset(packet.bytes)
end

-- Takes TLS bytes of an Initial packet; the hellos tell which secrets and which cipher belong to the connection.
function M.learn_hello(packet, offset, bytes)
    local hello = packet.connection.hello[packet.sender]
    for i = 1, math.min(#bytes, 80 - offset) do hello[offset + i - 1] = hello[offset + i - 1] or bytes:byte(i) end
end

-- Takes an ID that the sender of `packet` has issued for `path`.
function M.learn_id(packet, path, id, token)
    issue(packet.connection, id, packet.sender, path)
    tokens[token] = true
end

return M
