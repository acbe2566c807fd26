//! `serde_amqp` with the types of `fe2o3-amqp-types`, called as `fe2o3-amqp` does.

use std::hint::black_box;

use anyhow::ensure;
use bytes::{Buf as _, BufMut as _, BytesMut};
use fe2o3_amqp_types::messaging::message::__private::{Deserializable, Serializable};
use fe2o3_amqp_types::messaging::{Data, Message};
use fe2o3_amqp_types::performatives::Transfer;
use serde::{Deserialize as _, Serialize as _};
use serde_amqp::de::Deserializer;
use serde_amqp::read::IoReader;
use serde_amqp::ser::Serializer;

use super::Codec;

pub(super) struct SerdeAmqp {
    transfer: Transfer,
    message: Message<Data>,
    frame: BytesMut,
    payload: BytesMut,
}

impl SerdeAmqp {
    /// Takes what it encodes from a frame.
    pub(super) fn new(frame: &[u8]) -> anyhow::Result<Self> {
        let (transfer, message) = decode(&mut BytesMut::from(frame))?;
        Ok(Self {
            transfer,
            message,
            frame: BytesMut::new(),
            payload: BytesMut::new(),
        })
    }
}

impl Codec for SerdeAmqp {
    fn decode(&self, input: &mut BytesMut) -> anyhow::Result<()> {
        let (transfer, message) = decode(input)?;
        black_box((&transfer, &message));
        Ok(())
    }

    fn encode(&mut self) -> anyhow::Result<()> {
        self.payload.clear();
        self.frame.clear();
        Serializable(&self.message)
            .serialize(&mut Serializer::from((&mut self.payload).writer()))?;
        self.frame.put_slice(&[0, 0, 0, 0, 2, 0, 0, 0]);
        self.transfer
            .serialize(&mut Serializer::from((&mut self.frame).writer()))?;
        self.frame.put_slice(&self.payload);
        let size = u32::try_from(self.frame.len())?.to_be_bytes();
        if let Some(field) = self.frame.first_chunk_mut::<4>() {
            *field = size;
        }
        Ok(())
    }
}

fn decode(input: &mut BytesMut) -> anyhow::Result<(Transfer, Message<Data>)> {
    ensure!(input.len() >= 8, "no frame");
    let size = u32::from_be_bytes(input.first_chunk().copied().unwrap_or_default()) as usize;
    ensure!((8..=input.len()).contains(&size), "no whole frame");
    let mut frame = input.split_to(size);
    frame.advance(8);
    let transfer =
        Transfer::deserialize(&mut Deserializer::new(IoReader::new((&mut frame).reader())))?;
    let message: Deserializable<Message<Data>> = serde_amqp::from_slice(&frame)?;
    Ok((transfer, message.0))
}
