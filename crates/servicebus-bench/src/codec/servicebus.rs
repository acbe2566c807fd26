//! Ours.

use std::hint::black_box;

use anyhow::{Context as _, bail};
use bytes::{Bytes, BytesMut};
use servicebus_amqp::codec::{Frame, decode_frame, encode_transfer};
use servicebus_amqp::types::{Message, Performative, Transfer};

use super::Codec;

pub(super) struct Servicebus {
    transfer: Transfer,
    message: Message,
    frame: BytesMut,
    payload: BytesMut,
}

impl Servicebus {
    pub(super) fn new(transfer: Transfer, message: Message) -> Self {
        Self {
            transfer,
            message,
            frame: BytesMut::new(),
            payload: BytesMut::new(),
        }
    }

    /// The frame that is measured.
    pub(super) fn frame(&mut self) -> anyhow::Result<Bytes> {
        self.encode()?;
        Ok(Bytes::copy_from_slice(&self.frame))
    }
}

impl Codec for Servicebus {
    fn decode(&self, input: &mut BytesMut) -> anyhow::Result<()> {
        let Frame::Amqp {
            performative: Performative::Transfer(transfer),
            payload,
            ..
        } = decode_frame(input, u32::MAX)?.context("no frame")?
        else {
            bail!("not a transfer");
        };
        let message = Message::decode(payload)?;
        black_box((&transfer, &message));
        Ok(())
    }

    fn encode(&mut self) -> anyhow::Result<()> {
        self.payload.clear();
        self.frame.clear();
        self.message.encode(&mut self.payload)?;
        encode_transfer(&mut self.frame, 0, &self.transfer, self.payload.len());
        self.frame.extend_from_slice(&self.payload);
        Ok(())
    }
}
