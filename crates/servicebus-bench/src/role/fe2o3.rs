//! `fe2o3-amqp`: its client sends to its acceptor.

use std::collections::VecDeque;

use anyhow::{bail, ensure};
use fe2o3_amqp::acceptor::{ConnectionAcceptor, LinkAcceptor, LinkEndpoint, SessionAcceptor};
use fe2o3_amqp::link::receiver::CreditMode;
use fe2o3_amqp::link::{SendError, delivery::Sendable};
use fe2o3_amqp::types::definitions::SenderSettleMode;
use fe2o3_amqp::types::messaging::{Data, Message, Outcome};
use fe2o3_amqp::{Connection, Sender, Session};
use serde_amqp::primitives::Binary;

use super::{Run, Settle, print};
use crate::measure::Meter;

pub(super) async fn send(run: &Run) -> anyhow::Result<()> {
    let mut connection = Connection::builder()
        .container_id("bench-sender")
        .max_frame_size(run.max_frame)
        .open_with_stream(run.stream().await?)
        .await?;
    let mut session = Session::begin(&mut connection).await?;
    let mut sender = Sender::builder()
        .name("bench")
        .target("bench")
        .sender_settle_mode(match run.settle {
            Settle::Unsettled => SenderSettleMode::Unsettled,
            Settle::Presettled => SenderSettleMode::Settled,
        })
        .attach(&mut session)
        .await?;
    // By reference, so that no copy of the body comes on top of the encoding.
    let message = Sendable::from(
        Message::builder()
            .data(Binary::from(run.body_bytes()))
            .build(),
    );

    let mut in_flight = VecDeque::with_capacity(run.window as usize);
    let meter = Meter::start();
    for _ in 0..run.count {
        if in_flight.len() == run.window as usize
            && let Some(oldest) = in_flight.pop_front()
        {
            expect_accepted(oldest.await)?;
        }
        let outcome = sender.send_batchable_ref(&message).await?;
        if run.settle == Settle::Unsettled {
            in_flight.push_back(outcome);
        }
    }
    for outcome in in_flight {
        expect_accepted(outcome.await)?;
    }
    if run.settle == Settle::Unsettled {
        print(&meter.stop(run.count)?)?;
    } else {
        // The receiver detaches when it has everything. The sender must not: what waits in the receiver would be lost.
        drop(sender.on_detach().await);
        print(&meter.stop(run.count)?)?;
    }
    drop(sender.close().await);
    drop(session.end().await);
    drop(connection.close().await);
    Ok(())
}

fn expect_accepted(outcome: Result<Outcome, SendError>) -> anyhow::Result<()> {
    match outcome? {
        Outcome::Accepted(_) => Ok(()),
        other => bail!("a message was not accepted: {other:?}"),
    }
}

pub(super) async fn receive(run: &Run) -> anyhow::Result<()> {
    let acceptor = ConnectionAcceptor::builder()
        .container_id("bench-receiver")
        .max_frame_size(run.max_frame)
        .build();
    let mut connection = acceptor.accept(run.stream().await?).await?;
    let mut session = SessionAcceptor::new().accept(&mut connection).await?;
    let LinkEndpoint::Receiver(mut receiver) = LinkAcceptor::new().accept(&mut session).await?
    else {
        bail!("the link goes the wrong way");
    };
    match run.settle {
        Settle::Unsettled => receiver.set_credit_mode(CreditMode::Auto(run.window)),
        // The automatic top-up counts only what is disposed of and would stall; one of our own would race with the
        // sender's detach, which ends its session then. So there is credit for all messages at once.
        Settle::Presettled => receiver.set_credit_mode(CreditMode::Manual),
    }
    receiver
        .set_credit(match run.settle {
            Settle::Unsettled => run.window,
            Settle::Presettled => run.count.try_into()?,
        })
        .await?;

    let mut meter = None;
    for _ in 0..run.count {
        let delivery = receiver.recv::<Data>().await?;
        meter.get_or_insert_with(Meter::start);
        ensure!(
            delivery.body().0.len() == run.body,
            "a body has the wrong size"
        );
        if run.settle == Settle::Unsettled {
            receiver.accept(&delivery).await?;
        }
    }
    if let Some(meter) = meter {
        print(&meter.stop(run.count)?)?;
    }
    // How it ends is not measured.
    drop(receiver.close().await);
    drop(session.on_end().await);
    drop(connection.on_close().await);
    Ok(())
}
