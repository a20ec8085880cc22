//! What a server has to give, and whether it takes anything.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::client::MAX_LISTED;
use crate::directory::{Directory, Facts};
use crate::entry::Entry;
use crate::failure::{Failure, Reason};
use crate::files::{Source, Store, check_distinct};
use crate::name::RelativePath;

/// What is served.
#[derive(Debug)]
pub(super) enum Served {
    /// A directory with all that is in it.
    Directory(Arc<Store>),
    /// Some files and directories and nothing else.
    Offer(Vec<Source>),
}

impl Served {
    pub(super) fn directory(path: &Path) -> Result<Self, Failure> {
        Ok(Self::Directory(Arc::new(Store::new(Directory::open(path)?))))
    }

    pub(super) fn offer(files: &[PathBuf]) -> Result<Self, Failure> {
        let named = |path: &PathBuf| Source::local(path).map_err(|failure| failure.at(path));
        let sources = files.iter().map(named).collect::<Result<Vec<_>, _>>()?;
        check_distinct(&sources)?;
        Ok(Self::Offer(sources))
    }

    /// Where the files are that a client asks for; no names ask for everything.
    pub(super) fn sources(&self, paths: Vec<RelativePath>) -> Result<Vec<Source>, Failure> {
        match (self, paths.is_empty()) {
            (Self::Directory(store), true) => Source::served(&store.directory, None).map(|s| vec![s]),
            (Self::Offer(sources), true) => Ok(sources.clone()),
            (_, false) => paths.into_iter().map(|path| self.find(path)).collect(),
        }
    }

    /// Whether a client that asked for these names asked for all there is.
    pub(super) fn is_everything(&self, paths: &[RelativePath]) -> bool {
        match self {
            _ if paths.is_empty() => true,
            Self::Directory(_) => false,
            Self::Offer(sources) => {
                sources.iter().all(|source| source.name.as_ref().is_some_and(|name| paths.contains(name)))
            }
        }
    }

    fn find(&self, path: RelativePath) -> Result<Source, Failure> {
        let sources = match self {
            Self::Directory(store) => return Source::served(&store.directory, Some(path)),
            Self::Offer(sources) => sources,
        };
        let offered = sources
            .iter()
            .find(|source| source.name.as_ref().is_some_and(|name| name.as_str() == path.first()));
        // A name that is not offered is looked for nowhere, so it is not found.
        let Some((offered, place)) = offered.and_then(|source| Some((source, source.place.clone()?))) else {
            return Err(Failure::with_text(Reason::NotFound, format!("{path} is not offered")));
        };
        let place = path.components().skip(1).try_fold(place, |place, component| place.join(component))?;
        let name = Some(RelativePath::parse(path.last())?);
        Ok(Source { directory: Arc::clone(&offered.directory), place: Some(place), name })
    }

    /// What a directory holds, `None` for all that is served: not what lies deeper.
    ///
    /// Names that cannot travel are left out, as are links, devices and files that vanish meanwhile.
    pub(super) fn list(&self, path: Option<&RelativePath>) -> Result<Vec<Entry>, Failure> {
        let (directory, place) = match (self, path) {
            (Self::Offer(sources), None) => return Ok(sources.iter().filter_map(offered).collect()),
            (Self::Directory(store), None) => (Arc::clone(&store.directory), None),
            (_, Some(path)) => {
                let source = self.find(path.clone())?;
                (source.directory, source.place)
            }
        };
        let join = |base: Option<&RelativePath>, child: &str| match base {
            Some(base) => base.join(child),
            None => RelativePath::parse(child),
        };
        let mut entries = Vec::new();
        for child in directory.children(place.as_ref())? {
            let Ok(child) = child else { continue };
            let (Ok(name), Ok(place)) = (join(path, &child), join(place.as_ref(), &child)) else { continue };
            let Ok(facts) = directory.describe(&place) else { continue };
            if entries.len() >= MAX_LISTED {
                return Err(Failure::new(Reason::Limit));
            }
            entries.push(entry(name, facts));
        }
        Ok(entries)
    }
}

fn offered(source: &Source) -> Option<Entry> {
    let facts = source.directory.describe(source.place.as_ref()?).ok()?;
    Some(entry(source.name.clone()?, facts))
}

fn entry(path: RelativePath, facts: Facts) -> Entry {
    Entry { path, kind: facts.kind, size: facts.size, modified: facts.modified, mode: facts.mode }
}
