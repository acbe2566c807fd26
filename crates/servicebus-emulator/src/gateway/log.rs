//! A log of the frames of all connections, for people.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use bytes::BytesMut;
use servicebus_amqp::codec::{Frame, decode_frame};
use servicebus_amqp::types::{Performative, SaslFrame};

use crate::hub::Clock;

/// How many lines are kept.
const LINES: usize = 20_000;

/// The largest frame that is taken apart; what is larger is logged by its size.
const MAX_FRAME: u32 = 1024 * 1024;

/// Which way a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// From the client.
    In,
    /// To the client.
    Out,
}

/// The frames of all connections as text, oldest first; the oldest are dropped beyond a number.
#[derive(Debug)]
pub(crate) struct FrameLog {
    lines: Mutex<VecDeque<String>>,
    clock: Clock,
}

impl FrameLog {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            lines: Mutex::default(),
            clock,
        }
    }

    pub(super) fn write(&self, connection: u64, direction: Direction, frame: &[u8]) {
        let arrow = match direction {
            Direction::In => "<-",
            Direction::Out => "->",
        };
        let millis = self.clock.now().as_millis();
        let time = millis.rem_euclid(86_400_000);
        let mut line = format!(
            "{:02}:{:02}:{:02}.{:03} #{connection} {arrow} ",
            time / 3_600_000,
            time / 60_000 % 60,
            time / 1000 % 60,
            time % 1000,
        );
        describe(frame, &mut line);
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// All lines, each with a line break.
    pub(crate) fn text(&self) -> String {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().fold(String::new(), |mut text, line| {
            text.push_str(line);
            text.push('\n');
            text
        })
    }
}

/// One header or frame in words. Tokens and other bodies are not shown, only their size.
fn describe(frame: &[u8], line: &mut String) {
    // Writing to a string cannot fail.
    let _ = match frame {
        [b'A', b'M', b'Q', b'P', id, major, minor, revision] => {
            write!(line, "header AMQP {id} {major}.{minor}.{revision}")
        }
        _ => match decode_frame(&mut BytesMut::from(frame), MAX_FRAME) {
            Ok(Some(Frame::Amqp {
                channel,
                performative,
                payload,
            })) => describe_performative(line, channel, &performative, payload.len()),
            Ok(Some(Frame::Sasl(SaslFrame::Init(init)))) => write!(line, "{init:?}"),
            Ok(Some(Frame::Sasl(frame))) => write!(line, "{frame:?}"),
            Ok(Some(Frame::Empty { .. })) => write!(line, "empty"),
            Ok(_) => write!(line, "{} bytes that are no frame", frame.len()),
            Err(error) => write!(line, "{} bytes that are no frame: {error}", frame.len()),
        },
    };
}

fn describe_performative(
    line: &mut String,
    channel: u16,
    performative: &Performative,
    payload: usize,
) -> std::fmt::Result {
    write!(line, "[{channel}] {performative:?}")?;
    if payload > 0 {
        write!(line, " + {payload} bytes")?;
    }
    Ok(())
}

/// Cuts a stream of bytes into headers and frames.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    rest: Vec<u8>,
    /// Bytes of a frame that is too large to be kept.
    skip: usize,
}

impl Splitter {
    pub(super) fn feed(&mut self, bytes: &[u8], mut frame: impl FnMut(&[u8])) {
        let skipped = self.skip.min(bytes.len());
        self.skip -= skipped;
        self.rest
            .extend_from_slice(bytes.get(skipped..).unwrap_or_default());
        while let Some(&size) = self.rest.first_chunk::<4>() {
            let size = match &size {
                b"AMQP" => 8,
                size => (u32::from_be_bytes(*size) as usize).max(8),
            };
            if size > MAX_FRAME as usize {
                frame(self.rest.get(..8).unwrap_or(&self.rest));
                self.skip = size.saturating_sub(self.rest.len());
                let taken = size.min(self.rest.len());
                self.rest.drain(..taken);
                continue;
            }
            let Some(whole) = self.rest.get(..size) else {
                return;
            };
            frame(whole);
            self.rest.drain(..size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_whatever_the_pieces() {
        let stream = [
            &b"AMQP\x03\x01\x00\x00"[..],
            &[0, 0, 0, 8, 2, 0, 0, 0],
            &[0, 0, 0, 12, 2, 0, 0, 0, 0, 0x53, 0x18, 0x45],
        ]
        .concat();
        for size in 1..stream.len() {
            let mut splitter = Splitter::default();
            let mut lines = Vec::new();
            for piece in stream.chunks(size) {
                splitter.feed(piece, |frame| {
                    let mut line = String::new();
                    describe(frame, &mut line);
                    lines.push(line);
                });
            }
            assert_eq!(lines.len(), 3);
            assert_eq!(lines[0], "header AMQP 3 1.0.0");
            assert_eq!(lines[1], "empty");
            assert!(lines[2].starts_with("[0] Close"), "{}", lines[2]);
        }
    }
}
