-- Shows the packets of Manyway in Wireshark: MMSP/1, MMSP/2 and the datagrams of the rendezvous. README.md tells how to
-- install it. The rules that the comments name are those of docs/specification.

local folder = debug.getinfo(1, "S").source:match("^@(.*[/\\])") or "./"
package.path = folder .. "?.lua;" .. package.path

local mmsp1 = require("manyway.mmsp1")
local mmsp2 = require("manyway.mmsp2")
local rendezvous = require("manyway.rendezvous")

local manyway = Proto("manyway", "Manyway (MMSP/1, MMSP/2 and rendezvous)")
manyway.prefs.ports = Pref.range("UDP ports", "",
    "Take every datagram from or to these ports for one of Manyway. Without them it is told by its content.", 65535)

-- Addresses and ports that sent or received packets of a handshake of MMSP/2.
local endpoints

function manyway.init()
    endpoints = {}
end

local bound = ""
function manyway.prefs_changed()
    local table_of_ports = DissectorTable.get("udp.port")
    if bound ~= "" then table_of_ports:remove(bound, manyway) end
    bound = manyway.prefs.ports
    if bound ~= "" then table_of_ports:add(bound, manyway) end
end

-- Shows a datagram by its first byte (rule 4.1). Returns how many bytes were read, 0 if it is none of Manyway.
function manyway.dissector(tvb, pinfo, root)
    if tvb:len() == 0 then return 0 end
    if rendezvous.is_datagram(tvb) then return rendezvous.dissect(tvb, pinfo, root) end
    if tvb(0, 1):uint() >= 0x40 then return mmsp2.dissect(tvb, pinfo, root) end
    return mmsp1.dissect(tvb, pinfo, root)
end

local function endpoint(address, port)
    return ("%s %d"):format(tostring(address), port)
end

-- Whether a datagram of unknown ports is one of Manyway. What its content does not prove is taken from addresses and
-- IDs that belong to a connection.
local function is_ours(tvb, pinfo)
    local source, destination = endpoint(pinfo.src, pinfo.src_port), endpoint(pinfo.dst, pinfo.dst_port)
    if mmsp2.is_handshake(tvb) then
        endpoints[source], endpoints[destination] = true, true
        return true
    end
    local id = mmsp2.id_of_short(tvb)
    if id and mmsp2.is_known(id) then return true end
    if (endpoints[source] or endpoints[destination]) and (id or rendezvous.is_datagram(tvb)) then return true end
    return mmsp1.is_packet(tvb)
end

manyway:register_heuristic("udp", function(tvb, pinfo, root)
    if not is_ours(tvb, pinfo) then return false end
    pinfo.conversation = manyway
    return manyway.dissector(tvb, pinfo, root) > 0
end)
DissectorTable.get("udp.port"):add_for_decode_as(manyway)
