//! Queries to name servers, and what is believed of their answers.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ring::rand::{SecureRandom as _, SystemRandom};
use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, Question, TYPE};

/// A query for the addresses of a name, of one family.
#[derive(Debug)]
pub(super) struct Query {
    id: u16,
    kind: TYPE,
    bytes: Vec<u8>,
}

impl Query {
    /// For IPv6 and for IPv4.
    ///
    /// # Errors
    /// It is no name, or the system gives no random number.
    pub(super) fn of_both_families(name: &str) -> io::Result<[Self; 2]> {
        Ok([Self::new(name, TYPE::AAAA)?, Self::new(name, TYPE::A)?])
    }

    fn new(name: &str, kind: TYPE) -> io::Result<Self> {
        let mut id = [0; 2];
        SystemRandom::new().fill(&mut id).map_err(|_| io::Error::other("no random number"))?;
        let id = u16::from_be_bytes(id);
        let name = Name::new(name.trim_end_matches('.')).map_err(io::Error::other)?;
        let mut packet = Packet::new_query(id);
        packet.set_flags(PacketFlag::RECURSION_DESIRED);
        packet.questions.push(Question::new(name, kind.into(), CLASS::IN.into(), false));
        Ok(Self { id, kind, bytes: packet.build_bytes_vec().map_err(io::Error::other)? })
    }

    /// What is sent.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The addresses in a packet, if it answers this query; none if the name has none, or the server failed.
    pub(super) fn addresses(&self, packet: &[u8]) -> Option<Vec<IpAddr>> {
        let answer = Packet::parse(packet).ok()?;
        let question = answer.questions.first()?;
        let own = Packet::parse(&self.bytes).ok()?;
        let is_asked = own.questions.first().is_some_and(|it| it.qname == question.qname);
        let is_answer = answer.id() == self.id
            && answer.has_flags(PacketFlag::RESPONSE)
            && is_asked
            && question.qtype == self.kind.into();
        // A recursive server follows aliases: their addresses are in the same answer.
        #[expect(clippy::wildcard_enum_match_arm, reason = "records of many other types")]
        let found = answer.answers.iter().filter_map(|record| match &record.rdata {
            RData::A(a) => Some(Ipv4Addr::from(a.address).into()),
            RData::AAAA(aaaa) => Some(Ipv6Addr::from(aaaa.address).into()),
            _ => None,
        });
        is_answer.then(|| found.collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::Index;
    use simple_dns::ResourceRecord;
    use simple_dns::rdata::{A, CNAME};

    use super::*;

    fn answer(query: &Query, name: &str) -> Vec<u8> {
        let mut packet = Packet::parse(&query.bytes).unwrap().into_reply();
        packet.set_flags(PacketFlag::RESPONSE);
        let record = |name, rdata| ResourceRecord::new(Name::new_unchecked(name), CLASS::IN, 60, rdata);
        packet.answers.push(record("home.example", RData::CNAME(CNAME(Name::new_unchecked(name)))));
        packet.answers.push(record(name, RData::A(A { address: 0xC000_0207 })));
        packet.build_bytes_vec_compressed().unwrap()
    }

    #[test]
    fn the_addresses_behind_an_alias_are_found_and_packets_that_answer_something_else_are_not_believed() {
        let [v6, v4] = Query::of_both_families("home.example.").unwrap();
        let good = answer(&v4, "elsewhere.example");
        assert_eq!(v4.addresses(&good), Some(vec!["192.0.2.7".parse().unwrap()]));
        let mut other_id = good.clone();
        other_id[0] ^= 1;
        assert_eq!(v4.addresses(&other_id), None);
        let mut other_name = good.clone();
        other_name[13] ^= 1;
        assert_eq!(v4.addresses(&other_name), None);
        let mut no_answer = good.clone();
        no_answer[2] &= 0x7F;
        assert_eq!(v4.addresses(&no_answer), None);
        assert_eq!(v6.addresses(&good), None, "of the other family");
        assert_eq!(v4.addresses(v4.bytes()), None, "its own query");
        for length in 0..good.len() {
            assert_eq!(v4.addresses(&good[..length]), None, "cut off at {length}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_answers_never_panic(noise in vec(any::<u8>(), 0..600), at in any::<Index>(), by in 1_u8..) {
            let [_, query] = Query::of_both_families("home.example").unwrap();
            let _ = query.addresses(&noise);
            let mut damaged = answer(&query, "elsewhere.example");
            let place = at.index(damaged.len());
            damaged[place] ^= by;
            let _ = query.addresses(&damaged);
        }
    }

    #[test]
    fn a_name_error_means_no_address() {
        let [_, query] = Query::of_both_families("home.example").unwrap();
        let mut packet = Packet::parse(&query.bytes).unwrap().into_reply();
        packet.set_flags(PacketFlag::RESPONSE);
        *packet.rcode_mut() = simple_dns::RCODE::NameError;
        assert_eq!(query.addresses(&packet.build_bytes_vec().unwrap()), Some(Vec::new()));
    }
}
