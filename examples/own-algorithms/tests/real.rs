//! The program as the agent of the lab on real sockets: as root, in namespaces.
#![cfg(target_os = "linux")]

use std::path::PathBuf;
use std::time::Duration;

use manyway::ConnectionConfig;
use manyway_lab::real::Real;
use manyway_lab::{Contender, Runner as _, Scenario};

#[test]
fn the_lab_uses_algorithms_of_the_program_that_registers_them() {
    let mut real = match Real::new(PathBuf::from(env!("CARGO_BIN_EXE_own-algorithms"))) {
        Ok(real) => real,
        Err(reason) => {
            assert!(std::env::var_os("MANYWAY_REQUIRE_NAMESPACES").is_none(), "{reason}");
            println!("skipped: {reason}");
            return;
        }
    };
    let mut config = ConnectionConfig::default();
    own_algorithms::register(&mut config).unwrap();
    let name = "manyway:scheduler=ration=10,congestion=gentle";
    let contender = Contender::find_with(name, &[], &config).unwrap();
    let no_files = |_: &str| Err(std::io::ErrorKind::NotFound.into());
    let scenario = Scenario::parse("metered.toml", include_str!("../metered.toml"), &no_files).unwrap();
    let outcome = real.run(&scenario.with_duration(Duration::from_secs(3)), &contender, 1).unwrap();
    // An agent without them would have refused their names.
    assert_eq!(outcome.failure, None);
    let [line, modem] = [0, 1].map(|route| outcome.routes[route].up.total().get());
    assert!((1..line / 6).contains(&modem), "{modem} beside {line}");
}
