//! A parsed file, and its code that only tests build.

use proc_macro2::{TokenStream, TokenTree};
use syn::{Attribute, Meta};

/// A file of Rust.
pub(crate) struct Source {
    pub(crate) lines: usize,
    pub(crate) syntax: syn::File,
}

impl Source {
    pub(super) fn parse(text: &str) -> syn::Result<Self> {
        Ok(Self { lines: text.lines().count(), syntax: syn::parse_file(text)? })
    }
}

/// Whether an item is built for tests only: `#[test]` in any spelling, or a `cfg` that needs `test`.
pub(crate) fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let name = attribute.path().segments.last().map(|segment| segment.ident.to_string());
        match (name.as_deref(), &attribute.meta) {
            (Some("test"), _) => true,
            (Some("cfg"), Meta::List(list)) => needs_test(&list.tokens),
            _ => false,
        }
    })
}

/// Whether a condition holds only where `test` does: `test` alone, or within `all`, but not within `any` or `not`.
fn needs_test(condition: &TokenStream) -> bool {
    let tokens: Vec<_> = condition.clone().into_iter().collect();
    let is_word = |token: &TokenTree, word: &str| matches!(token, TokenTree::Ident(ident) if ident == word);
    tokens.iter().enumerate().any(|(at, token)| match token {
        TokenTree::Ident(ident) => ident == "test",
        TokenTree::Group(group) => {
            let head = at.checked_sub(1).and_then(|before| tokens.get(before));
            head.is_some_and(|head| is_word(head, "all")) && needs_test(&group.stream())
        }
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use super::is_for_tests;

    #[test]
    fn code_that_only_tests_build_is_test_code() {
        for (text, expected) in [
            ("#[cfg(test)] mod a;", true),
            ("#[test] fn a() {}", true),
            ("#[tokio::test(flavor = \"x\")] fn a() {}", true),
            ("#[cfg(all(test, unix))] mod a;", true),
            ("#[cfg(any(test, unix))] mod a;", false),
            ("#[cfg(not(test))] mod a;", false),
            ("#[cfg(feature = \"test\")] mod a;", false),
            ("mod test;", false),
        ] {
            let item: syn::Item = syn::parse_str(text).unwrap();
            let attributes = if let syn::Item::Mod(item) = &item {
                &item.attrs
            } else if let syn::Item::Fn(item) = &item {
                &item.attrs
            } else {
                panic!("{text}")
            };
            assert_eq!(is_for_tests(attributes), expected, "{text}");
        }
    }
}
