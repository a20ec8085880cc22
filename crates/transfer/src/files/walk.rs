//! Everything below some starting points, parents first, in order of names.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use crate::directory::{ChildName, Directory, Facts};
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

    /// A child of this directory; `None` if it is still being received.
    fn child(&self, child: ChildName) -> Result<Option<Self>, Step> {
        let failed = |name: &str, error: NameError| {
            let name = match &self.name {
                Some(parent) => format!("{}/{}", parent.as_str(), printable(name)),
                None => printable(name),
            };
            Step::Failed { name, failure: error.into() }
        };
        let text = child.map_err(|shown| failed(&shown, NameError::NotText))?;
        let extend = |base: &Option<RelativePath>| match base {
            Some(base) => base.join(&text),
            None => RelativePath::parse(&text),
        };
        match (extend(&self.place), extend(&self.name)) {
            (Ok(place), Ok(name)) => Ok(Some(Self {
                directory: Arc::clone(&self.directory),
                place: Some(place),
                name: Some(name),
            })),
            // transfer 5.1: what is still being received is not there yet
            (Err(NameError::Reserved), _) | (_, Err(NameError::Reserved)) => Ok(None),
            (Err(error), _) | (_, Err(error)) => Err(failed(&text, error)),
        }
    }

    /// A file or directory of a served directory, `None` for all of it.
    pub(crate) fn served(directory: &Arc<Directory>, place: Option<RelativePath>) -> Result<Self, Failure> {
        // transfer 7.2: names are relative to the parent of what was asked for
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

/// Visits everything below the sources, each directory as it is reached.
///
/// Memory: the names in each directory on the way to the present place.
// transfer 3.1
#[derive(Debug)]
pub(crate) struct Walk {
    sources: std::vec::IntoIter<Source>,
    levels: Vec<Level>,
}

/// A directory that is being visited.
#[derive(Debug)]
struct Level {
    source: Source,
    children: std::vec::IntoIter<ChildName>,
}

impl Walk {
    pub(crate) fn new(sources: Vec<Source>) -> Self {
        Self { sources: sources.into_iter(), levels: Vec::new() }
    }

    /// Looks at what has a name; a directory's children are next.
    fn visit(&mut self, source: Source) -> Option<Step> {
        let (Some(place), Some(name)) = (source.place.clone(), source.name.clone()) else {
            return self.enter(source).err().map(|failure| Step::Failed { name: ".".to_owned(), failure });
        };
        let shown = || name.as_str().to_owned();
        let facts = match source.directory.describe(&place) {
            Ok(facts) => facts,
            Err(failure) => return Some(Step::Failed { name: shown(), failure }),
        };
        let directory = Arc::clone(&source.directory);
        if facts.kind == EntryKind::Directory
            && let Err(failure) = self.enter(source)
        {
            return Some(Step::Failed { name: shown(), failure });
        }
        Some(Step::Found { directory, place, name, facts })
    }

    fn enter(&mut self, source: Source) -> Result<(), Failure> {
        let children = source.directory.children(source.place.as_ref())?.into_iter();
        self.levels.push(Level { source, children });
        Ok(())
    }
}

impl Iterator for Walk {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        loop {
            let source = match self.levels.last_mut() {
                None => self.sources.next()?,
                Some(level) => match level.children.next() {
                    None => {
                        self.levels.pop();
                        continue;
                    }
                    Some(child) => match level.source.child(child) {
                        Ok(Some(source)) => source,
                        Ok(None) => continue,
                        Err(step) => return Some(step),
                    },
                },
            };
            if let Some(step) = self.visit(source) {
                return Some(step);
            }
        }
    }
}

/// Checks that no two sources would become the same file.
// transfer 3.5
pub(crate) fn check_distinct(sources: &[Source]) -> Result<(), Failure> {
    let mut names = BTreeSet::new();
    for name in sources.iter().filter_map(|source| source.name.as_ref()) {
        if !names.insert(name.last()) {
            let text = format!("two of the paths would both become {}", printable(name.last()));
            return Err(Failure::with_text(Reason::Name, text));
        }
    }
    Ok(())
}

/// Counts what a walk will find; what fails is not counted.
pub(crate) fn survey(sources: &[Source]) -> Totals {
    let mut totals = Totals::default();
    for step in Walk::new(sources.to_vec()) {
        if let Step::Found { facts, .. } = step {
            totals.files += 1;
            totals.bytes = totals.bytes.saturating_add(facts.size);
        }
    }
    totals
}
