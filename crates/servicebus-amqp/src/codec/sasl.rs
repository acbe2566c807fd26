//! The frames of the SASL layer (AMQP 1.0 §5.3.3).

use bytes::{Bytes, BytesMut};

use super::fields::Fields;
use super::read::{Reader, Result};
use super::{descriptor as d, write};
use crate::types::{Descriptor, SaslCode, SaslFrame, SaslInit, SaslMechanisms, SaslOutcome};

pub(super) fn decode(reader: &mut Reader<'_>) -> Result<SaslFrame> {
    let constructor = reader.u8()?;
    let start = reader.position();
    match reader.known_descriptor(constructor, "a SASL frame")? {
        d::SASL_MECHANISMS => mechanisms(reader).map_err(|error| error.within("sasl-mechanisms")),
        d::SASL_INIT => init(reader).map_err(|error| error.within("sasl-init")),
        d::SASL_CHALLENGE => single(reader, "challenge")
            .map(SaslFrame::Challenge)
            .map_err(|error| error.within("sasl-challenge")),
        d::SASL_RESPONSE => single(reader, "response")
            .map(SaslFrame::Response)
            .map_err(|error| error.within("sasl-response")),
        d::SASL_OUTCOME => outcome(reader).map_err(|error| error.within("sasl-outcome")),
        other => {
            let found = Descriptor::Code(other.into());
            Err(Reader::unexpected_descriptor("a SASL frame", &found, start))
        }
    }
}

fn mechanisms(reader: &mut Reader<'_>) -> Result<SaslFrame> {
    let mut fields = Fields::new(reader)?;
    let mechanisms = fields.symbols("sasl-server-mechanisms")?;
    fields.finish()?;
    Ok(SaslFrame::Mechanisms(SaslMechanisms { mechanisms }))
}

fn init(reader: &mut Reader<'_>) -> Result<SaslFrame> {
    let mut fields = Fields::new(reader)?;
    let init = SaslInit {
        mechanism: fields.mandatory("mechanism", Reader::symbol)?,
        initial_response: fields.optional("initial-response", Reader::binary)?,
        hostname: fields.optional("hostname", Reader::string)?,
    };
    fields.finish()?;
    Ok(SaslFrame::Init(init))
}

fn single(reader: &mut Reader<'_>, name: &'static str) -> Result<Bytes> {
    let mut fields = Fields::new(reader)?;
    let bytes = fields.mandatory(name, Reader::binary)?;
    fields.finish()?;
    Ok(bytes)
}

fn outcome(reader: &mut Reader<'_>) -> Result<SaslFrame> {
    let mut fields = Fields::new(reader)?;
    let outcome = SaslOutcome {
        code: fields.mandatory("code", code)?,
        additional_data: fields.optional("additional-data", Reader::binary)?,
    };
    fields.finish()?;
    Ok(SaslFrame::Outcome(outcome))
}

fn code(reader: &mut Reader<'_>, constructor: u8) -> Result<SaslCode> {
    match reader.ubyte(constructor)? {
        0 => Ok(SaslCode::Ok),
        1 => Ok(SaslCode::Auth),
        2 => Ok(SaslCode::Sys),
        3 => Ok(SaslCode::SysPerm),
        4 => Ok(SaslCode::SysTemp),
        other => Err(reader.invalid_choice("sasl-code", other)),
    }
}

pub(super) fn encode(out: &mut BytesMut, frame: &SaslFrame) {
    match frame {
        SaslFrame::Mechanisms(frame) => {
            let mut fields = write::Fields::new(out, d::SASL_MECHANISMS);
            // Mandatory: an empty array where there is none.
            fields.field(Some(&frame.mechanisms[..]), write::symbols);
            fields.finish();
        }
        SaslFrame::Init(init) => {
            let mut fields = write::Fields::new(out, d::SASL_INIT);
            fields.field(Some(&init.mechanism), write::symbol);
            fields.field(init.initial_response.as_ref(), write::binary);
            fields.text(init.hostname.as_ref());
            fields.finish();
        }
        SaslFrame::Challenge(challenge) => encode_single(out, d::SASL_CHALLENGE, challenge),
        SaslFrame::Response(response) => encode_single(out, d::SASL_RESPONSE, response),
        SaslFrame::Outcome(outcome) => {
            let mut fields = write::Fields::new(out, d::SASL_OUTCOME);
            let code = match outcome.code {
                SaslCode::Ok => 0,
                SaslCode::Auth => 1,
                SaslCode::Sys => 2,
                SaslCode::SysPerm => 3,
                SaslCode::SysTemp => 4,
            };
            fields.field(Some(code), write::ubyte);
            fields.field(outcome.additional_data.as_ref(), write::binary);
            fields.finish();
        }
    }
}

fn encode_single(out: &mut BytesMut, descriptor: u8, bytes: &Bytes) {
    let mut fields = write::Fields::new(out, descriptor);
    fields.field(Some(bytes), write::binary);
    fields.finish();
}
