//! The secret of the code that offers files once.

/// The secret of a code for one offer. Its last two bytes follow from the others, so that a used code is recognised and
/// named as such. It keeps 112 random bits.
pub(super) fn code_secret(mut secret: [u8; 16]) -> [u8; 16] {
    let mark = code_mark(&secret);
    if let Some(end) = secret.last_chunk_mut() {
        *end = mark;
    }
    secret
}

/// Whether a ticket's secret is that of an offer; one in 65 536 other tickets seems so.
pub(super) fn is_code(secret: &[u8; 16]) -> bool {
    secret.last_chunk() == Some(&code_mark(secret))
}

fn code_mark(secret: &[u8; 16]) -> [u8; 2] {
    let random = secret.first_chunk::<14>().copied().unwrap_or_default();
    let key = blake3::derive_key("manyway code of an offer, version 1", &random);
    key.first_chunk().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_of_an_offer_is_distinguished_from_a_ticket() {
        for byte in 0..=255 {
            let secret = code_secret([byte; 16]);
            assert!(is_code(&secret) && !is_code(&[byte; 16]));
            assert_eq!(secret[..14], [byte; 14]);
        }
    }
}
