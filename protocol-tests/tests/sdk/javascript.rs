//! The SDK for JavaScript through all its public operations, by one script per behaviour group.

use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::Trial;
use protocol_tests::emulator::{EmulatorProgram, Listen};
use protocol_tests::peers::AzureServiceBusNode;
use protocol_tests::trial::{Stop, trial};

use crate::{Shared, succeed};

/// For one script.
const LIMIT: Duration = Duration::from_secs(120);

/// Each script with its entities; the queues have the shortest locks where a script waits for their end.
const SCRIPTS: [(&str, &[&str]); 9] = [
    ("send", &["send"]),
    ("receive", &["receive"]),
    ("settle", &["settle"]),
    ("sessions", &["sessions"]),
    ("schedule", &["schedule"]),
    ("rules", &["topic", "subscription"]),
    ("topics", &["topics", "plain", "sessions"]),
    ("transports", &["transports"]),
    ("credentials", &["credentials"]),
];

const CONFIG: &str = r#"{ "UserConfig": { "Namespaces": [ {
    "Name": "sbemulatorns",
    "Queues": [
        { "Name": "send" },
        { "Name": "receive", "Properties": { "LockDuration": "PT5S" } },
        { "Name": "settle", "Properties": { "LockDuration": "PT5S", "MaxDeliveryCount": 10 } },
        { "Name": "sessions", "Properties": { "RequiresSession": true } },
        { "Name": "schedule" },
        { "Name": "transports" },
        { "Name": "credentials" }
    ],
    "Topics": [
        { "Name": "topic", "Subscriptions": [ { "Name": "subscription" } ] },
        { "Name": "topics", "Subscriptions": [
            { "Name": "plain" },
            { "Name": "sessions", "Properties": { "RequiresSession": true } }
        ] }
    ]
} ] } }"#;

pub(crate) fn trials() -> Vec<Trial> {
    let shared = Shared::new(|| {
        let node = AzureServiceBusNode::set_up()?;
        let emulator = EmulatorProgram::start(
            Listen::AnyPort,
            CONFIG,
            &[
                EmulatorProgram::CHECKING_TOKENS,
                EmulatorProgram::STANDARD_LIMITS,
            ]
            .concat(),
        )?;
        Ok((node, emulator))
    });
    SCRIPTS
        .into_iter()
        .map(|(group, entities)| {
            let shared = Arc::clone(&shared);
            trial(format!("javascript::{group}"), move || {
                let (node, emulator) = shared.get()?;
                run(node, emulator, group, entities)
            })
        })
        .collect()
}

fn run(
    node: &AzureServiceBusNode,
    emulator: &EmulatorProgram,
    group: &str,
    entities: &[&str],
) -> Result<(), Stop> {
    let mut script = node.script(group);
    script
        .arg(emulator.connection_string())
        .args(entities)
        .env("NODE_EXTRA_CA_CERTS", emulator.authority());
    if matches!(group, "transports" | "credentials") {
        script.arg(format!("sb://localhost:{}", emulator.amqp().port()));
    }
    succeed(script, LIMIT)
}
