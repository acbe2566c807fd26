use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::iter;
use std::sync::Arc;

use servicebus_amqp::types::Timestamp;

use super::Rights;

/// What a valid token says.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) namespace: Arc<str>,
    /// The path that it is for, in lower case; empty for the whole namespace.
    pub(crate) path: String,
    pub(crate) rights: Rights,
    /// `None` if it does not run out.
    pub(crate) expires: Option<Timestamp>,
}

/// The claims of one connection, by their paths.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    claims: BTreeMap<String, Claim>,
    namespace: Option<Arc<str>>,
}

/// How many different paths one connection may have tokens for.
const MAX_CLAIMS: usize = 4096;

impl Claims {
    /// Adds a claim in place of an older one for the same path. `false`: there are too many.
    pub(crate) fn put(&mut self, claim: Claim) -> bool {
        let full = self.claims.len() >= MAX_CLAIMS;
        self.namespace
            .get_or_insert_with(|| Arc::clone(&claim.namespace));
        match self.claims.entry(claim.path.clone()) {
            Entry::Vacant(_) if full => return false,
            Entry::Vacant(place) => {
                place.insert(claim);
            }
            Entry::Occupied(mut old) => {
                old.insert(claim);
            }
        }
        true
    }

    /// The namespace that the claims are for.
    pub(crate) fn namespace(&self) -> Option<&Arc<str>> {
        self.namespace.as_ref()
    }

    /// Whether a claim permits something at a path (in lower case) now.
    pub(crate) fn permit(&self, path: &str, right: Option<Rights>, now: Timestamp) -> bool {
        covering(path)
            .filter_map(|path| self.claims.get(path))
            .any(|claim| {
                right.is_none_or(|right| claim.rights.cover(right))
                    && claim.expires.is_none_or(|expires| expires > now)
            })
    }
}

/// The paths whose claims cover a path: itself, what it lies under, and the whole namespace.
fn covering(path: &str) -> impl Iterator<Item = &str> {
    iter::successors(Some(path), |path| match path.rsplit_once('/') {
        Some((above, _)) => Some(above),
        None => (!path.is_empty()).then_some(""),
    })
}

/// The path in the audience of a token, in lower case: the scheme, host and port of clients differ and do not count, and
/// some ask for a token of their own for a management node.
pub(crate) fn audience_path(audience: &str) -> String {
    let path = match audience.split_once("://") {
        Some((_, rest)) => rest.split_once('/').map_or("", |(_, path)| path),
        None => audience,
    };
    let path = path.trim_matches('/').to_lowercase();
    match path.strip_suffix("/$management") {
        Some(entity) => entity.to_owned(),
        None => path,
    }
}

/// Whether a token for one path is good for another.
pub(crate) fn covers(claim: &str, path: &str) -> bool {
    covering(path).any(|path| path == claim)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The audiences that the SDKs put for a queue (captured).
    #[test]
    fn audiences_of_all_sdks_are_one_path() {
        for audience in [
            "sb://127.0.0.1:33894/q1",
            "sb://contoso.servicebus.windows.net/Q1/",
            "amqps://contoso.servicebus.windows.net/q1/$management",
            "amqp://contoso.servicebus.windows.net/q1",
            "q1",
        ] {
            assert_eq!(audience_path(audience), "q1", "{audience}");
        }
        assert_eq!(audience_path("sb://contoso.servicebus.windows.net/"), "");
        assert_eq!(audience_path("sb://contoso.servicebus.windows.net"), "");
    }

    #[test]
    fn a_claim_covers_what_lies_under_its_path() {
        for (claim, path, expected) in [
            ("", "q1", true),
            ("q1", "q1", true),
            ("q1", "q1/$deadletterqueue", true),
            ("t1", "t1/subscriptions/s", true),
            ("q1", "q12", false),
            ("q1", "q2", false),
            ("q1/$deadletterqueue", "q1", false),
        ] {
            assert_eq!(covers(claim, path), expected, "{claim} {path}");
        }
    }
}
