-- The messages of TLS 1.3 (RFC 8446, section 4) as far as MMSP/2 has something to find in them: their names, and the
-- extension with the parameters of the connection (rule 4.17).

if ... == nil then return end -- Wireshark loads every file of its plugin folder; manyway.lua alone needs this one.

local Reader = require("manyway.reader")

local CLIENT_HELLO, ENCRYPTED_EXTENSIONS = 1, 8
local PARAMETERS = 0x39

-- Skips a list with its length in `size` bytes in front.
local function skip(reader, size)
    reader:take(reader:take(size, "length"):uint(), "list")
end

local tls = {}

-- Calls `on_message(type, body)` for each message of which the reader has all bytes; `body` is a reader too.
function tls.messages(reader, on_message)
    while reader:left() >= 4 do
        local kind = reader:take(1, "type"):uint()
        local length = reader:take(3, "length"):uint()
        local is_whole = length <= reader:left()
        on_message(kind, is_whole and Reader.new(reader.tvb, reader.at, reader.at + length) or nil)
        if not is_whole then return end
        reader:take(length, "message")
    end
end

-- Returns a reader of the parameters that a message holds, or nil.
function tls.parameters(kind, body)
    local found
    local fault = Reader.protect(function()
        if kind == CLIENT_HELLO then
            body:take(2 + 32, "version and random")
            skip(body, 1) -- session ID
            skip(body, 2) -- cipher suites
            skip(body, 1) -- compression methods
        elseif kind ~= ENCRYPTED_EXTENSIONS then
            return
        end
        body:take(2, "length of the extensions")
        while body:left() > 0 do
            local extension = body:take(2, "type"):uint()
            local length = body:take(2, "length"):uint()
            if extension == PARAMETERS then found = Reader.new(body.tvb, body.at, body.at + length) end
            body:take(length, "extension")
        end
    end)
    return not fault and found or nil
end

return tls
