//! A packaged server has no more rights than it needs, and is built from locked dependencies.

use super::Finding;
use super::files::SourceFile;

const UNIT: &str = "packaging/manyway.service";
const IMAGE: &str = "packaging/Dockerfile";
const IGNORED: &str = ".dockerignore";

/// Settings that the unit must have, word by word.
const NEEDED: [&str; 25] = [
    "Type=notify",
    "StandardOutput=null",
    "DynamicUser=yes",
    "StateDirectoryMode=0700",
    "UMask=0077",
    "CapabilityBoundingSet=",
    "AmbientCapabilities=",
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
    "PrivateDevices=yes",
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
    with(UNIT, &check_unit);
    with(IMAGE, &check_image);
    with(IGNORED, &|file| {
        let needed = [".git", "target"].into_iter();
        let missing = needed.filter(|line| !file.text.lines().any(|own| own == *line));
        missing.map(|line| Finding::new(IGNORED, 0, format!("lacks {line}"))).collect()
    });
    findings
}

fn check_unit(file: &SourceFile) -> Vec<Finding> {
    let lines: Vec<_> = file.lines().map(|(_, line)| line.trim()).collect();
    let missing = NEEDED.iter().filter(|needed| !lines.contains(needed));
    let mut findings: Vec<_> =
        missing.map(|needed| Finding::new(UNIT, 0, format!("lacks the line {needed}"))).collect();
    for (number, line) in file.lines() {
        let gives = ["CapabilityBoundingSet=", "AmbientCapabilities=", "User="];
        if gives.iter().any(|key| line.strip_prefix(key).is_some_and(|value| !value.is_empty())) {
            findings.push(Finding::new(UNIT, number, "gives rights that the server does not need"));
        }
    }
    findings
}

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
            "RUN" if rest.contains("cargo build") && !rest.contains("--locked") => {
                find("builds other versions than those of Cargo.lock: use --locked");
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

    const GOOD: &str = "FROM rust:1.88.0-slim AS build\nRUN cargo build \\\n    --locked\nFROM debian:12.11-slim\n\
        COPY --from=build /a /a\nUSER 10001:10001\n";

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
            ("    --locked", "    --release", "--locked"),
            ("COPY", "ADD", "COPY"),
            ("USER 10001:10001", "USER root", "root"),
            ("USER 10001:10001", "", "root"),
            ("USER 10001:10001", "USER 0:0", "root"),
            ("FROM debian", "USER x\nFROM debian", ""),
            ("RUN cargo", "RUN curl x | sh && cargo", "downloads"),
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
        let good = NEEDED.join("\n");
        let unit = |text: &str| check_unit(&file(UNIT, text)).len();
        assert_eq!(unit(&good), 0);
        for needed in NEEDED {
            assert_eq!(
                unit(&good.replacen(&format!("{needed}\n"), "", 1)),
                usize::from(needed != NEEDED[24])
            );
        }
        assert_eq!(unit(&format!("{good}\nAmbientCapabilities=CAP_NET_ADMIN")), 1);
        assert_eq!(unit(&format!("{good}\nUser=root")), 1);
    }

    #[test]
    fn a_missing_file_is_found() {
        assert_eq!(check(&[]).len(), 3);
    }
}
