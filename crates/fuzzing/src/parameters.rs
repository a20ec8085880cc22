//! The TLS parameters: every decoded value can be encoded again.

use manyway_wire::mmsp2::Parameters;

/// Reads the input as the extension.
pub fn run(data: &[u8]) {
    match Parameters::decode(data) {
        Ok(parameters) => {
            let bytes = parameters.encode();
            assert_eq!(Parameters::decode(&bytes).as_ref(), Ok(&parameters));
            assert!(parameters.application.len() <= 64 && parameters.max_datagram >= 1200);
            assert!(parameters.rendezvous.len() <= Parameters::MAX_RENDEZVOUS);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
