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

-- Servers of MMSP/2 whose handshake the capture has shown: addresses with ports, and ports alone.
local servers

function manyway.init()
    servers = {}
end

local bound = ""
function manyway.prefs_changed()
    local table_of_ports = DissectorTable.get("udp.port")
    if bound ~= "" then table_of_ports:remove(bound, manyway) end
    bound = manyway.prefs.ports
    if bound ~= "" then table_of_ports:add(bound, manyway) end
end

-- Shows a datagram by its first byte (rule 4.1). Returns how many bytes were read, 0 if it is none of Manyway, and who
-- sent it if that is known.
local function dissect(tvb, pinfo, root)
    if tvb:len() == 0 then return 0 end
    if rendezvous.is_datagram(tvb) then return rendezvous.dissect(tvb, pinfo, root) end
    if tvb(0, 1):uint() >= 0x40 then return mmsp2.dissect(tvb, pinfo, root) end
    return mmsp1.dissect(tvb, pinfo, root)
end

function manyway.dissector(tvb, pinfo, root)
    return (dissect(tvb, pinfo, root))
end

local function endpoint(address, port)
    return ("%s %d"):format(tostring(address), port)
end

-- Remembers the server of a handshake. It uses its port on all of its addresses; well-known ports are left out, because
-- packets of QUIC with short headers look alike.
local function learn_server(pinfo, sender)
    local is_client = sender == "client"
    local port = is_client and pinfo.dst_port or pinfo.src_port
    servers[endpoint(is_client and pinfo.dst or pinfo.src, port)] = true
    if port >= 1024 then servers[port] = true end
end

local function has_server(pinfo)
    return servers[pinfo.src_port] or servers[pinfo.dst_port]
        or servers[endpoint(pinfo.src, pinfo.src_port)] or servers[endpoint(pinfo.dst, pinfo.dst_port)]
end

-- Whether a datagram of unknown ports is one of Manyway. A short header proves nothing: it counts with an ID that
-- belongs to a connection, or with the port of a server.
local function is_ours(tvb, pinfo)
    if mmsp2.is_handshake(tvb) or mmsp1.is_packet(tvb) then return true end
    local id = mmsp2.id_of_short(tvb)
    return id and mmsp2.is_known(id) or (id or rendezvous.is_datagram(tvb)) and has_server(pinfo)
end

manyway:register_heuristic("udp", function(tvb, pinfo, root)
    if not is_ours(tvb, pinfo) then return false end
    pinfo.conversation = manyway
    local length, sender = dissect(tvb, pinfo, root)
    if sender then learn_server(pinfo, sender) end
    return length > 0
end)
DissectorTable.get("udp.port"):add_for_decode_as(manyway)
