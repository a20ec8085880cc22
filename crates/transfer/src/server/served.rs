//! What a server offers, and whether it accepts files.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use crate::client::MAX_LISTED;
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
    // transfer 7.8
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
        let (sources, own) = match self {
            Self::Directory(store) => return Tree::served(&store.directory, Some(path)).map(Source::Tree),
            Self::Offer(sources, own) => (sources, own),
        };
        let mut offered = sources.iter();
        let offered = offered.find(|source| source.name().is_some_and(|name| name.as_str() == path.first()));
        // A name that is not offered is not looked up, so it is not found.
        let not_offered = || Failure::with_text(Reason::NotFound, format!("{path} is not offered"));
        match offered {
            Some(source) if path.parent().is_none() => Ok(source.clone()),
            Some(Source::Tree(tree)) => tree.below(&path, own.links).map(Source::Tree),
            Some(Source::Feed(_)) | None => Err(not_offered()),
        }
    }

    /// Opens a file whose parts can be read in any order; a link given by name is followed as for `get`.
    // transfer 8.1
    pub(super) fn open(&self, path: RelativePath) -> Result<(File, Entry), Failure> {
        let rules = self.rules(Rules::default());
        let source = self.find(path)?;
        // A walk would read the names in a directory.
        if let Source::Tree(Tree { directory, place: Some(place), .. }) = &source
            && directory.describe(place).is_ok_and(|facts| facts.kind == EntryKind::Directory)
        {
            return Err(Failure::with_text(Reason::NotFile, NO_PARTS));
        }
        let found = match Walk::new(vec![source], rules).next() {
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
    /// Names that cannot be transferred are left out, as are links, devices, files that vanish meanwhile, and what the
    /// user who offers it leaves out.
    pub(super) fn list(&self, path: Option<&RelativePath>) -> Result<Vec<Entry>, Failure> {
        let tree = match (self, path) {
            (Self::Offer(sources, _), None) => return Ok(sources.iter().filter_map(offered).collect()),
            (Self::Directory(store), None) => Tree::served(&store.directory, None)?,
            (_, Some(path)) => match self.find(path.clone())? {
                Source::Tree(tree) => tree,
                Source::Feed(_) => return Err(Failure::new(Reason::NotDirectory)),
            },
        };
        let exclude = self.rules(Rules::default()).exclude;
        if tree.is_left_out_of_offer(&exclude, true) {
            return Err(Failure::new(Reason::NotFound));
        }
        let join = |base: Option<&RelativePath>, child: &str| match base {
            Some(base) => base.join(child),
            None => RelativePath::parse(child),
        };
        let mut entries = Vec::new();
        for child in tree.directory.children(tree.place.as_ref())? {
            let Ok(child) = child else { continue };
            let (Ok(name), Ok(place)) = (join(path, &child), join(tree.place.as_ref(), &child)) else {
                continue;
            };
            let Ok(facts) = tree.directory.describe(&place) else { continue };
            let is_directory = facts.kind == EntryKind::Directory;
            // In a served directory the user of this host leaves nothing out.
            if exclude.fits(&name, is_directory) {
                continue;
            }
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
