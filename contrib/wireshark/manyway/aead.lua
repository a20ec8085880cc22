-- The ciphers of packets: AES-128-GCM (FIPS 197, NIST SP 800-38D) and ChaCha20-Poly1305 (RFC 8439), to open what was
-- sealed. Words of 32 bits are signed, as the library `bit` has them. Wireshark 4.0 gives Lua no ciphers of its own.

if ... == nil then return end -- Wireshark loads every file of its plugin folder; manyway.lua alone needs this one.

local unpack = table.unpack or unpack
local bxor, band, lshift, rshift, rol, ror, tobit =
    bit.bxor, bit.band, bit.lshift, bit.rshift, bit.rol, bit.ror, bit.tobit

-- A word, its bytes highest first.
local function word(bytes, at)
    local a, b, c, d = bytes:byte(at, at + 3)
    return a * 2 ^ 24 + b * 2 ^ 16 + c * 2 ^ 8 + d
end

-- A word, its bytes lowest first.
local function little_word(bytes, at)
    local a, b, c, d = bytes:byte(at, at + 3)
    return a + b * 2 ^ 8 + c * 2 ^ 16 + d * 2 ^ 24
end

local function words(bytes, read)
    local list = {}
    for at = 1, #bytes, 4 do list[#list + 1] = read(bytes, at) end
    return list
end

local function bytes_of(w)
    return band(rshift(w, 24), 255), band(rshift(w, 16), 255), band(rshift(w, 8), 255), band(w, 255)
end

local function little_bytes_of(w)
    return band(w, 255), band(rshift(w, 8), 255), band(rshift(w, 16), 255), band(rshift(w, 24), 255)
end

local function padded(bytes, size)
    return bytes .. ("\0"):rep(-#bytes % size)
end

-- AES: the table of substitutions, and for each byte its column of a round.
local SUBSTITUTE, ROUND = {}, {}
do
    local function double(byte)
        return byte < 128 and 2 * byte or bxor(2 * byte, 0x11b)
    end
    -- Powers of 3 and of its inverse 0xf6 run through all bytes but 0.
    local power, inverse = 1, 1
    repeat
        power = bxor(power, double(power))
        inverse = bxor(inverse, lshift(inverse, 1))
        inverse = bxor(inverse, lshift(inverse, 2))
        inverse = band(bxor(inverse, lshift(inverse, 4)), 255)
        if inverse >= 128 then inverse = bxor(inverse, 9) end
        local turned = bxor(inverse, lshift(inverse, 1), lshift(inverse, 2), lshift(inverse, 3), lshift(inverse, 4))
        SUBSTITUTE[power] = bxor(band(bxor(turned, rshift(turned, 8)), 255), 0x63)
    until power == 1
    SUBSTITUTE[0] = 0x63
    for byte = 0, 255 do
        local s = SUBSTITUTE[byte]
        ROUND[byte] = tobit(double(s) * 2 ^ 24 + s * 2 ^ 16 + s * 2 ^ 8 + bxor(double(s), s))
    end
end

local function substitute_word(w)
    local a, b, c, d = bytes_of(w)
    return SUBSTITUTE[a] * 2 ^ 24 + SUBSTITUTE[b] * 2 ^ 16 + SUBSTITUTE[c] * 2 ^ 8 + SUBSTITUTE[d]
end

local function expand_key(key)
    local w, constant = words(key, word), 1
    for i = 5, 44 do
        local before = w[i - 1]
        if i % 4 == 1 then
            before = bxor(substitute_word(rol(before, 8)), lshift(constant, 24))
            constant = constant < 128 and 2 * constant or bxor(2 * constant, 0x11b)
        end
        w[i] = bxor(w[i - 4], before)
    end
    return w
end

-- Encrypts the block of four words.
local function aes(keys, a, b, c, d)
    local T, S = ROUND, SUBSTITUTE
    a, b, c, d = bxor(a, keys[1]), bxor(b, keys[2]), bxor(c, keys[3]), bxor(d, keys[4])
    local function column(p, q, r, s, key)
        return bxor(T[rshift(p, 24)], ror(T[band(rshift(q, 16), 255)], 8), ror(T[band(rshift(r, 8), 255)], 16),
            ror(T[band(s, 255)], 24), key)
    end
    for i = 5, 37, 4 do
        a, b, c, d = column(a, b, c, d, keys[i]), column(b, c, d, a, keys[i + 1]),
            column(c, d, a, b, keys[i + 2]), column(d, a, b, c, keys[i + 3])
    end
    local function last(p, q, r, s, key)
        return bxor(S[rshift(p, 24)] * 2 ^ 24 + S[band(rshift(q, 16), 255)] * 2 ^ 16
            + S[band(rshift(r, 8), 255)] * 2 ^ 8 + S[band(s, 255)], key)
    end
    return last(a, b, c, d, keys[41]), last(b, c, d, a, keys[42]),
        last(c, d, a, b, keys[43]), last(d, a, b, c, keys[44])
end

-- What the 8 bits that leave a block of GHASH at its end add to its first word.
local REDUCE = {}
for byte = 0, 255 do
    local sum = 0
    for place = 0, 7 do
        if band(rshift(byte, place), 1) == 1 then sum = bxor(sum, rshift(0xe1000000, 7 - place)) end
    end
    REDUCE[byte] = sum
end

-- The products of the hash key with every byte, each of four words.
local function ghash_table(h)
    local products = { [0] = { 0, 0, 0, 0 } }
    local a, b, c, d = unpack(h)
    for place = 7, 0, -1 do
        products[2 ^ place] = { a, b, c, d }
        local out = band(d, 1)
        a, b, c, d = rshift(a, 1), bxor(rshift(b, 1), lshift(a, 31)), bxor(rshift(c, 1), lshift(b, 31)),
            bxor(rshift(d, 1), lshift(c, 31))
        if out == 1 then a = bxor(a, 0xe1000000) end
    end
    for byte = 1, 255 do
        if not products[byte] then
            local high = 1
            while 2 * high <= byte do high = 2 * high end
            local p, q, product = products[high], products[byte - high], {}
            for i = 1, 4 do product[i] = bxor(p[i], q[i]) end
            products[byte] = product
        end
    end
    return products
end

local function ghash(products, text)
    local a, b, c, d = 0, 0, 0, 0
    for at = 1, #text, 16 do
        local bytes = { bytes_of(bxor(a, word(text, at))) }
        bytes[5], bytes[6], bytes[7], bytes[8] = bytes_of(bxor(b, word(text, at + 4)))
        bytes[9], bytes[10], bytes[11], bytes[12] = bytes_of(bxor(c, word(text, at + 8)))
        bytes[13], bytes[14], bytes[15], bytes[16] = bytes_of(bxor(d, word(text, at + 12)))
        a, b, c, d = 0, 0, 0, 0
        for i = 16, 1, -1 do
            local product, out = products[bytes[i]], REDUCE[band(d, 255)]
            d = bxor(rshift(d, 8), lshift(c, 24), product[4])
            c = bxor(rshift(c, 8), lshift(b, 24), product[3])
            b = bxor(rshift(b, 8), lshift(a, 24), product[2])
            a = bxor(rshift(a, 8), out, product[1])
        end
    end
    return a, b, c, d
end

-- The text with a stream of key words laid over it; `block(counter)` returns the words of each `size` bytes.
local function stream(text, size, read, write, block)
    local parts, source = {}, padded(text, size)
    for at = 1, #text, size do
        local key = block((at - 1) / size)
        for i = 1, size / 4 do
            parts[#parts + 1] = string.char(write(bxor(read(source, at + 4 * (i - 1)), key[i])))
        end
    end
    return table.concat(parts):sub(1, #text)
end

local function bit_length(bytes)
    return ("\0"):rep(4) .. string.char(bytes_of(8 * #bytes))
end

local aes_gcm = { name = "AES-128-GCM", key_length = 16 }

-- What hides the header of a packet (RFC 9001, section 5.4.3).
function aes_gcm.mask(key)
    local keys = expand_key(key)
    return function(sample)
        local a, b = aes(keys, unpack(words(sample, word)))
        return string.char(bytes_of(a)) .. string.char(bytes_of(b))
    end
end

-- Returns a function that opens what was sealed with `key`: the text, or nil if the tag is wrong.
function aes_gcm.opener(key)
    local keys = expand_key(key)
    local products = ghash_table({ aes(keys, 0, 0, 0, 0) })
    return function(nonce, header, sealed)
        local text, tag = sealed:sub(1, -17), sealed:sub(-16)
        local n1, n2, n3 = unpack(words(nonce, word))
        local lengths = bit_length(header) .. bit_length(text)
        local sum = { ghash(products, padded(header, 16) .. padded(text, 16) .. lengths) }
        local first = { aes(keys, n1, n2, n3, 1) }
        for i = 1, 4 do
            if bxor(sum[i], first[i]) ~= tobit(word(tag, 4 * i - 3)) then return nil end
        end
        return stream(text, 16, word, bytes_of, function(counter) return { aes(keys, n1, n2, n3, counter + 2) } end)
    end
end

local QUARTERS = {
    { 1, 5, 9, 13 }, { 2, 6, 10, 14 }, { 3, 7, 11, 15 }, { 4, 8, 12, 16 },
    { 1, 6, 11, 16 }, { 2, 7, 12, 13 }, { 3, 8, 9, 14 }, { 4, 5, 10, 15 },
}

-- One block of ChaCha20: 16 words.
local function chacha20(key, counter, nonce)
    local begin = { 0x61707865, 0x3320646e, 0x79622d32, 0x6b206574 }
    for i = 1, 8 do begin[4 + i] = key[i] end
    begin[13], begin[14], begin[15], begin[16] = counter, nonce[1], nonce[2], nonce[3]
    local state = { unpack(begin) }
    for _ = 1, 10 do
        for _, places in ipairs(QUARTERS) do
            local i, j, k, l = unpack(places)
            local a, b, c, d = state[i], state[j], state[k], state[l]
            a = tobit(a + b) d = rol(bxor(d, a), 16)
            c = tobit(c + d) b = rol(bxor(b, c), 12)
            a = tobit(a + b) d = rol(bxor(d, a), 8)
            c = tobit(c + d) b = rol(bxor(b, c), 7)
            state[i], state[j], state[k], state[l] = a, b, c, d
        end
    end
    for i = 1, 16 do state[i] = tobit(state[i] + begin[i]) end
    return state
end

-- Numbers of 132 bits as six limbs of 22, so that sums of products stay exact in a double.
local LIMB = 2 ^ 22

local function limbs(bytes, at, high)
    local floor = math.floor
    local a, b = little_word(bytes, at), little_word(bytes, at + 4)
    local c, d = little_word(bytes, at + 8), little_word(bytes, at + 12)
    return { a % LIMB, floor(a / LIMB) + b % 2 ^ 12 * 2 ^ 10, floor(b / 2 ^ 12) + c % 4 * 2 ^ 20, floor(c / 4) % LIMB,
        floor(c / 2 ^ 24) + d % 2 ^ 14 * 2 ^ 8, floor(d / 2 ^ 14) + high }
end

local function carry(h)
    for i = 1, 5 do
        h[i + 1] = h[i + 1] + math.floor(h[i] / LIMB)
        h[i] = h[i] % LIMB
    end
end

-- The 128 bits of Poly1305 over `text`, whose length is a multiple of 16, as limbs of 22 bits.
local function poly1305(key, text)
    local r = limbs(key, 1, 0)
    local h = { 0, 0, 0, 0, 0, 0 }
    for at = 1, #text, 16 do
        local m, product = limbs(text, at, 2 ^ 18), {}
        for i = 1, 6 do h[i] = h[i] + m[i] end
        for i = 1, 6 do
            local sum = 0
            for j = 1, 6 do
                -- 2^132 is 20 modulo 2^130 - 5.
                sum = sum + (j <= i and h[j] * r[i - j + 1] or 20 * h[j] * r[i - j + 7])
            end
            product[i] = sum
        end
        h = product
        carry(h)
        h[1], h[6] = h[1] + 20 * math.floor(h[6] / LIMB), h[6] % LIMB
        carry(h)
    end
    -- To the one below 2^130 - 5: what lies above 2^130 counts five times, also after 5 was added for a trial.
    h[1], h[6] = h[1] + 5 * math.floor(h[6] / 2 ^ 20), h[6] % 2 ^ 20
    carry(h)
    local trial = { h[1] + 5, h[2], h[3], h[4], h[5], h[6] }
    carry(trial)
    if trial[6] >= 2 ^ 20 then h = trial end
    local s = limbs(key, 17, 0)
    for i = 1, 6 do h[i] = h[i] + s[i] end
    carry(h)
    h[6] = h[6] % 2 ^ 18
    return h
end

-- The 16 bytes at `at` with the bits of Poly1305's r that must be zero cleared.
local function clamped(key)
    local r = words(key:sub(1, 16), little_word)
    local parts = {}
    for i = 1, 4 do parts[i] = string.char(little_bytes_of(band(r[i], i == 1 and 0x0fffffff or 0x0ffffffc))) end
    return table.concat(parts) .. key:sub(17, 32)
end

local chacha20_poly1305 = { name = "ChaCha20-Poly1305", key_length = 32 }

-- What hides the header of a packet (RFC 9001, section 5.4.4).
function chacha20_poly1305.mask(key)
    local keys = words(key, little_word)
    return function(sample)
        local n = words(sample, little_word)
        local block = chacha20(keys, n[1], { n[2], n[3], n[4] })
        return string.char(little_bytes_of(block[1])) .. string.char(little_bytes_of(block[2]))
    end
end

local function little_length(bytes)
    return string.char(little_bytes_of(#bytes)) .. ("\0"):rep(4)
end

-- Returns a function that opens what was sealed with `key`: the text, or nil if the tag is wrong.
function chacha20_poly1305.opener(key)
    local keys = words(key, little_word)
    return function(nonce, header, sealed)
        local text, tag = sealed:sub(1, -17), sealed:sub(-16)
        local n = words(nonce, little_word)
        local one_time = {}
        for i, w in ipairs(chacha20(keys, 0, n)) do one_time[i] = string.char(little_bytes_of(w)) end
        local lengths = little_length(header) .. little_length(text)
        local sum = poly1305(clamped(table.concat(one_time)), padded(header, 16) .. padded(text, 16) .. lengths)
        local expected = limbs(tag, 1, 0)
        for i = 1, 6 do
            if sum[i] ~= expected[i] then return nil end
        end
        return stream(text, 64, little_word, little_bytes_of, function(counter)
            return chacha20(keys, counter + 1, n)
        end)
    end
end

-- By the number of the cipher suite in TLS.
return { [0x1301] = aes_gcm, [0x1303] = chacha20_poly1305 }
