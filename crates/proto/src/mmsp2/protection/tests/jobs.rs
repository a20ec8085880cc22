//! Sealing as a job apart from the packet's building.

use super::*;

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
    let jobs = client.protector.take_jobs();
    client.protector.force_update();
    client.protector.force_update();
    let sealed = std::thread::spawn(move || {
        jobs.iter().for_each(|job| job.run(&mut buffer).unwrap());
        buffer
    });
    assert!(server.open_as(EncryptionLevel::OneRtt, 0, &sealed.join().unwrap()).is_ok());
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
    let jobs = client.protector.take_jobs();
    assert_eq!(jobs[0].run(&mut buffer[..40]), Err(SealError::Malformed));
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
