//! The example clients of Proton C, as they are: they print what they did and end with a status.

use std::process::Command;
use std::time::Duration;

use protocol_tests::peers::{Failure, ProtonC, run};

use crate::message::{Node, Transport};

const LIMIT: Duration = Duration::from_secs(30);
const COUNT: usize = 500;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scenario {
    Exchange,
    AbortedDeliveries,
}

impl Scenario {
    pub(crate) const ALL: [Self; 2] = [Self::Exchange, Self::AbortedDeliveries];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Exchange => "exchange",
            Self::AbortedDeliveries => "aborted_deliveries",
        }
    }

    pub(crate) async fn run(self, proton: &ProtonC, node: &Node) -> Result<(), Failure> {
        match self {
            Self::Exchange => exchange(proton, node).await,
            Self::AbortedDeliveries => aborted_deliveries(proton, node).await,
        }
    }
}

/// Sends 500 messages, of which each must be accepted, then receives them and accepts each.
async fn exchange(proton: &ProtonC, node: &Node) -> Result<(), Failure> {
    let send = match node.transport {
        Transport::Tls { .. } => proton.send_tls(node.port, &node.address, COUNT),
        _ => proton.send(node.port, &node.address, COUNT),
    };
    let sent = output(send).await?;
    expect(&sent, "500 messages sent and acknowledged")?;

    // The example has no TLS receiver.
    if node.transport == Transport::Tcp {
        let received = output(proton.receive(node.port, &node.address, COUNT)).await?;
        expect(&received, "500 messages received")?;
        let sequence: Vec<&str> = received
            .lines()
            .filter(|line| line.contains("\"sequence\""))
            .collect();
        let expected: Vec<String> = (1..=COUNT)
            .map(|n| format!("{{\"sequence\"={n}}}"))
            .collect();
        if sequence != expected {
            return Err(format!("bodies differ from what was sent:\n{received}").into());
        }
    }
    Ok(())
}

/// Aborts 10 large deliveries after their first part. None of them arrives; the link goes on.
async fn aborted_deliveries(proton: &ProtonC, node: &Node) -> Result<(), Failure> {
    let aborted = output(proton.send_aborted(node.port, &node.address, 10)).await?;
    expect(&aborted, "10 messages started and aborted")?;
    expect(
        &output(proton.send(node.port, &node.address, 1)).await?,
        "1 messages sent and acknowledged",
    )?;
    let received = output(proton.receive(node.port, &node.address, 1)).await?;
    expect(&received, "{\"sequence\"=1}")?;
    expect(&received, "1 messages received")
}

async fn output(command: Command) -> Result<String, Failure> {
    run(command, &[], LIMIT).await?.success()
}

fn expect(output: &str, line: &str) -> Result<(), Failure> {
    if output.lines().any(|printed| printed == line) {
        Ok(())
    } else {
        Err(format!("no line {line:?} in\n{output}").into())
    }
}
