//! `manyway decode`.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `decode`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = EXAMPLES,
    long_about = "Show packets and their blocks in words.\n\nFILE is a capture (pcap or pcapng) or hex text: one UDP \
    payload a line, or a dump of xxd, hexdump -C or tcpdump -x. Initial packets are always decrypted, all others with \
    the secrets of a TLS key log, which a program writes that runs with SSLKEYLOGFILE=FILE. The capture must hold the \
    connection from its first packet on. With -v the bytes are shown too.\n\nThe exit status is 1 if something was \
    malformed, or could not be read."
)]
pub struct DecodeArgs {
    /// Capture or hex text; - or nothing for standard input
    #[arg(value_name = "FILE", default_value = "-")]
    pub file: PathBuf,
    /// File with the secrets of the connections; without it, the one that SSLKEYLOGFILE names, if it is there
    #[arg(long, value_name = "FILE", conflicts_with = "blocks")]
    pub keylog: Option<PathBuf>,
    /// Show only datagrams from or to this UDP port
    #[arg(long, value_name = "PORT", conflicts_with = "blocks")]
    pub port: Option<u16>,
    /// The input is hex text of bare blocks: the inside of one packet
    #[arg(long)]
    pub blocks: bool,
}

const EXAMPLES: &str = "\
Examples:
  SSLKEYLOGFILE=keys manyway bench @home.ticket
  tcpdump -i any -w trace.pcap udp port 4455
  manyway decode --keylog keys trace.pcap
  tcpdump -i any -U -w - udp port 4455 | manyway decode --keylog keys
  manyway decode --json trace.pcap | jq 'select(.path == 1)'
  echo 850000064200 | manyway decode --blocks";

#[cfg(test)]
mod tests {
    use crate::args::{Cli, Command};
    use clap::Parser;

    #[test]
    fn standard_input_is_the_default_and_keys_do_not_go_with_bare_blocks() {
        let cli = Cli::try_parse_from(["manyway", "decode", "--port", "4455"]).unwrap();
        let Command::Decode(decode) = cli.command else { panic!("another command") };
        assert_eq!((decode.file.to_str(), decode.port), (Some("-"), Some(4455)));
        assert!(Cli::try_parse_from(["manyway", "decode", "--blocks", "--keylog", "keys"]).is_err());
    }
}
