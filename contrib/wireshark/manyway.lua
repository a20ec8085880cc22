-- Shows the packets of Manyway in Wireshark: MMSP/1, MMSP/2 and the datagrams of the rendezvous. README.md tells how to
-- install it. The rules that the comments name are those of docs/specification.

local folder = debug.getinfo(1, "S").source:match("^@(.*[/\\])") or "./"
package.path = folder .. "?.lua;" .. package.path

local mmsp1 = require("manyway.mmsp1")

local manyway = Proto("manyway", "Manyway (MMSP/1, MMSP/2 and rendezvous)")

-- Shows a datagram, by its first byte (rule 4.1). Returns how many bytes were read.
function manyway.dissector(tvb, pinfo, root)
    return mmsp1.dissect(tvb, pinfo, root)
end

manyway:register_heuristic("udp", function(tvb, pinfo, root)
    if not mmsp1.is_packet(tvb) then return false end
    manyway.dissector(tvb, pinfo, root)
    pinfo.conversation = manyway
    return true
end)
DissectorTable.get("udp.port"):add_for_decode_as(manyway)
