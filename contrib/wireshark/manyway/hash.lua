-- SHA-256 (FIPS 180-4), HMAC (RFC 2104) and the part of HKDF that TLS 1.3 uses (RFC 5869; RFC 8446, section 7.1), on
-- strings of bytes. Wireshark 4.0 has no cipher and no hash for Lua, so they are written out here.

if ... == nil then return end -- Wireshark loads every file of its plugin folder; manyway.lua alone needs this one.

local unpack = table.unpack or unpack
local bxor, band, bnot, rshift, ror, tobit = bit.bxor, bit.band, bit.bnot, bit.rshift, bit.ror, bit.tobit

-- The first 32 bits of the fractional part of `root`; those of the constants are exact in a double.
local function fraction(root)
    return math.floor(root % 1 * 2 ^ 32)
end

-- The constants of SHA-256: fractions of the roots of the first 64 primes.
local H, K = {}, {}
do
    local candidate = 2
    while #K < 64 do
        local is_prime = true
        for divisor = 2, candidate - 1 do
            if candidate % divisor == 0 then is_prime = false break end
        end
        if is_prime then
            if #H < 8 then H[#H + 1] = fraction(candidate ^ (1 / 2)) end
            K[#K + 1] = fraction(candidate ^ (1 / 3))
        end
        candidate = candidate + 1
    end
end

local function word(bytes, at)
    local a, b, c, d = bytes:byte(at, at + 3)
    return a * 2 ^ 24 + b * 2 ^ 16 + c * 2 ^ 8 + d
end

local function bytes_of(number)
    return string.char(band(rshift(number, 24), 255), band(rshift(number, 16), 255), band(rshift(number, 8), 255),
        band(number, 255))
end

-- Mixes the 64 bytes of `text` from `at` on into the state.
local function compress(state, text, at)
    local w = {}
    for i = 1, 16 do w[i] = word(text, at + 4 * (i - 1)) end
    for i = 17, 64 do
        local x, y = w[i - 15], w[i - 2]
        local s0 = bxor(ror(x, 7), ror(x, 18), rshift(x, 3))
        local s1 = bxor(ror(y, 17), ror(y, 19), rshift(y, 10))
        w[i] = tobit(w[i - 16] + s0 + w[i - 7] + s1)
    end
    local a, b, c, d, e, f, g, h = unpack(state)
    for i = 1, 64 do
        local s1 = bxor(ror(e, 6), ror(e, 11), ror(e, 25))
        local choice = bxor(band(e, f), band(bnot(e), g))
        local t1 = h + s1 + choice + K[i] + w[i]
        local s0 = bxor(ror(a, 2), ror(a, 13), ror(a, 22))
        local majority = bxor(band(a, b), band(a, c), band(b, c))
        h, g, f, e = g, f, e, tobit(d + t1)
        d, c, b, a = c, b, a, tobit(t1 + s0 + majority)
    end
    for i, value in ipairs({ a, b, c, d, e, f, g, h }) do state[i] = tobit(state[i] + value) end
end

local hash = {}

function hash.sha256(text)
    local state = { unpack(H) }
    local padded = text .. "\128" .. ("\0"):rep((55 - #text) % 64) .. "\0\0\0\0" .. bytes_of(#text * 8)
    for at = 1, #padded, 64 do compress(state, padded, at) end
    local digest = {}
    for i = 1, 8 do digest[i] = bytes_of(state[i]) end
    return table.concat(digest)
end

function hash.hmac(key, text)
    local inner, outer = {}, {}
    for i = 1, 64 do
        local byte = key:byte(i) or 0
        inner[i], outer[i] = string.char(bxor(byte, 0x36)), string.char(bxor(byte, 0x5c))
    end
    return hash.sha256(table.concat(outer) .. hash.sha256(table.concat(inner) .. text))
end

-- HKDF-Expand-Label with an empty context, for at most 32 bytes.
function hash.expand_label(secret, label, length)
    local name = "tls13 " .. label
    local text = string.char(0, length, #name) .. name .. "\0\1"
    return hash.hmac(secret, text):sub(1, length)
end

return hash
