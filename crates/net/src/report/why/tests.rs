//! The texts of every reason.

use manyway_proto::LocalAddress;

use super::*;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn every_reason_against_a_path_has_a_sentence_and_a_word() {
    let local = LocalAddress { interface: 2, address: "192.0.2.7:40000".parse().unwrap() };
    let chosen = FourTuple::udp(local, "203.0.113.5:4455".parse().unwrap());
    let all = [
        Unused::Excluded(Exclusion::ByUser),
        Unused::NoAnswer { waited: seconds(12), carrier: Carrier::Udp },
        Unused::NoAnswer { waited: seconds(12), carrier: Carrier::Tcp },
        Unused::NoAnswer { waited: seconds(600), carrier: Carrier::Udp },
        Unused::Suspect {
            silent: Duration::from_millis(120),
            reason: PathReason::Silence { lasted: Duration::from_millis(60) },
        },
        Unused::Suspect { silent: Duration::from_millis(5), reason: PathReason::Unreachable },
        Unused::PeerReceivesNothing,
        Unused::NoRoute,
        Unused::Denied,
        Unused::AddressGone,
        Unused::Flaps { times: 3 },
        Unused::Probation,
        Unused::Parked(PathReason::TriedWithout),
        Unused::Backup,
        Unused::PeerWantsBackup,
        Unused::PeerSendsElsewhere { idle: Some(seconds(3)) },
        Unused::PeerSendsElsewhere { idle: None },
        Unused::OtherPair { chosen },
        Unused::LeftOut { rtt: Some(Duration::from_millis(80)) },
        Unused::LeftOut { rtt: None },
        Unused::Closed,
        Unused::NoRoom,
    ];
    let told: Vec<_> = all.iter().map(|reason| format!("{}: {reason}", reason.word())).collect();
    insta::assert_snapshot!(told.join("\n"), @r"
    excluded: excluded by the user
    no-answer: no answer on UDP for 12 s
    no-answer: no answer on TCP for 12 s
    no-answer: no answer on UDP for 10 min
    suspect: silent for 120 ms, being probed
    suspect: ICMP unreachable; being probed
    peer-receives-nothing: the peer receives nothing on it
    no-route: no route (address removed?)
    denied: a firewall of this host forbids sending
    address-gone: one of its addresses is gone
    flaps: answers, but died soon after each of 3 returns: left alone for some seconds
    probation: answers again, on probation
    parked: parked: the paths together are slower than the best one: tried without it
    backup: role backup: only when none of the others works
    peer-wants-backup: backup at the peer: only when none of the others works
    peer-sends-elsewhere: the peer sends elsewhere; no data for 3 s
    peer-sends-elsewhere: the peer sends elsewhere; no data yet
    other-pair: one path for each interface: 192.0.2.7 to 203.0.113.5:4455 answered first
    left-out: left out: other pairs cost less (80 ms here)
    left-out: left out: no answer on UDP
    closed: closed by the application
    no-room: the two ends allow no more paths
    ");
}

#[test]
fn every_reason_for_a_path_has_a_sentence_and_a_word() {
    let all = [
        Used::ByPeer,
        Used::Alone,
        Used::Backup,
        Used::PeerWantsBackup,
        Used::Secondary,
        Used::Parked,
        Used::Probation,
    ];
    let told: Vec<_> = all.iter().map(|reason| format!("{}: {reason}", reason.word())).collect();
    insta::assert_snapshot!(told.join("\n"), @r"
    by-peer: the peer sends on it
    alone: the only path that works
    backup: role backup: none of the others works
    peer-wants-backup: backup at the peer: none of the others works
    secondary: role secondary: none of the primaries works
    parked: parked, but none of the others works
    probation: answers again, on probation
    ");
}

#[test]
fn every_purpose_has_a_word_and_sentences_for_both_cases() {
    let told = Purpose::ALL.iter().map(|purpose| {
        let unused = Unused::NotNeeded { purpose: *purpose, idle: Some(seconds(3)) };
        format!("{}: {} | {unused}", purpose.word(), Used::For(*purpose))
    });
    insta::assert_snapshot!(told.collect::<Vec<_>>().join("\n"), @r"
    any: the scheduler gives it data | the scheduler gives it no data; no data for 3 s
    round-robin: takes its turn | its turn has not come; no data for 3 s
    bulk: carries its share of all but small traffic | small traffic stays on the oldest path; no data for 3 s
    earliest-arrival: data arrives earliest over it | data would arrive later over it; no data for 3 s
    lowest-rtt: has the lowest RTT | has the lowest RTT only since a moment ago; no data for 3 s
    higher-rtt: carries what paths with a lower RTT cannot | higher RTT: paths with a lower one suffice; no data for 3 s
    secondary: role secondary: carries what the primaries cannot | role secondary: waits until the primaries are full; no data for 3 s
    urgent: carries late and urgent data, and what paths with a lower RTT cannot | higher RTT, and no data is late or urgent; no data for 3 s
    copies: carries a copy of all data | no window for copies; no data for 3 s
    primary: is the primary path | the primary path only since a moment ago; no data for 3 s
    fallback: replaces the primary path, which does not work | replaces the primary path only since a moment ago; no data for 3 s
    retransmissions: not the primary path: carries retransmissions | not the primary path: only for retransmissions; no data for 3 s
    needs-consent: costs more, and the application has not allowed it | costs more: needs permission of the application; no data for 3 s
    streams: streams are bound to it | the streams bound to it send nothing; no data for 3 s
    orphaned-streams: carries streams bound to a path that does not work | the streams bound to it send nothing; no data for 3 s
    unbound: the next stream without a path goes over it | no stream is bound to it; no data for 3 s
    more-costly: costs more: carries what cheaper paths cannot | costs more: cheaper paths suffice; no data for 3 s
    no-background: costs something: background data does not use it | costs something: background data does not use it; no data for 3 s
    cap-reached: the data cap of its interface is reached | the data cap of its interface is reached; no data for 3 s
    ");
}
