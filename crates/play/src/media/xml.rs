//! The tags of an XML document: as much as manifests need, and any text may be given.

/// A tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag<'a> {
    /// Its name without a prefix.
    pub(super) name: &'a str,
    attributes: &'a str,
    /// Whether it ends an element.
    pub(super) is_end: bool,
    /// Whether its element is empty.
    pub(super) is_empty: bool,
}

/// The tags of a document in their order, without declarations and comments.
pub(super) fn tags(text: &str) -> impl Iterator<Item = Tag<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let (_, behind) = rest.split_once('<')?;
            if let Some(comment) = behind.strip_prefix("!--") {
                (_, rest) = comment.split_once("-->")?;
                continue;
            }
            let (inside, behind) = behind.split_once('>')?;
            rest = behind;
            if !inside.starts_with(['?', '!']) {
                return Some(Tag::of(inside));
            }
        }
    })
}

impl<'a> Tag<'a> {
    fn of(inside: &'a str) -> Self {
        let (inside, is_end) = inside.strip_prefix('/').map_or((inside, false), |inside| (inside, true));
        let (inside, is_empty) = inside.strip_suffix('/').map_or((inside, false), |inside| (inside, true));
        let (name, attributes) =
            inside.split_once(|letter: char| letter.is_whitespace()).unwrap_or((inside, ""));
        let name = name.rsplit_once(':').map_or(name, |(_, name)| name);
        Self { name, attributes, is_end, is_empty }
    }

    /// The value of an attribute.
    pub(super) fn attribute(&self, wanted: &str) -> Option<String> {
        let mut rest = self.attributes;
        loop {
            let (name, behind) = rest.split_once('=')?;
            let behind = behind.trim_start();
            let quote = behind.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
            let (value, behind) = behind.get(1..)?.split_once(quote)?;
            if name.trim() == wanted {
                let plain = value.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
                return Some(plain.replace("&apos;", "'").replace("&amp;", "&"));
            }
            rest = behind;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_and_their_attributes_are_read() {
        let text = "<?xml?><!-- <x> --><a:MPD  one = 'x y'\n two=\"1 &amp; 2\"><b/></a:MPD>< <";
        let found: Vec<_> = tags(text).collect();
        assert_eq!(found.iter().map(|tag| tag.name).collect::<Vec<_>>(), ["MPD", "b", "MPD"]);
        assert_eq!(found[0].attribute("two").as_deref(), Some("1 & 2"));
        assert_eq!((found[0].attribute("one").as_deref(), found[0].attribute("on")), (Some("x y"), None));
        assert!(found[1].is_empty && found[2].is_end);
    }
}
