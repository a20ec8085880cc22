//! Modems as they are sold: each with the same network, the same local address, and a NAT.

use std::process::Command;

use crate::common::lab::{Lab, Namespace};

/// The server's address behind every modem.
pub(crate) const SERVER: &str = "10.9.9.9:4455";

/// A modem on the interface `wwanN` of the client; its other side has the address 10.7.N.1.
pub(crate) struct Modem {
    router: Namespace,
    number: u8,
}

impl Modem {
    /// Plugs in a modem, which gives the client this address of 192.168.8.0/24 and has 192.168.8.1 itself.
    pub(crate) fn plug(lab: &Lab, number: u8, address: &str) -> Self {
        let router = lab.host(&format!("m{number}"));
        let (near, far) = (format!("wwan{number}"), format!("vb{number}"));
        cable((&lab.client, &near), (&router, "lan"));
        cable((&router, "wan"), (&lab.server, &far));
        router.ip("addr add 192.168.8.1/24 dev lan");
        router.ip(&format!("addr add 10.7.{number}.1/24 dev wan"));
        lab.server.ip(&format!("addr add 10.7.{number}.2/24 dev {far}"));
        lab.server.ip("addr replace 10.9.9.9/32 dev lo");
        lab.client.ip(&format!("addr add {address}/24 dev {near}"));
        lab.client.ip(&format!("route add default via 192.168.8.1 dev {near} metric {number}"));
        // As distributions set it: an answer may arrive on another interface than that of the route.
        lab.client.set(&format!("ipv4/conf/{near}/rp_filter"), "2");
        let modem = Self { router, number };
        modem.route();
        modem.router.set("ipv4/ip_forward", "1");
        modem.router.nft(
            "table ip nat {\nchain out { type nat hook postrouting priority 100; \
             oifname \"wan\" masquerade fully-random; }\n}",
        );
        modem
    }

    fn route(&self) {
        self.router.ip(&format!("route replace 10.9.9.9/32 via 10.7.{}.2", self.number));
    }

    /// Limits both directions.
    pub(crate) fn limit(&self, megabits: u32) {
        for side in ["lan", "wan"] {
            let queue =
                format!("qdisc replace dev {side} root tbf rate {megabits}mbit burst 16k latency 50ms");
            self.router.run("tc", &queue);
        }
    }

    /// Removes the limit.
    pub(crate) fn unlimit(&self) {
        self.router.unlimit();
    }

    /// Makes it forget flows that are idle for this many seconds.
    pub(crate) fn forget_after(&self, seconds: u32) {
        for setting in ["udp_timeout", "udp_timeout_stream"] {
            self.router.set(&format!("netfilter/nf_conntrack_{setting}"), &seconds.to_string());
        }
    }

    /// Makes it forget every mapping now: the next packet gets another port.
    pub(crate) fn forget(&self) {
        // Removing the address removes its mappings.
        let address = format!("10.7.{}.1/24 dev wan", self.number);
        self.router.ip(&format!("addr del {address}"));
        self.router.ip(&format!("addr add {address}"));
        self.route();
    }

    /// The client's current ports outside the NAT.
    pub(crate) fn ports(&self) -> Vec<String> {
        let mappings = self.router.run("cat", "/proc/net/nf_conntrack");
        let outside = format!("dst=10.7.{}.1", self.number);
        // A packet to a port without a mapping belongs to the modem itself.
        let ports = mappings.lines().filter(|line| line.contains("src=192.168.8.")).filter_map(|line| {
            let answer = &line[line.find(&outside)?..];
            answer.split_whitespace().find_map(|word| word.strip_prefix("dport=")).map(str::to_owned)
        });
        ports.collect()
    }

    /// Loses the radio network: everything is dropped, the client's side stays up.
    pub(crate) fn lose_signal(&self) {
        self.router.nft("table inet hole {\nchain f { type filter hook forward priority 0; drop; }\n}");
    }
}

pub(crate) fn cable(near: (&Namespace, &str), far: (&Namespace, &str)) {
    let mut command = Command::new("ip");
    command.args(["link", "add", near.1, "netns", &near.0.name, "type", "veth", "peer", "name", far.1]);
    command.args(["netns", &far.0.name]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for (namespace, interface) in [near, far] {
        namespace.ip(&format!("link set {interface} up"));
    }
}
