//! TLS alerts about identity.

use rustls::AlertDescription;

/// Whether a TLS alert (RFC 8446, section 6) says that an end could not prove its identity, or is not accepted.
///
/// Other alerts are failures of the protocol: no common application protocol, or an unexpected message.
///
/// ```
/// use manyway_proto::is_authentication_alert;
/// assert!(is_authentication_alert(49)); // access_denied
/// assert!(!is_authentication_alert(120)); // no_application_protocol
/// ```
pub fn is_authentication_alert(alert: u8) -> bool {
    [
        AlertDescription::BadCertificate,
        AlertDescription::UnsupportedCertificate,
        AlertDescription::CertificateRevoked,
        AlertDescription::CertificateExpired,
        AlertDescription::CertificateUnknown,
        AlertDescription::UnknownCA,
        AlertDescription::AccessDenied,
        AlertDescription::DecryptError,
        AlertDescription::CertificateRequired,
    ]
    .into_iter()
    .any(|of_identity| u8::from(of_identity) == alert)
}
