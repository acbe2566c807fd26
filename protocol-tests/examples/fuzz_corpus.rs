//! Writes the seeds of the fuzz targets from golden bytes and captures: `cargo run -p protocol-tests --example fuzz_corpus`.

use std::collections::HashSet;
use std::path::Path;
use std::{fs, io};

use bytes::{Bytes, BytesMut};
use protocol_tests::captures::{self, Sender};
use protocol_tests::golden::{self, Kind};
use servicebus_amqp::codec::{Frame, decode_frame};

/// Long enough for a connection from its opening to its first delivery.
const STREAM_LEN: usize = 3000;

fn main() -> io::Result<()> {
    let mut known = HashSet::new();
    for golden in golden::all() {
        let name = golden.name;
        match golden.kind {
            Kind::Frame => frame(name, &golden.bytes)?,
            Kind::Sections => seed("message", name, &golden.bytes)?,
            Kind::Value => seed("value", name, &golden.bytes)?,
            _ => {}
        }
    }
    for capture in captures::all() {
        for sender in [Sender::Client, Sender::Listener] {
            let mut stream = BytesMut::new();
            for piece in &capture.pieces {
                if piece.sender == sender && piece.connection == 1 && !piece.is_header() {
                    stream.extend_from_slice(&piece.bytes);
                    if piece.bytes.get(5) == Some(&1) {
                        let body = piece.bytes.slice(8..);
                        if known.insert(body.clone()) {
                            let name = format!("{}-{}", capture.name, body.len());
                            seed("sasl", &name, &body)?;
                        }
                    }
                }
                if stream.len() > STREAM_LEN {
                    break;
                }
            }
            let end = if sender == Sender::Client {
                "client"
            } else {
                "listener"
            };
            seed("frame", &format!("{}-{end}", capture.name), &stream)?;
        }
    }
    Ok(())
}

/// A frame is a seed itself, and so is what it holds.
fn frame(name: &str, bytes: &Bytes) -> io::Result<()> {
    seed("frame", name, bytes)?;
    let body = bytes.get(8..).unwrap_or_default();
    match decode_frame(&mut BytesMut::from(&bytes[..]), u32::MAX) {
        Ok(Some(Frame::Sasl(_))) => seed("sasl", name, body),
        Ok(Some(Frame::Amqp { payload, .. })) if payload.is_empty() => seed("value", name, body),
        Ok(Some(Frame::Amqp { payload, .. })) => {
            seed("message", name, &payload)?;
            if name.contains("mgmt") && !name.ends_with("response") {
                management_request(name, &payload)?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The first byte chooses the entity, and a token of its own stands for the lock that the target holds.
fn management_request(name: &str, payload: &[u8]) -> io::Result<()> {
    let choice = match name {
        name if name.contains("session") => 1,
        name if name.contains("rule") => 3,
        _ => 0,
    };
    let mut request = vec![choice];
    request.extend_from_slice(payload);
    // An array of one uuid.
    let array = request.windows(2).position(|pair| pair == [1, 0x98]);
    if let Some(token) = array.and_then(|at| request.get_mut(at + 2..at + 18)) {
        token.fill(0x11);
    }
    seed("management_request", name, &request)
}

fn seed(target: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fuzz/corpus")
        .join(target);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(name), bytes)
}
