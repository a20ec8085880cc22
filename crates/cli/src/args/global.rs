//! Options of every command.

use std::str::FromStr;
use std::time::Duration;

use clap::Args;

use crate::output::units::parse_duration;

/// Options of every command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of every command")]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub struct GlobalArgs {
    /// Print JSON for programs on standard output
    #[arg(long, global = true)]
    pub json: bool,
    /// Print no progress and only errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Log more; twice for decisions, three times for every packet
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Use this interface, and only those named so; may be given several times
    #[arg(short = 'I', long = "interface", global = true, value_name = "IF[,role=ROLE]")]
    #[arg(
        long_help = "Use this interface, and only those named so; may be given several times. ROLE is primary (the \
        default), secondary (joins when the primaries are full), backup (only when none of the others works) or \
        never. Without this option every usable interface is used."
    )]
    pub interfaces: Vec<InterfaceArg>,
    /// Do not use this interface; may be given several times
    #[arg(long, global = true, value_name = "IF")]
    pub exclude: Vec<String>,
    /// How data are shared out among the paths
    #[arg(long, global = true, value_name = "NAME")]
    pub scheduler: Option<String>,
    /// How each path avoids congestion
    #[arg(long, global = true, value_name = "NAME")]
    pub congestion: Option<String>,
    /// How long to try to reach the other side
    #[arg(long, global = true, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    pub connect_timeout: Duration,
    /// Use IPv4 only
    #[arg(short = '4', long, global = true, conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// Use IPv6 only
    #[arg(short = '6', long, global = true)]
    pub ipv6: bool,
}

/// When an interface is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Role {
    /// Always.
    #[default]
    Primary,
    /// When the primaries are full or suspect.
    Secondary,
    /// When none of the others works.
    Backup,
    /// Never.
    Never,
}

/// `IF[,role=ROLE]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceArg {
    /// The system's name of the interface.
    pub name: String,
    /// Its role.
    pub role: Role,
}

impl FromStr for InterfaceArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut fields = text.split(',');
        let name = fields.next().unwrap_or_default();
        if name.is_empty() {
            return Err("the name of the interface is missing; example: eth0,role=backup".to_owned());
        }
        let mut role = Role::default();
        for field in fields {
            role = match field.split_once('=') {
                Some(("role", "primary")) => Role::Primary,
                Some(("role", "secondary")) => Role::Secondary,
                Some(("role", "backup")) => Role::Backup,
                Some(("role", "never")) => Role::Never,
                Some(("role", other)) => {
                    return Err(format!("role {other:?} is none of primary, secondary, backup, never"));
                }
                Some(_) | None => return Err(format!("{field:?} is not known; example: eth0,role=backup")),
            };
        }
        Ok(Self { name: name.to_owned(), role })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_may_have_a_role() {
        assert_eq!("wlan0".parse(), Ok(InterfaceArg { name: "wlan0".into(), role: Role::Primary }));
        assert_eq!(
            "wwan0,role=backup".parse(),
            Ok(InterfaceArg { name: "wwan0".into(), role: Role::Backup })
        );
    }

    #[test]
    fn an_error_says_what_to_type_instead() {
        let error = |text: &str| text.parse::<InterfaceArg>().unwrap_err();
        assert!(error("").contains("example: eth0"));
        assert!(error("a,role=first").contains("none of primary"));
        assert!(error("a,cost=3").contains("\"cost=3\" is not known"));
    }
}
