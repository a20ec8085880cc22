//! A packaged server or tunnel has no more rights than it needs, and is built from locked dependencies.

use super::Finding;
use super::files::SourceFile;

const IMAGE: &str = "packaging/Dockerfile";
const IGNORED: &str = ".dockerignore";
const DIST: &str = "packaging/dist";

/// A unit of systemd, or what is added to one.
struct Unit {
    path: &'static str,
    /// Settings that it must have as every unit, word by word.
    common: &'static [&'static str],
    /// Those that it must have beside these.
    needed: &'static [&'static str],
    /// The capabilities that it gives.
    capabilities: &'static str,
}

const UNITS: [Unit; 3] = [
    Unit {
        path: "packaging/manyway.service",
        common: &NEEDED,
        needed: &["StandardOutput=null", "PrivateDevices=yes", "PrivateUsers=yes", "ProcSubset=pid"],
        capabilities: "",
    },
    Unit {
        path: "packaging/manyway-tunnel@.service",
        common: &NEEDED,
        needed: &["DevicePolicy=closed", "DeviceAllow=/dev/net/tun rw", "RestartPreventExitStatus=2 3 5"],
        capabilities: "CAP_NET_ADMIN",
    },
    Unit {
        path: "packaging/manyway-site.conf",
        common: &[],
        needed: &["DevicePolicy=closed", "DeviceAllow=/dev/net/tun rw"],
        capabilities: "CAP_NET_ADMIN",
    },
];

/// Settings that every unit must have, word by word.
const NEEDED: [&str; 21] = [
    "Type=notify",
    "DynamicUser=yes",
    "StateDirectoryMode=0700",
    "UMask=0077",
    "NoNewPrivileges=yes",
    "RestrictAddressFamilies=AF_INET AF_INET6 AF_NETLINK AF_UNIX",
    "RestrictNamespaces=yes",
    "RestrictRealtime=yes",
    "RestrictSUIDSGID=yes",
    "LockPersonality=yes",
    "MemoryDenyWriteExecute=yes",
    "SystemCallArchitectures=native",
    "SystemCallFilter=@system-service",
    "ProtectSystem=strict",
    "ProtectHome=yes",
    "PrivateTmp=yes",
    "ProtectClock=yes",
    "ProtectControlGroups=yes",
    "ProtectKernelLogs=yes",
    "ProtectKernelModules=yes",
    "ProtectKernelTunables=yes",
];

pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut with = |path: &str, check: &dyn Fn(&SourceFile) -> Vec<Finding>| match files
        .iter()
        .find(|file| file.path == path)
    {
        Some(file) => findings.extend(check(file)),
        None => findings.push(Finding::new(path, 0, "is missing")),
    };
    for unit in &UNITS {
        with(unit.path, &|file| check_unit(unit, file));
    }
    with(IMAGE, &check_image);
    with(DIST, &check_dist);
    with(IGNORED, &|file| {
        let needed = [".git", "target"].into_iter();
        let missing = needed.filter(|line| !file.text.lines().any(|own| own == *line));
        missing.map(|line| Finding::new(IGNORED, 0, format!("lacks {line}"))).collect()
    });
    findings
}

fn check_unit(unit: &Unit, file: &SourceFile) -> Vec<Finding> {
    let lines: Vec<_> = file.lines().map(|(_, line)| line.trim()).collect();
    let capabilities = RIGHTS.map(|key| format!("{key}{}", unit.capabilities));
    let needed =
        unit.common.iter().chain(unit.needed).copied().chain(capabilities.iter().map(String::as_str));
    let missing = needed.filter(|needed| !lines.contains(needed));
    let mut findings: Vec<_> =
        missing.map(|needed| Finding::new(unit.path, 0, format!("lacks the line {needed}"))).collect();
    for (number, line) in file.lines() {
        let gives = |key| line.strip_prefix(key).is_some_and(|value| value != unit.capabilities);
        // A user of a name of its own is a dynamic one.
        let is_fixed = line.strip_prefix("User=").is_some_and(|value| !value.starts_with("manyway"));
        if RIGHTS.into_iter().any(gives) || is_fixed {
            findings.push(Finding::new(unit.path, number, "gives rights that are not needed"));
        }
    }
    findings
}

const RIGHTS: [&str; 2] = ["CapabilityBoundingSet=", "AmbientCapabilities="];

/// One instruction of a Dockerfile, joined from its lines.
struct Instruction {
    line: usize,
    name: String,
    rest: String,
}

fn instructions(file: &SourceFile) -> Vec<Instruction> {
    let mut all: Vec<Instruction> = Vec::new();
    let mut goes_on = false;
    for (line, text) in file.lines() {
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let (words, more) = match text.strip_suffix('\\') {
            Some(words) => (words.trim_end(), true),
            None => (text, false),
        };
        if let Some(last) = all.last_mut().filter(|_| goes_on) {
            last.rest.push(' ');
            last.rest.push_str(words);
        } else {
            let (name, rest) = words.split_once(char::is_whitespace).unwrap_or((words, ""));
            all.push(Instruction { line, name: name.to_ascii_uppercase(), rest: rest.trim().to_owned() });
        }
        goes_on = more;
    }
    all
}

fn check_image(file: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut user = None;
    let mut stages = Vec::new();
    for Instruction { line, name, rest } in instructions(file) {
        let mut find = |text: &str| findings.push(Finding::new(IMAGE, line, text));
        match name.as_str() {
            "FROM" => {
                let mut words = rest.split_whitespace();
                let image = words.next().unwrap_or_default().to_owned();
                if !stages.contains(&image) && !is_pinned(&image) {
                    find("the base has no version of its own: write its full tag or its digest");
                }
                stages.extend(words.nth(1).map(str::to_owned));
                // Each stage begins as root.
                user = None;
            }
            "ADD" => find("ADD unpacks and downloads: use COPY"),
            "USER" => user = Some(rest),
            "RUN" if rest.contains("cargo ") => {
                find("builds another program than is given away: use packaging/dist");
            }
            "RUN" if rest.contains("curl") || rest.contains("wget") => {
                find("downloads what is not in the source");
            }
            _ => {}
        }
    }
    match user.as_deref().map(|user| user.split(':').next().unwrap_or_default().to_owned()) {
        Some(user) if user != "root" && user != "0" && !user.is_empty() => {}
        _ => findings.push(Finding::new(IMAGE, 0, "the last stage runs as root: end it with USER")),
    }
    findings
}

/// The binary that is given away has the versions of Cargo.lock.
fn check_dist(file: &SourceFile) -> Vec<Finding> {
    let is_locked = file.text.contains("cargo build --locked");
    let text = "builds other versions than those of Cargo.lock: use --locked";
    (!is_locked).then(|| Finding::new(DIST, 0, text)).into_iter().collect()
}

/// Whether the name of an image says which one: by a digest, or by a tag with at least two numbers.
fn is_pinned(image: &str) -> bool {
    if image.contains("@sha256:") {
        return true;
    }
    let last = image.rsplit('/').next().unwrap_or_default();
    let tag = last.split_once(':').map(|(_, tag)| tag).unwrap_or_default();
    let version = tag.split('-').next().unwrap_or_default();
    let mut numbers = version.split('.');
    version.contains('.') && numbers.all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::super::files::file;
    use super::*;

    const GOOD: &str = "FROM rust:1.88.0-slim AS build\nRUN MANYWAY_LIBC=musl \\\n    packaging/dist\n\
        FROM debian:12.11-slim\nCOPY --from=build /a /a\nUSER 10001:10001\n";

    fn image(text: &str) -> Vec<String> {
        check_image(&file(IMAGE, text)).into_iter().map(|finding| finding.text).collect()
    }

    #[test]
    fn an_image_of_locked_parts_without_rights_is_good() {
        assert_eq!(image(GOOD), [""; 0]);
    }

    #[test]
    fn faults_of_an_image_are_found() {
        for (old, new, part) in [
            ("rust:1.88.0-slim", "rust", "version"),
            ("rust:1.88.0-slim", "rust:latest", "version"),
            ("debian:12.11-slim", "debian:bookworm", "version"),
            ("    packaging/dist", "    cargo build --locked", "packaging/dist"),
            ("COPY", "ADD", "COPY"),
            ("USER 10001:10001", "USER root", "root"),
            ("USER 10001:10001", "", "root"),
            ("USER 10001:10001", "USER 0:0", "root"),
            ("FROM debian", "USER x\nFROM debian", ""),
            ("RUN MANYWAY", "RUN curl x | sh && MANYWAY", "downloads"),
        ] {
            let text = if part.is_empty() { "" } else { part };
            let found = image(&GOOD.replace(old, new));
            assert_eq!(found.is_empty(), text.is_empty(), "{new}: {found:?}");
            assert!(found.iter().all(|found| found.contains(part)), "{new}: {found:?}");
        }
        assert!(is_pinned("debian@sha256:00") && is_pinned("example.org:5000/debian:12.11"));
        assert!(!is_pinned("example.org:5000/debian"));
    }

    #[test]
    fn a_unit_without_a_setting_or_with_rights_is_found() {
        for unit in &UNITS {
            let rights = RIGHTS.map(|key| format!("{key}{}", unit.capabilities));
            let needed =
                unit.common.iter().chain(unit.needed).copied().chain(rights.iter().map(String::as_str));
            let lines: Vec<_> = needed.collect();
            let findings = |text: &str| check_unit(unit, &file(unit.path, text)).len();
            let good = lines.join("\n");
            assert_eq!(findings(&good), 0);
            for missing in &lines {
                let others: Vec<_> = lines.iter().filter(|line| *line != missing).copied().collect();
                assert_eq!(findings(&others.join("\n")), 1, "{missing}");
            }
            assert_eq!(findings(&format!("{good}\nAmbientCapabilities=CAP_SYS_ADMIN")), 1);
            assert_eq!(findings(&format!("{good}\nUser=root")), 1);
        }
    }

    #[test]
    fn a_build_of_other_versions_is_found() {
        for (command, findings) in
            [("cargo build --locked --profile dist", 0), ("cargo build --profile dist", 1)]
        {
            assert_eq!(check_dist(&file(DIST, command)).len(), findings, "{command}");
        }
    }

    #[test]
    fn a_missing_file_is_found() {
        assert_eq!(check(&[]).len(), 6);
    }
}
