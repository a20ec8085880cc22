//! Running commands in the text format of Prometheus, version 0.0.4.

use std::fmt::Write as _;

use super::document::{Document, FilesDocument, PathDocument, PeerDocument};

/// All figures of all commands.
pub fn text(documents: &[Document]) -> String {
    let mut text = Exposition::default();
    text.family("manyway_up", "gauge", "Whether a command is running.");
    for document in documents {
        text.sample("manyway_up", &command_labels(document), 1);
    }
    text.family("manyway_running_seconds", "gauge", "How long a command has run.");
    for document in documents {
        text.sample("manyway_running_seconds", &command_labels(document), document.seconds);
    }
    text.family("manyway_connections", "gauge", "Open connections of a command.");
    for document in documents {
        text.sample("manyway_connections", &command_labels(document), document.peers.len());
    }
    paths(&mut text, documents);
    files(&mut text, documents);
    text.0
}

fn paths(text: &mut Exposition, documents: &[Document]) {
    let each = || {
        documents.iter().flat_map(|document| {
            let of_peer = |peer| path_rows(document, peer);
            document.peers.iter().flat_map(of_peer)
        })
    };
    text.family("manyway_path_up", "gauge", "Whether a path answers; the label tells its state.");
    for (mut labels, path) in each() {
        labels.push(("state", path.state.clone()));
        let answers = !matches!(path.state.as_str(), "validating" | "dead" | "closed");
        text.sample("manyway_path_up", &labels, u8::from(answers));
    }
    text.family("manyway_path_rtt_seconds", "gauge", "Smoothed round-trip time of a path that answers.");
    for (labels, path) in each() {
        if let Some(rtt) = path.rtt {
            text.sample("manyway_path_rtt_seconds", &labels, rtt);
        }
    }
    type Pick = fn(&PathDocument) -> u64;
    let counters: [(&str, &str, Pick); 4] = [
        ("manyway_path_sent_bytes_total", "UDP payload sent on a path.", |path| path.bytes_sent),
        ("manyway_path_received_bytes_total", "UDP payload received on a path.", |path| path.bytes_received),
        ("manyway_path_sent_packets_total", "Packets sent on a path.", |path| path.packets_sent),
        ("manyway_path_lost_packets_total", "Packets lost on a path.", |path| path.packets_lost),
    ];
    for (name, help, pick) in counters {
        text.family(name, "counter", help);
        for (labels, path) in each() {
            text.sample(name, &labels, pick(path));
        }
    }
}

fn files(text: &mut Exposition, documents: &[Document]) {
    type Pick = fn(&FilesDocument) -> u64;
    let gauges: [(&str, &str, Pick); 4] = [
        ("manyway_files", "Files of the present transfer.", |files| files.files),
        ("manyway_files_done", "Files of it that arrived.", |files| files.files_done),
        ("manyway_files_bytes", "Bytes of the present transfer.", |files| files.bytes),
        ("manyway_files_done_bytes", "Bytes of it that arrived.", |files| files.bytes_done),
    ];
    for (name, help, pick) in gauges {
        text.family(name, "gauge", help);
        for document in documents {
            if let Some(files) = &document.files {
                text.sample(name, &command_labels(document), pick(files));
            }
            for (index, peer) in document.peers.iter().enumerate() {
                if let Some(files) = &peer.files {
                    text.sample(name, &peer_labels(document, peer, index), pick(files));
                }
            }
        }
    }
}

type Labels = Vec<(&'static str, String)>;

fn command_labels(document: &Document) -> Labels {
    vec![("pid", document.pid.to_string()), ("verb", document.verb.clone())]
}

fn peer_labels(document: &Document, peer: &PeerDocument, index: usize) -> Labels {
    let mut labels = command_labels(document);
    labels.push(("connection", index.to_string()));
    labels.push(("peer", peer.name.clone().unwrap_or_default()));
    labels
}

fn path_rows<'a>(document: &Document, peer: &'a PeerDocument) -> Vec<(Labels, &'a PathDocument)> {
    let index = document.peers.iter().position(|other| std::ptr::eq(other, peer)).unwrap_or(0);
    let row = |path: &'a PathDocument| {
        let mut labels = peer_labels(document, peer, index);
        labels.push(("path", path.path.to_string()));
        labels.push(("interface", path.interface.clone().unwrap_or_default()));
        labels.push(("local", path.local.clone()));
        labels.push(("remote", path.remote.clone()));
        (labels, path)
    };
    peer.paths.iter().map(row).collect()
}

#[derive(Default)]
struct Exposition(String);

impl Exposition {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&'static str, String)], value: impl std::fmt::Display) {
        let labels: Vec<_> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escape(value))).collect();
        let _ = writeln!(self.0, "{name}{{{}}} {value}", labels.join(","));
    }
}

fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
