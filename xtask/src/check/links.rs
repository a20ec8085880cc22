//! Links between the documents have a target.

use super::Finding;
use super::files::SourceFile;

pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.has_extension("md")) {
        for (line, text) in file.lines() {
            for target in targets(text) {
                let path = resolve(&file.path, target);
                let directory = format!("{path}/");
                if !files.iter().any(|other| other.path == path || other.path.starts_with(&directory)) {
                    findings.push(Finding::new(&file.path, line, format!("there is no {target}")));
                }
            }
        }
    }
    findings
}

/// The targets of the links of a line, except external ones and those within the document.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("](").filter_map(|(at, between)| {
        let target = line.get(at + between.len()..)?.split(')').next()?;
        let path = target.split('#').next()?;
        (!path.is_empty() && !path.contains(':')).then_some(path)
    })
}

/// The path of `target`, as seen from the directory of the file that names it.
fn resolve(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::super::files::file;
    use super::check;

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        let check = |link: &str| {
            check(&[
                file("docs/a.md", &format!("see [x]({link}).")),
                file("docs/b/c.md", ""),
                file("d.md", ""),
            ])
            .len()
        };
        for good in ["b/c.md", "b", "b/", "../d.md", "b/c.md#x", "#x", "https://example.org/y", "./b/c.md"] {
            assert_eq!(check(good), 0, "{good}");
        }
        for bad in ["c.md", "../b", "d.md", "b/c"] {
            assert_eq!(check(bad), 1, "{bad}");
        }
    }
}
