//! Captured streams of real programs (`data/captures`, described in its README).

use std::fs;
use std::path::Path;

use bytes::Bytes;

/// A recorded stream.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Capture {
    /// The file's name, without its end.
    pub name: String,
    /// Headers and frames, in the order of arrival.
    pub pieces: Vec<Piece>,
}

/// A protocol header or a frame of a capture.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Piece {
    /// Which connection of the capture, from 1.
    pub connection: u32,
    /// Who sent it.
    pub sender: Sender,
    /// The bytes.
    pub bytes: Bytes,
}

/// Who sent a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_enums, reason = "a connection has two ends")]
pub enum Sender {
    /// The client.
    Client,
    /// The listener.
    Listener,
}

impl Piece {
    /// Whether this is a protocol header.
    #[must_use]
    pub fn is_header(&self) -> bool {
        self.bytes.starts_with(b"AMQP")
    }
}

/// All captures, by name.
///
/// # Panics
///
/// When a file is damaged or the folder cannot be read.
#[must_use]
pub fn all() -> Vec<Capture> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/captures");
    let mut captures: Vec<_> = fs::read_dir(&folder)
        .unwrap_or_else(|error| unreachable!("{}: {error}", folder.display()))
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "hex"))
        .map(|path| {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let stem = path.file_stem().unwrap_or_default();
            Capture {
                name: stem.to_string_lossy().into_owned(),
                pieces: text.lines().filter_map(piece).collect(),
            }
        })
        .collect();
    captures.sort_by(|a, b| a.name.cmp(&b.name));
    captures
}

fn piece(line: &str) -> Option<Piece> {
    if line.starts_with('#') {
        return None;
    }
    let mut words = line.split_whitespace();
    let (Some(connection), Some(sender), Some(digits)) = (words.next(), words.next(), words.next())
    else {
        unreachable!("no line of a capture: {line:?}");
    };
    Some(Piece {
        connection: connection.parse().unwrap_or_default(),
        sender: if sender == "C>" {
            Sender::Client
        } else {
            Sender::Listener
        },
        bytes: crate::hex(digits),
    })
}
