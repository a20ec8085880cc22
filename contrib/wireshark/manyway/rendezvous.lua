-- The datagrams of the rendezvous, chapter 10 of the specification.

if ... == nil then return end -- Wireshark loads every file of its plugin folder; manyway.lua alone needs this one.

local proto = Proto("mmsp_rendezvous", "Rendezvous of MMSP/2")

local KINDS = {
    "request of a client", "request of a server", "retry", "answer", "knock",
    "ask of the fetching end", "ask of the offering end", "state", "leave", "observe", "bind", "bound",
}
local REQUEST, ANSWER, KNOCK, ASK, ASK_OFFERING, STATE, BIND, BOUND = 2, 4, 5, 6, 7, 8, 11, 12
-- The lengths that each kind may have (rules 10.2, 10.17, 10.25, 10.27, 10.43).
local LENGTHS = {
    { 256 }, { 256 }, { 44 }, { 46, 215 }, { 20 },
    { 64, 464 }, { 64, 464 }, { 35, 435 }, { 64 }, { 64 }, { 64 }, { 29 },
}
-- Without a cookie.
local WITHOUT = { [4] = true, [5] = true, [8] = true, [10] = true, [12] = true }
local STATUS = { [0] = "open", "gone", "taken", "full" }
local HEADER = 20

local f = {
    version = ProtoField.uint8("mmsp_rendezvous.version", "Version"),
    kind = ProtoField.uint8("mmsp_rendezvous.kind", "Kind", base.DEC, KINDS),
    token = ProtoField.bytes("mmsp_rendezvous.token", "Token"),
    nonce = ProtoField.bytes("mmsp_rendezvous.nonce", "Nonce"),
    cookie = ProtoField.bytes("mmsp_rendezvous.cookie", "Cookie"),
    port = ProtoField.uint16("mmsp_rendezvous.port", "Seen: port"),
    address = ProtoField.ipv6("mmsp_rendezvous.address", "Seen: address"),
    sequence = ProtoField.uint64("mmsp_rendezvous.sequence", "Sequence of the list"),
    sealed = ProtoField.bytes("mmsp_rendezvous.sealed", "Sealed addresses"),
    number = ProtoField.uint32("mmsp_rendezvous.number", "Number of the mailbox"),
    status = ProtoField.uint8("mmsp_rendezvous.status", "Status", base.DEC, STATUS),
    held = ProtoField.uint8("mmsp_rendezvous.held", "Held"),
    posted = ProtoField.uint8("mmsp_rendezvous.posted", "Posted"),
    taken = ProtoField.uint8("mmsp_rendezvous.taken", "Taken"),
    letter = ProtoField.bytes("mmsp_rendezvous.letter", "Letter"),
    bound = ProtoField.bool("mmsp_rendezvous.bound", "Bound"),
    padding = ProtoField.bytes("mmsp_rendezvous.padding", "Padding"),
}
proto.fields = f

local function is_datagram(tvb)
    if tvb:len() < HEADER or tvb(0, 3):uint() ~= 1 then return false end
    for _, length in ipairs(LENGTHS[tvb(3, 1):uint()] or {}) do
        if tvb:len() == length then return true end
    end
    return false
end

local function sealed(tvb, tree, at)
    tree:add(f.sequence, tvb(at, 8))
    tree:add(f.sealed, tvb(at + 8, 161))
    return at + 169
end

local function dissect(tvb, pinfo, root)
    local kind = tvb(3, 1):uint()
    local tree = root:add(proto, tvb())
    tree:append_text(", " .. KINDS[kind])
    tree:add(f.version, tvb(2, 1))
    tree:add(f.kind, tvb(3, 1))
    tree:add(f.token, tvb(4, 16))
    if kind ~= KNOCK then tree:add(f.nonce, tvb(20, 8)) end
    if not WITHOUT[kind] then tree:add(f.cookie, tvb(28, 16)) end
    if kind <= REQUEST then
        tree:add(f.padding, tvb(sealed(tvb, tree, 44)))
    elseif kind == ANSWER then
        tree:add(f.port, tvb(28, 2))
        tree:add(f.address, tvb(30, 16))
        if tvb:len() > 46 then sealed(tvb, tree, 46) end
    elseif kind == ASK or kind == ASK_OFFERING then
        tree:add(f.number, tvb(44, 4))
        tree:add(f.posted, tvb(48, 1))
        tree:add(f.taken, tvb(49, 1))
        if tvb:len() > 64 then tree:add(f.letter, tvb(50, 400)) end
    elseif kind == STATE then
        tree:add(f.number, tvb(28, 4))
        tree:add(f.status, tvb(32, 1))
        tree:add(f.held, tvb(33, 1))
        tree:add(f.posted, tvb(34, 1))
        if tvb:len() > 35 then tree:add(f.letter, tvb(35, 400)) end
    elseif kind == BIND then
        tree:add(f.number, tvb(44, 4))
    elseif kind == BOUND then
        tree:add(f.bound, tvb(28, 1))
    end
    pinfo.cols.protocol:set("MMSP rendezvous")
    pinfo.cols.info:set(KINDS[kind])
    return tvb:len()
end

return { proto = proto, dissect = dissect, is_datagram = is_datagram }
