//! Answers of name servers, as long as they hold.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::message::{Life, head, lives, question};

/// Answers that programs got from a name server, for others that ask the same. An answer is kept as long as its records
/// live, at most 5 min, and at most 1 min that there is no such name or record. At most 1024 answers of 1232 bytes are kept.
#[derive(Debug, Default)]
pub struct NameCache(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// By the query without its identifier.
    known: BTreeMap<Vec<u8>, Known>,
    /// Queries under way, by the program's socket and the identifier.
    asked: BTreeMap<(SocketAddr, u16), Asked>,
}

#[derive(Debug)]
struct Asked {
    query: Vec<u8>,
    at: Instant,
}

#[derive(Debug)]
struct Known {
    answer: Vec<u8>,
    lives: Vec<Life>,
    at: Instant,
    until: Instant,
}

impl NameCache {
    /// The answer to the query of a program, if it is known. Otherwise the query is noted: [`Self::learn`] takes its answer.
    pub fn ask(&self, now: Instant, program: SocketAddr, query: &[u8]) -> Option<Vec<u8>> {
        let head = head(query).filter(|head| !head.is_response && query.len() <= MOST_QUERY)?;
        question(query)?;
        let (id, rest) = query.split_first_chunk::<ID>()?;
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = state.known.get(rest).filter(|known| now < known.until) {
            return known.answer_now(now, *id);
        }
        if state.asked.len() >= MOST_ASKED {
            let oldest = state.asked.iter().min_by_key(|(_, asked)| asked.at).map(|(key, _)| *key);
            oldest.and_then(|oldest| state.asked.remove(&oldest));
        }
        state.asked.insert((program, head.id), Asked { query: rest.to_vec(), at: now });
        None
    }

    /// Takes what the name server answered a program. What was not asked is not kept.
    pub fn learn(&self, now: Instant, program: SocketAddr, answer: &[u8]) {
        let Some(head) = head(answer) else { return };
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Asked { query, .. }) = state.asked.remove(&(program, head.id)) else { return };
        let Some((known, life)) = Known::of(now, answer, &query) else { return };
        if life.is_zero() {
            return;
        }
        if state.known.len() >= MOST_KNOWN {
            let first = state.known.iter().min_by_key(|(_, known)| known.until).map(|(key, _)| key.clone());
            first.and_then(|first| state.known.remove(&first));
        }
        state.known.insert(query, known);
    }
}

impl Known {
    /// An answer to this query that may be kept, and for how long.
    fn of(now: Instant, answer: &[u8], query: &[u8]) -> Option<(Self, Duration)> {
        let head = head(answer).filter(|head| head.is_response && !head.is_truncated)?;
        let question = question(answer)?;
        // The same question, whatever the flags.
        let asked = query.get(FLAGS_AND_COUNTS..question.end.checked_sub(ID)?)?;
        if answer.len() > MOST_ANSWER || answer.get(ID + FLAGS_AND_COUNTS..question.end)? != asked {
            return None;
        }
        let most = match (head.code, head.answers) {
            (0, 1..) => LONGEST,
            (0, 0) | (NO_SUCH_NAME, _) => LONGEST_WITHOUT,
            _ => return None,
        };
        let lives = lives(answer, question, head.records)?;
        let seconds = lives.iter().map(|life| life.seconds).min()?;
        let life = Duration::from_secs(seconds.into()).min(most);
        Some((Self { answer: answer.to_vec(), lives, at: now, until: now + life }, life))
    }

    /// The answer with this identifier, and what is left of its times to live.
    fn answer_now(&self, now: Instant, id: [u8; ID]) -> Option<Vec<u8>> {
        let mut answer = self.answer.clone();
        *answer.first_chunk_mut()? = id;
        let elapsed = u32::try_from(now.saturating_duration_since(self.at).as_secs()).unwrap_or(u32::MAX);
        for Life { at, seconds } in &self.lives {
            let left = seconds.saturating_sub(elapsed).to_be_bytes();
            answer.get_mut(*at..)?.first_chunk_mut().map(|place| *place = left)?;
        }
        Some(answer)
    }
}

/// Bytes of the identifier, and of what follows it in the header.
const ID: usize = 2;
const FLAGS_AND_COUNTS: usize = 10;
const NO_SUCH_NAME: u8 = 3;
const LONGEST: Duration = Duration::from_secs(300);
const LONGEST_WITHOUT: Duration = Duration::from_secs(60);
const MOST_KNOWN: usize = 1024;
const MOST_ASKED: usize = 256;
/// Most that programs send over UDP.
const MOST_QUERY: usize = 512;
/// As large as name servers answer over UDP nowadays.
const MOST_ANSWER: usize = 1232;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::names::{AAAA, empty_answer};

    const A: u16 = 1;
    const NAME: &[u8] = b"\x04host\x07example\0";

    fn program(port: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], port))
    }

    /// A message with this identifier, flags and numbers of records; the records follow the question for a type.
    fn message(id: u16, flags: u16, counts: [u16; 3], kind: u16, records: &[u8]) -> Vec<u8> {
        let head = [[id, flags, 1], counts].concat();
        let head: Vec<u8> = head.into_iter().flat_map(u16::to_be_bytes).collect();
        [&head[..], NAME, &kind.to_be_bytes(), &[0, 1], records].concat()
    }

    fn query(id: u16, kind: u16) -> Vec<u8> {
        message(id, 0x0100, [0; 3], kind, &[])
    }

    /// A record of the name in the question.
    fn record(kind: u16, seconds: u32, data: &[u8]) -> Vec<u8> {
        let length = u16::try_from(data.len()).unwrap().to_be_bytes();
        [&[0xc0, 12][..], &kind.to_be_bytes(), &[0, 1], &seconds.to_be_bytes(), &length, data].concat()
    }

    fn answer(id: u16, seconds: u32) -> Vec<u8> {
        let opt = [0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0];
        message(id, 0x8180, [1, 0, 1], A, &[&record(A, seconds, &[192, 0, 2, 7])[..], &opt].concat())
    }

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn an_answer_is_told_to_others_with_their_identifier_until_it_has_no_life_left() {
        let (cache, begin) = (NameCache::default(), Instant::now());
        assert_eq!(cache.ask(begin, program(1), &query(7, A)), None);
        cache.learn(begin, program(1), &answer(7, 60));
        assert_eq!(cache.ask(begin, program(2), &query(8, AAAA)), None, "another question");
        assert_eq!(cache.ask(begin + seconds(20), program(2), &query(9, A)), Some(answer(9, 40)));
        assert_eq!(cache.ask(begin + seconds(60), program(2), &query(10, A)), None);
    }

    #[test]
    fn nothing_is_kept_that_was_not_asked_or_is_not_a_whole_answer() {
        let begin = Instant::now();
        let kept = |asked: Option<Vec<u8>>, from: u16, answer: &[u8]| {
            let cache = NameCache::default();
            if let Some(query) = asked {
                cache.ask(begin, program(1), &query);
            }
            cache.learn(begin, program(from), answer);
            cache.ask(begin, program(3), &query(9, A)).is_some()
        };
        let good = answer(7, 60);
        assert!(kept(Some(query(7, A)), 1, &good));
        assert!(!kept(None, 1, &good));
        assert!(!kept(Some(query(7, A)), 2, &good), "of another program");
        assert!(!kept(Some(query(8, A)), 1, &good), "another identifier");
        assert!(!kept(Some(query(7, AAAA)), 1, &good), "another question");
        assert!(!kept(Some(query(7, A)), 1, &query(7, A)), "no answer");
        assert!(!kept(Some(query(7, A)), 1, &good[..good.len() - 1]));
        assert!(!kept(Some(query(7, A)), 1, &answer(7, 0)), "good for once");
        let truncated = message(7, 0x8380, [0; 3], A, &[]);
        assert!(!kept(Some(query(7, A)), 1, &truncated));
        let failed = message(7, 0x8182, [1, 0, 0], A, &record(A, 60, &[192, 0, 2, 7]));
        assert!(!kept(Some(query(7, A)), 1, &failed));
    }

    #[test]
    fn that_there_is_no_such_name_is_kept_for_a_minute_and_any_answer_for_five() {
        let (cache, begin) = (NameCache::default(), Instant::now());
        let none = message(7, 0x8183, [0, 1, 0], A, &record(6, 3600, &[0; 22]));
        cache.ask(begin, program(1), &query(7, A));
        cache.learn(begin, program(1), &none);
        assert!(cache.ask(begin + seconds(59), program(1), &query(8, A)).is_some());
        assert_eq!(cache.ask(begin + seconds(60), program(1), &query(9, A)), None);
        cache.learn(begin + seconds(60), program(1), &answer(9, 86_400));
        assert!(cache.ask(begin + seconds(359), program(1), &query(1, A)).is_some());
        assert_eq!(cache.ask(begin + seconds(360), program(1), &query(1, A)), None);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let (cache, begin) = (NameCache::default(), Instant::now());
        for number in 0..5000_u16 {
            let at = begin + Duration::from_millis(number.into());
            cache.ask(at, program(number), &query(number, number));
            if number % 2 == 0 {
                let records = record(number, 60, &[0; 4]);
                cache.learn(at, program(number), &message(number, 0x8180, [1, 0, 0], number, &records));
            }
        }
        let state = cache.0.lock().unwrap();
        assert_eq!((state.known.len(), state.asked.len()), (MOST_KNOWN, MOST_ASKED));
        drop(state);
        let last = cache.ask(begin + seconds(5), program(1), &query(1, 4998));
        assert!(last.is_some(), "the oldest made room");
    }

    #[test]
    fn an_empty_answer_has_the_question_alone() {
        let query = query(7, AAAA);
        let question = question(&query).unwrap();
        assert_eq!((question.kind, question.end), (AAAA, query.len()));
        assert_eq!(empty_answer(&query, question).unwrap(), message(7, 0x8180, [0; 3], AAAA, &[]));
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let (cache, now) = (NameCache::default(), Instant::now());
            let with_header = [&answer(7, 60)[..], &bytes].concat();
            let half = &with_header[..bytes.len().min(with_header.len())];
            for message in [&bytes[..], &with_header, half] {
                cache.ask(now, program(1), message);
                cache.ask(now, program(1), &query(7, A));
                cache.learn(now, program(1), message);
            }
        }
    }
}
