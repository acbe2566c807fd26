use super::*;

const KEYS: &str = "SharedAccessKeyName=k;SharedAccessKey=S3CRETKEY=";
const SAS: &str = "SharedAccessSignature sr=sb%3A%2F%2Fns%2Fq&sig=S3CRETKEY%3D&se=1&skn=k";

fn parse(text: &str) -> ConnectionString {
    ConnectionString::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// What people write for the endpoint, and where it leads.
#[test]
fn b53_endpoints() {
    let rows: [(&str, &str, Option<u16>); 14] = [
        (
            "sb://ns.servicebus.windows.net/",
            "ns.servicebus.windows.net",
            None,
        ),
        (
            "sb://ns.servicebus.windows.net",
            "ns.servicebus.windows.net",
            None,
        ),
        (
            "ns.servicebus.windows.net",
            "ns.servicebus.windows.net",
            None,
        ),
        (
            "ns.servicebus.windows.net/",
            "ns.servicebus.windows.net",
            None,
        ),
        (
            "NS.ServiceBus.Windows.Net",
            "ns.servicebus.windows.net",
            None,
        ),
        ("SB://ns", "ns", None),
        ("amqps://ns:5671", "ns", Some(5671)),
        (
            "https://ns.servicebus.windows.net:443/",
            "ns.servicebus.windows.net",
            None,
        ),
        ("https://ns:8443/", "ns", Some(8443)),
        ("sb://ns:5673/", "ns", Some(5673)),
        ("sb://127.0.0.1:5672", "127.0.0.1", Some(5672)),
        ("sb://[::1]", "[::1]", None),
        ("sb://[::1]:5673/", "[::1]", Some(5673)),
        ("sb://servicebus_emulator-1", "servicebus_emulator-1", None),
    ];
    for (text, host, port) in rows {
        let parsed = parse(&format!("Endpoint={text};{KEYS}"));
        assert_eq!(parsed.endpoint().host(), host, "{text}");
        assert_eq!(parsed.endpoint().port(), port, "{text}");
        assert_eq!(parsed.endpoint().security(), Security::Tls);
    }
}

/// Spellings of the whole string that mean the same.
#[test]
fn b53_spellings() {
    let rows = [
        "Endpoint=sb://ns/;SharedAccessKeyName=k;SharedAccessKey=AAAA+B/2s=",
        "Endpoint=sb://ns/;SharedAccessKeyName=k;SharedAccessKey=AAAA+B/2s=;",
        "endpoint=sb://ns/;sharedaccesskeyname=k;SHAREDACCESSKEY=AAAA+B/2s=",
        " Endpoint = sb://ns/ ; SharedAccessKeyName = k ; SharedAccessKey = AAAA+B/2s= ",
        "Endpoint=sb://ns/;\r\nSharedAccessKeyName=k;\r\nSharedAccessKey=AAAA+B/2s=\r\n",
        "\"Endpoint=sb://ns/;SharedAccessKeyName=k;SharedAccessKey=AAAA+B/2s=\"",
        "Endpoint=\"sb://ns/\";SharedAccessKeyName='k';SharedAccessKey=\"AAAA+B/2s=\"",
        ";;Endpoint=sb://ns/;;SharedAccessKeyName=k;SharedAccessKey=AAAA+B/2s=;;",
        "HostName=ns;SharedAccessKeyName=k;SharedAccessKey=AAAA+B/2s=",
        "TransportType=Amqp;Endpoint=sb://ns/;SharedAccessKeyName=k;SharedAccessKey=AAAA+B/2s=;New=",
    ];
    for text in rows {
        let parsed = parse(text);
        assert_eq!(parsed.endpoint().host(), "ns", "{text}");
        let Some(SharedAccess::Key(key)) = parsed.credential() else {
            panic!("{text}")
        };
        assert_eq!(key.name(), "k");
        assert_eq!(key.key(), "AAAA+B/2s=");
        assert_eq!(parsed.entity_path(), None);
    }
}

#[test]
fn b53_a_signature_holds_equal_signs_and_ampersands() {
    let parsed = parse(&format!(
        "Endpoint=sb://ns/;SharedAccessSignature={SAS};EntityPath=q"
    ));
    let Some(SharedAccess::Signature(signature)) = parsed.credential() else {
        panic!("no signature")
    };
    assert_eq!(signature.as_str(), SAS);
    assert_eq!(parsed.entity_path(), Some("q"));
}

#[test]
fn b53_without_a_credential_only_the_place_is_named() {
    let parsed = parse("Endpoint=sb://ns/");
    assert!(parsed.credential().is_none());
}

/// Each mistake names its part and never prints the key.
#[test]
fn b53_mistakes() {
    use ConnectionStringError as E;
    let long = "n".repeat(257);
    let rows: Vec<(String, E)> = vec![
        (String::new(), E::Missing { part: "Endpoint" }),
        (KEYS.into(), E::Missing { part: "Endpoint" }),
        (
            format!("Endpoint=;{KEYS}"),
            E::EmptyValue { part: "Endpoint" },
        ),
        (
            "Endpoint=sb://ns;SharedAccessKeyName=k;SharedAccessKey=".into(),
            E::EmptyValue {
                part: "SharedAccessKey",
            },
        ),
        (
            format!("Endpoint=sb://ns;{KEYS};EntityPath= "),
            E::EmptyValue { part: "EntityPath" },
        ),
        (
            "Endpoint=sb://ns;SharedAccessKeyName=k".into(),
            E::Missing {
                part: "SharedAccessKey",
            },
        ),
        (
            "Endpoint=sb://ns;SharedAccessKey=S3CRETKEY".into(),
            E::Missing {
                part: "SharedAccessKeyName",
            },
        ),
        (
            format!("Endpoint=sb://ns;{KEYS};SharedAccessSignature={SAS}"),
            E::KeyAndSignature,
        ),
        (
            format!("Endpoint=sb://ns;{KEYS};{KEYS}"),
            E::Duplicate {
                part: "SharedAccessKeyName",
            },
        ),
        (
            format!("Endpoint=sb://ns;HostName=ns;{KEYS}"),
            E::Duplicate { part: "Endpoint" },
        ),
        (format!("sb://ns;{KEYS}"), E::NotAPair { index: 1 }),
        (
            format!("Endpoint=sb://ns;{KEYS};S3CRETKEY"),
            E::NotAPair { index: 4 },
        ),
        (
            format!("Endpoint=ftp://ns;{KEYS}"),
            E::Invalid {
                part: "Endpoint",
                reason: "unknown scheme; sb is expected",
            },
        ),
        (
            format!("Endpoint=sb://ns/queue;{KEYS}"),
            E::Invalid {
                part: "Endpoint",
                reason: "there is a path behind the host",
            },
        ),
        (
            format!("Endpoint=sb://S3CRETKEY@ns;{KEYS}"),
            E::Invalid {
                part: "Endpoint",
                reason: "there is a user in front of the host",
            },
        ),
        (
            format!("Endpoint=sb://ns:port;{KEYS}"),
            E::Invalid {
                part: "Endpoint",
                reason: "the port is no number from 1 to 65535",
            },
        ),
        (
            format!("Endpoint=sb://ns:0;{KEYS}"),
            E::Invalid {
                part: "Endpoint",
                reason: "the port is no number from 1 to 65535",
            },
        ),
        (
            format!("Endpoint=sb://n s;{KEYS}"),
            E::Invalid {
                part: "Endpoint",
                reason: "the host is empty or has characters that no host has",
            },
        ),
        (
            format!("Endpoint=sb:///;{KEYS}"),
            E::Invalid {
                part: "Endpoint",
                reason: "the host is empty or has characters that no host has",
            },
        ),
        (
            format!("Endpoint=sb://ns;{KEYS};UseDevelopmentEmulator=yes"),
            E::Invalid {
                part: "UseDevelopmentEmulator",
                reason: "neither true nor false",
            },
        ),
        (
            "Endpoint=sb://ns;SharedAccessSignature=S3CRETKEY".into(),
            E::Invalid {
                part: "SharedAccessSignature",
                reason: "does not start with 'SharedAccessSignature '",
            },
        ),
        (
            format!("Endpoint=sb://ns;SharedAccessKeyName={long};SharedAccessKey=S3CRETKEY"),
            E::Invalid {
                part: "SharedAccessKeyName",
                reason: "more than 256 characters",
            },
        ),
    ];
    for (text, expected) in rows {
        let error = ConnectionString::parse(&text).unwrap_err();
        assert_eq!(error, expected, "{text}");
        let printed = format!(
            "{error} {error:?} {:?} {}",
            Error::from(error.clone()),
            Error::from(error.clone())
        );
        assert!(!printed.contains("S3CRETKEY"), "{printed}");
    }
}

#[test]
fn b53_the_entity_path_limits_the_string() {
    let limited = parse(&format!("Endpoint=sb://ns;{KEYS};EntityPath=Orders"));
    for asked in [
        "Orders",
        "orders",
        "orders/Subscriptions/s",
        "ORDERS/$DeadLetterQueue",
    ] {
        assert_eq!(limited.check_entity(asked), Ok(()), "{asked}");
    }
    for asked in ["other", "orders2", "order", "ordersö", "a/orders"] {
        assert!(
            matches!(
                limited.check_entity(asked),
                Err(ConnectionStringError::OtherEntity { .. })
            ),
            "{asked}"
        );
    }
    assert_eq!(
        parse(&format!("Endpoint=sb://ns;{KEYS}")).check_entity("any"),
        Ok(())
    );
}

#[test]
fn b54_secrets_are_not_printed() {
    let key = parse(&format!("Endpoint=sb://ns;{KEYS}"));
    let signature = parse(&format!("Endpoint=sb://ns;SharedAccessSignature={SAS}"));
    for printed in [format!("{key:?}"), format!("{signature:#?}")] {
        assert!(
            !printed.contains("S3CRETKEY") && !printed.contains("sig="),
            "{printed}"
        );
    }
    assert!(
        format!("{key:?}").contains("\"k\""),
        "the name of the key helps to find it"
    );
}

/// The emulator flag means plain AMQP, wherever the host is.
#[test]
fn b113_hosts_and_ports_of_an_emulator() {
    let hosts = [
        "localhost",
        "127.0.0.1",
        "[::1]",
        "servicebus-emulator",
        "host.docker.internal",
        "192.168.1.5",
    ];
    for host in hosts {
        let text = |suffix: &str, flag: &str| format!("Endpoint=sb://{host}{suffix};{KEYS};{flag}");
        let emulator = parse(&text("", "UseDevelopmentEmulator=true;"));
        assert_eq!(emulator.endpoint().security(), Security::Plain);
        assert_eq!(
            (emulator.endpoint().host(), emulator.endpoint().amqp_port()),
            (host, 5672)
        );

        let with_port = parse(&text(":5673", "UseDevelopmentEmulator=TRUE"));
        assert_eq!(with_port.endpoint().amqp_port(), 5673);
        assert_eq!(
            with_port.endpoint().audience("q1"),
            format!("sb://{host}:5673/q1")
        );

        let cloud = parse(&text("", "UseDevelopmentEmulator=false"));
        assert_eq!(cloud.endpoint().security(), Security::Tls);
        assert_eq!(cloud.endpoint().amqp_port(), 5671);
    }
    let cloud: Endpoint = "ns.servicebus.windows.net".parse().unwrap();
    assert_eq!(
        cloud.web_socket_url(),
        "wss://ns.servicebus.windows.net:443/$servicebus/websocket"
    );
}
