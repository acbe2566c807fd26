use servicebus_amqp::types::{Source, TargetArchetype, TerminusDurability, TerminusExpiryPolicy};

use super::state::outcome;
use super::value::map;
use super::{Composite, string, symbol, uint};

pub(super) fn source(source: &Source) -> String {
    Composite::new("source")
        .field("address", source.address.as_ref().map(string))
        .field("durable", durability(source.durable))
        .field("expiry-policy", expiry_policy(source.expiry_policy))
        .field("timeout", timeout(source.timeout))
        .flag("dynamic", source.dynamic)
        .field(
            "dynamic-node-properties",
            source.dynamic_node_properties.as_ref().map(map),
        )
        .field(
            "distribution-mode",
            source.distribution_mode.as_ref().map(symbol),
        )
        .field("filter", source.filter.as_ref().map(map))
        .field(
            "default-outcome",
            source.default_outcome.as_ref().map(outcome),
        )
        .symbols("outcomes", &source.outcomes)
        .symbols("capabilities", &source.capabilities)
        .end()
}

pub(super) fn target(target: &TargetArchetype) -> String {
    match target {
        TargetArchetype::Target(target) => Composite::new("target")
            .field("address", target.address.as_ref().map(string))
            .field("durable", durability(target.durable))
            .field("expiry-policy", expiry_policy(target.expiry_policy))
            .field("timeout", timeout(target.timeout))
            .flag("dynamic", target.dynamic)
            .field(
                "dynamic-node-properties",
                target.dynamic_node_properties.as_ref().map(map),
            )
            .symbols("capabilities", &target.capabilities)
            .end(),
        TargetArchetype::Coordinator(coordinator) => Composite::new("coordinator")
            .symbols("capabilities", &coordinator.capabilities)
            .end(),
        _ => unreachable!("a target that the specification does not have"),
    }
}

fn durability(durable: TerminusDurability) -> Option<String> {
    match durable {
        TerminusDurability::None => None,
        TerminusDurability::Configuration => Some(uint(1)),
        TerminusDurability::UnsettledState => Some(uint(2)),
    }
}

fn expiry_policy(policy: TerminusExpiryPolicy) -> Option<String> {
    let policy = match policy {
        TerminusExpiryPolicy::SessionEnd => return None,
        TerminusExpiryPolicy::LinkDetach => ":link-detach",
        TerminusExpiryPolicy::ConnectionClose => ":connection-close",
        TerminusExpiryPolicy::Never => ":never",
    };
    Some(policy.to_owned())
}

fn timeout(timeout: u32) -> Option<String> {
    (timeout != 0).then(|| uint(timeout))
}
