//! What a report begins with.

use serde::{Deserialize, Serialize};

/// The first part of a report, before the common ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lead {
    /// Its heading.
    pub title: String,
    /// Preformatted lines.
    pub text: String,
    /// Figures below.
    pub pictures: Vec<Picture>,
}

/// A figure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    /// Its file name, without the extension.
    pub file: String,
    /// An SVG document.
    pub svg: String,
}
