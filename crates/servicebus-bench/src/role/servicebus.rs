//! Ours: a client that sends to our listener. Either side also plays against `ramqp`, which only connects.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::{bail, ensure};
use bytes::{Bytes, BytesMut};
use servicebus_amqp::engine::{
    Config, Credentials, CreditMode, DetachMode, LinkOptions, OutgoingDelivery, PlainAmqp, Sasl,
    SessionOptions, Side,
};
use servicebus_amqp::net::{AcceptedLink, Connection, Outcome, ReceiverLink, SenderLink, Session};
use servicebus_amqp::types::{
    Body, DeliveryState, Message, SenderSettleMode, Source, Symbol, Target,
};

use super::{Run, Settle, print};
use crate::measure::Meter;

const ATTACH_LIMIT: Duration = Duration::from_secs(10);

pub(super) async fn send(run: &Run) -> anyhow::Result<()> {
    let (connection, session) = connect(run).await?;
    let sender = if run.listen {
        let AcceptedLink::Sender(sender) = accept_link(run, &session).await? else {
            bail!("the link goes the wrong way");
        };
        sender
    } else {
        session
            .attach_sender("bench", link_options(run), ATTACH_LIMIT)
            .await?
    };
    sender.credit().await?;

    let message = Message {
        body: Body::Data(Bytes::from(run.body_bytes())),
        ..Message::default()
    };
    let mut queue = Queue {
        sender: &sender,
        message: &message,
        settle: run.settle,
        buffer: BytesMut::new(),
    };
    let mut in_flight = VecDeque::<Outcome>::with_capacity(run.window as usize);
    let meter = Meter::start();
    for _ in 0..run.count {
        if in_flight.len() == run.window as usize
            && let Some(oldest) = in_flight.pop_front()
        {
            expect_accepted(run.settle, oldest.await?.as_ref())?;
        }
        in_flight.push_back(queue.next().await?);
    }
    for outcome in in_flight {
        expect_accepted(run.settle, outcome.await?.as_ref())?;
    }
    if run.settle == Settle::Presettled {
        // The answer to the detach shows that everything before it is through.
        sender.detach(DetachMode::Close, None).await;
    }
    print(&meter.stop(run.count)?)?;
    connection.close().await;
    Ok(())
}

/// Encodes the message and queues it, again and again.
struct Queue<'a> {
    sender: &'a SenderLink,
    message: &'a Message,
    settle: Settle,
    buffer: BytesMut,
}

impl Queue<'_> {
    async fn next(&mut self) -> anyhow::Result<Outcome> {
        let body = self.message.encode_head(&mut self.buffer)?;
        let mut delivery = OutgoingDelivery::new(self.buffer.split().freeze());
        delivery.tail = body;
        delivery.settled = self.settle == Settle::Presettled;
        Ok(self.sender.queue(delivery).await?)
    }
}

fn expect_accepted(settle: Settle, state: Option<&DeliveryState>) -> anyhow::Result<()> {
    ensure!(
        settle == Settle::Presettled || state == Some(&DeliveryState::ACCEPTED),
        "a message was not accepted: {state:?}"
    );
    Ok(())
}

pub(super) async fn receive(run: &Run) -> anyhow::Result<()> {
    let (connection, session) = connect(run).await?;
    let receiver = if run.listen {
        let AcceptedLink::Receiver(receiver) = accept_link(run, &session).await? else {
            bail!("the link goes the wrong way");
        };
        receiver
    } else {
        session
            .attach_receiver("bench", link_options(run), ATTACH_LIMIT)
            .await?
    };

    let mut meter = None;
    for _ in 0..run.count {
        receive_one(run, &receiver, &mut meter).await?;
    }
    if let Some(meter) = meter {
        print(&meter.stop(run.count)?)?;
    }
    // The sender closes once it has the last outcome; how it ends is not measured.
    connection.closed().await;
    Ok(())
}

async fn receive_one(
    run: &Run,
    receiver: &ReceiverLink,
    meter: &mut Option<Meter>,
) -> anyhow::Result<()> {
    let delivery = receiver.recv().await?;
    meter.get_or_insert_with(Meter::start);
    let Body::Data(body) = Message::decode(delivery.payload)?.body else {
        bail!("not a data body");
    };
    ensure!(body.len() == run.body, "a body has the wrong size");
    if run.settle == Settle::Unsettled {
        receiver.settle(delivery.delivery, DeliveryState::ACCEPTED)?;
    }
    Ok(())
}

async fn connect(run: &Run) -> anyhow::Result<(Connection, Session)> {
    let mut config = Config::new("bench");
    config.max_frame_size = run.max_frame;
    let stream = run.stream().await?;
    let (connection, session);
    if run.listen {
        config.sasl = Sasl::Listener {
            mechanisms: vec![Symbol::from_static("ANONYMOUS")],
            plain_amqp: PlainAmqp::Accept,
        };
        connection = Connection::over(stream, Side::Listener, config);
        session = connection.accept().await?;
    } else {
        config.sasl = Sasl::Client(vec![Credentials::Anonymous]);
        connection = Connection::over(stream, Side::Client, config);
        session = connection.begin(SessionOptions::default()).await?;
    }
    Ok((connection, session))
}

fn link_options(run: &Run) -> LinkOptions {
    let mut options = LinkOptions::new(Source::new("bench"), Target::new("bench"));
    options.credit = CreditMode::Window(run.window);
    options.snd_settle_mode = match run.settle {
        Settle::Unsettled => SenderSettleMode::Unsettled,
        Settle::Presettled => SenderSettleMode::Settled,
    };
    options
}

async fn accept_link(run: &Run, session: &Session) -> anyhow::Result<AcceptedLink> {
    let incoming = session.accept().await?;
    let mut options = LinkOptions::answer(incoming.attach());
    options.credit = CreditMode::Window(run.window);
    Ok(incoming.accept(options)?)
}
