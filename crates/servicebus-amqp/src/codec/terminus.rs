//! Sources, targets and coordinators (AMQP 1.0 §3.5, §4.5.1).

use bytes::BytesMut;

use super::fields::Fields;
use super::read::{Reader, Result};
use super::{delivery_state, descriptor as d, value, write};
use crate::types::{
    Coordinator, Descriptor, Source, Symbol, Target, TargetArchetype, TerminusDurability,
    TerminusExpiryPolicy,
};

pub(super) fn source(reader: &mut Reader<'_>, constructor: u8) -> Result<Source> {
    let start = reader.position();
    let code = reader.known_descriptor(constructor, "a source")?;
    if code != d::SOURCE {
        let found = Descriptor::Code(code.into());
        return Err(Reader::unexpected_descriptor("a source", &found, start));
    }
    let mut fields = Fields::new(reader)?;
    let source = Source {
        address: fields.optional("address", Reader::string)?,
        durable: fields.optional("durable", durability)?.unwrap_or_default(),
        expiry_policy: fields
            .optional("expiry-policy", expiry_policy)?
            .unwrap_or_default(),
        timeout: fields.optional("timeout", Reader::uint)?.unwrap_or(0),
        dynamic: fields.flag("dynamic")?,
        dynamic_node_properties: fields.optional("dynamic-node-properties", value::map)?,
        distribution_mode: fields.optional("distribution-mode", Reader::symbol)?,
        filter: fields.optional("filter", value::map)?,
        default_outcome: fields.optional("default-outcome", delivery_state::outcome)?,
        outcomes: fields.symbols("outcomes")?,
        capabilities: fields.symbols("capabilities")?,
    };
    fields.finish()?;
    Ok(source)
}

pub(super) fn target(reader: &mut Reader<'_>, constructor: u8) -> Result<TargetArchetype> {
    let start = reader.position();
    let expected = "a target or coordinator";
    match reader.known_descriptor(constructor, expected)? {
        d::TARGET => node(reader).map(TargetArchetype::from),
        d::COORDINATOR => {
            let mut fields = Fields::new(reader)?;
            let capabilities = fields.symbols("capabilities")?;
            fields.finish()?;
            Ok(Coordinator { capabilities }.into())
        }
        other => {
            let found = Descriptor::Code(other.into());
            Err(Reader::unexpected_descriptor(expected, &found, start))
        }
    }
}

fn node(reader: &mut Reader<'_>) -> Result<Target> {
    let mut fields = Fields::new(reader)?;
    let target = Target {
        address: fields.optional("address", Reader::string)?,
        durable: fields.optional("durable", durability)?.unwrap_or_default(),
        expiry_policy: fields
            .optional("expiry-policy", expiry_policy)?
            .unwrap_or_default(),
        timeout: fields.optional("timeout", Reader::uint)?.unwrap_or(0),
        dynamic: fields.flag("dynamic")?,
        dynamic_node_properties: fields.optional("dynamic-node-properties", value::map)?,
        capabilities: fields.symbols("capabilities")?,
    };
    fields.finish()?;
    Ok(target)
}

fn durability(reader: &mut Reader<'_>, constructor: u8) -> Result<TerminusDurability> {
    match reader.uint(constructor)? {
        0 => Ok(TerminusDurability::None),
        1 => Ok(TerminusDurability::Configuration),
        2 => Ok(TerminusDurability::UnsettledState),
        other => Err(reader.invalid_choice("terminus-durability", other)),
    }
}

fn expiry_policy(reader: &mut Reader<'_>, constructor: u8) -> Result<TerminusExpiryPolicy> {
    let policy = reader.symbol(constructor)?;
    match policy.as_str() {
        "link-detach" => Ok(TerminusExpiryPolicy::LinkDetach),
        "session-end" => Ok(TerminusExpiryPolicy::SessionEnd),
        "connection-close" => Ok(TerminusExpiryPolicy::ConnectionClose),
        "never" => Ok(TerminusExpiryPolicy::Never),
        other => Err(reader.invalid_choice("terminus-expiry-policy", other)),
    }
}

pub(super) fn encode_source(out: &mut BytesMut, source: &Source) {
    let mut fields = write::Fields::new(out, d::SOURCE);
    fields.text(source.address.as_ref());
    encode_lifetime(
        &mut fields,
        source.durable,
        source.expiry_policy,
        source.timeout,
    );
    fields.flag(source.dynamic);
    fields.field(source.dynamic_node_properties.as_ref(), value::encode_map);
    fields.field(source.distribution_mode.as_ref(), write::symbol);
    fields.field(source.filter.as_ref(), value::encode_map);
    fields.field(
        source.default_outcome.as_ref(),
        delivery_state::encode_outcome,
    );
    fields.symbols(&source.outcomes);
    fields.symbols(&source.capabilities);
    fields.finish();
}

pub(super) fn encode_target(out: &mut BytesMut, target: &TargetArchetype) {
    match target {
        TargetArchetype::Target(target) => {
            let mut fields = write::Fields::new(out, d::TARGET);
            fields.text(target.address.as_ref());
            encode_lifetime(
                &mut fields,
                target.durable,
                target.expiry_policy,
                target.timeout,
            );
            fields.flag(target.dynamic);
            fields.field(target.dynamic_node_properties.as_ref(), value::encode_map);
            fields.symbols(&target.capabilities);
            fields.finish();
        }
        TargetArchetype::Coordinator(coordinator) => {
            let mut fields = write::Fields::new(out, d::COORDINATOR);
            fields.symbols(&coordinator.capabilities);
            fields.finish();
        }
    }
}

/// The three fields that sources and targets share; null where they have their default.
fn encode_lifetime(
    fields: &mut write::Fields<'_>,
    durable: TerminusDurability,
    expiry_policy: TerminusExpiryPolicy,
    timeout: u32,
) {
    let durable = match durable {
        TerminusDurability::None => None,
        TerminusDurability::Configuration => Some(1),
        TerminusDurability::UnsettledState => Some(2),
    };
    let expiry_policy = match expiry_policy {
        TerminusExpiryPolicy::SessionEnd => None,
        TerminusExpiryPolicy::LinkDetach => Some("link-detach"),
        TerminusExpiryPolicy::ConnectionClose => Some("connection-close"),
        TerminusExpiryPolicy::Never => Some("never"),
    };
    fields.field(durable, write::uint);
    fields.field(
        expiry_policy.map(Symbol::from_static).as_ref(),
        write::symbol,
    );
    fields.field((timeout != 0).then_some(timeout), write::uint);
}
