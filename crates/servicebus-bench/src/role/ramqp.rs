//! `ramqp`: a client only, so both sides connect to a listener of another stack.

use std::collections::VecDeque;
use std::task::Poll;

use anyhow::{bail, ensure};
use bytes::Bytes;
use futures_util::poll;
use ramqp::codec::to_bytes;
use ramqp::config::CreditMode;
use ramqp::types::messaging::{Body, DeliveryState};
use ramqp::{Config, Connection, Message};

use super::{Run, Settle, print};
use crate::measure::Meter;

/// The throughput preset with this run's frame size and credit.
async fn connect(run: &Run) -> anyhow::Result<Connection> {
    let mut config = Config::high_throughput();
    config.connection.max_frame_size = run.max_frame;
    config.link.credit_mode = CreditMode::Auto {
        initial: run.window,
        refill_threshold: run.window / 2,
    };
    let Some(port) = run.connect else {
        bail!("ramqp cannot listen");
    };
    Ok(Connection::builder(&format!("amqp://127.0.0.1:{port}"))
        .config(config)
        .connect()
        .await?)
}

pub(super) async fn send(run: &Run) -> anyhow::Result<()> {
    let connection = connect(run).await?;
    let session = connection.begin_session().await?;
    let producer = session.create_producer("bench").await?;
    let body = Bytes::from(run.body_bytes());

    let meter = Meter::start();
    match run.settle {
        Settle::Unsettled => {
            // Outcomes come in order, so only the oldest is waited for: a set of futures costs `ramqp` more than its own
            // work.
            let mut in_flight = VecDeque::with_capacity(run.window as usize);
            for _ in 0..run.count {
                if in_flight.len() == run.window as usize
                    && let Some(oldest) = in_flight.pop_front()
                {
                    expect_accepted(&oldest.await?)?;
                }
                let mut send = Box::pin(producer.send(Message::data(body.clone())));
                // This queues the message.
                match poll!(&mut send) {
                    Poll::Ready(outcome) => expect_accepted(&outcome?)?,
                    Poll::Pending => in_flight.push_back(send),
                }
            }
            for outcome in in_flight {
                expect_accepted(&outcome.await?)?;
            }
            print(&meter.stop(run.count)?)?;
            producer.detach().await?;
        }
        Settle::Presettled => {
            for _ in 1..run.count {
                producer.send_settled(Message::data(body.clone())).await?;
            }
            // This call returns when its message is written, and with it all before; a detach would overtake them.
            let last = to_bytes(&Message::data(body)).freeze();
            producer.send_bytes(last, true).await?;
            producer.detach().await?;
            print(&meter.stop(run.count)?)?;
        }
    }
    connection.close().await?;
    Ok(())
}

fn expect_accepted(state: &DeliveryState) -> anyhow::Result<()> {
    ensure!(
        matches!(state, DeliveryState::Accepted(_)),
        "a message was not accepted: {state:?}"
    );
    Ok(())
}

pub(super) async fn receive(run: &Run) -> anyhow::Result<()> {
    let connection = connect(run).await?;
    let session = connection.begin_session().await?;
    let mut consumer = session.create_consumer("bench").await?;

    let mut meter = None;
    for _ in 0..run.count {
        let delivery = consumer.recv().await?;
        meter.get_or_insert_with(Meter::start);
        let Body::Data(sections) = delivery.message()?.body else {
            bail!("not a data body");
        };
        ensure!(
            sections.iter().map(Bytes::len).sum::<usize>() == run.body,
            "a body has the wrong size"
        );
        if run.settle == Settle::Unsettled {
            consumer.accept(&delivery).await?;
        }
    }
    if let Some(meter) = meter {
        print(&meter.stop(run.count)?)?;
    }
    // The sender closes once it has the last outcome; how it ends is not measured.
    drop(consumer.recv().await);
    drop(connection.close().await);
    Ok(())
}
