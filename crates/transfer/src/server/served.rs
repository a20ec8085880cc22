//! What a server offers, and whether it accepts files.

use std::path::Path;
use std::sync::Arc;

use crate::client::MAX_LISTED;
use std::fs::File;

use crate::directory::{Directory, Facts};
use crate::entry::{Entry, EntryKind};
use crate::failure::{Failure, Reason};
use crate::files::{Origin, PutItem, PutPlan, Source, Step, Store, Tree, Walk, check_distinct};
use crate::name::RelativePath;
use crate::rules::{Excludes, Links, Rules};

/// What is served.
#[derive(Debug)]
pub(super) enum Served {
    /// A directory with all its content.
    Directory(Arc<Store>),
    /// Some files and directories and nothing else, under the rules of the local user.
    Offer(Vec<Source>, Rules),
}

impl Served {
    pub(super) fn directory(path: &Path) -> Result<Self, Failure> {
        Ok(Self::Directory(Arc::new(Store::new(Directory::open(path)?))))
    }

    pub(super) fn offer(plan: PutPlan) -> Result<Self, Failure> {
        let named = |item: &PutItem| item.source().map_err(|failure| failure.at(&item.shown()));
        let sources = plan.items.iter().map(named).collect::<Result<Vec<_>, _>>()?;
        check_distinct(&sources)?;
        Ok(Self::Offer(sources, plan.rules))
    }

    /// The rules for a client that requests these. The local user decides what leaves this host: a client can leave out
    /// more, and refuse to follow links.
    // transfer 7.5
    pub(super) fn rules(&self, wanted: Rules) -> Rules {
        let Self::Offer(_, own) = self else { return wanted };
        let links = if wanted.links == Links::Skip { Links::Skip } else { own.links };
        let patterns = own.exclude.patterns().iter().chain(wanted.exclude.patterns()).cloned();
        let exclude = Excludes::new(patterns).unwrap_or_else(|_| own.exclude.clone());
        Rules { links, exclude }
    }

    /// The sources of the files that a client requests; no names request everything.
    pub(super) fn sources(&self, paths: Vec<RelativePath>) -> Result<Vec<Source>, Failure> {
        match (self, paths.is_empty()) {
            (Self::Directory(store), true) => {
                Tree::served(&store.directory, None).map(|tree| vec![Source::Tree(tree)])
            }
            (Self::Offer(sources, _), true) => Ok(sources.clone()),
            (_, false) => paths.into_iter().map(|path| self.find(path)).collect(),
        }
    }

    /// Whether a client that requested these names requested everything.
    pub(super) fn is_everything(&self, paths: &[RelativePath]) -> bool {
        match self {
            _ if paths.is_empty() => true,
            Self::Directory(_) => false,
            Self::Offer(sources, _) => {
                sources.iter().all(|source| source.name().is_some_and(|name| paths.contains(name)))
            }
        }
    }

    fn find(&self, path: RelativePath) -> Result<Source, Failure> {
        let sources = match self {
            Self::Directory(store) => return Tree::served(&store.directory, Some(path)).map(Source::Tree),
            Self::Offer(sources, _) => sources,
        };
        let mut offered = sources.iter();
        let offered = offered.find(|source| source.name().is_some_and(|name| name.as_str() == path.first()));
        // A name that is not offered is not looked up, so it is not found.
        let not_offered = || Failure::with_text(Reason::NotFound, format!("{path} is not offered"));
        let tree = match offered {
            Some(feed @ Source::Feed(_)) if path.parent().is_none() => return Ok(feed.clone()),
            Some(Source::Tree(tree)) => tree,
            Some(Source::Feed(_)) | None => return Err(not_offered()),
        };
        let place = tree.place.clone().ok_or_else(not_offered)?;
        let place = path.components().skip(1).try_fold(place, |place, component| place.join(component))?;
        let name = Some(RelativePath::parse(path.last())?);
        Ok(Source::Tree(Tree { place: Some(place), name, ..tree.clone() }))
    }

    /// Opens a file whose parts can be read in any order; a link given by name is followed as for `get`.
    // transfer 8.1
    pub(super) fn open(&self, path: RelativePath) -> Result<(File, Entry), Failure> {
        let rules = self.rules(Rules::default());
        let found = match Walk::new(vec![self.find(path)?], rules).next() {
            Some(Step::Found { origin: Origin::Place(directory, place), entry, .. })
                if entry.kind == EntryKind::File =>
            {
                (directory, place, entry)
            }
            Some(Step::Failed { failure, .. }) => return Err(failure),
            Some(Step::Found { .. }) => return Err(Failure::with_text(Reason::NotFile, NO_PARTS)),
            None => return Err(Failure::new(Reason::NotFound)),
        };
        let (directory, place, Entry { path, .. }) = found;
        let (file, facts) = directory.read(&place)?;
        Ok((file, entry(path, facts)))
    }

    /// The content of a directory, `None` for everything that is served, without deeper levels.
    ///
    /// Names that cannot be transferred are left out, as are links, devices and files that vanish meanwhile.
    pub(super) fn list(&self, path: Option<&RelativePath>) -> Result<Vec<Entry>, Failure> {
        let (directory, place) = match (self, path) {
            (Self::Offer(sources, _), None) => return Ok(sources.iter().filter_map(offered).collect()),
            (Self::Directory(store), None) => (Arc::clone(&store.directory), None),
            (_, Some(path)) => match self.find(path.clone())? {
                Source::Tree(tree) => (tree.directory, tree.place),
                Source::Feed(_) => return Err(Failure::new(Reason::NotDirectory)),
            },
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

/// Why no part of a directory, a pipe or generated content can be read.
const NO_PARTS: &str = "only parts of a regular file can be read";

fn offered(source: &Source) -> Option<Entry> {
    match source {
        Source::Tree(tree) => {
            let facts = tree.directory.describe(tree.place.as_ref()?).ok()?;
            Some(entry(tree.name.clone()?, facts))
        }
        Source::Feed(feed) => Some(feed.entry()),
    }
}

fn entry(path: RelativePath, facts: Facts) -> Entry {
    let Facts { kind, size, room, modified, mode, .. } = facts;
    Entry { path, kind, size, room, modified, mode }
}
