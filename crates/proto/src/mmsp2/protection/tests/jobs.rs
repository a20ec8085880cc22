//! Sealing as a job apart from the packet's building.

use super::*;
use crate::mmsp2::protection::job::SealJob;

#[test]
fn a_packet_is_sealed_on_another_thread_after_its_key_was_replaced() {
    let (mut client, mut server) = ends(KeyLimits::default());
    let mut buffer = vec![0x40; 60];
    let at = Outgoing {
        level: EncryptionLevel::OneRtt,
        path: PathId(0),
        packet_number: 0,
        start: 0,
        number_offset: 9,
        number_length: 1,
    };
    buffer[9] = 0;
    client.protector.seal(&at, &mut buffer).unwrap();
    let mut jobs = SealJobs::default();
    client.protector.move_jobs(&mut jobs);
    client.protector.force_update();
    client.protector.force_update();
    let sealed = std::thread::spawn(move || {
        assert!(jobs.run(&mut buffer));
        buffer
    });
    assert!(server.open_as(EncryptionLevel::OneRtt, 0, &sealed.join().unwrap()).is_ok());
}

#[test]
fn a_packet_has_the_same_bytes_whichever_thread_seals_it() {
    let (mut client, _) = ends(KeyLimits::default());
    let mut buffer = Vec::new();
    for packet_number in 0..3 {
        let start = buffer.len();
        buffer.extend_from_slice(&[0x40; 60]);
        buffer[start + 9] = u8::try_from(packet_number).unwrap();
        let (level, path) = (EncryptionLevel::OneRtt, PathId(0));
        let (number_offset, number_length) = (start + 9, 1);
        let at = Outgoing { level, path, packet_number, start, number_offset, number_length };
        client.protector.seal(&at, &mut buffer).unwrap();
    }
    let mut jobs = SealJobs::default();
    client.protector.move_jobs(&mut jobs);
    let copies = jobs.0.iter().map(|job| SealJob { key: Arc::clone(&job.key), ..*job }).collect();
    let (built, mut here) = (buffer.clone(), buffer.clone());
    assert!(SealJobs(copies).run(&mut here));
    let elsewhere = std::thread::spawn(move || jobs.run(&mut buffer).then_some(buffer)).join().unwrap();
    assert_eq!(elsewhere.as_ref(), Some(&here));
    assert!(here.chunks(76).zip(built.chunks(76)).all(|(sealed, clear)| sealed[10..60] != clear[10..60]));
}

#[test]
fn a_job_that_does_not_fit_its_buffer_fails() {
    let (mut client, _) = ends(KeyLimits::default());
    let mut buffer = vec![0x40; 60];
    let at = Outgoing {
        level: EncryptionLevel::OneRtt,
        path: PathId(0),
        packet_number: 0,
        start: 0,
        number_offset: 9,
        number_length: 1,
    };
    client.protector.seal(&at, &mut buffer).unwrap();
    let mut jobs = SealJobs::default();
    client.protector.move_jobs(&mut jobs);
    assert_eq!(jobs.0[0].run(&mut buffer[..40]), Err(SealError::Malformed));
    client.protector.seal(&at, &mut buffer).unwrap();
    client.protector.drop_jobs();
    assert!(client.protector.run_jobs(&mut []), "no job is left");
}

#[test]
fn sealing_and_opening_do_not_move_a_buffer_with_enough_capacity() {
    let (mut client, mut server) = ends(KeyLimits::default());
    let mut buffer = Vec::with_capacity(1200);
    buffer.push(0x40);
    buffer.extend_from_slice(&[0; 99]);
    let before = buffer.as_ptr();
    let at = Outgoing {
        level: EncryptionLevel::OneRtt,
        path: PathId(0),
        packet_number: 0,
        start: 0,
        number_offset: 9,
        number_length: 1,
    };
    client.protector.seal_now(&at, &mut buffer).unwrap();
    assert_eq!(buffer.as_ptr(), before);
    let at = Incoming {
        level: EncryptionLevel::OneRtt,
        path: PathId(0),
        number_offset: 9,
        expected: server.windows[0].next(),
    };
    let opened = server.protector.open(&at, &mut buffer, &server.windows[0]).unwrap();
    assert_eq!(opened.payload, 10..100);
}
