//! What a client and a broker do together. Each scenario has a node of the broker to itself.

use protocol_tests::peers::Failure;

use crate::client::Client;
use crate::message::{Message, Node, Outcome};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scenario {
    Exchange,
    LargeMessage,
    MixedSizes,
    Redelivery,
    FailureCount,
    Rejection,
    Outcomes,
    Drain,
    DrainEmpty,
}

impl Scenario {
    pub(crate) const ALL: [Self; 9] = [
        Self::Exchange,
        Self::LargeMessage,
        Self::MixedSizes,
        Self::Redelivery,
        Self::FailureCount,
        Self::Rejection,
        Self::Outcomes,
        Self::Drain,
        Self::DrainEmpty,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Exchange => "exchange",
            Self::LargeMessage => "large_message",
            Self::MixedSizes => "mixed_sizes",
            Self::Redelivery => "redelivery",
            Self::FailureCount => "failure_count",
            Self::Rejection => "rejection",
            Self::Outcomes => "outcomes",
            Self::Drain => "drain",
            Self::DrainEmpty => "drain_empty",
        }
    }

    pub(crate) async fn run(self, client: &Client, node: &Node) -> Result<(), Failure> {
        match self {
            Self::Exchange => exchange(client, node).await,
            Self::LargeMessage => large_message(client, node).await,
            Self::MixedSizes => mixed_sizes(client, node).await,
            Self::Redelivery => redelivery(client, node).await,
            Self::FailureCount => failure_count(client, node).await,
            Self::Rejection => rejection(client, node).await,
            Self::Outcomes => outcomes(client, node).await,
            Self::Drain => drain(client, node).await,
            Self::DrainEmpty => drain_empty(client, node).await,
        }
    }
}

/// What is sent is received, in order and unchanged: an empty body, text beyond ASCII, all byte values.
async fn exchange(client: &Client, node: &Node) -> Result<(), Failure> {
    let all_bytes: Vec<u8> = (0..=255).collect();
    let messages = [
        Message::new("plain", "hello")
            .property("colour", "blue")
            .property("größe", "groß ✓"),
        Message::new("empty", ""),
        Message::new("bytes", all_bytes),
        Message::new("unicode ✓", "日本語"),
    ];
    same(
        &client.send(node, &messages).await?,
        &[Outcome::Accepted; 4],
    )?;
    same(
        &client.receive(node, &[Outcome::Accepted; 4]).await?,
        &messages,
    )
}

/// 3 MB in frames of at most 4 KiB, both ways.
async fn large_message(client: &Client, node: &Node) -> Result<(), Failure> {
    let message = [Message::new("large", large_body(3_000_000))];
    same(&client.send(node, &message).await?, &[Outcome::Accepted])?;
    same(&client.receive(node, &[Outcome::Accepted]).await?, &message)
}

/// Deliveries of one frame and of many, on one link.
async fn mixed_sizes(client: &Client, node: &Node) -> Result<(), Failure> {
    let messages = [
        Message::new("1", "small"),
        Message::new("2", large_body(50_000)),
        Message::new("3", "small"),
        Message::new("4", large_body(50_000)),
    ];
    same(
        &client.send(node, &messages).await?,
        &[Outcome::Accepted; 4],
    )?;
    same(
        &client.receive(node, &[Outcome::Accepted; 4]).await?,
        &messages,
    )
}

/// A body that no shifted or repeated piece of itself equals.
fn large_body(size: u32) -> Vec<u8> {
    (0..size)
        .map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes()[0])
        .collect()
}

/// What is released or modified comes again.
async fn redelivery(client: &Client, node: &Node) -> Result<(), Failure> {
    let message = [Message::new("again", "and again")];
    same(&client.send(node, &message).await?, &[Outcome::Accepted])?;
    for outcome in [Outcome::Released, Outcome::Modified, Outcome::Accepted] {
        let mut received = client.receive(node, &[outcome]).await?;
        for again in &mut received {
            again.delivery_count = 0;
        }
        same(&received, &message)?;
    }
    Ok(())
}

/// A release is not counted, a failure is.
async fn failure_count(client: &Client, node: &Node) -> Result<(), Failure> {
    let message = [Message::new("again", "and again")];
    same(&client.send(node, &message).await?, &[Outcome::Accepted])?;
    let mut counts = Vec::new();
    for outcome in [
        Outcome::Released,
        Outcome::Modified,
        Outcome::Modified,
        Outcome::Accepted,
    ] {
        counts.extend(
            client
                .receive(node, &[outcome])
                .await?
                .iter()
                .map(|message| message.delivery_count),
        );
    }
    same(&counts, &[0, 0, 1, 2])
}

/// A rejected message does not come again.
async fn rejection(client: &Client, node: &Node) -> Result<(), Failure> {
    let messages = [Message::new("bad", "1"), Message::new("good", "2")];
    same(
        &client.send(node, &messages).await?,
        &[Outcome::Accepted; 2],
    )?;
    same(
        &client.receive(node, &[Outcome::Rejected]).await?,
        &messages[..1],
    )?;
    same(
        &client.receive(node, &[Outcome::Accepted]).await?,
        &messages[1..],
    )
}

/// A sender sees what the receiver decided: all four outcomes.
async fn outcomes(client: &Client, node: &Node) -> Result<(), Failure> {
    let node = Node {
        address: format!("{}-outcomes", node.address),
        ..node.clone()
    };
    let messages = [
        Message::new("1", "a"),
        Message::new("2", "b"),
        Message::new("3", "c"),
        Message::new("4", "d"),
    ];
    let expected = [
        Outcome::Accepted,
        Outcome::Released,
        Outcome::Rejected,
        Outcome::Modified,
    ];
    same(&client.send(&node, &messages).await?, &expected)
}

/// A drain takes back the credit that is left after some messages, and says so.
async fn drain(client: &Client, node: &Node) -> Result<(), Failure> {
    let messages = [Message::new("1", "a"), Message::new("2", "b")];
    same(
        &client.send(node, &messages).await?,
        &[Outcome::Accepted; 2],
    )?;
    same(&client.drain(node, 10, 2).await?, &messages)
}

/// A drain ends also where nothing is there.
async fn drain_empty(client: &Client, node: &Node) -> Result<(), Failure> {
    same(&client.drain(node, 10, 0).await?, &[])
}

fn same<T: PartialEq + std::fmt::Debug>(actual: &[T], expected: &[T]) -> Result<(), Failure> {
    if actual == expected {
        Ok(())
    } else {
        Err(format!("expected {expected:?}\n     got {actual:?}").into())
    }
}
