//! Delivery states, outcomes, and the error that some of them carry (AMQP 1.0 §2.8.14, §3.4, §4.5).

use bytes::BytesMut;

use super::fields::Fields;
use super::read::{Reader, Result};
use super::{constructor as c, descriptor as d, value, write};
use crate::types::{
    AmqpError, DeliveryState, Described, Descriptor, Modified, Outcome, TransactionalState,
};

pub(super) fn decode(reader: &mut Reader<'_>, constructor: u8) -> Result<DeliveryState> {
    if constructor != c::DESCRIBED {
        return Err(reader.unexpected("a delivery state", constructor));
    }
    let mut ahead = reader.clone();
    if let Ok(code) = ahead.known_descriptor(constructor, "a delivery state") {
        let state = match code {
            d::RECEIVED => Some(received(&mut ahead)?),
            d::TRANSACTIONAL_STATE => Some(DeliveryState::Transactional(Box::new(transactional(
                &mut ahead,
            )?))),
            _ => known_outcome(&mut ahead, code)?.map(DeliveryState::Outcome),
        };
        if let Some(state) = state {
            *reader = ahead;
            return Ok(state);
        }
    }
    let descriptor = reader.descriptor()?;
    let value = value::decode(reader)?;
    Ok(DeliveryState::Unknown(Box::new(Described {
        descriptor,
        value,
    })))
}

pub(super) fn outcome(reader: &mut Reader<'_>, constructor: u8) -> Result<Outcome> {
    let start = reader.position();
    let code = reader.known_descriptor(constructor, "an outcome")?;
    known_outcome(reader, code)?.ok_or_else(|| {
        Reader::unexpected_descriptor("an outcome", &Descriptor::Code(code.into()), start)
    })
}

/// The outcome of this descriptor; `None` when it is none, and then nothing is read.
fn known_outcome(reader: &mut Reader<'_>, code: u8) -> Result<Option<Outcome>> {
    Ok(Some(match code {
        d::ACCEPTED => {
            no_fields(reader).map_err(|error| error.within("accepted"))?;
            Outcome::Accepted
        }
        d::RELEASED => {
            no_fields(reader).map_err(|error| error.within("released"))?;
            Outcome::Released
        }
        d::REJECTED => {
            let error = rejected(reader).map_err(|error| error.within("rejected"))?;
            Outcome::Rejected(error.map(Box::new))
        }
        d::MODIFIED => {
            let modified = modified(reader).map_err(|error| error.within("modified"))?;
            Outcome::Modified(Box::new(modified))
        }
        d::DECLARED => declared(reader).map_err(|error| error.within("declared"))?,
        _ => return Ok(None),
    }))
}

fn no_fields(reader: &mut Reader<'_>) -> Result<()> {
    Fields::new(reader)?.finish()
}

fn rejected(reader: &mut Reader<'_>) -> Result<Option<AmqpError>> {
    let mut fields = Fields::new(reader)?;
    let error = fields.optional("error", amqp_error)?;
    fields.finish()?;
    Ok(error)
}

fn modified(reader: &mut Reader<'_>) -> Result<Modified> {
    let mut fields = Fields::new(reader)?;
    let modified = Modified {
        delivery_failed: fields.optional("delivery-failed", Reader::boolean)?,
        undeliverable_here: fields.optional("undeliverable-here", Reader::boolean)?,
        message_annotations: fields.optional("message-annotations", value::map)?,
    };
    fields.finish()?;
    Ok(modified)
}

fn declared(reader: &mut Reader<'_>) -> Result<Outcome> {
    let mut fields = Fields::new(reader)?;
    let txn_id = fields.mandatory("txn-id", Reader::binary)?;
    fields.finish()?;
    Ok(Outcome::Declared { txn_id })
}

fn received(reader: &mut Reader<'_>) -> Result<DeliveryState> {
    let mut fields = Fields::new(reader)?;
    let state = DeliveryState::Received {
        section_number: fields.mandatory("section-number", Reader::uint)?,
        section_offset: fields.mandatory("section-offset", Reader::ulong)?,
    };
    fields.finish()?;
    Ok(state)
}

fn transactional(reader: &mut Reader<'_>) -> Result<TransactionalState> {
    let mut fields = Fields::new(reader)?;
    let state = TransactionalState {
        txn_id: fields.mandatory("txn-id", Reader::binary)?,
        outcome: fields.optional("outcome", outcome)?,
    };
    fields.finish()?;
    Ok(state)
}

pub(super) fn amqp_error(reader: &mut Reader<'_>, constructor: u8) -> Result<AmqpError> {
    let start = reader.position();
    let code = reader.known_descriptor(constructor, "an error")?;
    if code != d::ERROR {
        let found = Descriptor::Code(code.into());
        return Err(Reader::unexpected_descriptor("an error", &found, start));
    }
    let mut fields = Fields::new(reader)?;
    let error = AmqpError {
        condition: fields.mandatory("condition", Reader::symbol)?,
        description: fields.optional("description", Reader::string)?,
        info: fields.optional("info", value::map)?,
    };
    fields.finish()?;
    Ok(error)
}

pub(super) fn encode(out: &mut BytesMut, state: &DeliveryState) {
    match state {
        DeliveryState::Outcome(outcome) => encode_outcome(out, outcome),
        DeliveryState::Received {
            section_number,
            section_offset,
        } => {
            let mut fields = write::Fields::new(out, d::RECEIVED);
            fields.field(Some(*section_number), write::uint);
            fields.field(Some(*section_offset), write::ulong);
            fields.finish();
        }
        DeliveryState::Transactional(state) => {
            let mut fields = write::Fields::new(out, d::TRANSACTIONAL_STATE);
            fields.field(Some(&state.txn_id), write::binary);
            fields.field(state.outcome.as_ref(), encode_outcome);
            fields.finish();
        }
        DeliveryState::Unknown(described) => value::encode_described(out, described),
    }
}

pub(super) fn encode_outcome(out: &mut BytesMut, outcome: &Outcome) {
    match outcome {
        Outcome::Accepted => write::Fields::new(out, d::ACCEPTED).finish(),
        Outcome::Released => write::Fields::new(out, d::RELEASED).finish(),
        Outcome::Rejected(error) => {
            let mut fields = write::Fields::new(out, d::REJECTED);
            fields.field(error.as_deref(), encode_error);
            fields.finish();
        }
        Outcome::Modified(modified) => {
            let mut fields = write::Fields::new(out, d::MODIFIED);
            fields.field(modified.delivery_failed, write::boolean);
            fields.field(modified.undeliverable_here, write::boolean);
            fields.field(modified.message_annotations.as_ref(), value::encode_map);
            fields.finish();
        }
        Outcome::Declared { txn_id } => {
            let mut fields = write::Fields::new(out, d::DECLARED);
            fields.field(Some(txn_id), write::binary);
            fields.finish();
        }
    }
}

pub(super) fn encode_error(out: &mut BytesMut, error: &AmqpError) {
    let mut fields = write::Fields::new(out, d::ERROR);
    fields.field(Some(&error.condition), write::symbol);
    fields.text(error.description.as_ref());
    fields.field(error.info.as_ref(), value::encode_map);
    fields.finish();
}
