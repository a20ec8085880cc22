//! Everything below some starting points, parents first, in order of names.

use std::path::Path;
use std::sync::Arc;

use crate::directory::{Directory, Facts};
use crate::entry::EntryKind;
use crate::failure::{Failure, Reason};
use crate::name::{NameError, RelativePath, printable};
use crate::request::Totals;

/// A file or directory to send: where it is and what the other side shall call it.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) directory: Arc<Directory>,
    /// Its place below the directory; `None` is the directory itself, whose children go out under their own names.
    pub(crate) place: Option<RelativePath>,
    /// Its name on the wire; `None` only together with `place`.
    pub(crate) name: Option<RelativePath>,
}

impl Source {
    /// A file or directory that the local user named; a link given by name is followed, those below it are not.
    pub(crate) fn local(path: &Path) -> Result<Self, Failure> {
        let real = path.canonicalize().map_err(|e| Failure::from_io(&e))?;
        let (Some(parent), Some(place)) = (real.parent(), real.file_name()) else {
            return Err(Failure::with_text(Reason::Name, "the root directory has no name to send it under"));
        };
        let name = path.file_name().unwrap_or(place);
        let parse = |text: &std::ffi::OsStr| RelativePath::parse(text.to_str().ok_or(NameError::NotText)?);
        Ok(Self {
            directory: Arc::new(Directory::open(parent)?),
            place: Some(parse(place)?),
            name: Some(parse(name)?),
        })
    }

    /// A file or directory of a served directory, `None` for all of it.
    pub(crate) fn served(directory: &Arc<Directory>, place: Option<RelativePath>) -> Result<Self, Failure> {
        // transfer 5.2: names are relative to the parent of what was asked for
        let name = place.as_ref().map(|p| RelativePath::parse(p.last())).transpose()?;
        Ok(Self { directory: Arc::clone(directory), place, name })
    }
}

/// A step of the walk.
#[derive(Debug)]
pub(crate) enum Step {
    Found { directory: Arc<Directory>, place: RelativePath, name: RelativePath, facts: Facts },
    Failed { name: String, failure: Failure },
}

/// Visits everything below the sources. Memory: the names of the directories on the way.
#[derive(Debug)]
pub(crate) struct Walk {
    waiting: Vec<Source>,
    failed: Vec<(String, Failure)>,
}

impl Walk {
    pub(crate) fn new(sources: &[Source]) -> Self {
        Self { waiting: sources.iter().rev().cloned().collect(), failed: Vec::new() }
    }

    fn add_children(&mut self, parent: &Source, children: Vec<Result<String, String>>) {
        for child in children.into_iter().rev() {
            let text = match child {
                Ok(text) => text,
                Err(shown) => {
                    self.failed.push((within(parent, &shown), NameError::NotText.into()));
                    continue;
                }
            };
            let extend = |base: &Option<RelativePath>| match base {
                Some(base) => base.join(&text),
                None => RelativePath::parse(&text),
            };
            match (extend(&parent.place), extend(&parent.name)) {
                (Ok(place), Ok(name)) => self.waiting.push(Source {
                    directory: Arc::clone(&parent.directory),
                    place: Some(place),
                    name: Some(name),
                }),
                // transfer 4.1: what is still being received is not there yet
                (Err(NameError::Reserved), _) | (_, Err(NameError::Reserved)) => {}
                (Err(error), _) | (_, Err(error)) => self.failed.push((within(parent, &text), error.into())),
            }
        }
    }
}

impl Iterator for Walk {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        loop {
            if let Some((name, failure)) = self.failed.pop() {
                return Some(Step::Failed { name, failure });
            }
            let source = self.waiting.pop()?;
            let (Some(place), Some(name)) = (source.place.clone(), source.name.clone()) else {
                match source.directory.children(None) {
                    Ok(children) => self.add_children(&source, children),
                    Err(failure) => self.failed.push((".".to_owned(), failure)),
                }
                continue;
            };
            let facts = match source.directory.describe(&place) {
                Ok(facts) => facts,
                Err(failure) => return Some(Step::Failed { name: name.as_str().to_owned(), failure }),
            };
            if facts.kind == EntryKind::Directory {
                match source.directory.children(Some(&place)) {
                    Ok(children) => self.add_children(&source, children),
                    Err(failure) => self.failed.push((name.as_str().to_owned(), failure)),
                }
            }
            return Some(Step::Found { directory: source.directory, place, name, facts });
        }
    }
}

/// Counts what a walk will find; what fails is not counted.
pub(crate) fn survey(sources: &[Source]) -> Totals {
    let mut totals = Totals::default();
    for step in Walk::new(sources) {
        if let Step::Found { facts, .. } = step {
            totals.files += 1;
            totals.bytes = totals.bytes.saturating_add(facts.size);
        }
    }
    totals
}

fn within(parent: &Source, child: &str) -> String {
    match &parent.name {
        Some(name) => format!("{}/{}", name.as_str(), printable(child)),
        None => printable(child),
    }
}
