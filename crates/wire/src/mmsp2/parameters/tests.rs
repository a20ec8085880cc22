use super::*;

fn full() -> Parameters {
    Parameters {
        version: VERSION,
        original_destination: ConnectionId::from_slice(&[1; 18]),
        source: ConnectionId::from_u64(2),
        idle_timeout: Duration::from_secs(30),
        initial_max_data: 1_572_864,
        initial_max_stream_data: 1 << 20,
        initial_max_streams: 256,
        path_limit: 3,
        max_ack_delay: Duration::from_millis(25),
        max_datagram: 1472,
        reset_token: Some([9; 16]),
        application: b"manyway-copy".to_vec(),
        max_message: 1 << 18,
        rendezvous: vec!["192.0.2.9:4455".parse().unwrap(), "[2001:db8::9]:1".parse().unwrap()],
        rates: true,
    }
}

fn list(parameters: &[(u16, &[u8])]) -> Vec<u8> {
    let mut buffer = Vec::new();
    let w = &mut Writer::new(&mut buffer, 1 << 16);
    for (kind, value) in parameters {
        put(w, *kind, value);
    }
    buffer
}

fn with(kind: u16, value: &[u8]) -> Result<Parameters, DecodeError> {
    Parameters::decode(&list(&[(VERSION_USED, &VERSION.to_be_bytes()), (SOURCE, &[1; 8]), (kind, value)]))
}

// spec 4.17
#[test]
fn everything_comes_back() {
    assert_eq!(Parameters::decode(&full().encode()), Ok(full()));
    let client = Parameters::new(ConnectionId::from_u64(8));
    assert_eq!(Parameters::decode(&client.encode()), Ok(client));
}

// spec 4.17
#[test]
fn absent_parameters_have_their_defaults() {
    let decoded = with(0x8abc, &[1]).unwrap();
    assert_eq!(decoded, Parameters::new(ConnectionId::from_slice(&[1; 8]).unwrap()));
}

// spec 4.17: the only two that must be there
#[test]
fn version_and_source_are_required() {
    let error = Parameters::decode(&[]).unwrap_err();
    assert_eq!(error, DecodeError::MissingParameter { kind: VERSION_USED });
    let error = Parameters::decode(&list(&[(VERSION_USED, &[0; 4])])).unwrap_err();
    assert_eq!(error, DecodeError::MissingParameter { kind: SOURCE });
}

// spec 2.10
#[test]
fn an_unknown_parameter_is_skipped_only_if_its_type_says_so() {
    assert!(with(0xfedc, &[1, 2, 3]).is_ok());
    assert_eq!(with(0x010c, &[1]), Err(DecodeError::UnknownParameter { kind: 0x010c, offset: 20 }));
    assert_eq!(with(0x00ff, &[1]), Err(DecodeError::UnknownParameter { kind: 0x00ff, offset: 20 }));
}

// spec 4.17
#[test]
fn a_parameter_that_is_there_twice_is_refused() {
    assert_eq!(with(SOURCE, &[1]), Err(DecodeError::DuplicateParameter { kind: SOURCE, offset: 20 }));
}

// spec 4.17
#[test]
fn values_out_of_range_are_refused() {
    let mut count = Vec::new();
    Writer::new(&mut count, 8).varint(MaxStreams::MAX + 1);
    let cases: [(u16, &[u8], &str); 7] = [
        (INITIAL_MAX_STREAMS, &count, "initial max streams"),
        (PATH_LIMIT, &count, "path"),
        (MAX_ACK_DELAY, &[0x80, 0xf4, 0x24, 0x01], "max ack delay"),
        (MAX_DATAGRAM, &[0x44, 0xaf], "max datagram"),
        (ORIGINAL_DESTINATION, &[0; 21], "connection id length"),
        (APPLICATION, &[b'a'; 65], "application length"),
        (MAX_MESSAGE, &[0xc0, 0, 0, 1, 0, 0, 0, 0], "max message"),
    ];
    for (kind, value, name) in cases {
        let error = with(kind, value).unwrap_err();
        assert!(matches!(error, DecodeError::OutOfRange { field, .. } if field == name), "{error}");
    }
    assert_eq!(with(MAX_ACK_DELAY, &[0x80, 0xf4, 0x24, 0x00]).unwrap().max_ack_delay.as_secs(), 16);
}

#[test]
fn a_value_of_the_wrong_length_is_refused() {
    assert!(matches!(with(RESET_TOKEN, &[0; 15]), Err(DecodeError::Truncated { .. })));
    assert!(matches!(with(RESET_TOKEN, &[0; 17]), Err(DecodeError::TrailingBytes { .. })));
    assert!(matches!(with(IDLE_TIMEOUT, &[]), Err(DecodeError::Truncated { .. })));
    assert!(matches!(with(RATES, &[1]), Err(DecodeError::TrailingBytes { .. })));
}

#[test]
fn a_short_idle_timeout_is_not_rounded_to_never() {
    let mut parameters = full();
    parameters.idle_timeout = Duration::from_micros(1);
    let decoded = Parameters::decode(&parameters.encode()).unwrap();
    assert_eq!(decoded.idle_timeout, Duration::from_millis(1));
}

#[test]
fn values_beyond_their_range_are_clamped_when_written() {
    let mut parameters = full();
    parameters.initial_max_streams = u64::MAX;
    parameters.max_ack_delay = Duration::from_secs(99);
    parameters.max_datagram = 500;
    parameters.application = vec![b'x'; 200];
    parameters.idle_timeout = Duration::MAX;
    parameters.max_message = u64::MAX;
    let decoded = Parameters::decode(&parameters.encode()).unwrap();
    assert_eq!(decoded.initial_max_streams, MaxStreams::MAX);
    assert_eq!(decoded.max_ack_delay, Duration::from_secs(16));
    assert_eq!(decoded.max_datagram, 1200);
    assert_eq!(decoded.application.len(), 64);
    assert_eq!(decoded.max_message, Parameters::HIGHEST_MAX_MESSAGE);
}

// spec 4.17
#[test]
fn a_list_of_rendezvous_servers_is_whole_and_short() {
    let address = |port: u16| [&port.to_be_bytes()[..], &[0; 10], &[0xff, 0xff, 192, 0, 2, 1]].concat();
    let list: Vec<u8> = (1..=4).flat_map(address).collect();
    assert_eq!(with(RENDEZVOUS, &list).unwrap().rendezvous.len(), Parameters::MAX_RENDEZVOUS);
    assert!(matches!(with(RENDEZVOUS, &list[1..]), Err(DecodeError::Truncated { .. })));
    let longer = [&list[..], &address(5)].concat();
    assert!(matches!(with(RENDEZVOUS, &longer), Err(DecodeError::OutOfRange { value: 90, .. })));
    let mut many = full();
    many.rendezvous = vec!["192.0.2.9:4455".parse().unwrap(); 9];
    assert_eq!(Parameters::decode(&many.encode()).unwrap().rendezvous.len(), Parameters::MAX_RENDEZVOUS);
}
