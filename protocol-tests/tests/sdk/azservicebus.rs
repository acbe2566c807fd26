//! azservicebus, the third stack: on fe2o3-amqp, and without TLS on port 5672 only.

use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::Trial;
use protocol_tests::emulator::{EmulatorProgram, Listen};
use protocol_tests::peers::AzServiceBus;
use protocol_tests::trial::trial;

use crate::{Shared, succeed};

const LIMIT: Duration = Duration::from_secs(120);

const GROUPS: [(&str, &[&str]); 5] = [
    ("send_and_receive", &["send_and_receive"]),
    ("settle", &["settle"]),
    ("schedule_and_peek", &["schedule_and_peek"]),
    ("sessions", &["sessions"]),
    ("rules", &["topic", "subscription"]),
];

const CONFIG: &str = r#"{ "UserConfig": { "Namespaces": [ {
    "Name": "sbemulatorns",
    "Queues": [
        { "Name": "send_and_receive" },
        { "Name": "settle" },
        { "Name": "schedule_and_peek" },
        { "Name": "sessions", "Properties": { "RequiresSession": true } }
    ],
    "Topics": [ { "Name": "topic", "Subscriptions": [ { "Name": "subscription" } ] } ]
} ] } }"#;

pub(crate) fn trials() -> Vec<Trial> {
    let shared = Shared::new(|| {
        let client = AzServiceBus::set_up()?;
        let emulator = EmulatorProgram::start(Listen::StandardPort, CONFIG, &[])?;
        Ok((client, emulator))
    });
    GROUPS
        .into_iter()
        .map(|(group, entities)| {
            let shared = Arc::clone(&shared);
            trial(format!("azservicebus::{group}"), move || {
                let (client, emulator) = shared.get()?;
                let mut command = client.client();
                // Without a port: the client knows one only.
                command
                    .arg(format!(
                        "Endpoint=sb://{}/;SharedAccessKeyName={};SharedAccessKey={}",
                        emulator.amqp().ip(),
                        EmulatorProgram::KEY_NAME,
                        EmulatorProgram::KEY
                    ))
                    .arg(group)
                    .args(entities);
                succeed(command, LIMIT)
            })
        })
        .collect()
}
