//! Every package that is built into Manyway, or builds it, has a permitted licence.

use std::io;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::Finding;

/// Permitted licences; an expression is permitted if these alone satisfy it.
const ALLOWED: [&str; 12] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// What `cargo metadata` tells of all packages of the lock file.
pub(super) fn metadata(root: &Path) -> io::Result<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(root)
        .output()?;
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    serde_json::from_slice(&output.stdout).map_err(io::Error::other)
}

pub(super) fn check(metadata: &Value) -> Vec<Finding> {
    let packages = metadata.get("packages").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if packages.is_empty() {
        return vec![Finding::new("Cargo.lock", 0, "names no packages")];
    }
    let text = |package: &Value, field: &str| package.get(field).and_then(Value::as_str).map(str::to_owned);
    packages
        .iter()
        .filter_map(|package| {
            let licence = text(package, "license").unwrap_or_default();
            let name = text(package, "name").unwrap_or_default();
            let complaint = format!("{name}: the licence {licence:?} is not one of those allowed");
            (!is_allowed(&licence)).then(|| Finding::new("Cargo.lock", 0, complaint))
        })
        .collect()
}

/// Whether an SPDX expression can be satisfied by permitted licences. `/` is an old notation of OR.
fn is_allowed(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words = Words { words: spaced.split_whitespace().collect(), at: 0 };
    words.any_of() == Some(true) && words.peek().is_none()
}

/// Reads an expression from left to right; AND binds closer than OR. `None` if it can not be read.
struct Words<'a> {
    words: Vec<&'a str>,
    at: usize,
}

impl<'a> Words<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).copied()
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(word);
        self.at += usize::from(found);
        found
    }

    fn any_of(&mut self) -> Option<bool> {
        let mut allowed = self.all_of()?;
        while self.take("OR") {
            allowed |= self.all_of()?;
        }
        Some(allowed)
    }

    fn all_of(&mut self) -> Option<bool> {
        let mut allowed = self.one()?;
        while self.take("AND") {
            allowed &= self.one()?;
        }
        Some(allowed)
    }

    fn one(&mut self) -> Option<bool> {
        if self.take("(") {
            let inner = self.any_of()?;
            return self.take(")").then_some(inner);
        }
        let name = self.peek()?;
        self.at += 1;
        if self.take("WITH") {
            let exception = self.peek()?;
            self.at += 1;
            return Some(ALLOWED.contains(&format!("{name} WITH {exception}").as_str()));
        }
        Some(ALLOWED.contains(&name))
    }
}

#[cfg(test)]
mod tests {
    use super::{check, is_allowed};

    #[test]
    fn an_expression_is_allowed_if_it_can_be_satisfied() {
        for (expression, allowed) in [
            ("MIT", true),
            ("MIT/Apache-2.0", true),
            ("MIT OR GPL-3.0-only", true),
            ("Apache-2.0 AND ISC", true),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
            ("Apache-2.0 WITH LLVM-exception OR MIT", true),
            ("GPL-3.0-only", false),
            ("MIT AND GPL-3.0-only", false),
            ("(MIT OR ISC) AND LGPL-2.1-only", false),
            ("GPL-2.0-only WITH Classpath-exception-2.0", false),
            ("", false),
            ("MIT MIT", false),
            ("(MIT", false),
        ] {
            assert_eq!(is_allowed(expression), allowed, "{expression}");
        }
    }

    #[test]
    fn a_package_with_another_licence_or_none_is_found() {
        let metadata = |licence: &str| {
            let text =
                format!(r#"{{"packages": [{{"name": "a", "license": "MIT"}}, {{"name": "b"{licence}}}]}}"#);
            serde_json::from_str(&text).unwrap()
        };
        assert_eq!(check(&metadata(r#", "license": "Zlib""#)), []);
        assert_eq!(check(&metadata(r#", "license": "AGPL-3.0-only""#)).len(), 1);
        assert_eq!(check(&metadata("")).len(), 1);
        assert_eq!(check(&serde_json::Value::Null).len(), 1);
    }
}
