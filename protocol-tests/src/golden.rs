//! Golden bytes with their meaning, which comes from foreign decoders (`data/golden.txt`).

use bytes::Bytes;

/// Bytes, and what they mean.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Golden {
    /// The name: `py-`, `js-` and `peer-` are captured, `syn-` are composed.
    pub name: &'static str,
    /// What the bytes are.
    pub kind: Kind,
    /// The bytes.
    pub bytes: Bytes,
    /// Their meaning, in the words of [`notation`](crate::notation).
    pub meaning: &'static str,
}

/// What golden bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A protocol header.
    Header,
    /// A frame.
    Frame,
    /// Sections of a message.
    Sections,
    /// One value.
    Value,
    /// A delivery tag: a lock token.
    Tag,
    /// Text.
    Text,
}

/// All of them.
///
/// # Panics
///
/// When the file is damaged.
pub fn all() -> impl Iterator<Item = Golden> {
    include_str!("../data/golden.txt")
        .split("\n\n")
        .map(str::trim)
        .filter(|block| !block.is_empty() && !block.starts_with('#'))
        .map(|block| {
            let mut lines = block.lines();
            let mut line = || lines.next().unwrap_or_default();
            let (name, kind) = line().split_once(' ').unwrap_or_default();
            let kind = match kind {
                "header" => Kind::Header,
                "frame" => Kind::Frame,
                "sections" => Kind::Sections,
                "value" => Kind::Value,
                "tag" => Kind::Tag,
                "text" => Kind::Text,
                other => unreachable!("no kind of golden bytes: {other:?} of {name:?}"),
            };
            Golden {
                name,
                kind,
                bytes: crate::hex(line()),
                meaning: line(),
            }
        })
}
