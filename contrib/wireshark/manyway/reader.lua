-- Reads the fields of a block in order, and adds each to the tree. What both protocols have in common is here: the
-- frames of blocks and parameters (chapter 2 of the specification), and integers of variable length (rule 1.4).

if ... == nil then return end -- Wireshark loads every file of its plugin folder; manyway.lua alone needs this one.

local Reader = {}
Reader.__index = Reader

-- Why the end of a packet is missing that was longer than the capture keeps.
Reader.IN_PART = "the capture has only a part of the packet"

-- Whether that is so.
function Reader.is_in_part(tvb)
    return tvb:len() < tvb:reported_len()
end

-- An error that is about the packet and not about this program; `Reader.protect` catches it.
local Malformed = {}

function Reader.malformed(text, ...)
    error(setmetatable({ text = text:format(...) }, Malformed), 0)
end

-- Calls `read`. Returns nothing if all went well, else what is wrong with the packet.
function Reader.protect(read, ...)
    local done, fault = pcall(read, ...)
    if done then return nil end
    if getmetatable(fault) ~= Malformed then error(fault, 0) end
    return fault.text
end

-- Reads the bytes of `tvb` from offset `at` up to `limit`, the first one that does not belong to them.
function Reader.new(tvb, at, limit)
    return setmetatable({ tvb = tvb, at = at, limit = limit }, Reader)
end

function Reader:left()
    return self.limit - self.at
end

-- Takes `length` bytes; `what` names them if they are not there.
function Reader:take(length, what)
    if length > self:left() then
        Reader.malformed("%s needs %d bytes and %d are left", what, length, self:left())
    end
    local range = self.tvb:range(self.at, length)
    self.at = self.at + length
    return range
end

-- Takes a field of `length` bytes and adds it. Returns its bytes and its item.
function Reader:field(tree, field, length, what)
    local range = self:take(length, what)
    return range, tree:add(field, range)
end

-- Takes an integer of up to 4 bytes and adds it. Returns its value and its item.
function Reader:uint(tree, field, length, what)
    local range, item = self:field(tree, field, length, what)
    return range:uint(), item
end

-- Takes an integer of variable length and adds it as a field of 64 bits. Returns its value, exact up to 2^53, and its
-- item.
function Reader:varint(tree, field, what)
    if self:left() < 1 then Reader.malformed("%s is missing", what) end
    local length = 2 ^ math.floor(self.tvb:range(self.at, 1):uint() / 64)
    local range = self:take(length, what)
    local value = range:bitfield(2, 8 * length - 2)
    local wide = type(value) == "number" and UInt64(value) or value
    return wide:tonumber(), tree:add(field, range, wide)
end

-- Takes everything that is left, adds it if there is something, and returns its length.
function Reader:rest(tree, field)
    local length = self:left()
    if length > 0 then self:field(tree, field, length, "rest") end
    return length
end

-- The block has no further field.
function Reader:finish(what)
    if self:left() > 0 then Reader.malformed("%d bytes too many behind %s", self:left(), what) end
end

local function padding(length)
    return -length % 4
end

-- Takes a parameter without adding it (rules 2.10, 3.15). Returns its type, a reader of its value and its bytes
-- without padding.
function Reader:parameter()
    local begin = self.at
    local kind = self:take(2, "the type of a parameter"):uint()
    local length = self:take(2, "the length of a parameter"):uint()
    if length < 4 then Reader.malformed("a parameter has length %d, less than its header", length) end
    local value = Reader.new(self.tvb, self.at, begin + length)
    self:take(length - 4, "the value of a parameter")
    self.at = math.min(self.at + padding(length), self.limit)
    return kind, value, self.tvb:range(begin, length)
end

-- Reads one block after the other, to the end (rules 2.1 to 2.5). Calls `on_block(kind, reader, range, padding)` for
-- each: `range` is the block without its padding, `reader` begins at its flags, and `padding` are the bytes behind it
-- or nil. It ends earlier if `on_block` returns true. Returns nothing, or what is wrong and the bytes from there on.
function Reader:blocks(on_block)
    while self:left() >= 4 do
        local kind = self.tvb:range(self.at, 1):uint()
        local length = self.tvb:range(self.at + 2, 2):uint()
        local rest = self.tvb:range(self.at, self:left())
        if length < 4 then return ("a block has length %d, less than its header"):format(length), rest end
        if length > self:left() then
            return ("a block has length %d and %d bytes are left"):format(length, self:left()), rest
        end
        local range = self.tvb:range(self.at, length)
        local block = Reader.new(self.tvb, self.at + 1, self.at + length)
        local behind = math.min(padding(length), self:left() - length)
        local zeros = behind > 0 and self.tvb:range(self.at + length, behind) or nil
        self.at = self.at + length + behind
        if on_block(kind, block, range, zeros) then return end
    end
end

return Reader
