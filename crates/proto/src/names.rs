//! Names of schedulers, congestion controllers and modes, by which settings choose them.

/// Checks the name of a custom item, such as a scheduler.
pub(crate) fn check_new_name(
    name: &str,
    taken: impl IntoIterator<Item = &'static str>,
) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || !name.chars().all(fits) {
        return Err(format!("{name:?} is no name: lower-case letters, digits and hyphens"));
    }
    if taken.into_iter().any(|taken| taken == name) {
        return Err(format!("{name:?} is taken"));
    }
    Ok(())
}

/// The error text for an unknown name.
pub(crate) fn unknown_name(name: &str, known: impl Iterator<Item = &'static str>) -> String {
    format!("{name:?} is not one of: {}", known.collect::<Vec<_>>().join(", "))
}
